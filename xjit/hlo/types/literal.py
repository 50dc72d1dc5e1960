"""`Literal`: the value of a constant - a shape and a NumPy array (logical order), or a tuple of literals."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from xjit.hlo.diagnostics import InvalidArgument
from xjit.hlo.types.primitive_type import BY_DTYPE, PrimitiveType
from xjit.hlo.types.shape import Shape

NDArray = np.ndarray[Any, Any]


class Literal:
    """An immutable value. Equality and hash are bitwise (NaN equals the same NaN), so constants can be merged.

    The constructor keeps the array and makes it read-only; `from_array` copies.
    """

    __slots__ = ("_array", "_digest", "elements", "shape")

    def __init__(self, shape: Shape, array: NDArray | None = None, elements: tuple[Literal, ...] = ()) -> None:
        self.shape = shape
        self.elements = elements
        self._digest: bytes | None = None
        self._array = array
        if shape.is_array:
            if array is None or array.shape != shape.dimensions or array.dtype != shape.dtype:
                got = None if array is None else f"{array.dtype}{list(array.shape)}"
                raise InvalidArgument(f"literal of shape {shape} cannot hold {got}")
            if array.flags.writeable:
                array.flags.writeable = False

    @staticmethod
    def from_array(array: Any) -> Literal:
        """Returns a row-major literal that holds a copy of an array or a NumPy scalar; the dtype gives the type."""
        data = np.array(array, order="C")
        if data.dtype not in BY_DTYPE:
            raise InvalidArgument(f"no HLO element type for dtype {data.dtype}")
        return Literal(Shape.array(BY_DTYPE[data.dtype], data.shape), data)

    @staticmethod
    def full(shape: Shape, value: Any) -> Literal:
        """Returns a literal of an array shape with every element equal to `value` (one stored element)."""
        scalar = np.asarray(value).astype(shape.dtype)
        return Literal(shape, np.broadcast_to(scalar, shape.dimensions))

    @staticmethod
    def tuple_of(elements: tuple[Literal, ...]) -> Literal:
        """Returns a tuple literal."""
        return Literal(Shape.tuple_of([e.shape for e in elements]), None, elements)

    @staticmethod
    def token() -> Literal:
        """Returns the token literal."""
        return Literal(Shape(PrimitiveType.TOKEN))

    @property
    def array(self) -> NDArray:
        """The elements, read-only, indexed logically; TypeError for tuples and tokens."""
        if self._array is None:
            raise TypeError(f"a literal of shape {self.shape} is not an array")
        return self._array

    def item(self) -> Any:
        """Returns the Python value of a literal with one element."""
        return self.array.item()

    def is_all(self, value: Any) -> bool:
        """Whether this is an array whose elements all equal `value` (compared in the literal's type)."""
        if self._array is None or self._array.size == 0:
            return False
        return bool(np.all(self._array == np.asarray(value).astype(self._array.dtype)))

    def splat_value(self) -> NDArray | None:
        """Returns the single value that all elements share bitwise, or None."""
        if self._array is None or self._array.size == 0:
            return None
        first = self._array.reshape(-1)[0] if self._array.size == 1 else self._array.flat[0]
        scalar = np.asarray(first, dtype=self._array.dtype)
        if self._array.size == 1 or all(s == 0 for s in self._array.strides):
            return scalar
        raw = np.ascontiguousarray(self._array).reshape(-1).view(np.uint8).reshape(self._array.size, -1)
        return scalar if bool((raw == raw[0]).all()) else None

    def digest(self) -> bytes:
        """Returns a hash of shape (without layout) and bits; stable across processes."""
        if self._digest is None:
            h = hashlib.blake2b(self.shape.to_string(layout=False).encode(), digest_size=16)
            if self._array is not None:
                h.update(np.ascontiguousarray(self._array).tobytes())
            for element in self.elements:
                h.update(element.digest())
            self._digest = h.digest()
        return self._digest

    def with_shape(self, shape: Shape) -> Literal:
        """Returns the same value under a compatible shape (another layout)."""
        return Literal(shape, self._array, self.elements)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Literal) and (self is other or self.digest() == other.digest())

    def __hash__(self) -> int:
        return hash(self.digest())

    def __repr__(self) -> str:
        return f"Literal({self.shape})"
