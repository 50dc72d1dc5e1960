"""Planners: from a kernel view and what a target can do to a schedule. They write no code."""
