"""Planners for CPUs: tasks for threads, explicit vectors, strips that fit a first-level cache."""
