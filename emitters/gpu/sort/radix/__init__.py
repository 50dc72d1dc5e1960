"""Radix sorts on GPUs."""
