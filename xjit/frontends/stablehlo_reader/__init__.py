"""StableHLO that JAX hands over, read directly: a part of what jaxlib's converter reads, in a fraction of its time."""
