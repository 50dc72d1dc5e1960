"""A transformation either happens or leaves the program as it was."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from xjit.linalg_ext.ir import Block, LinalgError
from xjit.linalg_ext.transforms.building_blocks.index_values import IndexBuilder

__all__ = ["taking_back"]


@contextmanager
def taking_back(outer: IndexBuilder, bodies: Sequence[Block]) -> Generator[None]:
    """On a LinalgError, ends what `bodies`, which are in no operation yet, use, erases what is before the loops."""
    block = outer.builder.block
    before = set(block.operations)
    try:
        yield
    except LinalgError:
        for body in bodies:
            for op in body.operations:
                op.drop_all_references()
        for op in reversed(block.operations):
            if op not in before:
                op.erase()
        outer.discard_unused()
        raise
