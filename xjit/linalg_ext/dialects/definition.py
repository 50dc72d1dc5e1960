"""OpDefinition: the row of an operation: its operands and results in groups, its assembly, what holds for it.

A group is written `name`, `name?` (none or one) or `name*` (any number), and may be followed by the rule that gives its
types where the text does not: `index`, `i1`, `=other` (those of another group), `element other`, `boolean other` (i1 in
the shape of the other), `handle`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

from xjit.linalg_ext.ir.attributes import DenseArrayAttr
from xjit.linalg_ext.ir.errors import LinalgVerifyError
from xjit.linalg_ext.ir.operation import Operation, Value
from xjit.linalg_ext.ir.types import DialectType, IndexType, IntegerType, TensorType, Type, VectorType, element_type

if TYPE_CHECKING:
    from xjit.linalg_ext.text.parser import Parser, ParseState
    from xjit.linalg_ext.text.printer import Printer

__all__ = [
    "HANDLE",
    "SEGMENTS",
    "Assembly",
    "CustomAssembly",
    "Group",
    "OpDefinition",
    "group_values",
    "make_rows",
    "result_groups",
    "words",
]

SEGMENTS = "operandSegmentSizes"
"""The attribute with the sizes of the operand groups, of operations with more than one group of variable size."""


class Assembly(Protocol):
    """The custom syntax of an operation, behind its name."""

    def parse(self, p: Parser, state: ParseState) -> None:
        """Parses into `state`."""
        ...

    def print(self, p: Printer, op: Operation) -> None:
        """Prints what `parse` reads."""
        ...


@dataclass(frozen=True)
class CustomAssembly:
    """An assembly by two functions."""

    parser: Callable[[Parser, ParseState], None]
    printer: Callable[[Printer, Operation], None]

    def parse(self, p: Parser, state: ParseState) -> None:
        self.parser(p, state)

    def print(self, p: Printer, op: Operation) -> None:
        self.printer(p, op)


@dataclass(frozen=True)
class Group:
    """Operands or results that stand together. `count` is "", "?" or "*"."""

    name: str
    count: str = ""
    rule: str = ""

    @staticmethod
    def parse(text: str) -> Group:
        """Returns the group of `name* rule`."""
        head, _, rule = text.partition(" ")
        count = head[-1] if head[-1] in "?*" else ""
        return Group(head.removesuffix(count) if count else head, count, rule)

    def fits(self, number: int) -> bool:
        """Whether it may have so many values."""
        return self.count == "*" or number == 1 or (self.count == "?" and number == 0)

    def infer(self, types: dict[str, list[Type]], number: int) -> list[Type] | None:
        """Returns the types that the rule gives, None if there is no rule or what it needs is not known."""
        fixed = _FIXED_TYPES.get(self.rule)
        if fixed is not None:
            return [fixed] * number
        kind, _, other = self.rule.removeprefix("=").rpartition(" ")
        known = types.get(other)
        if not self.rule or not known:
            return [] if self.rule and known is not None and number == 0 else None
        if not kind:
            return list(known) if len(known) == number else [known[0]] * number
        return [_DERIVED_TYPES[kind](known[0])] * number


HANDLE = DialectType("!pdl.operation")
"""The type of a transform script's handles, where the script does not give one."""

_FIXED_TYPES: dict[str, Type] = {
    "index": IndexType(),
    "i1": IntegerType(1),
    "handle": HANDLE,
}


def boolean_like(t: Type) -> Type:
    """Returns i1 in the shape of a type."""
    if isinstance(t, TensorType):
        return TensorType(t.shape, IntegerType(1), t.encoding)
    if isinstance(t, VectorType):
        return VectorType(t.shape, IntegerType(1), t.scalable)
    return IntegerType(1)


_DERIVED_TYPES: dict[str, Callable[[Type], Type]] = {"element": element_type, "boolean": boolean_like}


def _no_more_rules(op: Operation) -> None:
    """The groups say all that must hold."""


@dataclass(frozen=True)
class OpDefinition:
    """One operation.

    `traits`: "pure" (no effects), "recursive" (effects are those of what is inside), "structured" (pure on tensors),
    "terminator", "isolated" (nothing inside uses values from outside), "symbol", "commutative", "allocates" (may go if
    nobody uses it). `result_names`: what the printer calls the results of each group. `argument_names`: what it calls
    block arguments, given the operation and the number of arguments. `default_dialect`: the dialect whose name may be
    left out inside. `normalize`: completes what an older spelling leaves out. `check`: raises LinalgVerifyError for
    what groups do not say.
    """

    name: str
    operands: tuple[Group, ...] = ()
    results: tuple[Group, ...] = ()
    assembly: Assembly | None = None
    traits: frozenset[str] = frozenset()
    result_names: tuple[str, ...] = ()
    argument_names: Callable[[Operation, int], Sequence[str]] | None = None
    default_dialect: str = ""
    normalize: Callable[[Operation], None] = _no_more_rules
    check: Callable[[Operation], None] = _no_more_rules

    @cached_property
    def has_segments(self) -> bool:
        """Whether groups cannot be told apart by the number of operands."""
        return sum(1 for group in self.operands if group.count) > 1

    def split_operands(self, op: Operation) -> list[tuple[Value, ...]]:
        """Returns the operands by group; LinalgVerifyError if they do not fit."""
        sizes = self._sizes(op)
        found: list[tuple[Value, ...]] = []
        start = 0
        for group, size in zip(self.operands, sizes):
            if not group.fits(size):
                raise LinalgVerifyError(f"'{op.name}' op has {size} operands '{group.name}'", op.location)
            found.append(op.operands[start : start + size])
            start += size
        return found

    def _sizes(self, op: Operation) -> list[int]:
        total = len(op.operands)
        if self.has_segments:
            segments = op.attributes.get(SEGMENTS)
            sizes = list(segments.ints) if isinstance(segments, DenseArrayAttr) else []
            if len(sizes) != len(self.operands) or sum(sizes) != total or min(sizes) < 0:
                raise LinalgVerifyError(f"'{op.name}' op has {total} operands, but {SEGMENTS} {segments}", op.location)
            return sizes
        fixed = sum(1 for group in self.operands if not group.count)
        variable = total - fixed
        if variable < 0 or (variable and all(not group.count for group in self.operands)):
            raise LinalgVerifyError(f"'{op.name}' op expected {fixed} operands, found {total}", op.location)
        return [variable if group.count else 1 for group in self.operands]


def group_values(definition: OpDefinition, op: Operation, name: str) -> tuple[Value, ...]:
    """Returns the operands or results of a group."""
    for group, values in zip(definition.operands, definition.split_operands(op)):
        if group.name == name:
            return values
    return result_groups(definition, op)[name]


def result_groups(definition: OpDefinition, op: Operation) -> dict[str, tuple[Value, ...]]:
    """Returns the results by group; at most one group has a variable size."""
    found: dict[str, tuple[Value, ...]] = {}
    start = 0
    fixed = sum(1 for group in definition.results if not group.count)
    for group in definition.results:
        size = len(op.results) - fixed if group.count else 1
        found[group.name] = op.results[start : start + size]
        start += size
    return found


def make_rows(*rows: OpDefinition) -> dict[str, OpDefinition]:
    """Returns the rows by name."""
    return {row.name: row for row in rows}


def words(text: str) -> tuple[str, ...]:
    """Returns the words of a text: a table of names."""
    return tuple(text.split())
