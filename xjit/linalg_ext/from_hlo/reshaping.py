"""Tensors in another shape."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xjit.linalg_ext.ir.builder import Builder
from xjit.linalg_ext.ir.operation import Value
from xjit.linalg_ext.ir.types import TensorType, element_type
from xjit.linalg_ext.structured.view import shape_of
from xjit.linalg_ext.transforms.single_ops.reshapes import collapse_shape, expand_shape

__all__ = ["reshaped"]

_RESHAPES = ("tensor.collapse_shape", "tensor.expand_shape")


def _groups(old: Sequence[int], new: Sequence[int]) -> list[tuple[list[int], list[int]]]:
    """Returns the shortest runs of dimensions of two shapes that have as many elements as each other."""
    found: list[tuple[list[int], list[int]]] = []
    i = j = 0
    while i < len(old) or j < len(new):
        left, right = [i] if i < len(old) else [], [j] if j < len(new) else []
        i, j = i + len(left), j + len(right)
        while prod(old[d] for d in left) != prod(new[d] for d in right):
            if prod(old[d] for d in left) < prod(new[d] for d in right):
                left.append(i)
                i += 1
            else:
                right.append(j)
                j += 1
        if found and not (left and right):  # ones at the end
            found[-1][0].extend(left)
            found[-1][1].extend(right)
        else:
            found.append((left, right))
    return found


def reshaped(builder: Builder, value: Value, sizes: Sequence[int]) -> Value:
    """Returns the elements of a tensor, in order, in another shape: one that it was made from, where that has it."""
    origin: Value | None = value
    while origin is not None:
        if shape_of(origin) == tuple(sizes):
            return origin
        op = origin.defining_op
        origin = op.operands[0] if op is not None and op.name in _RESHAPES else None
    old = [n or 0 for n in shape_of(value)]
    if 0 in sizes:
        return builder.create("tensor.empty", (), (TensorType(tuple(sizes), element_type(value.type)),)).result
    if not old or not sizes:  # all dimensions are one, and belong to none
        wide = collapse_shape(builder, value, []) if old else value
        return expand_shape(builder, wide, [], tuple(sizes), ()) if sizes else wide
    groups = _groups(old, sizes)
    flat = collapse_shape(builder, value, [left for left, _ in groups])
    return expand_shape(builder, flat, [right for _, right in groups], tuple(sizes), ())
