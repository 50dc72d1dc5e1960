"""What a backend says of dynamic shapes: which instructions take them, and what becomes of sizes that may differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from xjit.hlo import HloInstruction
from xjit.hlo import attributes as at
from xjit.hlo.diagnostics import FailedPrecondition
from xjit.passes.expand.writing import Writer

if TYPE_CHECKING:
    from xjit.passes.dynamic.padded_values import PaddedArray, PaddingWriter


class OpDynamismSupport(Enum):
    """Whether a backend runs an instruction on dynamic arrays: never, if it must, or only so."""

    NO_SUPPORT = "no_support"
    OPTIONAL = "optional"
    REQUIRED = "required"


SHAPE_CHECK_MODES = ("ignore", "compile_time", "runtime")
"""What becomes of two sizes of one dimension: nothing, an error unless they are one size, or a check in the program."""

OpSupportsDynamismHandler = Callable[[HloInstruction], OpDynamismSupport]
CustomCallHandler = Callable[[HloInstruction, Sequence["PaddedArray"], "PaddingWriter"], "list[PaddedArray] | None"]
"""(custom call, its operands, writer) -> the arrays of its result; None for one that it does not know."""

AssertionGenerator = Callable[[HloInstruction, Writer], None]
"""(pred[] that must hold, writer): adds what checks it when the program runs."""


def _never(_: HloInstruction) -> OpDynamismSupport:
    return OpDynamismSupport.NO_SUPPORT


@dataclass(frozen=True)
class PaddingOptions:
    """The options of the padder that rules ask for."""

    support: OpSupportsDynamismHandler = _never
    custom_call: CustomCallHandler | None = None
    shape_check_mode: str = "ignore"
    assertion: AssertionGenerator | None = None

    def compare_sizes(self, instruction: HloInstruction, a: HloInstruction, b: HloInstruction, writer: Writer) -> None:
        """Sees to it that two sizes of one dimension agree. FailedPrecondition if that was to be known by now."""
        if self.shape_check_mode == "ignore" or is_same_size(a, b):
            return
        if self.shape_check_mode == "runtime" and self.assertion is not None:
            self.assertion(writer.compare("EQ", a, b), writer)
            return
        raise FailedPrecondition(
            f"dynamic-padder: the sizes of the operands of {instruction.opcode} '{instruction.name}' may differ",
            instruction.span,
        )


def is_same_size(a: HloInstruction, b: HloInstruction) -> bool:
    """Whether two scalars are one by how they are computed."""
    waiting, seen = [(a, b)], set[tuple[HloInstruction, HloInstruction]]()
    while waiting:
        a, b = waiting.pop()
        if a is b or (a, b) in seen:
            continue
        seen.add((a, b))
        alike = a.op is b.op and a.shape == b.shape and a.operand_count == b.operand_count
        if not alike or a.opcode == "parameter" or a.called_computations or a.op.may_have_side_effect:
            return False
        if a.opcode == "constant":
            if _value(a) != _value(b):
                return False
        elif a.attributes != b.attributes or a.operand_count == 0:
            return False
        waiting += zip(a.operands, b.operands, strict=True)
    return True


def _value(constant: HloInstruction) -> bytes:
    return constant.attributes_as(at.ConstantAttributes).literal.digest()
