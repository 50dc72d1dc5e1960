"""Analyses: what passes ask about a module."""
