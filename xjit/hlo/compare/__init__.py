"""Whether two pieces of HLO are the same."""
