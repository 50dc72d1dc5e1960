"""Random bits and the state they come from."""
