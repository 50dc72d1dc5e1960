"""The graph: instructions, computations, modules, and the edges between them."""
