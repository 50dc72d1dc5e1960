"""Emission for GPUs: a kernel as SPMD code that each thread of each block runs."""
