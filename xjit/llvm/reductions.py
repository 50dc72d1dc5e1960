"""Horizontal reductions of vectors: one lane out of many.

Reductions of floats are trees of shuffles in one fixed order: the upper half is folded on the lower half until one lane
is left. The result depends on the width alone, never on how LLVM lowers a reduction intrinsic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

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


def vector_sums(builder: IRBuilder, vectors: Sequence[Value]) -> Value:
    """The sums of the lanes of each vector, as the lanes of one: with the bits of `vector_reduce_add`.

    Vectors are of floats; there are a power of two of them, at most as many as lanes. Two at a time are folded: what is
    left of either is half of one vector. That takes a third of the instructions of sums that are formed one by one.
    """
    width = vectors[0].type.width
    assert width >= len(vectors) and len(vectors) & (len(vectors) - 1) == 0, "a power of two, no more than lanes"
    found, group = list(vectors), width
    while group > 1:
        group //= 2
        pairs = [(found[0], None)] if len(found) == 1 else list(zip(found[::2], found[1::2], strict=True))
        lanes = found[0].type.width * min(len(found), 2)
        lower = [lane for lane in range(lanes) if lane // group % 2 == 0]
        upper = [lane + group for lane in lower]
        found = [builder.fadd(builder.shuffle_vector(*v, lower), builder.shuffle_vector(*v, upper)) for v in pairs]
    return found[0]


def vector_reduce_or(builder: IRBuilder, a: Value) -> Value:
    """Bitwise or of the lanes."""
    return builder.intrinsic("vector.reduce.or", a.type.elem, (a,), (a.type,)) if a.type.is_vector else a
