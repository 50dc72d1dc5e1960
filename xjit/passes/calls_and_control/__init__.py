"""Calls and conditionals."""
