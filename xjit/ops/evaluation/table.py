"""The evaluator's tables: what it runs, and why it does not run the rest. Together they name every opcode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

from xjit.hlo import attributes as at
from xjit.hlo.ir.instruction import HloInstruction
from xjit.ops.evaluation import (
    batch_norm,
    collective,
    control,
    convert,
    convolution,
    custom_call,
    dot,
    elementwise,
    indexed,
    linalg,
    movement,
    random,
    reduction,
    sort,
    transfers,
    windows,
)
from xjit.ops.evaluation.numerics import Value
from xjit.ops.opdef import Evaluator

if TYPE_CHECKING:
    from xjit.ops.evaluation.interpreter import Interpreter

_THEMES = (
    elementwise, convert, movement, reduction, windows, dot, convolution, indexed, sort, control, random, linalg,
    batch_norm, collective, transfers, custom_call,
)  # fmt: skip


def _parameter(_interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Value]) -> Value:
    """Binds the argument; the interpreter passes the whole argument list as operands."""
    return operands[instruction.attributes_as(at.ParameterAttributes).parameter_number]


EVALUATORS: Mapping[str, Evaluator] = MappingProxyType(
    {"parameter": _parameter, **{opcode: rule for theme in _THEMES for opcode, rule in theme.EVALUATORS.items()}}
)

_HOST = "it exchanges data with a host queue"

UNSUPPORTED: Mapping[str, str] = MappingProxyType(
    {
        "infeed": _HOST,
        "outfeed": _HOST,
    }
)
