"""While loops."""
