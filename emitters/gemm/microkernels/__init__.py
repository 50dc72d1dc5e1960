"""The innermost loops: sums in registers."""
