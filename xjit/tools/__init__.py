"""The command line: `xjit run`, `xjit compare`, `xjit opt`, `xjit indexing`."""
