"""The order of instructions, and which memory their results live in."""
