"""Reductions in parts, which are put together."""
