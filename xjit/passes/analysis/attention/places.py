"""Elements at symbolic indices: how graphs are followed from what needs an element to what it is computed from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xjit.affine import AffineExpr, Interval, RangeContext, dim, physical_map, substitute, substitute_all
from xjit.hlo import HloInstruction, PrimitiveType
from xjit.hlo.ir.classification import changes_element_type
from xjit.indexing.element_reads import is_tiled
from xjit.indexing.operand_reads import reads_of

Index = tuple[AffineExpr, ...]

MOVES = frozenset(("bitcast", "broadcast", "copy", "reshape", "slice", "transpose"))
"""Opcodes whose elements are those of their operand, somewhere else."""
TRUNCATION = "truncation"
"""What a conversion is as an opcode that does more than to round: from or to integers, or numbers of 8 bits."""
MATRIX_TYPES = frozenset((PrimitiveType.BF16, PrimitiveType.F16, PrimitiveType.F32))


@dataclass(frozen=True, slots=True)
class Place:
    """One element of an instruction, at an index over the variables of a `Space`."""

    instruction: HloInstruction
    index: Index

    @property
    def opcode(self) -> str:
        """The instruction's; a bitcast to another type is none of those that `MOVES` elements, and a conversion that
        does more than to round is no "convert".
        """
        if changes_element_type(self.instruction):
            return "bitcast-convert"
        opcode = self.instruction.opcode
        return TRUNCATION if opcode == "convert" and not _is_rounding(self.instruction) else opcode


@dataclass(frozen=True, slots=True)
class Matrix:
    """Elements of an array as a matrix: [row, column] is element base + row * row_stride + column * column_stride.

    `base` is an expression over variables that say which of many matrices it is.
    """

    leaf: HloInstruction
    base: AffineExpr
    row_stride: int
    column_stride: int


class Space:
    """Variables d0, d1, ... with their sizes, and steps from an element to those that it is computed from."""

    def __init__(self, sizes: Iterable[int]) -> None:
        self.sizes: list[int] = []
        self._ranges = RangeContext((), (), replace_points=True)
        for size in sizes:
            self.add(size)

    def add(self, size: int) -> AffineExpr:
        """Returns a new variable with values 0 to size - 1."""
        self.sizes.append(size)
        self._ranges.add_dim(Interval(0, size - 1))
        return dim(len(self.sizes) - 1)

    def simplify(self, expr: AffineExpr) -> AffineExpr:
        """Returns the expression as the bounds of its variables allow."""
        return self._ranges.simplify(expr)

    def range_of(self, expr: AffineExpr) -> tuple[int, int]:
        """Returns the least and the greatest value of an expression."""
        return self._ranges.range_of(expr)

    def identity(self, instruction: HloInstruction) -> Place:
        """Returns the element of an instruction at d0, d1, ..."""
        return Place(instruction, tuple(self.simplify(dim(d)) for d in range(instruction.shape.rank)))

    def operand(self, place: Place, number: int, symbols: Sequence[AffineExpr] = ()) -> Place | None:
        """Returns the element of an operand that an element is computed from, at `symbols` of what is summed.

        None if there is not always just one.
        """
        read = reads_of(place.instruction)[number]
        operand = place.instruction.operand(number)
        if read.is_identity:
            return Place(operand, place.index)
        always = read.always
        if always is None or always.rt_vars or len(always.range_vars) != len(symbols):
            return None
        results = substitute_all(always.map.results, place.index, symbols)
        return Place(operand, tuple(self.simplify(e) for e in results))

    def behind(self, place: Place, opcodes: frozenset[str]) -> Place:
        """Returns what an element is behind instructions with one operand of those opcodes."""
        while place.opcode in opcodes:
            following = self.operand(place, 0)
            if following is None:
                break
            place = following
        return place

    def ranges(self, place: Place) -> tuple[int, ...] | None:
        """Returns the sizes of what a dot or reduce sums over, in the order of its symbols; None if unknown."""
        always = reads_of(place.instruction)[0].always
        return None if always is None else tuple(v.bounds.size for v in always.range_vars)

    def matrix(self, place: Place, row: AffineExpr, column: AffineExpr, but: AffineExpr) -> Matrix | None:
        """Returns the array that elements come from, as matrices over `row` and `column`; None if they are none.

        It is the first array on the way that can be read like that, behind moves and conversions that are exact. Which
        matrix it is must not depend on the variable `but`.
        """
        found = None
        following: Place | None = place
        while following is not None:
            place = following
            found = self.array_matrix(place, row, column, but) or found
            widens = place.opcode == "convert" and _is_exact(place.instruction)
            following = self.operand(place, 0) if widens or place.opcode in MOVES else None
        return found

    def array_matrix(self, place: Place, row: AffineExpr, column: AffineExpr, but: AffineExpr) -> Matrix | None:
        """Returns an array as matrices; None if it is none, see `matrix`."""
        shape = place.instruction.shape
        if not shape.is_static_array or shape.element_type not in MATRIX_TYPES or is_tiled(shape) or not shape.rank:
            return None
        if place.opcode == "constant":
            return None
        layout = physical_map(shape.dimensions, shape.minor_to_major, ()).map.results[0]
        offset = self.simplify(substitute(layout, place.index))
        strides = {row: 0, column: 0}
        for term, factor in offset.terms:
            if term in strides:
                strides[term] = factor
            elif any(term.uses_dim(v.position) for v in (row, column, but)):
                return None
        if offset.uses_dim(but.position) or min(strides.values()) < 0:
            return None
        base = offset - row * strides[row] - column * strides[column]
        return Matrix(place.instruction, base, strides[row], strides[column])


def _is_rounding(convert: HloInstruction) -> bool:
    kinds = convert.shape.element_type, convert.operand(0).shape.element_type
    return all(kind.is_float and kind.bit_width >= 16 for kind in kinds)


def _is_exact(convert: HloInstruction) -> bool:
    source = convert.operand(0).shape.element_type
    return source in MATRIX_TYPES and (
        source is convert.shape.element_type or convert.shape.element_type is PrimitiveType.F32
    )
