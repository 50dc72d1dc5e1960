"""Printing and serialization."""
