"""What the values of a block became, and where its operations are written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import TypeAlias

from xjit.affine.interval import UNBOUNDED, Interval
from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction
from xjit.linalg_ext.dialects.attribute_kinds import DYNAMIC
from xjit.linalg_ext.ir.attributes import DenseArrayAttr
from xjit.linalg_ext.ir.errors import LinalgError
from xjit.linalg_ext.ir.operation import Block, Operation, Value
from xjit.linalg_ext.to_hlo.writer import FunctionWriter, primitive_type

__all__ = ["Handler", "Lowered", "Program", "Scope", "UnknownSizeError", "captured_values", "is_terminator"]

Lowered: TypeAlias = HloInstruction | int
"""A value in HLO, or an index whose value is known now."""

Handler: TypeAlias = "Callable[[Scope, Operation], Sequence[Lowered]]"
"""Writes an operation and returns its results."""

_STEP_LIMIT = 100_000


class UnknownSizeError(LinalgError):
    """The shape of a tensor depends on a loop: the loop may be unrolled."""


@dataclass(slots=True)
class Program:
    """What is the same for all blocks of a function."""

    functions: Mapping[str, Operation]
    handlers: Mapping[str, Handler]
    steps: int = 0
    calls: int = 0

    def count_step(self, op: Operation) -> None:
        """Raises LinalgError when loops are unrolled to more operations than anybody wants to compile."""
        self.steps += 1
        if self.steps > _STEP_LIMIT:
            raise LinalgError(f"more than {_STEP_LIMIT} operations at '{op.name}': unrolled loops", op.location)


@dataclass(slots=True)
class Scope:
    """`values` are those known so far, of the blocks around, too; `ranges` bounds those that are no numbers yet."""

    program: Program
    writer: FunctionWriter
    values: dict[Value, Lowered] = field(default_factory=dict[Value, Lowered])
    ranges: dict[Value, Interval] = field(default_factory=dict[Value, Interval])
    loop_indices: Sequence[HloInstruction] = ()
    """The loop variables of the structured op whose body is written."""

    def array(self, value: Value) -> HloInstruction:
        """Returns a value as an instruction."""
        return self.materialized(self.values[value], value)

    def materialized(self, lowered: Lowered, value: Value) -> HloInstruction:
        """Returns a number as a constant of the type of `value`."""
        if isinstance(lowered, HloInstruction):
            return lowered
        return self.writer.constant(lowered, primitive_type(value.type))

    def range_of(self, value: Value) -> Interval:
        """Returns what is known of an index."""
        lowered = self.values[value]
        return Interval.point(lowered) if isinstance(lowered, int) else self.ranges.get(value, UNBOUNDED)

    def known(self, value: Value, op: Operation) -> int:
        """Returns an index as a number; UnknownSizeError at `op` if it is computed at run time."""
        return self.number(self.values[value], op)

    def number(self, lowered: Lowered, op: Operation) -> int:
        if isinstance(lowered, int):
            return lowered
        raise UnknownSizeError(f"cannot compile '{op.name}': a size is known at run time only", op.location)

    def mixed(self, op: Operation, attribute: str, rest: list[Value]) -> list[Lowered]:
        """Returns a list of indices whose dynamic entries are taken from the front of `rest`."""
        static = op.attributes[attribute]
        assert isinstance(static, DenseArrayAttr)
        return [self.values[rest.pop(0)] if n == DYNAMIC else n for n in static.ints]

    def run(self, block: Block, arguments: Iterable[Lowered]) -> list[Lowered]:
        """Writes a block and returns the operands of its terminator."""
        self.values.update(zip(block.arguments, arguments))
        for op in block.operations:
            if is_terminator(op):
                return [self.values[v] for v in op.operands]
            self.program.count_step(op)
            handler = self.program.handlers.get(op.name)
            if handler is None:
                raise LinalgError(f"cannot compile '{op.name}'", op.location)
            self.values.update(zip(op.results, handler(self, op), strict=True))
        return []

    def inner(self, name: str) -> Scope:
        """Returns the scope of another computation, which knows the numbers of this one."""
        numbers = {value: lowered for value, lowered in self.values.items() if isinstance(lowered, int)}
        return Scope(self.program, self.writer.inner(name), dict[Value, Lowered](numbers), dict(self.ranges))


def is_terminator(op: Operation) -> bool:
    return op.name.endswith((".yield", ".return", ".in_parallel"))


def captured_values(op: Operation, scope: Scope) -> list[Value]:
    """Returns the values from outside that the regions of an operation use and that are instructions."""
    inside = {id(inner) for inner in op.walk()} - {id(op)}
    found: dict[Value, None] = {}
    for inner in op.walk():
        if id(inner) in inside:
            found.update(dict.fromkeys(v for v in inner.operands if isinstance(scope.values.get(v), HloInstruction)))
    return [value for value in found if value.parent_block is None or not _within(value, op)]


def _within(value: Value, op: Operation) -> bool:
    block = value.parent_block
    owner = None if block is None else block.parent_op
    return owner is not None and op.is_ancestor_of(owner)
