"""Domains: regions of a computation whose instructions share metadata, such as a sharding."""
