"""Schedules: how a kernel does its work, as plain data that prints and parses."""
