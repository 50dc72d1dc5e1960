"""Loop kernels: one loop nest over the result."""
