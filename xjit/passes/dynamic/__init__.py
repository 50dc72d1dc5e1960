"""Dynamic dimensions: sizes that are known at run time only."""
