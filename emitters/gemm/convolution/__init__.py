"""The loops of convolutions: tiles of pixels and features, each multiplied from a slab of the input."""
