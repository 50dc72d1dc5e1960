"""Passes that reshape, group and split reductions."""
