"""Stand-ins for the providers of examples/big-state, where no registry is in reach."""
