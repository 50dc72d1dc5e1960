"""Writing what the parts of rows are reduced to, and what that makes of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from xjit.affine import AffineMap, dim
from xjit.linalg_ext.ir import Block, Builder, FloatType, Operation, Region, TensorType, Value
from xjit.linalg_ext.structured import PARALLEL, REDUCTION
from xjit.linalg_ext.structured.creation import create_fill, create_generic

__all__ = ["Code", "RowParts", "binary"]

Code: TypeAlias = Callable[[Builder, Sequence[Value]], Value]
"""Writes scalar code: from elements of inputs, and of the init, to the new element of the init."""


class RowParts:
    """Writes generics, before `op`, over the dimensions of `data`, a tensor of floats of static shape.

    Dimension `axis` is cut in two: the part, and the place in it. `all`, `parts`, `rows`: the loops that index the cut
    input, what a part has, and what a row has; `whole` and `whole_rows`: the input as it was, and its rows.
    """

    def __init__(self, op: Operation, data: Value, axis: int, parts: int) -> None:
        kind = data.type
        assert isinstance(kind, TensorType) and isinstance(kind.element, FloatType)
        self.builder, self.kind = Builder.before(op), kind.element
        sizes = [n or 0 for n in kind.shape]
        self.sizes = (*sizes[:axis], parts, sizes[axis] // parts, *sizes[axis + 1 :])
        self.all = tuple(range(len(self.sizes)))
        self.parts = tuple(d for d in self.all if d != axis + 1)
        self.rows = tuple(d for d in self.parts if d != axis)
        self.whole = tuple(range(len(sizes)))
        self.whole_rows = tuple(d for d in self.whole if d != axis)

    def empty(self, loops: Sequence[int]) -> Value:
        """Returns a `tensor.empty` with the dimensions of some loops."""
        t = TensorType(tuple(self.sizes[d] for d in loops), self.kind)
        return self.builder.create("tensor.empty", (), (t,)).result

    def zeros(self) -> Value:
        """Returns a tensor with a zero for each part."""
        return create_fill(self.builder, self.builder.constant_float(0.0, self.kind), self.empty(self.parts))

    def generic(
        self, inputs: Sequence[tuple[Value, Sequence[int]]], init: Value, kept: Sequence[int], code: Code
    ) -> Operation:
        """Writes a generic whose loops are those of its inputs, and whose result has the loops `kept`."""
        loops = sorted({d for _, index in inputs for d in index})
        number = {d: i for i, d in enumerate(loops)}
        maps = [AffineMap(len(loops), 0, tuple(dim(number[d]) for d in index)) for _, index in (*inputs, (init, kept))]
        kinds = [PARALLEL if d in kept else REDUCTION for d in loops]
        block = Block([self.kind] * (len(inputs) + 1))
        inner = Builder(block)
        inner.create("linalg.yield", (code(inner, block.arguments),))
        return create_generic(self.builder, [v for v, _ in inputs], [init], maps, kinds, Region([block]))


def binary(builder: Builder, name: str, a: Value, b: Value) -> Value:
    """Writes a scalar op of two operands."""
    return builder.create(name, (a, b), (a.type,)).result
