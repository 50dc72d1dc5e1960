"""Which instructions become one kernel."""
