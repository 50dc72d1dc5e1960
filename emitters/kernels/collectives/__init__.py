"""Kernels of what several devices do together."""
