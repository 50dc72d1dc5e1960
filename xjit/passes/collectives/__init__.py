"""Collectives and what belongs to several devices."""
