"""Comparisons, in the body of a loop, of what it counts with constants: the trips may decide them."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping

from xjit.hlo import HloInstruction
from xjit.hlo import attributes as at
from xjit.hlo.edit.replacing import replace
from xjit.ops.build import make_constant
from xjit.passes.analysis.tuple_elements import element_index
from xjit.passes.analysis.while_loop_analysis import CountedLoop, counted_loop
from xjit.passes.calls_and_control.ownership import own_computations

_HOLDS: Mapping[str, Callable[[int, int], bool]] = {
    "EQ": operator.eq, "NE": operator.ne, "LT": operator.lt, "LE": operator.le, "GT": operator.gt, "GE": operator.ge,
}  # fmt: skip


def decide_compares(loop: HloInstruction) -> bool:
    """Replaces comparisons that have one result in all trips by it; True if there was one.

    `loop` has a tuple as state. Nothing changes in a loop whose trips are not known, or that has none.
    """
    known = counted_loop(loop)
    if known is None or not known.trip_count:
        return False
    if not any(_result(i, loop, known) is not None for i in loop.while_body.instructions):
        return False
    own_computations(loop)
    body = loop.while_body
    for compare in list(body.instructions):
        result = _result(compare, loop, known)
        if result is not None:
            replace(compare, body.add_instruction(make_constant(result, compare.shape.element_type)))
    return True


def _result(compare: HloInstruction, loop: HloInstruction, known: CountedLoop) -> bool | None:
    """Returns what a comparison gives in all trips; None if that is not known, or for another instruction."""
    if compare.opcode != "compare" or compare.shape.rank:
        return None
    values = [_values(o, loop, known) for o in compare.operands]
    if None in values or sum(isinstance(v, range) for v in values) != 1:
        return None
    direction = compare.attributes_as(at.CompareAttributes).direction
    holds = _HOLDS[direction]
    first, second = ([v[0], v[-1]] if isinstance(v, range) else [v, v] for v in values if v is not None)
    ends = {holds(a, b) for a, b in zip(first, second, strict=True)}
    numbers, constant = (values[0], values[1]) if isinstance(values[0], range) else (values[1], values[0])
    assert isinstance(numbers, range) and isinstance(constant, int)
    if direction in ("EQ", "NE") and len(numbers) > 1 and min(numbers) <= constant <= max(numbers):
        return None  # in between it may be otherwise
    return ends.pop() if len(ends) == 1 else None


def _values(operand: HloInstruction, loop: HloInstruction, known: CountedLoop) -> range | int | None:
    if operand.opcode == "constant" and operand.shape.is_scalar and operand.shape.element_type.is_integer:
        return int(operand.attributes_as(at.ConstantAttributes).literal.array)
    state = loop.while_body.parameter_instructions[0]
    if operand.opcode == "get-tuple-element" and operand.operand(0) is state and element_index(operand) == known.index:
        last = known.init + known.trip_count * known.step
        return range(known.init, last, known.step) if known.step else None
    return None
