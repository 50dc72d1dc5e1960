"""Printer: MLIR's custom assembly where an operation has one, the generic form for all others."""

from __future__ import annotations

from collections.abc import Mapping

from xjit.linalg_ext.dialects.definition import OpDefinition, group_values
from xjit.linalg_ext.dialects.registry import definition_of
from xjit.linalg_ext.ir.attributes import AffineMapAttr, AffineSetAttr, Attribute, dictionary_text, quoted
from xjit.linalg_ext.ir.errors import LinalgVerifyError
from xjit.linalg_ext.ir.operation import Block, Operation, Region, Value
from xjit.linalg_ext.ir.types import Alias, FunctionType, Type, no_alias
from xjit.linalg_ext.structured import as_structured
from xjit.linalg_ext.text.names import ValueNames

__all__ = ["Printer", "print_module", "print_operation"]


class Printer:
    """Writes one operation and all inside. Custom printers call the methods that have no underscore.

    `alias` gives the names of attributes that are defined at the top of the text.
    """

    def __init__(self, root: Operation, alias: Alias, generic: bool = False) -> None:
        self._names = ValueNames(root)
        self.alias = alias
        self._generic = generic
        self._out: list[str] = []
        self._indent = 0
        self._default_dialects = ["builtin"]

    def result(self) -> str:
        return "".join(self._out)

    def write(self, text: str) -> None:
        self._out.append(text)

    def value(self, value: Value) -> str:
        """Returns `%name`."""
        return f"%{self._names.values.get(value, '<<unknown>>')}"

    def type(self, type: Type) -> str:
        return type.text(self.alias)

    def attribute(self, attribute: Attribute) -> str:
        return attribute.text(self.alias)

    def dictionary_of(self, attributes: Mapping[str, Attribute]) -> str:
        """Returns `{a = 1, b}`, sorted by name."""
        return dictionary_text(dict(sorted(attributes.items())), self.alias)

    def dictionary(self, op: Operation, hidden: frozenset[str]) -> str:
        """Returns the operation's attributes but for the hidden ones, "" if there are none."""
        shown = {name: value for name, value in op.attributes.items() if name not in hidden}
        return self.dictionary_of(shown) if shown else ""

    def optional_dictionary(self, op: Operation, hidden: frozenset[str] = frozenset()) -> None:
        """Writes ` {a = 1}`, or nothing."""
        text = self.dictionary(op, hidden)
        if text:
            self.write(f" {text}")

    def operand_group(self, op: Operation, name: str) -> tuple[Value, ...]:
        """Returns the operands of a group of the operation's row."""
        definition = definition_of(op.name)
        assert definition is not None
        return group_values(definition, op, name)

    def indented_line(self, text: str) -> None:
        """Begins a line that is indented once more, until `dedent`."""
        self._indent += 1
        self.write(f"\n{'  ' * self._indent}{text}")

    def line(self, text: str) -> None:
        """Begins a line as far in as the operation."""
        self.write(f"\n{'  ' * self._indent}{text}")

    def block(self, block: Block) -> str:
        """Returns `^bb1`."""
        return self._names.blocks[block]

    def dedent(self) -> None:
        self._indent -= 1

    def region(self, region: Region, arguments: bool = True, terminator: bool = True, label: bool = False) -> None:
        """Writes `{ ... }`: with the entry block's arguments, and its last operation, or without.

        `label`: an entry block without operations is named, which tells it from no block.
        """
        self.write("{\n")
        self._indent += 1
        for number, block in enumerate(region.blocks):
            self._block(block, (label and not block.operations) or number > 0, arguments, terminator)
        self._indent -= 1
        self.write(f"{'  ' * self._indent}}}")

    def _block(self, block: Block, label: bool, arguments: bool, terminator: bool) -> None:
        if label or (arguments and block.arguments):
            texts = ", ".join(f"{self.value(a)}: {self.type(a.type)}" for a in block.arguments)
            self.write(f"{'  ' * (self._indent - 1)}{self._names.blocks[block]}{f'({texts})' if texts else ''}:\n")
        for op in block.operations:
            if not terminator and op is block.last and not op.operands and not op.attributes:
                continue
            self.write("  " * self._indent)
            self.operation(op)
            self.write("\n")

    def operation(self, op: Operation) -> None:
        """Writes an operation without a line's end."""
        if op.results:
            groups = self._names.groups[op]
            ends = [*groups[1:], len(op.results)]
            texts: list[str] = []
            for first, end in zip(groups, ends):
                name = self.value(op.results[first]).removesuffix("#0")
                texts.append(f"{name}:{end - first}" if end - first > 1 else name)
            self.write(f"{', '.join(texts)} = ")
        definition = definition_of(op.name)
        if self._generic or definition is None or definition.assembly is None or not _has_form(definition, op):
            self._generic_form(op)
            return
        name = op.name
        prefix = self._default_dialects[-1] + "."
        if name.startswith(prefix) and name.count(".") == 1:
            name = name.removeprefix(prefix)
        self.write(name)
        self._default_dialects.append(definition.default_dialect)
        definition.assembly.print(self, op)
        self._default_dialects.pop()

    def _generic_form(self, op: Operation) -> None:
        self.write(f"{quoted(op.name)}({', '.join(map(self.value, op.operands))})")
        if op.successors:
            self.write(f"[{', '.join(self._names.blocks[b] for b in op.successors)}]")
        if op.regions:
            self.write(" (")
            for number, region in enumerate(op.regions):
                self.write(", " if number else "")
                self.region(region, label=True)
            self.write(")")
        self.optional_dictionary(op)
        self.write(f" : {self.type(FunctionType(tuple(v.type for v in op.operands), op.result_types))}")


def _has_form(definition: OpDefinition, op: Operation) -> bool:
    """Whether the custom syntax can show an operation; one that is not valid may lack what that is made of."""
    try:
        definition.verify(op)
        as_structured(op)  # raises for counts of operands that do not fit
    except LinalgVerifyError:
        return False
    return True


class _Aliases:
    """Gives `#map`, `#map1`, `#set`... to the affine maps and sets that a text shows, in order of appearance."""

    def __init__(self) -> None:
        self.names: dict[Attribute, str] = {}
        self._counts = {"map": 0, "set": 0}

    def __call__(self, attribute: Attribute) -> str | None:
        if attribute not in self.names and isinstance(attribute, AffineMapAttr | AffineSetAttr):
            kind = "map" if isinstance(attribute, AffineMapAttr) else "set"
            self.names[attribute] = f"#{kind}{self._counts[kind] or ''}"
            self._counts[kind] += 1
        return self.names.get(attribute)


def with_bodies(op: Operation) -> Operation:
    """Returns a copy where named structured ops carry their bodies, as MLIR's generic form has them."""
    copy = op.clone()
    for each in copy.walk():
        definition = definition_of(each.name)
        if each.regions or definition is None or not _has_form(definition, each):
            continue
        structured = as_structured(each)
        if structured is not None and structured.row.body is not None and structured.has_all_operands:
            body = structured.body
            assert body.region is not None
            each.add_region(body.region.clone({}))
    return copy


def print_operation(op: Operation, generic: bool = False) -> str:
    """Returns the text of an operation, with maps written out; of a module, with aliases and an end of line."""
    if op.name == "builtin.module" and op.parent_op is None:
        return print_module(op, generic)
    printer = Printer(op, no_alias, generic)
    printer.operation(op)
    return printer.result()


def print_module(module: Operation, generic: bool = False) -> str:
    """Returns the text of a module: definitions of aliases, then the module."""
    module = with_bodies(module) if generic else module
    aliases = _Aliases()
    printer = Printer(module, aliases, generic)
    printer.operation(module)
    lines = [f"{name} = {attribute}\n" for attribute, name in aliases.names.items()]
    return "".join([*lines, printer.result(), "\n"])
