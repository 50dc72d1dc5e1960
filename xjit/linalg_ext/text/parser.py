"""Parser of operations: MLIR's generic form for all of them, the custom form of those that have a row."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import field
from typing import TypeVar

from xjit.affine import IndexingBudgetError
from xjit.dataclass import dataclass
from xjit.hlo.diagnostics import Span, did_you_mean
from xjit.linalg_ext.dialects.registry import definition_of, known_names
from xjit.linalg_ext.ir.attributes import Attribute
from xjit.linalg_ext.ir.operation import Block, Operation, Region, Value
from xjit.linalg_ext.ir.types import FunctionType, Type
from xjit.linalg_ext.text.attribute_parser import AttributeParser

__all__ = ["ParseState", "Parser", "Unresolved", "parse_module"]

T = TypeVar("T")


@dataclass(frozen=True)
class Unresolved:
    """An operand as it is written: `%name#number`."""

    name: str
    number: int
    span: Span


@dataclass
class ParseState:
    """What is known of an operation while it is parsed. Formats fill the groups, custom parsers the lists."""

    name: str
    span: Span
    num_results: int
    operand_groups: dict[str, list[Unresolved]] = field(default_factory=dict)
    type_groups: dict[str, list[Type]] = field(default_factory=dict)
    operands: list[Value] = field(default_factory=list)
    result_types: list[Type] = field(default_factory=list)
    attributes: dict[str, Attribute] = field(default_factory=dict)
    regions: list[Region] = field(default_factory=list)
    successors: list[Block] = field(default_factory=list)


class ForwardReference(Value):
    """A value that is used before the text defines it."""

    __slots__ = ("span",)

    def __init__(self, type: Type, span: Span) -> None:
        super().__init__(type)
        self.span = span


class Scope:
    """Names of values. What is defined in a region ends with it; an isolated region does not see what is outside."""

    def __init__(self, parent: Scope | None) -> None:
        self.parent = parent
        self.values: dict[str, list[Value]] = {}
        self.forward: dict[tuple[str, int], ForwardReference] = {}

    def find(self, name: str) -> list[Value] | None:
        scope: Scope | None = self
        while scope is not None:
            found = scope.values.get(name)
            if found is not None:
                return found
            scope = scope.parent
        return None


class Parser(AttributeParser):
    """One text. Custom parsers call the methods that have no underscore."""

    def __init__(self, text: str, file: str = "<string>", first_line: int = 1, unregistered: bool = True) -> None:
        super().__init__(text, file, first_line)
        self._scope = Scope(None)
        self._blocks: list[dict[str, Block]] = []
        self._default_dialects = ["builtin"]
        self._unregistered = unregistered

    # Values

    def operand(self) -> Unresolved:
        """Parses `%x` or `%x#1`."""
        span = self.here()
        name = self.expect_kind("value", "an SSA value").text
        number = 0
        if self.token.kind == "hash" and self.token.text[1:].isdigit() and len(self.token.text) < 8:
            number = int(self.next().text[1:])
        return Unresolved(name, number, span)

    def operand_at(self, written: str, span: Span) -> Unresolved:
        """Returns the operand of a text that has been read otherwise."""
        name, _, number = written.partition("#")
        return Unresolved(name, int(number or 0), span)

    def operand_list(self, opening: str = "(", closing: str = ")") -> list[Unresolved]:
        return self.comma_list(opening, closing, self.operand)

    def resolve(self, unresolved: Unresolved, type: Type | None) -> Value:
        """Returns the value; it has to have `type`, if that is given."""
        found = self._scope.find(unresolved.name)
        if found is None:
            return self._forward(unresolved, type)
        if unresolved.number >= len(found):
            self.fail(f"{unresolved.name} has {len(found)} results, there is no #{unresolved.number}", unresolved.span)
        value = found[unresolved.number]
        if type is not None and value.type != type:
            self.fail(f"'{unresolved.name}' has type {value.type}, and is used as {type}", unresolved.span)
        return value

    def resolve_all(self, unresolved: Sequence[Unresolved], types: Sequence[Type] | None) -> list[Value]:
        """Resolves a list of operands with as many types."""
        if types is not None and len(types) != len(unresolved):
            self.fail(f"expected {len(unresolved)} types, found {len(types)}")
        return [self.resolve(u, None if types is None else types[i]) for i, u in enumerate(unresolved)]

    def _forward(self, unresolved: Unresolved, type: Type | None) -> Value:
        key = (unresolved.name, unresolved.number)
        scope: Scope | None = self._scope
        while scope is not None:
            if key in scope.forward:
                return scope.forward[key]
            scope = scope.parent
        if type is None:
            self.fail(f"use of undefined value '{unresolved.name}'", unresolved.span)
        value = self._scope.forward[key] = ForwardReference(type, unresolved.span)
        return value

    def define(self, name: str, values: Sequence[Value], span: Span) -> None:
        """Gives values a name in the current scope."""
        if self._scope.find(name) is not None:
            self.fail(f"redefinition of '{name}'", span)
        self._scope.values[name] = list(values)
        for key in [k for k in self._scope.forward if k[0] == name]:
            reference = self._scope.forward.pop(key)
            if key[1] >= len(values) or values[key[1]].type != reference.type:
                self.fail(f"'{name}' is used as {reference.type} before it is defined otherwise", reference.span)
            reference.replace_all_uses_with(values[key[1]])

    @contextmanager
    def _scoped(self, isolated: bool) -> Generator[None]:
        outer = self._scope
        self._scope = Scope(None if isolated else outer)
        yield
        for (name, number), reference in self._scope.forward.items():
            if isolated:
                self.fail(f"use of undefined value '{name}'", reference.span)
            outer.forward.setdefault((name, number), reference)
            if outer.forward[name, number] is not reference:
                reference.replace_all_uses_with(outer.forward[name, number])
        self._scope = outer

    # Regions

    def region(self, arguments: Sequence[tuple[str, Type, Span]] = (), isolated: bool = False) -> Region:
        """Parses `{ ... }`; `arguments` are those of the entry block, where the operation's syntax names them."""
        region = Region()
        with self.nested(), self._scoped(isolated):
            self.expect("{")
            self._blocks.append({})
            if arguments and self.token.kind == "label":
                self.fail("the first block has named arguments already: it takes no label")
            if arguments or not (self.token.kind == "label" or self.at("}")):
                entry = region.add_block(Block())
                for name, type, span in arguments:
                    self.define(name, [entry.add_argument(type)], span)
                self._operations(entry)
            while self.token.kind == "label":
                self._labelled_block(region)
            for name, block in self._blocks.pop().items():
                if block.region is None:
                    self.fail(f"block '{name}' is not defined")
            self.expect("}")
        return region

    def _labelled_block(self, region: Region) -> None:
        span = self.here()
        name = self.next().text
        block = self._blocks[-1].setdefault(name, Block())
        if block.region is not None:
            self.fail(f"block '{name}' is defined twice", span)
        block.name = name
        region.add_block(block)
        if self.at("("):
            for argument, type, place in self.comma_list("(", ")", self.typed_argument):
                self.define(argument, [block.add_argument(type)], place)
        self.expect(":")
        self._operations(block)

    def successor(self) -> Block:
        """Parses `^bb1`."""
        name = self.expect_kind("label", "a block").text
        if not self._blocks:
            self.fail("there are no blocks here")
        return self._blocks[-1].setdefault(name, Block())

    def typed_argument(self) -> tuple[str, Type, Span]:
        """Parses `%x: f32`."""
        span = self.here()
        name = self.expect_kind("value", "a block argument").text
        self.expect(":")
        type = self.type()
        if self.at("loc"):
            self.attribute()
        return name, type, span

    def _operations(self, block: Block) -> None:
        while not (self.at("}") or self.token.kind in ("label", "end")):
            block.append(self.operation())

    # Operations

    def operation(self) -> Operation:
        """Parses one operation with its results."""
        names: list[tuple[str, int, Span]] = []
        if self.token.kind == "value":
            names = [self._result_name()]
            while self.accept(","):
                names.append(self._result_name())
            self.expect("=")
        span = self.here()
        total = sum(count for _, count, _ in names)
        state = ParseState("", span, total)
        if self.token.kind == "string":
            self._generic(state)
        else:
            self._custom(state)
        op = Operation(
            state.name, state.operands, state.result_types, state.attributes, state.regions, span, state.successors
        )
        definition = definition_of(op.name)
        if definition is not None:
            definition.normalize(op)
        if self.at("loc"):
            self.attribute()
        if names and len(op.results) != total:
            self.fail(f"'{op.name}' has {len(op.results)} results, but {total} names", span)
        start = 0
        for name, count, place in names:
            self.define(name, op.results[start : start + count], place)
            start += count
        return op

    def _result_name(self) -> tuple[str, int, Span]:
        span = self.here()
        name = self.expect_kind("value", "a result").text
        count = 1
        if self.accept(":"):
            count = self.integer()
            if not 1 <= count <= 1 << 16:
                self.fail(f"expected a number of results, found {count}", span)
        return name, count, span

    def _generic(self, state: ParseState) -> None:
        """Parses `"dialect.op"(%a)[^bb1] <{...}> ({...}) {...} : (f32) -> f32`."""
        state.name = self.string()
        definition = definition_of(state.name)
        if definition is None and not self._unregistered:
            self.fail(
                f"operation '{state.name}' is unregistered; --allow-unregistered-dialect lets it pass", state.span
            )
        unresolved = self.operand_list()
        if self.at("["):
            state.successors = self.comma_list("[", "]", self.successor)
        if self.accept("<"):
            state.attributes.update(self.attribute_dictionary())
            self.expect(">")
        if self.at("("):
            isolated = definition is not None and "isolated" in definition.traits
            with self._inside(definition.default_dialect if definition else ""):
                state.regions = self.comma_list("(", ")", lambda: self.region(isolated=isolated))
        state.attributes.update(self.optional_dictionary())
        self.expect(":")
        place = self.here()
        function: FunctionType = self.function_type()
        if len(function.inputs) != len(unresolved):
            self.fail(f"expected {len(unresolved)} types of operands, found {len(function.inputs)}", place)
        state.operands = self.resolve_all(unresolved, function.inputs)
        state.result_types = list(function.results)

    def _custom(self, state: ParseState) -> None:
        written = self.keyword("an operation")
        candidates = [written, *(f"{d}.{written}" for d in (self._default_dialects[-1], "func", "builtin"))]
        found = next((name for name in candidates if definition_of(name) is not None), None)
        definition = definition_of(found) if found else None
        if found is None or definition is None:
            self.fail(f"unknown operation '{written}'{did_you_mean(written, known_names())}", state.span)
        if definition.assembly is None:
            self.fail(f"'{found}' has no custom form: write it in the generic form", state.span)
        state.name = found
        try:
            with self._inside(definition.default_dialect):
                definition.assembly.parse(self, state)
        except IndexingBudgetError as error:
            self.fail(f"'{found}' op: {error}", state.span)

    @contextmanager
    def _inside(self, dialect: str) -> Generator[None]:
        self._default_dialects.append(dialect or self._default_dialects[-1])
        yield
        self._default_dialects.pop()

    # The file

    def module(self) -> Operation:
        """Parses the whole text; returns its one module, or a new one around its operations."""
        body = Block()
        while self.token.kind != "end":
            if self.at("{-#"):
                self.seek(self._resources_end())
            elif self.token.kind == "hash":
                self._alias(self.attribute_aliases, self.attribute)
            elif self.token.kind == "bang":
                self._alias(self.type_aliases, self.type)
            else:
                body.append(self.operation())
        for (name, _), reference in self._scope.forward.items():
            self.fail(f"use of undefined value '{name}'", reference.span)
        only = body.first
        if only is not None and len(body.operations) == 1 and only.name == "builtin.module":
            only.remove()
            return only
        return Operation("builtin.module", regions=[Region([body])], location=self.span(0))

    def _alias(self, table: dict[str, T], parse: Callable[[], T]) -> None:
        """Parses `#map = affine_map<...>` or `!t = tensor<4xf32>`."""
        name = self.next().text[1:]
        self.expect("=")
        table[name] = parse()

    def _resources_end(self) -> int:
        end = self.text.find("#-}", self.token.start)
        if end < 0:
            self.fail("expected '#-}' before the end of the text")
        return end + 3


def parse_module(text: str, file: str = "<string>", first_line: int = 1, unregistered: bool = True) -> Operation:
    """Returns the module in `text`; LinalgParseError with line and column if it is not MLIR.

    `first_line` is the number of the text's first line; `unregistered` lets operations without a row pass, in generic
    form.
    """
    return Parser(text, file, first_line, unregistered).module()
