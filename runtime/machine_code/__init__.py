"""LLVM IR to machine code in the process: checks, code generation, the cache on disk, symbols."""
