"""How operands are copied into the order in which kernels read them."""
