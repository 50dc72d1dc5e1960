"""Rewrites of loops that are there."""
