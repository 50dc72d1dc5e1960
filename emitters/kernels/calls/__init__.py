"""Custom calls: calls of functions that somebody else wrote."""
