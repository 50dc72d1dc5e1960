"""What tiled loops are built from: boxes of tensors, offsets and sizes, slices, nests of loops."""
