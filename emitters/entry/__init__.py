"""From thunks to what a call runs: the native entry, step functions, and their calls of kernels and of the runtime."""
