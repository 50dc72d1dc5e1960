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

from xjit.linalg_ext.ir.attributes import Attribute, DenseArrayAttr
from xjit.linalg_ext.ir.errors import LinalgVerifyError
from xjit.linalg_ext.ir.operation import Operation, Value
from xjit.linalg_ext.ir.types import DialectType, IndexType, IntegerType, TensorType, Type, VectorType, element_type

if TYPE_CHECKING:
    from xjit.linalg_ext.text.parser import Parser, ParseState
    from xjit.linalg_ext.text.printer import Printer

__all__ = [
    "DYNAMIC",
    "HANDLE",
    "SEGMENTS",
    "Assembly",
    "CustomAssembly",
    "Group",
    "Need",
    "OpDefinition",
    "group_values",
    "make_rows",
    "result_groups",
    "words",
]

DYNAMIC = -(2**63)
"""Stands in a list of static values where the value is an operand."""

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
class Need:
    """An attribute that the syntax shows, and what it may be; `group`: whose values it says `DYNAMIC` for."""

    name: str
    accepts: Callable[[Attribute], bool]
    optional: bool = False
    group: str = ""


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
    left out inside. `normalize`: completes what an older spelling leaves out. `needs`: the attributes of the syntax.
    `regions`: how many there are at least, with a block each. `check`: raises LinalgVerifyError for what all these do
    not say.
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
    needs: tuple[Need, ...] = ()
    regions: int = 0
    check: Callable[[Operation], None] = _no_more_rules

    @cached_property
    def has_segments(self) -> bool:
        """Whether groups cannot be told apart by the number of operands."""
        return sum(1 for group in self.operands if group.count) > 1

    def verify(self, op: Operation) -> None:
        """Raises LinalgVerifyError unless the operation has what its syntax shows, and passes its check.

        What an operation in the generic form lacks is found here, before anything reads it.
        """
        if len(op.regions) < self.regions or not all(region.blocks for region in op.regions[: self.regions]):
            raise LinalgVerifyError(f"'{op.name}' op expects {self.regions} regions with a body", op.location)
        if self.results and not any(group.count for group in self.results) and len(op.results) != len(self.results):
            expected, found = len(self.results), len(op.results)
            raise LinalgVerifyError(f"'{op.name}' op expected {expected} results, found {found}", op.location)
        groups: dict[str, Sequence[Value]] = {}
        if self.operands:
            groups.update(zip((group.name for group in self.operands), self.split_operands(op)))
        for need in self.needs:
            _verify_need(op, need, groups)
        groups.update(result_groups(self, op))
        self._verify_types(op, groups)
        self.check(op)

    def _verify_types(self, op: Operation, groups: dict[str, Sequence[Value]]) -> None:
        """Types that the syntax leaves out are those that it infers."""
        types = {name: [value.type for value in values] for name, values in groups.items()}
        for group in (*self.operands, *self.results):
            found = types.get(group.name, [])
            expected = group.infer(types, len(found)) if group.rule not in ("", "handle") else None
            if expected is not None and expected != found:
                given, wanted = (", ".join(map(str, each)) for each in (found, expected))
                raise LinalgVerifyError(
                    f"'{op.name}' op expects '{group.name}' of type {wanted}, found {given}", op.location
                )

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
            if segments is None and total == 0:
                return [0] * len(self.operands)
            sizes = list(segments.ints) if isinstance(segments, DenseArrayAttr) else []
            if len(sizes) != len(self.operands) or sum(sizes) != total or min(sizes) < 0:
                raise LinalgVerifyError(f"'{op.name}' op has {total} operands, but {SEGMENTS} {segments}", op.location)
            return sizes
        fixed = sum(1 for group in self.operands if not group.count)
        variable = total - fixed
        if variable < 0 or (variable and all(not group.count for group in self.operands)):
            raise LinalgVerifyError(f"'{op.name}' op expected {fixed} operands, but found {total}", op.location)
        return [variable if group.count else 1 for group in self.operands]


def _verify_need(op: Operation, need: Need, groups: dict[str, Sequence[Value]]) -> None:
    attribute = op.attributes.get(need.name)
    if attribute is None:
        if not need.optional:
            raise LinalgVerifyError(f"'{op.name}' op requires attribute '{need.name}'", op.location)
        return
    if not need.accepts(attribute):
        raise LinalgVerifyError(f"'{op.name}' op has attribute '{need.name}' = {attribute}", op.location)
    if need.group and isinstance(attribute, DenseArrayAttr):
        found, expected = len(groups[need.group]), attribute.ints.count(DYNAMIC)
        if found != expected:
            raise LinalgVerifyError(f"'{op.name}' op has {found} values for {expected} of '{need.name}'", op.location)


def group_values(definition: OpDefinition, op: Operation, name: str) -> tuple[Value, ...]:
    """Returns the operands or results of a group."""
    for group, values in zip(definition.operands, definition.split_operands(op)):
        if group.name == name:
            return values
    return result_groups(definition, op)[name]


def result_groups(definition: OpDefinition, op: Operation) -> dict[str, tuple[Value, ...]]:
    """Returns the results by group; groups of variable size are equally large."""
    found: dict[str, tuple[Value, ...]] = {}
    start = 0
    fixed = sum(1 for group in definition.results if not group.count)
    variable = max(len(definition.results) - fixed, 1)
    for group in definition.results:
        size = (len(op.results) - fixed) // variable if group.count else 1
        found[group.name] = op.results[start : start + size]
        start += size
    return found


def make_rows(*rows: OpDefinition) -> dict[str, OpDefinition]:
    """Returns the rows by name."""
    return {row.name: row for row in rows}


def words(text: str) -> tuple[str, ...]:
    """Returns the words of a text: a table of names."""
    return tuple(text.split())
