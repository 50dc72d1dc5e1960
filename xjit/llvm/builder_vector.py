"""Vector instructions of `IRBuilder`: lanes, shuffles, splats and horizontal reductions.

Horizontal reductions of floats are trees of shuffles in one fixed order: the upper half is folded on the lower half
until one lane is left. The result depends on the width alone, never on how LLVM lowers a reduction intrinsic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xjit.llvm.builder_base import same_type
from xjit.llvm.builder_memory import MemoryBuilder
from xjit.llvm.types import I32, LLVMType, vector
from xjit.llvm.values import Value, const_int, const_vector, poison


class VectorBuilder(MemoryBuilder):
    """Lanes, shuffles, splats, reductions."""

    __slots__ = ()

    def extract_element(self, a: Value, index: int | Value, name: str = "lane") -> Value:
        """One lane; a scalar is its own lane 0."""
        if not a.type.is_vector:
            return a
        if a.constant is not None and isinstance(index, int):
            return _scalar_constant(a)
        lane = const_int(I32, index) if isinstance(index, int) else index
        return self._value(f"extractelement {a.typed}, {lane.typed}", a.type.elem, name)

    def insert_element(self, a: Value, element: Value, index: int | Value, name: str = "insert") -> Value:
        """`a` with one lane replaced."""
        if not a.type.is_vector:
            return element
        lane = const_int(I32, index) if isinstance(index, int) else index
        return self._value(f"insertelement {a.typed}, {element.typed}, {lane.typed}", a.type, name)

    def shuffle_vector(self, a: Value, b: Value | None, mask: Sequence[int], name: str = "shuffle") -> Value:
        """Lanes of `a` followed by `b` (None: only `a`), picked by `mask`; -1 leaves a lane undefined."""
        other = poison(a.type) if b is None else b
        same_type(a, other, "shufflevector")
        type = vector(a.type.elem, len(mask))
        if not type.is_vector:
            lane = mask[0]
            return self.extract_element(a if lane < a.type.width else other, lane % a.type.width, name)
        if b is None and a.type.width == len(mask) and all(lane in (-1, i) for i, lane in enumerate(mask)):
            return a
        lanes = ", ".join(["i32 poison" if lane < 0 else f"i32 {lane}" for lane in mask])
        return self._value(f"shufflevector {a.typed}, {other.typed}, <{len(mask)} x i32> <{lanes}>", type, name)

    def splat(self, value: Value, width: int, name: str = "splat") -> Value:
        """A vector with `value` in every lane; the scalar itself for width 1."""
        if width == 1:
            return value
        type = vector(value.type, width)
        if value.constant is not None:
            return Value(type, f"splat ({value.type.text} {value.text})", value.constant)
        first = self._value(f"insertelement {type.text} poison, {value.typed}, i32 0", type, name)
        return self._value(
            f"shufflevector {type.text} {first.text}, {type.text} poison, <{width} x i32> zeroinitializer", type, name
        )

    def vector_iota(self, type: LLVMType) -> Value:
        """The constant 0, 1, 2, ... (0 for a scalar)."""
        return const_vector(type, range(type.width)) if type.is_vector else const_int(type, 0)

    def concatenate(self, a: Value, b: Value, name: str = "concat") -> Value:
        """The lanes of `a` followed by those of `b`, which has the same type."""
        if not a.type.is_vector:
            type = vector(a.type, 2)
            return self.insert_element(self.insert_element(poison(type), a, 0), b, 1, name)
        return self.shuffle_vector(a, b, range(2 * a.type.width), name)

    def lanes(self, a: Value, start: int, count: int, name: str = "lanes") -> Value:
        """`count` lanes from `start`."""
        return self.shuffle_vector(a, None, range(start, start + count), name)

    def reduce_tree(self, a: Value, combine: Callable[[Value, Value], Value]) -> Value:
        """Folds the lanes with `combine`, upper half on lower half; odd lanes join last. Returns a scalar."""
        while a.type.width > 1:
            half = a.type.width // 2
            rest = self.extract_element(a, a.type.width - 1) if a.type.width % 2 else None
            a = combine(self.lanes(a, 0, half), self.lanes(a, half, half))
            if rest is not None:
                a = combine(self.reduce_tree(a, combine), rest)
        return a

    def vector_reduce_add(self, a: Value) -> Value:
        """The sum of the lanes, in the fixed tree order."""
        return self.reduce_tree(a, self.fadd if a.type.is_float else self.add)

    def vector_reduce_mul(self, a: Value) -> Value:
        """The product of the lanes, in the fixed tree order."""
        return self.reduce_tree(a, self.fmul if a.type.is_float else self.mul)

    def vector_reduce_min(self, a: Value, *, signed: bool = True) -> Value:
        """The smallest lane; NaN if a float lane is NaN."""
        name = "minimum" if a.type.is_float else "smin" if signed else "umin"
        return self.reduce_tree(a, lambda x, y: self.intrinsic(name, x.type, (x, y)))

    def vector_reduce_max(self, a: Value, *, signed: bool = True) -> Value:
        """The largest lane; NaN if a float lane is NaN."""
        name = "maximum" if a.type.is_float else "smax" if signed else "umax"
        return self.reduce_tree(a, lambda x, y: self.intrinsic(name, x.type, (x, y)))

    def vector_reduce_and(self, a: Value) -> Value:
        """Bitwise and of the lanes."""
        return self._reduce_intrinsic("and", a)

    def vector_reduce_or(self, a: Value) -> Value:
        """Bitwise or of the lanes."""
        return self._reduce_intrinsic("or", a)

    def vector_reduce_xor(self, a: Value) -> Value:
        """Bitwise exclusive or of the lanes."""
        return self._reduce_intrinsic("xor", a)

    def _reduce_intrinsic(self, op: str, a: Value) -> Value:
        if not a.type.is_vector:
            return a
        return self.intrinsic(f"vector.reduce.{op}", a.type.elem, (a,), (a.type,))


def _scalar_constant(splat: Value) -> Value:
    text = splat.text.removeprefix(f"splat ({splat.type.elem.text} ").removesuffix(")")
    return Value(splat.type.elem, text, splat.constant)
