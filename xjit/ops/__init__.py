"""What the opcodes mean: tables by opcode of shape rules, indexing maps and evaluators, in the packages here."""
