"""Loops with bounds known only at run time, inside a loop nest of symbolic indices.

`structured(nest)` gives a builder with `for` and `if` at the innermost level; `scope` opens a level whose variables are
the indices of such loops, so that elements and offsets inside still come from indexing maps.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from xjit.affine import AffineExpr, dim
from xjit.emitters.access.guards import Guard
from xjit.emitters.entry.context_calls import emit_scratch_alloc
from xjit.emitters.loops.loop_levels import LoopLevel
from xjit.emitters.loops.loop_nest import LoopNest
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.llvm.builder import IRBuilder
from xjit.llvm.module import Module
from xjit.llvm.structured_builder import StructuredBuilder
from xjit.llvm.types import I1, I64, PTR, VOID
from xjit.llvm.values import Value, const_int

SCRATCH_ALIGNMENT = 64


@contextmanager
def structured(nest: LoopNest) -> Generator[StructuredBuilder]:
    """Yields a structured builder where the innermost level stands; that level goes on behind what it emitted."""
    builder = StructuredBuilder(nest.builder.block)
    yield builder
    nest.builder.position_at_end(builder.block)


@contextmanager
def scope(nest: LoopNest, builder: IRBuilder) -> Generator[LoopLevel]:
    """Opens a level whose code goes where `builder` stands. What it computes is forgotten at its end."""
    outer = nest.level
    level = LoopLevel(outer.depth + 1, builder, outer.vector)
    nest.levels.append(level)
    try:
        yield level
    finally:
        nest.levels.pop()


def bind_index(nest: LoopNest, value: Value, size: int, lower: int = 0) -> AffineExpr:
    """Returns a variable with a run-time value in lower .. lower + size - 1, known from the innermost level on."""
    position = nest.new_variable(size, lower)
    nest.bind(position, value, nest.level.depth)
    return dim(position)


def here(nest: LoopNest) -> Guard:
    """Returns a guard that keeps an access at the innermost level, although its index is known further out."""
    return Guard(const_int(I1, 1), None, nest.level.depth)


def index_to_i64(builder: IRBuilder, value: Value, kind: PrimitiveType) -> Value:
    """Returns an index of any integer type as i64. Values beyond i64 become negative: no valid index either way."""
    if value.type.elem.bits == 64:
        return value
    return builder.sext(value, I64) if kind.is_signed else builder.zext(value, I64)


class Scratch:
    """Memory for one call of a kernel: named pieces of one block of the warm pool."""

    def __init__(self, module: Module, builder: IRBuilder, sizes: Sequence[int]) -> None:
        """Allocates pieces of that many bytes, each aligned to 64, where `builder` stands.

        Without memory the kernel reports that, and returns.
        """
        self._module = module
        offsets = [0]
        for size in sizes:
            offsets.append(offsets[-1] + -(-size // SCRATCH_ALIGNMENT) * SCRATCH_ALIGNMENT)
        builder.function.scratch_bytes += offsets[-1]
        self._block = emit_scratch_alloc(builder, const_int(I64, max(offsets[-1], 1)))
        structured_builder = StructuredBuilder(builder.block)
        self.pieces = [structured_builder.offset(self._block, const_int(I64, o)) for o in offsets[:-1]]

    def free(self, builder: IRBuilder) -> None:
        """Returns the block to the pool."""
        builder.call(self._module.declare("xjit_scratch_free", VOID, [PTR]), [self._block])
