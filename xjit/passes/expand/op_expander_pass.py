"""Elementwise opcodes by simpler ones: the plainest use of what all expanders are based on."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction
from xjit.hlo.diagnostics import InvalidArgument
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.framework.expansion import Expansion

Definition = Callable[[HloInstruction, Expansion], HloInstruction | None]


def _negate(instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
    """-x = x * -1; not of complex numbers, where infinities would become NaN."""
    if instruction.shape.element_type.is_complex:
        return None
    return into.like_source("multiply", [instruction.operand(0), into.full(instruction.shape, -1)])


def _subtract(instruction: HloInstruction, into: Expansion) -> HloInstruction:
    """x - y = x + -y."""
    x, y = instruction.operands
    return into.like_source("add", [x, into.make("negate", y)])


def _not(instruction: HloInstruction, into: Expansion) -> HloInstruction:
    """~x = x ^ ~0."""
    ones = into.full(instruction.shape, -1 if instruction.shape.element_type.is_integer else 1)
    return into.like_source("xor", [instruction.operand(0), ones])


DEFINITIONS: Mapping[str, Definition] = {"negate": _negate, "subtract": _subtract, "not": _not}


@dataclass
class OpExpanderPass(OpExpander):
    """Writes one elementwise opcode by its definition in simpler ones; `opcode` says which.

    InvalidArgument for an opcode that has no definition here.
    """

    name = "op-expander-pass"
    opcode: str = "negate"

    def __post_init__(self) -> None:
        if self.opcode not in DEFINITIONS:
            raise InvalidArgument(f"option 'opcode' is one of {', '.join(DEFINITIONS)}, found '{self.opcode}'")
        self.opcodes = frozenset({self.opcode})

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction | None:
        """Returns what the definition says."""
        return DEFINITIONS[self.opcode](instruction, into)
