"""Exponents that are c (x - max(x)) in some way become that, or c x - max(c x): those of a softmax.

-(max(x) - x), log(2) (x - max(x)) for powers of two, (x - max(x)) / t, a x - a max(x), min(x) - x: all are sums of
terms, each with a factor that is a number. What the maximum is of are the same terms, each times the same number.

The difference comes first where the softmax may have a factor: scores of rows that are masked wholly by a large number
(-1e4) are few numbers, whose differences are exact, and whose multiples are not.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from dataclasses import replace as replace_fields

import numpy as np

from xjit.affine import dim
from xjit.hlo import HloComputation, HloInstruction, PrimitiveType, Shape
from xjit.hlo import attributes as at
from xjit.hlo.edit.replacing import replace
from xjit.ops import build
from xjit.passes.analysis.attention.places import MATRIX_TYPES, MOVES, Place, Space
from xjit.passes.analysis.attention.softmax import (
    difference_of,
    exponent_of,
    is_reduction,
    number_of,
    reduces,
    shifted_maximum,
)
from xjit.passes.fusion.softmax_forms import reduced

_PASSED = MOVES | {"convert"}
MAX_TERMS = 32
"""Instructions that are looked at from an exponent to its terms."""
_CLOSE = 4 * float(np.finfo(np.float32).eps)
"""Up to this, factors that were rounded on their ways count as one."""

_LARGE = 2.0**126
"""Numbers of this size have no further difference that counts."""

Terms = dict[Place, float]
"""A sum: by what is added, its factor."""


@dataclass(frozen=True, slots=True)
class _Multiple:
    """An exponent that is `factor` (x - max(x)), or (x - min(x)) with a negative factor: `value` is x, `extremum` what
    reduces it along `column`. By the opcode of their test, `guard`, infinite extrema count as 0: all, if it is
    "is-finite", none, if it is "", else those of -inf. Differences are to be times `outer`, and x times the rest.
    """

    value: HloInstruction
    factor: float
    column: int
    extremum: HloInstruction
    guard: str
    outer: float = 1.0

    @property
    def inner(self) -> float:
        """What x is to be times."""
        return self.factor / self.outer


def state_exponents(
    computation: HloComputation, all_powers: Iterable[HloInstruction], keep_factors: bool = False
) -> bool:
    """Gives exponentials, or powers of a number, the exponent of a softmax; True if some had another one.

    That is c x - max(c x), or c (x - max(x)) if it is to keep factors: in f32, of what is summed. What else reads the
    old maxima is given the new ones, divided by c, unless it looks for them in x.
    """
    made: list[tuple[_Multiple, HloInstruction]] = []
    for powers in all_powers:
        found = _multiple_in(powers, keep_factors) if powers.parent is computation else None
        if found is not None:
            made.append((found, _rewritten(computation, powers, found)))
    for multiple, maximum in made:
        old = multiple.extremum
        is_there = old.parent is computation and old.user_count and old is not maximum
        if is_there and old.shape.dimensions == maximum.shape.dimensions and not _is_looked_for(old):
            _replace_extremum(computation, old, maximum, multiple.inner)
    return bool(made)


def _multiple_in(powers: HloInstruction, keep_factors: bool) -> _Multiple | None:
    """Returns the multiple that an exponent is, if that is not just what an exponential of a softmax has."""
    if powers.shape.element_type not in MATRIX_TYPES or not powers.shape.is_static_array:
        return None
    space = Space(powers.shape.dimensions)
    exponent = _exponent(space, powers)
    terms = None if exponent is None else _terms(space, *exponent)
    for term in terms or ():
        extremum = shifted_maximum(space, term)
        for opcode in ("maximum", "minimum"):
            if terms and is_reduction(extremum.instruction, opcode):
                found = _multiple(space, terms, term, extremum, opcode)
                if found is None:
                    continue
                if keep_factors and _has_sum(powers, found.column):
                    found = replace_fields(found, outer=abs(found.factor))
                if not _is_stated(space, powers, found):
                    return found
    return None


def _guard(space: Space, term: Place) -> str:
    """Returns the opcode of the test that has 0 in the place of infinite maxima, "" if there is none."""
    test = space.operand(term, 0) if term.opcode == "select" else None
    return "" if test is None else space.behind(test, MOVES).opcode


def _exponent(space: Space, powers: HloInstruction) -> tuple[Place, float] | None:
    """Returns y and c of exp(c y): c is the logarithm of what is raised to a power."""
    place = space.identity(powers)
    if powers.opcode == "exponential":
        operand = space.operand(place, 0)
        return None if operand is None else (operand, 1.0)
    base, operand = (space.operand(place, n) for n in range(2)) if powers.opcode == "power" else (None, None)
    number = None if base is None else number_of(space, base)
    return None if operand is None or number is None or number <= 0 else (operand, math.log(number))


def _has_sum(powers: HloInstruction, column: int) -> bool:
    """Whether something of f32 is summed along a dimension, as it stands: its softmax is to be seen."""
    if powers.shape.element_type is not PrimitiveType.F32:
        return False
    sums = [user for user in powers.users if is_reduction(user, "add")]
    return any(total.attributes_as(at.DimensionsAttributes).dimensions == (column,) for total in sums)


def _is_stated(space: Space, powers: HloInstruction, multiple: _Multiple) -> bool:
    """Whether an exponent is x - max(x) as it stands, or a multiple of that where it is to be one."""
    exponent = exponent_of(space, space.identity(powers))
    if exponent is None or exponent.factor != np.float32(multiple.outer):
        return False
    if exponent.factor != 1.0 and difference_of(powers).opcode != "subtract":
        return False
    return reduces(space, shifted_maximum(space, exponent.shift), "maximum", exponent.value, (dim(multiple.column),))


def _terms(space: Space, place: Place, factor: float) -> Terms | None:
    """Returns `factor` times an element as a sum; None if that has too many terms."""
    found: Terms = {}
    stack, steps = [(place, factor)], 0
    while stack:
        place, factor = stack.pop()
        place = space.behind(place, _PASSED)
        steps += 1
        if steps > MAX_TERMS:
            return None
        inner = _summands(space, place, factor)
        if inner is None:
            found[place] = found.get(place, 0.0) + factor
        else:
            stack += inner
    return found


def _summands(space: Space, place: Place, factor: float) -> list[tuple[Place, float]] | None:
    """Returns what an element is a sum or a multiple of; None if that is not to be seen."""
    if place.opcode not in ("add", "subtract", "negate", "multiply", "divide"):
        return None
    operands = [space.operand(place, n) for n in range(place.instruction.operand_count)]
    given = [operand for operand in operands if operand is not None]
    if len(given) < len(operands):
        return None
    if place.opcode == "negate":
        return [(given[0], -factor)]
    left, right = given
    if place.opcode in ("add", "subtract"):
        return [(left, factor), (right, factor if place.opcode == "add" else -factor)]
    for value, other in ((left, right), (right, left)):
        number = number_of(space, other)
        if number is not None and (place.opcode == "multiply" or other is right):
            return [(value, factor * number if place.opcode == "multiply" else factor / number)]
    return None


def _multiple(space: Space, terms: Terms, term: Place, extremum: Place, opcode: str) -> _Multiple | None:
    """Returns the multiple that a sum is; `term` is the extremum, guarded perhaps."""
    used = {d for e in extremum.index for d in e.dims}
    columns = [d for d, size in enumerate(space.sizes) if d not in used and size > 1]
    factor = -terms[term]
    if len(columns) != 1 or (factor > 0) != (opcode == "maximum"):
        return None
    column = columns[0]
    if space.ranges(extremum) != (space.sizes[column],):
        return None
    reduced_place = space.operand(extremum, 0, (dim(column),))
    whole = tuple(space.simplify(dim(d)) for d in range(len(space.sizes)))
    if reduced_place is None or reduced_place.index != whole:
        return None
    wanted = _terms(space, reduced_place, factor)
    others = {place: number for place, number in terms.items() if place != term}
    if wanted is None or wanted.keys() != others.keys():
        return None
    if any(abs(others[place] - number) > _CLOSE * abs(number) for place, number in wanted.items()):
        return None
    return _Multiple(reduced_place.instruction, factor, column, extremum.instruction, _guard(space, term))


def _rewritten(computation: HloComputation, powers: HloInstruction, multiple: _Multiple) -> HloInstruction:
    """Puts exp(c (a x - max(a x))), in f32, in the place of powers; returns the maximum."""

    def add(instruction: HloInstruction) -> HloInstruction:
        return computation.add_instruction(instruction)

    value, column = multiple.value, multiple.column
    if value.shape.element_type is not PrimitiveType.F32:
        value = add(build.convert(value, PrimitiveType.F32))
    value = _scaled(computation, value, multiple.inner)
    maximum = multiple.extremum
    if value is not multiple.value:
        maximum = reduced(computation, value, "maximum", -math.inf, column)
    shift = maximum
    if multiple.guard:
        zeros = _everywhere(computation, 0.0, maximum.shape)
        if multiple.guard == "is-finite":
            shift = add(build.select(add(build.unary("is-finite", maximum)), maximum, zeros))
        else:
            leasts = _everywhere(computation, -math.inf, maximum.shape)
            shift = add(build.select(add(build.compare("EQ", maximum, leasts)), zeros, maximum))
    rows = [d for d in range(value.shape.rank) if d != column]
    shift = add(build.broadcast(shift, value.shape, rows))
    exponent = add(build.binary("subtract", value, shift))
    if np.float32(multiple.outer) != 1.0:
        exponent = add(build.binary("multiply", exponent, _everywhere(computation, multiple.outer, value.shape)))
    result = add(build.unary("exponential", exponent))
    narrow = powers.shape.element_type
    replace(powers, result if narrow is PrimitiveType.F32 else add(build.convert(result, narrow)))
    return maximum


def _scaled(computation: HloComputation, value: HloInstruction, factor: float) -> HloInstruction:
    """Returns a multiple of an array; the least numbers, which stand for what is masked, do not become -inf."""

    def binary(opcode: str, operand: HloInstruction, number: float) -> HloInstruction:
        return computation.add_instruction(
            build.binary(opcode, operand, _everywhere(computation, number, operand.shape))
        )

    if factor == 1.0:
        return value
    scaled = binary("multiply", value, factor)
    if abs(factor) <= 1.0:
        return scaled
    signed = value if factor > 0 else computation.add_instruction(build.unary("negate", value))
    return computation.add_instruction(build.binary("maximum", scaled, binary("minimum", signed, -_LARGE)))


def _everywhere(computation: HloComputation, number: float, shape: Shape) -> HloInstruction:
    constant = computation.add_instruction(build.make_constant(number, PrimitiveType.F32))
    return computation.add_instruction(build.broadcast(constant, shape, ()))


def _is_looked_for(extremum: HloInstruction) -> bool:
    """Whether an extremum is compared with other values than numbers, as its gradient is: rounded, it would be none."""
    stack, seen = [extremum], {extremum}
    while stack:
        value = stack.pop()
        for user in value.users:
            others = [o for o in user.operands if o is not value]
            if user.opcode == "compare" and not all(_is_number(o) for o in others):
                return True
            if user.opcode in (*_PASSED, "select") and user not in seen:
                seen.add(user)
                stack.append(user)
    return False


def _is_number(value: HloInstruction) -> bool:
    while value.opcode in _PASSED:
        value = value.operand(0)
    return value.opcode == "constant"


def _replace_extremum(computation: HloComputation, old: HloInstruction, maximum: HloInstruction, factor: float) -> None:
    """Has what reads an extremum of x read max(c x) / c."""

    def add(instruction: HloInstruction) -> HloInstruction:
        return computation.add_instruction(instruction)

    value = maximum
    if factor != 1.0:
        value = add(build.binary("divide", maximum, _everywhere(computation, factor, maximum.shape)))
    if abs(factor) > 1.0:  # see `_scaled`
        is_least = add(build.compare("LE", maximum, _everywhere(computation, -_LARGE, maximum.shape)))
        value = add(build.select(is_least, maximum if factor > 0 else add(build.unary("negate", maximum)), value))
    kind = old.shape.element_type
    replace(old, value if kind is PrimitiveType.F32 else add(build.convert(value, kind)))
