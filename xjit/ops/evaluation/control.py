"""Control flow, tuples and calls; barriers, domains and tokens, which change nothing on one device."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from xjit.hlo import attributes as at
from xjit.hlo.diagnostics import ExecutionError
from xjit.hlo.ir.instruction import HloInstruction
from xjit.ops.evaluation.numerics import Value, concrete_int
from xjit.ops.opdef import Evaluator

if TYPE_CHECKING:
    from xjit.ops.evaluation.interpreter import Interpreter


def identity(_interpreter: Interpreter, _instruction: HloInstruction, operands: Sequence[Value]) -> Value:
    """Returns the first operand."""
    return operands[0]


def _tuple(_interpreter: Interpreter, _instruction: HloInstruction, operands: Sequence[Value]) -> Value:
    return tuple(operands)


def _get_tuple_element(_interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Value]) -> Value:
    return operands[0][instruction.attributes_as(at.GetTupleElementAttributes).index]


def _while(interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Value]) -> Value:
    value, trips = operands[0], 0
    while bool(interpreter.call(instruction.while_condition, value)):
        if trips == interpreter.max_loop_iterations:
            raise ExecutionError(f"loop {instruction.name} runs more than {trips} times", instruction.span)
        value = interpreter.call(instruction.while_body, value)
        trips += 1
    return value


def _conditional(interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Any]) -> Value:
    """A pred picks branch 0 if true, else 1; an index out of range picks the last branch."""
    selector, branches = np.asarray(operands[0]), instruction.branch_computations
    if selector.dtype == np.bool_:
        branch = 0 if bool(selector) else 1
    else:
        branch = concrete_int(selector)
        branch = branch if 0 <= branch < len(branches) else len(branches) - 1
    return interpreter.call(branches[branch], operands[1 + branch])


def call(interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Value]) -> Value:
    """Runs the called computation. Inside a vectorised call, operands are batches of the parameters' scalars."""
    computation = instruction.called_computations[0]
    if interpreter.is_elementwise(computation):
        return interpreter.call_elementwise(computation, *operands)
    return interpreter.call(computation, *operands)


def _after_all(_interpreter: Interpreter, _instruction: HloInstruction, _operands: Sequence[Value]) -> Value:
    return None


EVALUATORS: Mapping[str, Evaluator] = MappingProxyType(
    {
        "tuple": _tuple,
        "get-tuple-element": _get_tuple_element,
        "while": _while,
        "conditional": _conditional,
        "call": call,
        "fusion": call,
        "opt-barrier": identity,
        "domain": identity,
        "add-dependency": identity,
        "after-all": _after_all,
    }
)
