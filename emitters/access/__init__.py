"""Where elements lie and how they are read and written: offsets, vectors, transposed reads."""
