"""Collectives in two halves, between which other work may run."""

from __future__ import annotations

from dataclasses import dataclass

from xjit.hlo import HloComputation, HloInstruction, PrimitiveType, Shape
from xjit.hlo import attributes as at
from xjit.hlo.diagnostics import InvalidArgument
from xjit.passes.expand.op_expander import OpExpander
from xjit.passes.framework.expansion import Expansion

HALVES = frozenset({"all-gather", "all-reduce", "collective-permute"})
"""The collectives with a start and an end of their own; others run in an async-start."""

_OTHERS = frozenset({"all-to-all", "collective-broadcast", "ragged-all-to-all", "reduce-scatter"})


@dataclass
class AsyncCollectiveCreator(OpExpander):
    """Makes a start and its end of each collective of `names`, opcodes with `|` between them.

    InvalidArgument for an opcode that is no collective.
    """

    name = "async-collective-creator"
    names: str = "|".join(sorted(HALVES))

    def __post_init__(self) -> None:
        self.opcodes = frozenset(self.names.split("|"))
        if unknown := sorted(self.opcodes - HALVES - _OTHERS):
            raise InvalidArgument(f"{self.name}: '{unknown[0]}' is no collective that has two halves")

    def expand(self, instruction: HloInstruction, into: Expansion) -> HloInstruction:
        """Returns the end."""
        if instruction.opcode not in HALVES:
            start = into.add(_wrapped(instruction, into))
            return into.add(HloInstruction.create_async_done(instruction.shape, start))
        callees = instruction.called_computations
        shape = _start_shape(instruction)
        opcode, operands = f"{instruction.opcode}-start", instruction.operands
        start = HloInstruction.create(opcode, shape, operands, instruction.attributes, callees)
        start.raw_backend_config = instruction.raw_backend_config
        return into.like_source(f"{instruction.opcode}-done", [into.add(start)])


def _start_shape(collective: HloInstruction) -> Shape:
    if collective.opcode == "all-reduce":
        return collective.shape
    operands = [o.shape for o in collective.operands]
    return Shape.tuple_of([operands[0] if len(operands) == 1 else Shape.tuple_of(operands), collective.shape])


def _wrapped(collective: HloInstruction, into: Expansion) -> HloInstruction:
    """The start of a call of the collective."""
    builder = HloComputation.Builder(f"async_{collective.opcode.replace('-', '_')}")
    shapes = [o.shape for o in collective.operands]
    parameters = [
        builder.add_instruction(HloInstruction.create_parameter(n, s, f"operand{n}")) for n, s in enumerate(shapes)
    ]
    builder.add_instruction(collective.clone_with_new_operands(collective.shape, parameters))
    body = into.embed(builder.build())
    shape = Shape.tuple_of([Shape.tuple_of(shapes), collective.shape, Shape.array(PrimitiveType.U32)])
    return HloInstruction.create("async-start", shape, collective.operands, at.AsyncAttributes(), [body])
