"""Kernels of opcodes with sliding windows."""
