"""`PaddedArray`: a static array of the bounds of a dynamic one, and the sizes of what counts of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction, PrimitiveType, Shape
from xjit.ops import build
from xjit.passes.dynamic.padding_options import PaddingOptions
from xjit.passes.expand.writing import Writer
from xjit.passes.framework.expansion import Expansion

SIZE = PrimitiveType.S32
"""Type of sizes."""


@dataclass(frozen=True, slots=True)
class PaddedArray:
    """`data` has the bounds as its dimensions; of dimension d only the first `sizes[d]` elements mean something."""

    data: HloInstruction
    sizes: Mapping[int, HloInstruction] = field(default_factory=dict[int, HloInstruction])

    def without(self, dimension: int, data: HloInstruction | None = None) -> PaddedArray:
        """The same, or other, data, all of which counts along a dimension."""
        return PaddedArray(data or self.data, {d: n for d, n in self.sizes.items() if d != dimension})

    def without_sizes(self) -> PaddedArray:
        """The data, all of which counts."""
        return PaddedArray(self.data)


class PaddingWriter(Writer):
    """Writes what takes the place of an instruction on dynamic arrays."""

    def __init__(self, into: Expansion, options: PaddingOptions | None = None) -> None:
        super().__init__(into)
        self.options = options or PaddingOptions()

    def size_of(self, array: PaddedArray, dimension: int) -> HloInstruction:
        """The size of a dimension, a constant if it is static."""
        known = array.sizes.get(dimension)
        return known if known is not None else self.constant(array.data.shape.dimensions[dimension], SIZE)

    def valid(self, array: PaddedArray, dimension: int) -> HloInstruction:
        """Whether each element counts, along a dimension: pred[bounds]."""
        bounds = array.data.shape.dimensions
        limit = self.broadcast(array.sizes[dimension], bounds)
        return self.compare("LT", self.iota(SIZE, bounds, dimension), limit)

    def mask(self, array: PaddedArray, dimensions: Sequence[int], value: HloInstruction | float) -> PaddedArray:
        """Puts a scalar where elements do not count along some dimensions, which are static from then on."""
        for dimension in dimensions:
            if dimension in array.sizes:
                pred = self.valid(array, dimension)
                kind = array.data.shape.element_type
                filling = value if isinstance(value, HloInstruction) else self.constant(value, kind)
                other = self.broadcast(filling, pred.shape.dimensions)
                array = array.without(dimension, self.make("select", pred, array.data, other))
        return array

    def arithmetic(self, opcode: str, size: HloInstruction, number: int) -> HloInstruction:
        """A size and a number; the size itself where that changes nothing."""
        neutral = {"add": 0, "subtract": 0, "multiply": 1, "divide": 1}.get(opcode)
        return size if number == neutral else self.make(opcode, size, self.constant(number, SIZE))

    def pad_end(self, data: HloInstruction, dimension: int, count: int) -> HloInstruction:
        """The data with so many zeros behind."""
        edges = [(0, count if d == dimension else 0, 0) for d in range(data.shape.rank)]
        return self.add(build.pad(data, self.constant(0, data.shape.element_type), edges))

    def window_at(self, data: HloInstruction, dimension: int, start: HloInstruction, count: int) -> HloInstruction:
        """`count` elements along a dimension, from `start` on."""
        zero = self.constant(0, SIZE)
        sizes = [count if d == dimension else n for d, n in enumerate(data.shape.dimensions)]
        return self.dynamic_slice(data, [start if d == dimension else zero for d in range(len(sizes))], sizes)


def static(shape: Shape) -> Shape:
    """Returns a shape with every dynamic dimension at its bound."""
    if shape.is_tuple:
        return Shape.tuple_of([static(s) for s in shape.tuple_shapes])
    return replace(shape, dynamic_dimensions=()) if shape.dynamic_dimensions else shape


def dynamic_places(shape: Shape) -> list[tuple[int, int]]:
    """Returns (leaf, dimension) of every dynamic dimension of the leaves of a shape, in order."""
    return [
        (n, d) for n, leaf in enumerate(leaf_arrays(shape)) for d in range(leaf.rank) if leaf.is_dynamic_dimension(d)
    ]


def leaf_arrays(shape: Shape) -> Iterator[Shape]:
    """Yields all that is no tuple, and empty tuples, left to right."""
    if shape.is_tuple and shape.tuple_shapes:
        for element in shape.tuple_shapes:
            yield from leaf_arrays(element)
    else:
        yield shape
