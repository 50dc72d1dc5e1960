"""The types of rules that say what an opcode means."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.shape import Shape

if TYPE_CHECKING:
    from xjit.ops.evaluation.interpreter import Interpreter

ShapeRule = Callable[[HloInstruction], Shape]
"""Infers the shape from operands and attributes (layouts ignored); raises HloVerifyError on a broken rule."""

Evaluator = Callable[["Interpreter", HloInstruction, Sequence[Any]], Any]
"""Computes the value from operand values: NumPy arrays, nested tuples for tuples, None for tokens."""
