"""Updates outside of an array, which HLO leaves out and `linalg_ext.scatter` must not have, get a row of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from xjit.affine import constant, dim
from xjit.hlo import HloInstruction
from xjit.hlo import attributes as at
from xjit.linalg_ext.from_hlo.scope import Scope
from xjit.linalg_ext.from_hlo.tensors import padded
from xjit.linalg_ext.ir.attributes import IntegerAttr
from xjit.linalg_ext.ir.builder import Builder
from xjit.linalg_ext.ir.operation import Value
from xjit.linalg_ext.ir.types import IntegerType, element_type
from xjit.linalg_ext.structured.scalars import cast, compare, select
from xjit.linalg_ext.structured.view import shape_of

__all__ = ["are_inside", "places_inside", "with_further_row"]

_I64 = IntegerType(64)


def are_inside(indices: HloInstruction, vector: int, sizes: Sequence[int]) -> bool:
    """Whether indices are known, and none is outside of dimensions of these sizes, one for each component."""
    if indices.opcode != "constant":
        return False
    array = indices.attributes_as(at.ConstantAttributes).literal.array
    components = np.moveaxis(array, vector, -1) if vector < array.ndim else array[..., None]
    return bool(np.all((components >= 0) & (components < np.array(sizes))))


def places_inside(scope: Scope, places: Value, sizes: Sequence[int], signed: bool) -> Value:
    """Returns indices in i64, components last: those with a component outside of the sizes are (sizes[0], 0, ...)."""
    rows = [n or 0 for n in shape_of(places)][:-1]
    count = len(sizes)
    read = [(places, [*map(dim, range(len(rows))), constant(c)]) for c in range(count)]
    found = scope.empty([*rows, count], _I64)
    for number in range(count):
        part = scope.elements(read, [*rows, 1], _I64, _component(sizes, number, signed))
        if count == 1:
            return part
        found = scope.slice(part, [*[0] * len(rows), number], [*rows, 1], into=found)
    return found


def _component(sizes: Sequence[int], number: int, signed: bool) -> Callable[[Builder, Sequence[Value]], list[Value]]:
    def body(builder: Builder, given: Sequence[Value]) -> list[Value]:
        wide = [cast(builder, value, _I64, signed) for value in given[: len(sizes)]]
        limits = [builder.constant(IntegerAttr(size, _I64), _I64) for size in sizes]
        tests = [compare(builder, "uge", value, limit) for value, limit in zip(wide, limits)]  # so are negative ones
        outside = tests[0]
        for test in tests[1:]:
            outside = builder.create("arith.ori", (outside, test), (outside.type,)).result
        elsewhere = limits[0] if number == 0 else builder.constant(IntegerAttr(0, _I64), _I64)
        return [select(builder, outside, elsewhere, wide[number])]

    return body


def with_further_row(scope: Scope, source: Value) -> Value:
    """Returns a tensor with one row more along its first dimension."""
    sizes = [n or 0 for n in shape_of(source)]
    further = [at.PaddingDimension(0, 1), *[at.PaddingDimension()] * (len(sizes) - 1)]
    return padded(scope, source, further, scope.number(0, element_type(source.type)), [sizes[0] + 1, *sizes[1:]])
