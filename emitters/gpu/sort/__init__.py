"""sort on GPUs: a bitonic network in several kernels."""
