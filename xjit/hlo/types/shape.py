"""`Shape`: element type, dimensions (possibly bounded dynamic) and layout of an array, or a tuple of shapes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import fields, replace
from itertools import accumulate

import numpy as np

from xjit.dataclass import dataclass
from xjit.hlo.cached_property import cached_property
from xjit.hlo.diagnostics import InvalidArgument
from xjit.hlo.types.layout import Layout
from xjit.hlo.types.primitive_type import BY_TEXT, PrimitiveType
from xjit.hlo.types.shape_index import ShapeIndex, format_shape_index

UNBOUNDED_SIZE = -(2**63)  # the size of a dimension without a bound, written `?`


@dataclass(frozen=True)
class Shape:
    """An immutable HLO shape. Arrays have `dimensions` and mostly a `layout`; tuples have `tuple_shapes`."""

    element_type: PrimitiveType
    dimensions: tuple[int, ...] = ()
    layout: Layout | None = None
    dynamic_dimensions: tuple[bool, ...] = ()  # empty means all static
    tuple_shapes: tuple[Shape, ...] = ()

    @staticmethod
    def array(
        element_type: PrimitiveType | str, dimensions: Sequence[int] = (), minor_to_major: Sequence[int] | None = None
    ) -> Shape:
        """Returns an array shape, row-major unless an order is given.

        InvalidArgument for an unknown element type, a negative size, or an order that is no permutation.
        """
        kind = BY_TEXT.get(element_type) if isinstance(element_type, str) else element_type
        if kind is None or not kind.is_array:
            raise InvalidArgument(f"'{element_type}' is not the type of array elements")
        dims = tuple(int(d) for d in dimensions)
        if negative := next((d for d in dims if d < 0 and d != UNBOUNDED_SIZE), 0):
            raise InvalidArgument(f"a dimension cannot be negative: {negative}")
        if minor_to_major is None:
            return Shape(kind, dims, Layout.row_major(len(dims)))
        layout = Layout(tuple(minor_to_major))
        layout.validate(len(dims))
        return Shape(kind, dims, layout)

    @staticmethod
    def tuple_of(shapes: Sequence[Shape]) -> Shape:
        """Returns the tuple shape of those element shapes."""
        return Shape(PrimitiveType.TUPLE, tuple_shapes=tuple(shapes))

    @staticmethod
    def buffer_of(shape: Shape) -> Shape:
        """Returns the shape of a buffer that holds such an array, written `b(f32[2])`: memory that is not copied."""
        return Shape(PrimitiveType.BUFFER, tuple_shapes=(shape,))

    @staticmethod
    def token() -> Shape:
        """Returns the token shape."""
        return Shape(PrimitiveType.TOKEN)

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def _hash(self) -> int:
        return hash((self.element_type, self.dimensions, self.layout, self.dynamic_dimensions, self.tuple_shapes))

    def __getstate__(self) -> dict[str, object]:
        """The fields alone: hashes differ from process to process."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __deepcopy__(self, memo: object) -> Shape:
        return self  # immutable

    @cached_property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.dimensions)

    @cached_property
    def is_tuple(self) -> bool:
        """Whether this is a tuple."""
        return self.element_type is PrimitiveType.TUPLE

    @cached_property
    def is_array(self) -> bool:
        """Whether this is an array (not a tuple, token or opaque)."""
        return self.element_type.is_array

    @property
    def is_buffer(self) -> bool:
        """Whether this is a buffer. `tuple_shapes` has the array inside, but it is a leaf."""
        return self.element_type is PrimitiveType.BUFFER

    @cached_property
    def holds_buffer(self) -> bool:
        """Whether this is a buffer, or a tuple with one."""
        return any(s.is_buffer for _, s in self.subshapes())

    @property
    def is_token(self) -> bool:
        """Whether this is a token."""
        return self.element_type is PrimitiveType.TOKEN

    @property
    def is_scalar(self) -> bool:
        """Whether this is an array of rank 0."""
        return self.is_array and not self.dimensions

    @cached_property
    def is_static(self) -> bool:
        """Whether no dimension, here or in an element, is dynamic."""
        return all(not any(s.dynamic_dimensions) for _, s in self.subshapes())

    @cached_property
    def is_static_array(self) -> bool:
        """Whether this is an array without dynamic dimensions."""
        return self.is_array and not any(self.dynamic_dimensions)

    @cached_property
    def is_row_major(self) -> bool:
        """Whether every array, here or in an element, has the row-major layout, untiled."""
        arrays = (s for _, s in self.leaves() if s.is_array)
        return all(s.layout == Layout.row_major(s.rank) for s in arrays)

    @cached_property
    def float_types(self) -> frozenset[PrimitiveType]:
        """The floating-point types of the array, or of those in it."""
        return frozenset(s.element_type for _, s in self.leaves() if s.element_type.is_float)

    @cached_property
    def num_elements(self) -> int:
        """Number of elements of an array (a Python int: never overflows); 0 for tuples and tokens."""
        return math.prod(self.dimensions) if self.is_array else 0

    @property
    def dtype(self) -> np.dtype:
        """NumPy dtype of the elements."""
        return self.element_type.dtype

    @property
    def byte_size(self) -> int:
        """Bytes of the elements without the padding of tiles; the sum over the leaves of a tuple."""
        if self.is_tuple:
            return sum(leaf.byte_size for _, leaf in self.leaves())
        return self.num_elements * self.element_type.byte_width

    @property
    def minor_to_major(self) -> tuple[int, ...]:
        """The dimension order; the default one when there is no layout."""
        return self.layout.minor_to_major if self.layout else tuple(range(self.rank - 1, -1, -1))

    def is_dynamic_dimension(self, dimension: int) -> bool:
        """Whether the size of that dimension is only a bound."""
        return bool(self.dynamic_dimensions) and self.dynamic_dimensions[dimension]

    def subshapes(self) -> Iterator[tuple[ShapeIndex, Shape]]:
        """Yields (index, shape) of this shape and everything nested in it, pre-order, without recursion."""
        stack: list[tuple[ShapeIndex, Shape]] = [((), self)]
        while stack:
            index, shape = stack.pop()
            yield index, shape
            for i in range(len(shape.tuple_shapes) - 1, -1, -1) if shape.is_tuple else ():
                stack.append(((*index, i), shape.tuple_shapes[i]))

    def leaves(self) -> Iterator[tuple[ShapeIndex, Shape]]:
        """Yields (index, shape) of everything that is not a tuple, left to right."""
        if not self.is_tuple:
            return iter((((), self),))
        return ((index, shape) for index, shape in self.subshapes() if not shape.is_tuple)

    @cached_property
    def leaf_offsets(self) -> tuple[int, ...]:
        """Where the leaves of each element of a tuple begin among all of its leaves; last, how many there are."""
        counts = (shape.leaf_count for shape in self.tuple_shapes)
        return tuple(accumulate(counts, initial=0)) if self.is_tuple else (0, 1)

    @property
    def leaf_count(self) -> int:
        """The number of leaves: arrays, tokens, opaques."""
        return self.leaf_offsets[-1] if self.is_tuple else 1

    def subshape(self, index: Sequence[int]) -> Shape:
        """Returns the shape at a tuple index; InvalidArgument if there is none."""
        shape = self
        for i in index:
            if not shape.is_tuple or not 0 <= i < len(shape.tuple_shapes):
                raise InvalidArgument(f"shape {self} has no element at index {format_shape_index(index)}")
            shape = shape.tuple_shapes[i]
        return shape

    def with_layout(self, layout: Layout | None) -> Shape:
        """Returns this array shape with another layout."""
        return replace(self, layout=layout)

    def with_default_layouts(self) -> Shape:
        """Returns this shape with row-major layouts wherever an array has none."""
        if self.tuple_shapes:
            return replace(self, tuple_shapes=tuple(s.with_default_layouts() for s in self.tuple_shapes))
        if self.is_array and self.layout is None:
            return replace(self, layout=Layout.row_major(self.rank))
        return self

    def with_element_type(self, element_type: PrimitiveType) -> Shape:
        """Returns this array shape with another element type."""
        return replace(self, element_type=element_type)

    def with_dimensions(self, dimensions: Sequence[int]) -> Shape:
        """Returns a row-major static shape of this element type with other dimensions."""
        return Shape.array(self.element_type, dimensions)

    def same_dimensions(self, other: Shape) -> bool:
        """Whether both are arrays of the same dimensions."""
        return self.is_array and other.is_array and self.dimensions == other.dimensions

    def compatible(self, other: Shape) -> bool:
        """Whether type and dimensions agree everywhere; layouts and dynamic marks are not looked at."""
        if self.element_type is not other.element_type or self.dimensions != other.dimensions:
            return False
        if len(self.tuple_shapes) != len(other.tuple_shapes):
            return False
        return all(a.compatible(b) for a, b in zip(self.tuple_shapes, other.tuple_shapes, strict=True))

    def to_string(self, layout: bool = True) -> str:
        """Returns the HLO text: `f32[2,<=3]{1,0}`."""
        return self._text if layout else self._text_without_layout

    @cached_property
    def text_with_default_layouts(self) -> str:
        """The HLO text with row-major layouts where there are none: equal for shapes that mean the same."""
        return self.with_default_layouts().to_string()

    @cached_property
    def _text(self) -> str:
        return self._format(True)

    @cached_property
    def _text_without_layout(self) -> str:
        return self._format(False)

    def _format(self, layout: bool) -> str:
        if self.is_tuple:
            inner = ", ".join(
                (f"/*index={i}*/" if i and i % 5 == 0 else "") + s.to_string(layout)
                for i, s in enumerate(self.tuple_shapes)
            )
            return f"({inner})"
        if self.is_buffer:
            return f"b({self.tuple_shapes[0].to_string(layout)})"
        if not self.is_array:
            return self.element_type.text + "[]"
        dynamic = self.dynamic_dimensions or (False,) * self.rank
        dims = ",".join(
            "?" if d == UNBOUNDED_SIZE else ("<=" if dyn else "") + str(d)
            for d, dyn in zip(self.dimensions, dynamic, strict=True)
        )
        text = f"{self.element_type.text}[{dims}]"
        if layout and self.layout is not None and (self.rank or str(self.layout) != "{}"):
            text += str(self.layout)
        return text

    def __str__(self) -> str:
        return self.to_string()
