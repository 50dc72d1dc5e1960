"""Front doors: other forms of programs become HloModules. jax and jaxlib are imported when needed, not before."""
