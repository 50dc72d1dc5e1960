"""The same values with less work."""
