"""Passes for GPU libraries: operations become custom calls to cuBLAS, cuDNN and cuSOLVER, under XLA's names."""
