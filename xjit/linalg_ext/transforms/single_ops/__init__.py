"""Rewrites of one operation."""
