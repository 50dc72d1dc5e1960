"""Softmax in the forms that programs write it, as `linalg_ext.softmax`.

The op is written where the exponentials are added up: its results are the probabilities, the maximum and the sum of
each row. What divides the exponentials by the sum, or takes the sum's logarithm from what they are of, then is the
probabilities; a log-softmax reads maximum and sum. What nobody reads any more is erased later.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xjit.affine.expr import AffineExpr
from xjit.affine.pool import dim
from xjit.hlo import HloInstruction
from xjit.hlo import attributes as at
from xjit.linalg_ext.from_hlo.reshaping import reshaped
from xjit.linalg_ext.from_hlo.scope import Body, Probabilities, Raised, Rule, Scope
from xjit.linalg_ext.from_hlo.types import has_scalar_code, raised_element
from xjit.linalg_ext.ir.attributes import IntegerAttr
from xjit.linalg_ext.ir.builder import Builder
from xjit.linalg_ext.ir.operation import OpResult, Value
from xjit.linalg_ext.ir.types import FloatType, IntegerType, element_type
from xjit.linalg_ext.structured.scalars import compare, select
from xjit.linalg_ext.structured.view import shape_of
from xjit.passes.analysis.attention.places import MOVES, Place, Space
from xjit.passes.analysis.attention.softmax import Softmax, find_masked_softmax, find_softmax

__all__ = ["SOFTMAX_RULES"]

_PASSED = MOVES | {"convert"}


def _total(scope: Scope, instruction: HloInstruction) -> Raised | None:
    """A sum of exponentials of elements less their maximum, some of them masked perhaps."""
    axes = tuple(sorted(instruction.attributes_as(at.DimensionsAttributes).dimensions))
    if instruction.operand_count != 2 or not axes or not instruction.shape.element_type.is_float:
        return None
    terms = instruction.operand(0)
    space = Space(terms.shape.dimensions)
    place = space.identity(terms)
    index, columns = place.index, tuple(dim(axis) for axis in axes)
    total = Place(instruction, tuple(e for d, e in enumerate(index) if d not in axes))
    found = find_softmax(space, place, total, columns)
    masked = None if found is not None else find_masked_softmax(space, place, total, columns)
    found = found or masked
    if found is None or found.factor != 1.0 or found.logits.index != index:
        return None
    if not all(has_scalar_code(i.shape) for i in (instruction, found.logits.instruction)):
        return None
    shifted = _behind(space, space.operand(found.exponential, 0), "subtract")
    is_bounded = shifted is not None and _behind(space, space.operand(shifted, 1), "select") is not None
    guard = _sum_by_maximum if is_bounded else None if masked is None else _sum_of_some
    return _write(scope, total, found, axes, guard)


def _write(scope: Scope, total: Place, found: Softmax, axes: tuple[int, ...], guard: Body | None) -> Value:
    """Writes the op where the maximum was computed, which it gives from now on. Returns the sum.

    `guard` makes the sum from the maximum and the op's sum where these differ: where infinite maxima count as 0, or
    there may be nothing to sum. Then quotients stay as they are.
    """
    maximum = scope.value(found.maximum.instruction)
    assert isinstance(maximum, OpResult)
    inner = Scope(scope.module, Builder.before(maximum.owner), scope.rules)
    element = raised_element(total.instruction.shape.element_type)
    logits = inner.converted(scope.value(found.logits.instruction), element)
    rows = total.instruction.shape.dimensions
    whole, top, sums = _along(inner, logits, axes)
    top, sums = (reshaped(inner.builder, v, rows) for v in (top, sums))
    if guard is not None:
        sums = inner.elements([(v, _identity(v)) for v in (top, sums)], rows, element, guard)
    else:
        scope.softmaxes[total.instruction] = Probabilities(whole, axes, found.exponential.instruction)
    if found.maximum.index == total.index and maximum.type == top.type:
        maximum.replace_all_uses_with(top)
        scope.values[found.maximum.instruction] = top
    return sums


def _along(scope: Scope, logits: Value, axes: tuple[int, ...]) -> tuple[Value, Value, Value]:
    """Writes the op along one dimension, or along several, which become one; returns probabilities, maxima, sums."""
    sizes = [n or 0 for n in shape_of(logits)]
    if len(axes) == 1:
        kept = [d for d, n in enumerate(sizes) if n != 1 or d in axes]
        given = reshaped(scope.builder, logits, [sizes[d] for d in kept])
        results = _online(scope, given, kept.index(axes[0]))
        return reshaped(scope.builder, results[0], sizes), results[1], results[2]
    order = [*(d for d in range(len(sizes)) if d not in axes), *axes]
    rows = [sizes[d] for d in order[: -len(axes)] if sizes[d] != 1]
    last = scope.transposed(logits, order)
    results = _online(scope, reshaped(scope.builder, last, [*rows, prod(sizes[d] for d in axes)]), len(rows))
    whole = reshaped(scope.builder, results[0], [sizes[d] for d in order])
    return scope.transposed(whole, [order.index(d) for d in range(len(sizes))]), results[1], results[2]


def _identity(value: Value) -> list[AffineExpr]:
    return [dim(i) for i in range(len(shape_of(value)))]


def _sum_by_maximum(builder: Builder, given: Sequence[Value]) -> list[Value]:
    """The sum where the maximum is finite, else what exponentials of the elements themselves add up to."""
    maximum, total, _ = given
    assert isinstance(maximum.type, FloatType)
    least, zero, most = (builder.constant_float(x, maximum.type) for x in (float("-inf"), 0.0, float("inf")))
    size = builder.create("math.absf", (maximum,), (maximum.type,)).result
    otherwise = select(builder, compare(builder, "oeq", maximum, least), zero, maximum)
    return [select(builder, compare(builder, "olt", size, most), total, otherwise)]


def _sum_of_some(builder: Builder, given: Sequence[Value]) -> list[Value]:
    """The sum, 0 where nothing is summed."""
    maximum, total, _ = given
    assert isinstance(maximum.type, FloatType)
    least, zero = (builder.constant_float(x, maximum.type) for x in (float("-inf"), 0.0))
    return [select(builder, compare(builder, "oeq", maximum, least), zero, total)]


def _online(scope: Scope, logits: Value, axis: int) -> tuple[OpResult, ...]:
    """Writes the op; returns probabilities, maximum, sum and scale."""
    element, sizes = element_type(logits.type), [n or 0 for n in shape_of(logits)]
    rows = sizes[:axis] + sizes[axis + 1 :]
    least = scope.full(scope.number(float("-inf"), element), rows)
    inits = (scope.empty(sizes, element), least, scope.zeros(rows, element), scope.empty(rows, element))
    return scope.named("linalg_ext.softmax", (logits,), inits, {"dimension": IntegerAttr(axis, IntegerType(64))})


def _quotient(scope: Scope, instruction: HloInstruction) -> Raised | None:
    """Exponentials by their sum."""
    if not scope.softmaxes or not has_scalar_code(instruction.shape):
        return None
    several = dict.fromkeys(known.axes for known in scope.softmaxes.values() if len(known.axes) > 1)
    single = ((axis,) for axis, size in enumerate(instruction.shape.dimensions) if size > 1)
    for axes in (*single, *(axes for axes in several if max(axes) < instruction.shape.rank)):
        space = Space(instruction.shape.dimensions)
        found = find_softmax(space, space.identity(instruction), None, [dim(axis) for axis in axes])
        if found is not None and found.total.instruction in scope.softmaxes:
            return _probabilities(scope, instruction, found.total, found.exponential)
    return None


def _exponential(scope: Scope, instruction: HloInstruction) -> Raised | None:
    """The exponential of a log-softmax: of (logits - maximum) - log(sum)."""
    if not scope.softmaxes:
        return None
    space = Space(instruction.shape.dimensions)
    difference = _behind(space, space.operand(space.identity(instruction), 0), "subtract")
    if difference is None:
        return None
    logarithm = _behind(space, space.operand(difference, 1), "log")
    shifted = _behind(space, space.operand(difference, 0), "subtract")
    total = None if logarithm is None else _behind(space, space.operand(logarithm, 0), "reduce")
    if shifted is None or total is None or total.instruction not in scope.softmaxes:
        return None
    exponential = scope.softmaxes[total.instruction].exponential
    if exponential.operand(0) is not shifted.instruction:
        return None
    return _probabilities(scope, instruction, total, Place(exponential, shifted.index))


def _behind(space: Space, place: Place | None, opcode: str) -> Place | None:
    """Returns the element of an instruction that an element is moved or converted from."""
    found = None if place is None else space.behind(place, _PASSED)
    return found if found is not None and found.opcode == opcode else None


def _probabilities(scope: Scope, instruction: HloInstruction, total: Place, exponential: Place) -> Raised | None:
    """Returns the first result of a softmax where `instruction` has its elements."""
    known = scope.softmaxes[total.instruction]
    if tuple(e for d, e in enumerate(exponential.index) if d not in known.axes) != total.index:
        return None
    moved = scope.moved(known.value, exponential.index, instruction.shape.dimensions)
    return scope.converted(moved, raised_element(instruction.shape.element_type))


SOFTMAX_RULES: dict[str, Rule] = {
    "reduce": _total,
    "divide": _quotient,
    "multiply": _quotient,
    "exponential": _exponential,
}
"""Tried before the rules of single instructions."""
