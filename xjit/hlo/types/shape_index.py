"""Indices into tuple shapes, as HLO text writes them: `{}` is the whole value, `{1,0}` element 0 of element 1."""

from __future__ import annotations

from collections.abc import Sequence

ShapeIndex = tuple[int, ...]


def format_shape_index(index: Sequence[int]) -> str:
    """Returns `{1,0}`."""
    return "{" + ",".join(map(str, index)) + "}"


def parse_shape_index(text: str) -> ShapeIndex:
    """Returns the index whose numbers, without the braces, are `text`."""
    return tuple(int(i) for i in text.split(",")) if text.strip() else ()
