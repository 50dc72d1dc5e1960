"""Custom calls to GPU libraries: their targets, their configurations, and what they mean in plain HLO."""
