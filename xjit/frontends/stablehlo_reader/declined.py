"""What ends the direct reading of a program."""

from __future__ import annotations


class Declined(Exception):
    """The program has something that only the converter reads."""
