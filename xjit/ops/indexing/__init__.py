"""Indexing rules of single opcodes: which operand elements one output element reads."""
