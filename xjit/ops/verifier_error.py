"""The error of the verifier's rules about instructions."""

from __future__ import annotations

from xjit.hlo.diagnostics import HloVerifyError
from xjit.hlo.ir.instruction import HloInstruction


def wrong(instruction: HloInstruction, message: str) -> HloVerifyError:
    """The error for a rule that an instruction breaks: it names the opcode, and the computation."""
    notes = [f"in computation {instruction.parent.name}"] if instruction.parent is not None else []
    return HloVerifyError(f"{instruction.opcode}: {message}", instruction.span, *notes)
