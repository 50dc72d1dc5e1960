"""Formats: the syntax of an operation as a line of text that both the parser and the printer follow.

`%x` is the operands of a group, `type(x)` the types of a group, `attrs` the dictionary of attributes that are shown
nowhere else, `functional` the types of all operands and results as a function type, `handles` the same for handles of
a script, which may be left out, `kind(x)` an attribute (the kinds are rows of a table), `region` a region, `~` leaves
out the space, `_` keeps the one that brackets have not, `{ ... }?x` is a part that is there if x is: a group that is
not empty, or an attribute. A part begins with a word, a mark, operands or an attribute that tells whether it is
there. All else stands for itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from xjit.linalg_ext.dialects.attribute_kinds import ATTRIBUTE_KINDS, AttributeKind, needs_of
from xjit.linalg_ext.dialects.definition import (
    HANDLE,
    SEGMENTS,
    Group,
    Need,
    OpDefinition,
    group_values,
    result_groups,
)
from xjit.linalg_ext.ir.attributes import DenseArrayAttr
from xjit.linalg_ext.ir.operation import Operation
from xjit.linalg_ext.ir.types import FunctionType, Type

if TYPE_CHECKING:
    from xjit.linalg_ext.text.parser import Parser, ParseState
    from xjit.linalg_ext.text.printer import Printer

__all__ = ["FormatAssembly", "op"]

_ATTACHED = (",", ")", "]", ">", "(", "[", "<")
_OPENING = ("(", "[", "<")


@dataclass(frozen=True)
class Literal:
    """A word or punctuation mark; `attached`: no space before it."""

    text: str
    attached: bool = False


@dataclass(frozen=True)
class NoSpace:
    """Nothing, but what follows stands right behind what went before."""


@dataclass(frozen=True)
class Operands:
    """The operands of a group."""

    group: str


@dataclass(frozen=True)
class Types:
    """The types of groups, one list."""

    groups: tuple[str, ...]


@dataclass(frozen=True)
class AttributePart:
    """An attribute, or an index list with its operands."""

    kind: AttributeKind
    names: tuple[str, ...]


@dataclass(frozen=True)
class Special:
    """`attrs`, `functional` or `region`."""

    what: str


@dataclass(frozen=True)
class Optional:
    """Elements that are there if the anchor is."""

    elements: tuple[Element, ...]
    anchor: str


Element = Literal | NoSpace | Operands | Types | AttributePart | Special | Optional

_SPECIAL = ("attrs", "functional", "handles", "region")
_CALL = re.compile(r"([a-z_]\w*)\(([\w, ]*)\)\Z")
_TOKENS = re.compile(r"[a-z_]\w*\([\w, ]+\)|\}\?\w+|%\w+|\w+:|[\w.]+|->|\S")


_CLOSED = (Literal(")", attached=True), Literal("]", attached=True))


def _elements(tokens: list[str]) -> tuple[Element, ...]:
    """Compiles tokens up to the end or a closing `}?x`, which is left."""
    found: list[Element] = []
    spaced = False
    while tokens and not tokens[-1].startswith("}?"):
        token = tokens.pop()
        if token == "_":
            spaced = True
            continue
        call = _CALL.match(token)
        if token == "{":
            inner = _elements(tokens)
            found.append(Optional(inner, tokens.pop()[2:]))
        elif token == "~":
            found.append(NoSpace())
        elif token.startswith("%"):
            found.append(Operands(token[1:]))
        elif call and call.group(1) == "type":
            found.append(Types(tuple(call.group(2).replace(",", " ").split())))
        elif call:
            found.append(AttributePart(ATTRIBUTE_KINDS[call.group(1)], tuple(call.group(2).replace(",", " ").split())))
        elif token.endswith(":") and len(token) > 1:
            found += [Literal(token[:-1]), Literal(":", attached=True)]
        else:
            behind_closed = token in _OPENING and found and found[-1] in _CLOSED
            attached = token in _ATTACHED and not spaced and not behind_closed
            found.append(Special(token) if token in _SPECIAL else Literal(token, attached))
        spaced = False
    return tuple(found)


@cache
def compile_format(text: str) -> tuple[Element, ...]:
    """Returns the elements of a format."""
    tokens = _TOKENS.findall(text)
    tokens.reverse()
    return _elements(tokens)


def _shown(elements: Sequence[Element]) -> set[str]:
    """Returns the names of attributes that the elements show."""
    found: set[str] = set()
    for element in elements:
        if isinstance(element, AttributePart):
            found.update(element.names)
        elif isinstance(element, Optional):
            found |= _shown(element.elements)
    return found


def _needs(elements: Sequence[Element], optional: bool = False) -> list[Need]:
    """Returns what a format shows of attributes."""
    found: list[Need] = []
    for element in elements:
        if isinstance(element, AttributePart):
            found.append(element.kind.need(element.names, optional))
        elif isinstance(element, Optional):
            found += _needs(element.elements, True)
    return found


class FormatAssembly:
    """An assembly that follows a format. The definition is set when the row is made."""

    def __init__(self, text: str) -> None:
        self.elements = compile_format(text)
        self.hidden = frozenset(_shown(self.elements) | {SEGMENTS})
        self.definition = OpDefinition("")

    # Parsing

    def parse(self, p: Parser, state: ParseState) -> None:
        self._parse(p, state, self.elements)
        self._finish(p, state)

    def _parse(self, p: Parser, state: ParseState, elements: Sequence[Element]) -> None:
        for element in elements:
            if isinstance(element, Literal):
                p.expect(element.text)
            elif isinstance(element, Operands):
                self._parse_operands(p, state, element.group)
            elif isinstance(element, Types):
                self._parse_types(p, state, element.groups)
            elif isinstance(element, AttributePart):
                element.kind.parse(p, state, element.names)
            elif isinstance(element, Optional):
                if self._begins(p, element.elements):
                    self._parse(p, state, element.elements)
            elif isinstance(element, Special):
                self._parse_special(p, state, element.what)

    def _begins(self, p: Parser, elements: Sequence[Element]) -> bool:
        """Whether the text goes on with a part: its first literal, or two, or an operand on the same line."""
        first = elements[0]
        if isinstance(first, Literal):
            second = elements[1] if len(elements) > 1 else None
            return p.at(first.text) and (not isinstance(second, Literal) or p.peek() == second.text)
        if isinstance(first, AttributePart):
            return first.kind.begins(p)
        return p.token.kind == "value" and p.on_same_line()

    def _parse_operands(self, p: Parser, state: ParseState, name: str) -> None:
        group = self._group(name)
        found = state.operand_groups.setdefault(name, [])
        if not group.count or p.token.kind == "value":
            found.append(p.operand())
        while group.count == "*" and found and p.accept(","):
            found.append(p.operand())

    def _parse_types(self, p: Parser, state: ParseState, names: tuple[str, ...]) -> None:
        for i, name in enumerate(names):
            if i:
                p.expect(",")
            many = self._group(name).count == "*"
            state.type_groups[name] = p.type_list() if many else [p.type()]

    def _parse_special(self, p: Parser, state: ParseState, what: str) -> None:
        if what == "attrs":
            state.attributes.update(p.optional_dictionary())
        elif what == "region":
            state.regions.append(p.region())
        elif what == "handles" and not p.accept(":"):
            named_by_row = sum(1 for group in self.definition.results if not group.count)
            state.result_types = [HANDLE] * max(state.num_results, named_by_row)
        elif what == "handles" and not p.at("("):
            types = p.type_list()
            given = state.num_results or any(not group.count for group in self.definition.results)
            state.result_types = types if given else []  # else those of the operands
        else:
            place = p.here()
            function = p.function_type()
            operands = [u for group in self.definition.operands for u in state.operand_groups.get(group.name, [])]
            if len(operands) != len(function.inputs):
                p.fail(f"expected {len(operands)} types of operands, found {len(function.inputs)}", place)
            inputs = list(function.inputs)
            for group in self.definition.operands:
                count = len(state.operand_groups.get(group.name, []))
                state.type_groups[group.name] = inputs[:count]
                del inputs[:count]
            state.result_types = list(function.results)

    def _group(self, name: str) -> Group:
        for group in (*self.definition.operands, *self.definition.results):
            if group.name == name:
                return group
        raise AssertionError(f"{self.definition.name} has no group {name}")

    def _finish(self, p: Parser, state: ParseState) -> None:
        """Resolves operands with their types, given or inferred, and infers result types."""
        definition = self.definition
        sizes: list[int] = []
        for group in definition.operands:
            unresolved = state.operand_groups.get(group.name, [])
            sizes.append(len(unresolved))
            if not group.fits(len(unresolved)):
                p.fail(f"'{definition.name}' op has {len(unresolved)} operands '{group.name}'", state.span)
        for group in definition.operands:
            unresolved = state.operand_groups.get(group.name, [])
            types = state.type_groups.get(group.name)
            if types is None and group.rule:
                types = group.infer(state.type_groups, len(unresolved))
            if types is not None and len(types) != len(unresolved):
                p.fail(f"expected {len(unresolved)} types of '{group.name}', found {len(types)}", state.span)
            values = [p.resolve(u, None if types is None else types[i]) for i, u in enumerate(unresolved)]
            state.type_groups[group.name] = [value.type for value in values]
            state.operands.extend(values)
        if definition.has_segments:
            state.attributes[SEGMENTS] = DenseArrayAttr.i32(sizes)
        if not state.result_types:
            state.result_types = self._result_types(p, state)

    def _result_types(self, p: Parser, state: ParseState) -> list[Type]:
        found: list[Type] = []
        for group in self.definition.results:
            types = state.type_groups.get(group.name)
            if types is None:
                types = [] if group.count else group.infer(state.type_groups, 1)
            if types is None:
                p.fail(f"cannot infer the type of result '{group.name}'", state.span)
            found.extend(types)
        return found

    # Printing

    def print(self, p: Printer, op: Operation) -> None:
        self._print(p, op, self.elements, " ")

    def _print(self, p: Printer, op: Operation, elements: Sequence[Element], space: str) -> str:
        """Prints elements; `space` goes before the next one. Returns what goes before the one that follows."""
        for element in elements:
            if isinstance(element, Optional):
                if self._present(op, element.anchor):
                    space = self._print(p, op, element.elements, space)
                continue
            if isinstance(element, NoSpace):
                space = ""
                continue
            text = self._text(p, op, element)
            if text is None:  # it has printed itself
                space = " "
            elif text:
                p.write(("" if isinstance(element, Literal) and element.attached else space) + text)
                space = "" if text in _OPENING else " "
        return space

    def _handles_text(self, p: Printer, op: Operation) -> str:
        operands = tuple(v.type for v in op.operands)
        if not op.results:
            return f": {', '.join(map(p.type, operands))}" if operands else ""
        return (
            "" if {*operands, *op.result_types} == {HANDLE} else f": {p.type(FunctionType(operands, op.result_types))}"
        )

    def _present(self, op: Operation, anchor: str) -> bool:
        if any(group.name == anchor for group in (*self.definition.operands, *self.definition.results)):
            return bool(group_values(self.definition, op, anchor))
        return anchor in op.attributes

    def _text(self, p: Printer, op: Operation, element: Element) -> str | None:
        if isinstance(element, Literal):
            return element.text
        if isinstance(element, Operands):
            return ", ".join(p.value(v) for v in group_values(self.definition, op, element.group))
        if isinstance(element, Types):
            results = result_groups(self.definition, op)
            values = [
                v
                for g in element.groups
                for v in (results[g] if g in results else group_values(self.definition, op, g))
            ]
            return ", ".join(p.type(v.type) for v in values)
        if isinstance(element, AttributePart):
            return element.kind.text(p, op, element.names)
        assert isinstance(element, Special)
        if element.what == "handles":
            return self._handles_text(p, op)
        if element.what == "functional":
            return p.type(FunctionType(tuple(v.type for v in op.operands), op.result_types))
        if element.what == "attrs":
            return p.dictionary(op, self.hidden)
        p.write(" ")
        p.region(op.regions[0])
        return None


def op(name: str, operands: str = "", results: str = "", format: str = "", **row: object) -> OpDefinition:
    """Returns the row of an operation; groups are separated by semicolons.

    `needs` lists the attributes of an assembly that is no format, as a format would: `i64(dimension) map(permutation)`.
    """
    assembly = FormatAssembly(format) if format or "assembly" not in row else None
    needs = row.pop("needs", "")
    assert isinstance(needs, str)
    row["needs"] = needs_of(needs)
    groups = [tuple(Group.parse(t.strip()) for t in text.split(";") if t.strip()) for text in (operands, results)]
    if assembly is not None:
        row["assembly"] = assembly
        row["needs"] = (*needs_of(needs), *_needs(assembly.elements))
        row.setdefault("regions", sum(e == Special("region") for e in assembly.elements))
    traits = row.pop("traits", "")
    assert isinstance(traits, str)
    definition = OpDefinition(name, groups[0], groups[1], traits=frozenset(traits.split()), **row)  # pyright: ignore[reportArgumentType]
    if assembly is not None:
        assembly.definition = definition
    return definition
