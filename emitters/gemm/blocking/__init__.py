"""How multiplications and convolutions are cut: shapes, units, tiles, blocks. Pure arithmetic, no code generation."""
