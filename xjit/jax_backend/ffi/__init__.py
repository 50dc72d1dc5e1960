"""XLA's typed interface for functions that programs call."""
