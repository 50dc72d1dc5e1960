"""Opcodes as several simpler ones."""
