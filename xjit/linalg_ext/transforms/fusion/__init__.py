"""Producers computed in the loops of their consumers, tile by tile."""
