"""Passes of the CPU backend that no other backend shares."""
