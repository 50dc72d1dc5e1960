"""Sorts and top-k: kernels over lines."""
