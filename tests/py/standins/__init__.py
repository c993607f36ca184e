"""Stand-ins for the providers of examples/big-state, for machines that reach no provider registry."""
