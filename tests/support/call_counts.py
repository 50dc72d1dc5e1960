"""Counting calls of Python functions, or of opcodes: measures of work that no other process disturbs."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any


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


def opcodes_of(function: Callable[[], object]) -> int:
    """How many opcodes of Python's machine run: loops within a function count, too. Slow: for single steps."""
    count, before = 0, sys.gettrace()

    def see(frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return see

    sys.settrace(see)
    try:
        function()
    finally:
        sys.settrace(before)
    return count
