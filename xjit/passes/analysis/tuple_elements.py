"""Reads of single elements of tuples."""

from __future__ import annotations

from xjit.hlo import HloInstruction
from xjit.hlo import attributes as at


def element_index(read: HloInstruction) -> int:
    """Returns which element a get-tuple-element reads."""
    return read.attributes_as(at.GetTupleElementAttributes).index
