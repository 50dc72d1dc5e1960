"""Offsets, sizes and strides of slicing operations at run time."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.linalg_ext.evaluation.values import Array, Runtime, plain
from xjit.linalg_ext.ir.attributes import ArrayAttr, DenseArrayAttr
from xjit.linalg_ext.ir.errors import LinalgError
from xjit.linalg_ext.ir.operation import Operation
from xjit.linalg_ext.structured.view import integers_of

__all__ = ["integer", "mixed_values", "reassociation_of", "slice_of", "slices_of"]

_DYNAMIC = -(2**63)


def integer(value: Runtime) -> int:
    """Returns an index as a Python int; an undefined one is an error."""
    if isinstance(value, Array) and value.undefined is not None and value.undefined.any():
        raise LinalgError("an index is computed from elements that nothing has written")
    return int(plain(value))


def mixed_values(op: Operation, attribute: str, values: list[Runtime]) -> list[int]:
    """Returns a list whose dynamic entries are taken from the front of `values`."""
    static = op.attributes[attribute]
    assert isinstance(static, DenseArrayAttr)
    return [integer(values.pop(0)) if n == _DYNAMIC else n for n in static.ints]


def slices_of(op: Operation, operands: Sequence[Runtime]) -> tuple[list[int], list[int], list[int]]:
    """Returns offsets, sizes, strides; `operands` are those behind the arrays."""
    rest = list(operands)
    offsets, sizes, strides = (mixed_values(op, f"static_{name}", rest) for name in ("offsets", "sizes", "strides"))
    return offsets, sizes, strides


def slice_of(op: Operation, operands: Sequence[Runtime], shape: Sequence[int]) -> tuple[slice, ...]:
    """Returns the slice as an index for NumPy; LinalgError if it leaves an array of this shape.

    Slices without elements may begin behind the end, as the tiles of threads without work do.
    """
    offsets, sizes, strides = slices_of(op, operands)
    for axis, (offset, size, stride, extent) in enumerate(zip(offsets, sizes, strides, shape)):
        last = offset + (size - 1) * stride
        if size < 0 or stride < 1 or offset < 0 or (size > 0 and last >= extent):
            raise LinalgError(
                f"'{op.name}' takes {size} elements from {offset} in steps of {stride} "
                f"in dimension {axis}, which has {extent}",
                op.location,
            )
    return tuple(slice(o, o + (n - 1) * s + 1 if n else o, s) for o, n, s in zip(offsets, sizes, strides))


def reassociation_of(op: Operation) -> list[tuple[int, ...]]:
    """Returns the groups of dimensions of `expand_shape` and `collapse_shape`."""
    groups = op.attributes["reassociation"]
    assert isinstance(groups, ArrayAttr)
    return [integers_of(group) or () for group in groups.elements]
