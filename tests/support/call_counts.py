"""Counting calls of Python functions: a measure of work that no other process disturbs."""

from __future__ import annotations

import sys
from collections.abc import Callable


def calls_of(function: Callable[[], object]) -> int:
    """How many functions are called, built-in ones included."""
    count, before = 0, sys.getprofile()

    def see(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(see)
    try:
        function()
    finally:
        sys.setprofile(before)
    return count
