"""Passes about how values are split over devices."""
