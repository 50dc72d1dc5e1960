"""Other softmaxes become the one that blocks of scores are made for: exp(x - max(x)), and factors that rows have.

Rows may have further elements beside their scores (attention sinks), subtract anything, leave out what is masked, be
divided by more than their sum, or not at all. With exp(x - y) = exp(x - max(x)) * exp(max(x) - y), all of that is
arithmetic on a number for each row: it is done to the product of the exponentials, which is short, not to the scores.
"""

from __future__ import annotations

import math
from collections.abc import Collection

from xjit.affine import dim
from xjit.hlo import HloComputation, HloInstruction, PrimitiveType
from xjit.hlo import attributes as at
from xjit.hlo.edit.replacing import replace
from xjit.ops import build
from xjit.passes.analysis.attention.digits import digits_of
from xjit.passes.analysis.attention.places import MATRIX_TYPES, MOVES, Place, Space
from xjit.passes.analysis.attention.products import dots_above, is_elementwise
from xjit.passes.analysis.attention.softmax import difference_of, find_masked_softmax, is_reduction, reduces
from xjit.passes.analysis.attention.weights import softmax_of
from xjit.passes.fusion.aligned_rows import aligned

_PASSED = MOVES | {"convert"}
MAX_ABOVE = 1000
"""Instructions that are looked at above what is subtracted."""
MAX_STEPS = 64
"""Instructions that are looked at between a maximum and what is subtracted."""


def normalize_exponentials(
    computation: HloComputation, exponential: HloInstruction, columns: Collection[int]
) -> HloInstruction | None:
    """Makes exponentials those of a softmax, times what rows have; returns them, None if nothing is to be done.

    They, or other exponentials of the same scores, are summed along one of the dimensions `columns`, or that along
    which a maximum of the scores is taken.
    """
    if exponential.shape.element_type not in MATRIX_TYPES or not exponential.shape.is_static_array:
        return None
    if exponential.shape.element_type is not PrimitiveType.F32:
        wide = _widened(computation, exponential)
        return normalize_exponentials(computation, wide, columns) or wide
    for user in exponential.users:
        if (column := _single_sum(user)) >= 0:
            return _Normalizer(computation, exponential, column).run(column in columns)
        if user.opcode == "select":
            for total in user.users:
                if (column := _single_sum(total)) >= 0:
                    return _Normalizer(computation, exponential, column).run_masked(user, total)
    column = _column_of_logits(exponential)
    return None if column < 0 else _Normalizer(computation, exponential, column).run(column in columns)


def _widened(computation: HloComputation, exponential: HloInstruction) -> HloInstruction:
    """Computes exponentials of a narrow type, and the maximum of what they are of, in f32; sums are read in that."""

    def wide(value: HloInstruction) -> HloInstruction:
        return computation.add_instruction(build.convert(value, PrimitiveType.F32))

    narrow = exponential.shape.element_type
    difference = exponential.operand(0)
    if difference.opcode == "subtract" and difference.operand(1).opcode == "broadcast":
        logits, shift = difference.operands
        value = wide(logits)
        for user in logits.users:
            column = _single_reduction(user, "maximum")
            if column >= 0:
                maximum = reduced(computation, value, "maximum", -math.inf, column)
                replace(user, computation.add_instruction(build.convert(maximum, narrow)))
        shift = difference.operand(1)
        shape = shift.shape.with_element_type(PrimitiveType.F32)
        dimensions = shift.attributes_as(at.DimensionsAttributes).dimensions
        shift = computation.add_instruction(build.broadcast(wide(shift.operand(0)), shape, dimensions))
        value = computation.add_instruction(build.binary("subtract", value, shift))
    else:
        value = wide(difference)
    result = computation.add_instruction(build.unary("exponential", value))
    for user in exponential.users:
        if user.opcode == "convert" and user.shape.element_type is PrimitiveType.F32:
            replace(user, result)
    if exponential.user_count:
        replace(exponential, computation.add_instruction(build.convert(result, narrow)))
    return result


def _single_sum(instruction: HloInstruction) -> int:
    return _single_reduction(instruction, "add")


def _single_reduction(instruction: HloInstruction, opcode: str) -> int:
    """Returns the dimension along which an instruction is a sum (`add`) or `maximum`, -1 if it is none along one."""
    if not is_reduction(instruction, opcode):
        return -1
    dimensions = instruction.attributes_as(at.DimensionsAttributes).dimensions
    return dimensions[0] if len(dimensions) == 1 else -1


def guard_exponentials(computation: HloComputation, exponential: HloInstruction, column: int) -> HloInstruction | None:
    """Makes exponentials 0 in rows of -inf alone, and what reads them these times NaN, as they were; returns them.

    None if they are so already, or are those of no softmax along a dimension.
    """
    space = Space(exponential.shape.dimensions)
    softmax = softmax_of(space, space.identity(exponential), dim(column))
    shift = space.operand(Place(difference_of(exponential), space.identity(exponential).index), 1)
    if softmax is None or shift is None or space.behind(shift, _PASSED) != softmax.maximum:
        return None
    return _Normalizer(computation, exponential, column, softmax.factor).run(True, True)


def _is_of_same_products(shift: HloInstruction, logits: HloInstruction) -> bool:
    """Whether what is subtracted is computed, in any way, from what the logits are computed from."""
    dots = dots_above(logits)
    stack, seen = [shift], {shift}
    while stack:
        instruction = stack.pop()
        if instruction in dots or len(seen) > MAX_ABOVE:
            return True
        new = [o for o in instruction.operands if o not in seen]
        seen.update(new)
        stack += new
    return False


def _column_of_logits(exponential: HloInstruction) -> int:
    """Returns along which dimension other exponentials are summed of what these are of; -1 if there are none."""
    difference = exponential.operand(0)
    for user in difference.operand(0).users if difference.opcode == "subtract" else ():
        for other in user.users if user.opcode == "subtract" and user is not difference else ():
            for total in other.users if other.opcode == "exponential" else ():
                if (column := _single_sum(total)) >= 0:
                    return column
    return -1


class _Normalizer:
    """Rewrites the readers of one array of exponentials, whose rows are along dimension `column`.

    Exponentials that are to be others may be of differences times a `factor`.
    """

    def __init__(
        self, computation: HloComputation, exponential: HloInstruction, column: int, factor: float = 1.0
    ) -> None:
        self.computation = computation
        self.exponential = exponential
        self.column = column
        self.factor = factor
        self.space = Space(exponential.shape.dimensions)
        self.place = self.space.identity(exponential)
        self.rows = [d for d in range(exponential.shape.rank) if d != column]

    def run(self, is_summed: bool, is_other: bool = False) -> HloInstruction | None:
        """Exponentials of anything less what rows have, of a maximum unless a product `is_summed` along them.

        Those of a softmax stay, unless they are to be others.
        """
        if not is_other and softmax_of(self.space, self.place, dim(self.column)) is not None:
            return None
        difference = self.exponential.operand(0) if self.factor == 1.0 else difference_of(self.exponential)
        logits, shift = difference, None
        if difference.opcode == "subtract" and difference.operand(1).opcode == "broadcast":
            logits, shift = difference.operands
        if shift is not None and self._varies(self.space.operand(Place(difference, self.place.index), 1)):
            logits, shift = difference, None
        if shift is not None and not self._has_digits(Place(shift, self.place.index)):
            return None
        known = self._known_maximum(logits, shift)
        if known is None and (not is_summed or (shift is not None and _is_of_same_products(shift, logits))):
            return None
        maximum = known or self._reduce(logits, "maximum", -math.inf)
        made = self._known_exponentials(logits) or self._exponentials(logits, maximum)
        subtracted = None if shift is None else self._of_rows(Place(shift, self.place.index))
        scale = maximum if subtracted is None else self._add(build.binary("subtract", maximum, subtracted))
        scale = self._add(build.unary("exponential", self._times_factor(scale)))
        totals = [u for u in self.exponential.users if _single_sum(u) == self.column]
        if totals:
            scaled = self._add(build.binary("multiply", self._reduce(made, "add", 0.0), scale))
            for total in totals:
                replace(total, scaled)
        if self.exponential.user_count:
            spread = self._add(build.broadcast(scale, made.shape, self.rows))
            replace(self.exponential, self._add(build.binary("multiply", made, spread)))
        return made

    def run_masked(self, select: HloInstruction, total: HloInstruction) -> HloInstruction | None:
        """Exponentials of which a mask leaves out some, in the maximum and in the sum."""
        terms = self.space.identity(select)
        index = tuple(e for d, e in enumerate(terms.index) if d != self.column)
        found = find_masked_softmax(self.space, terms, Place(total, index), (dim(self.column),))
        if found is None or found.logits.instruction.shape.dimensions != select.shape.dimensions:
            return None
        if found.logits.index != terms.index or found.exponential.instruction is not self.exponential:
            return None
        if not self._has_digits(found.maximum):
            return None
        logits = found.logits.instruction
        if logits.shape.element_type is not PrimitiveType.F32:
            logits = self._add(build.convert(logits, PrimitiveType.F32))
        made = self._exponentials(logits, self._of_rows(found.maximum))
        replace(total, self._reduce(made, "add", 0.0))
        replace(self.exponential, made)
        return made

    def _add(self, instruction: HloInstruction) -> HloInstruction:
        return self.computation.add_instruction(instruction)

    def _varies(self, place: Place | None) -> bool:
        place = None if place is None else self.space.behind(place, MOVES)
        return place is None or any(e.uses_dim(self.column) for e in place.index)

    def _exponentials(self, logits: HloInstruction, maximum: HloInstruction) -> HloInstruction:
        """Returns exponentials of logits less their maximum, 0 where that is -inf."""
        shape = maximum.shape
        least, zero = (self._add(build.make_constant(x, PrimitiveType.F32)) for x in (-math.inf, 0.0))
        leasts, zeros = (self._add(build.broadcast(c, shape, ())) for c in (least, zero))
        is_empty = self._add(build.compare("EQ", maximum, leasts))
        shift = self._add(build.select(is_empty, zeros, maximum))
        shifts = self._add(build.broadcast(shift, logits.shape, self.rows))
        difference = self._add(build.binary("subtract", logits, shifts))
        return self._add(build.unary("exponential", self._times_factor(difference)))

    def _times_factor(self, difference: HloInstruction) -> HloInstruction:
        if self.factor == 1.0:
            return difference
        factor = self._add(build.make_constant(self.factor, PrimitiveType.F32))
        factors = self._add(build.broadcast(factor, difference.shape, ()))
        return self._add(build.binary("multiply", difference, factors))

    def _reduce(self, array: HloInstruction, opcode: str, start: float) -> HloInstruction:
        return reduced(self.computation, array, opcode, start, self.column)

    def _of_rows(self, place: Place) -> HloInstruction:
        """Returns elements that rows have as an array over the rows' dimensions."""
        wanted = {d: self.space.sizes[d] for d in self.rows}
        return aligned(self.computation, self.space.behind(place, MOVES), self.space.sizes, wanted)

    def _has_digits(self, place: Place) -> bool:
        return digits_of(self.space.behind(place, MOVES), self.space.sizes) is not None

    def _known_exponentials(self, logits: HloInstruction) -> HloInstruction | None:
        """Returns others that are those of a softmax of the same logits already."""
        for user in logits.users:
            for other in user.users if user.opcode == "subtract" and user.operand(0) is logits else ():
                place = Place(other, self.place.index)
                found = None if other is self.exponential else softmax_of(self.space, place, dim(self.column))
                if found is not None and found.factor == self.factor:
                    return other
        return None

    def _known_maximum(self, logits: HloInstruction, shift: HloInstruction | None) -> HloInstruction | None:
        """Returns the maximum of the logits, if what is subtracted is computed from that."""
        wanted = Place(logits, self.place.index)
        stack = [] if shift is None else [Place(shift, self.place.index)]
        seen = set(stack)
        while stack and len(seen) < MAX_STEPS:
            place = stack.pop()
            if reduces(self.space, place, "maximum", wanted, (dim(self.column),)):
                return self._of_rows(place) if self._has_digits(place) else None
            if not is_elementwise(place.instruction):
                continue
            for number in range(place.instruction.operand_count):
                operand = self.space.operand(place, number)
                if operand is not None and operand not in seen:
                    seen.add(operand)
                    stack.append(operand)
        return None


def reduced(
    computation: HloComputation, array: HloInstruction, opcode: str, start: float, dimension: int
) -> HloInstruction:
    """Adds the reduction of an f32 array along a dimension."""
    module = computation.parent
    assert module is not None
    initial = computation.add_instruction(build.make_constant(start, PrimitiveType.F32))
    reducer = build.make_binary_computation(opcode, PrimitiveType.F32)
    reducer = module.add_embedded_computation(reducer, computation)
    return computation.add_instruction(build.make_reduce(array, initial, (dimension,), reducer))
