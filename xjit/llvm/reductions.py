"""Horizontal reductions of vectors: one lane out of many.

Reductions of floats are trees of shuffles in one fixed order: the upper half is folded on the lower half until one lane
is left. The result depends on the width alone, never on how LLVM lowers a reduction intrinsic.
"""

from __future__ import annotations

from collections.abc import Callable

from xjit.llvm.builder import IRBuilder
from xjit.llvm.values import Value


def reduce_tree(builder: IRBuilder, a: Value, combine: Callable[[Value, Value], Value]) -> Value:
    """Folds the lanes with `combine`, upper half on lower half; odd lanes join last. Returns a scalar."""
    while a.type.width > 1:
        half = a.type.width // 2
        rest = builder.extract_element(a, a.type.width - 1) if a.type.width % 2 else None
        a = combine(builder.lanes(a, 0, half), builder.lanes(a, half, half))
        if rest is not None:
            a = combine(reduce_tree(builder, a, combine), rest)
    return a


def vector_reduce_add(builder: IRBuilder, a: Value) -> Value:
    """The sum of the lanes, in the fixed tree order."""
    return reduce_tree(builder, a, builder.fadd if a.type.is_float else builder.add)


def vector_reduce_or(builder: IRBuilder, a: Value) -> Value:
    """Bitwise or of the lanes."""
    return builder.intrinsic("vector.reduce.or", a.type.elem, (a,), (a.type,)) if a.type.is_vector else a
