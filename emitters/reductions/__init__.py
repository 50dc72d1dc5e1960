"""Loops that accumulate, and where their partial results are kept."""
