"""Factorizations and solutions of systems on GPUs: a block of threads has a matrix in shared memory."""
