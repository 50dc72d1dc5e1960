"""`OpDef`: what one opcode means - shape rule, indexing maps, NumPy evaluation - beside its structural facts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from xjit.hlo.attributes.opcodes import Opcode
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.shape import Shape

if TYPE_CHECKING:
    from xjit.ops.evaluation.interpreter import Interpreter
    from xjit.ops.indexing.maps import Maps

ShapeRule = Callable[[HloInstruction], Shape]
"""Infers the shape from operands and attributes (layouts ignored); raises HloVerifyError on a broken rule."""

Evaluator = Callable[["Interpreter", HloInstruction, Sequence[Any]], Any]
"""Computes the value from operand values: NumPy arrays, nested tuples for tuples, None for tokens."""

OutputToInputRule = Callable[[HloInstruction, int], "list[Maps]"]
"""Returns, per operand, the maps from an index of that output leaf to the elements it reads."""

InputToOutputRule = Callable[[HloInstruction, int], "list[Maps]"]
"""Returns, per output leaf, the maps from an index of that operand to the elements that read it."""


@dataclass(frozen=True, slots=True)
class OpDef:
    """One row of the op table. A column is None where the opcode has no such thing (a test lists the reasons)."""

    opcode: Opcode
    infer_shape: ShapeRule | None = None
    evaluate: Evaluator | None = None
    output_to_input: OutputToInputRule | None = None
    input_to_output: InputToOutputRule | None = None
