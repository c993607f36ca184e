"""The commands of kl that came after the first ones, a module each; loaded when they are used."""
