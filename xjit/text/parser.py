"""`parse_hlo`: HLO text -> HloModule. The structure above instructions: header, tables, computations.

Whatever the text, the result is a module or an HloParseError with line, column and caret. Parsing is not verifying:
shapes are taken as written.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import TypeVar

from xjit.collector_pause import collector_pause
from xjit.hlo import attributes as at
from xjit.hlo.annotations.alias_config import parse_aliases, parse_buffer_donors
from xjit.hlo.annotations.metadata import FileLocation, StackFrame, StackFrameIndex
from xjit.hlo.attributes.codecs.annotations import parse_frontend_attributes
from xjit.hlo.attributes.codecs.scalars import parse_bool, parse_int
from xjit.hlo.attributes.codecs.shapes import parse_program_shape
from xjit.hlo.attributes.codecs.value_text import inside, split_list, unquote
from xjit.hlo.diagnostics import ElidedConstantWarning, InvalidArgument
from xjit.hlo.ir.computation import HloComputation
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.ir.module import ComputationLayout, HloModule
from xjit.hlo.ir.schedule import HloSchedule
from xjit.hlo.types.shape import Shape
from xjit.text.computation_table import ComputationTable
from xjit.text.cursor import Cursor, did_you_mean
from xjit.text.instruction_parser import InstructionParser
from xjit.text.lexer import END, TokenStream

T = TypeVar("T")
_TABLES = ("FileNames", "FunctionNames", "FileLocations", "StackFrames")


def parse_hlo(text: str, file: str = "<string>", *, allow_elided_constants: bool = False) -> HloModule:
    """Returns the module of an HLO text; HloParseError if it is malformed, InvalidArgument if it is no string.

    Elided constants (`{...}`) are zeros, for want of their values: an ElidedConstantWarning, unless they are allowed.
    """
    if not isinstance(text, str):
        raise InvalidArgument(f"expected HLO text, found {type(text).__name__}")
    if _PATH.fullmatch(text):
        raise InvalidArgument(f"{text!r} is a path, expected HLO text: xjit.load_module(path) reads a file")
    with collector_pause:
        parser = _ModuleParser(TokenStream(text, file))
        module = parser.parse()
    elided = parser.instructions.elided_constants
    if elided and not allow_elided_constants:
        span = parser.cursor.stream.span(elided[0])
        message = "constants are elided, '{...}' stands for their values: they are zeros here"
        warnings.warn(f"{span.file}:{span.line}:{span.column}: {message}", ElidedConstantWarning, stacklevel=2)
    return module


_PATH = re.compile(r"[^\s{}()=,]+\.(hlo|txt|pb|mlir)")


HEADER_ATTRIBUTES = frozenset({
    "alias_passthrough_params", "allow_spmd_sharding_propagation_to_output",
    "allow_spmd_sharding_propagation_to_parameters", "buffer_donor", "cross_program_prefetches",
    "dynamic_parameter_binding", "entry_computation_layout", "frontend_attributes", "input_output_alias",
    "is_scheduled", "num_partitions", "origin_recovery_table", "replica_count", "spmd_output_sharding",
    "spmd_parameters_shardings",
})  # fmt: skip
"""The attributes of a module: XLA's, and those that XLA keeps in protos only."""


class _ModuleParser:
    def __init__(self, stream: TokenStream) -> None:
        self.cursor = Cursor(stream)
        self.computations = ComputationTable(self.cursor)
        self.instructions = InstructionParser(self.cursor, self.computations, self._instruction_list)
        self.entry: HloComputation | None = None

    def parse(self) -> HloModule:
        tokens = self.cursor.tokens
        module = HloModule("module")
        index = 0
        has_header = tokens[0] == "HloModule"
        if has_header:
            index = self._header(module, 1)
        if tokens[index] == "FileNames":
            index = self._stack_frame_index(module, index)
        if tokens[index] == END:
            self.cursor.fail("expected a computation, found the end of the text", index)
        if tokens[index + 1] == "=" or (tokens[index] == "ROOT" and tokens[index + 2] == "="):
            self._bare_instructions(index)
        else:
            while tokens[index] != END:
                index = self._computation(index)
        self.computations.check_complete()
        self._fill(module)
        if not has_header:
            module.name = f"module_{module.entry_computation.name}"
        return module

    def _fill(self, module: HloModule) -> None:
        order = self.computations.in_order
        entry = self.entry or order[-1]
        for computation in order:
            if computation is entry:
                module.add_entry_computation(computation)
            else:
                module.add_embedded_computation(computation)
        if module.config.header_attributes.get("is_scheduled") == "true":
            module.keep_schedule(HloSchedule.from_instruction_order(module))

    # -- header

    def _header(self, module: HloModule, index: int) -> int:
        cursor, tokens = self.cursor, self.cursor.tokens
        module.name = cursor.name(index, "the module's name")
        index += 2 if tokens[index + 1] == ":" else 1  # older texts have a colon behind the name
        given = set[str]()
        while tokens[index] == ",":
            key = cursor.name(index + 1, "a module attribute")
            start = cursor.assigned(index + 2, f"after the module attribute '{key}'")
            if key in given:
                cursor.fail(f"module attribute '{key}' is given twice", start - 2)
            given.add(key)
            text, index = cursor.value(start)
            self._header_attribute(module, key, text, start)
        return index

    def _header_attribute(self, module: HloModule, key: str, text: str, start: int) -> None:
        cursor, config = self.cursor, module.config
        if key == "entry_computation_layout":
            parameters, result = cursor.decode(parse_program_shape, text, start)
            config.entry_computation_layout = ComputationLayout(parameters, result)
        elif key in ("replica_count", "num_partitions"):
            setattr(config, key, cursor.decode(parse_int, text, start))
        elif key == "alias_passthrough_params":
            config.alias_passthrough_params = cursor.decode(parse_bool, text, start)
        elif key == "input_output_alias":
            config.input_output_alias = self._decode_aliasing(parse_aliases, text, start)
        elif key == "buffer_donor":
            config.buffer_donors = self._decode_aliasing(parse_buffer_donors, text, start)
        elif key == "frontend_attributes":
            module.frontend_attributes = cursor.decode(parse_frontend_attributes, text, start)
        elif key not in HEADER_ATTRIBUTES:
            note = "the attributes are " + ", ".join(sorted(HEADER_ATTRIBUTES))
            hint = did_you_mean(key, HEADER_ATTRIBUTES)
            cursor.fail(f"a module has no attribute '{key}'{hint}", start - 2, note)
        else:
            if key == "is_scheduled":
                cursor.decode(parse_bool, text, start)
            elif key.startswith("allow_spmd_sharding"):
                cursor.decode(_parse_bools, text, start)
            config.header_attributes[key] = text

    def _decode_aliasing(self, parse: Callable[[str], T], text: str, start: int) -> T:
        try:
            return parse(text)
        except InvalidArgument as error:
            self.cursor.fail(error.message, start)

    def _stack_frame_index(self, module: HloModule, index: int) -> int:
        tables: dict[str, list[str]] = {}
        for title in _TABLES:
            index = self.cursor.expect(title, index, "in the tables of source locations")
            tables[title], index = self._table(index)
        module.stack_frame_index = StackFrameIndex(
            tuple(map(unquote, tables["FileNames"])),
            tuple(map(unquote, tables["FunctionNames"])),
            tuple(FileLocation(**_int_pairs(row)) for row in tables["FileLocations"]),
            tuple(StackFrame(**_int_pairs(row)) for row in tables["StackFrames"]),
        )
        return index

    def _table(self, index: int) -> tuple[list[str], int]:
        tokens, rows = self.cursor.tokens, list[str]()
        while tokens[index][:1].isdigit():
            start = index + 1
            text, index = self.cursor.value(start)
            if text[0] == "{":
                allowed = {*FileLocation.__slots__, *StackFrame.__slots__}
                pairs = self.cursor.decode(_int_pairs, text, start) if text[0] == "{" else {}
                if not allowed.issuperset(pairs):
                    self.cursor.fail("unknown key in a table of source locations", start)
            elif text[0] != '"':
                self.cursor.fail(f"expected a string or braces, found {self.cursor.describe(start)}", start)
            rows.append(text)
        return rows, index

    # -- computations

    def _computation(self, index: int) -> int:
        cursor, tokens = self.cursor, self.cursor.tokens
        start = index
        is_entry = tokens[index] == "ENTRY"
        index += is_entry
        name = cursor.name(index, "a computation")
        computation = self.computations.define(name, index)
        index += 1
        result: Shape | None = None
        signature = index
        if tokens[index] == "(":
            index = cursor.expect("->", self._parameter_list(index + 1), f"after the parameters of '{name}'")
            result, index = cursor.shape(index)
        index = cursor.expect("{", index, f"before the instructions of '{name}'")
        index = self._instruction_list(computation, index, "}") + 1
        if result is not None and not result.compatible(computation.root_instruction.shape):
            cursor.fail(
                f"'{name}' is declared to return {result}, but its root has the shape "
                f"{computation.root_instruction.shape}",
                signature,
            )
        while tokens[index] == ",":
            index = self._computation_attribute(computation, index + 1)
        if is_entry:
            if self.entry is not None:
                cursor.fail("a module has only one ENTRY computation", start)
            self.entry = computation
        return index

    def _parameter_list(self, index: int) -> int:
        """Reads `x: f32[2], y: s32[])`. The parameters themselves are instructions, and need not agree."""
        cursor, tokens = self.cursor, self.cursor.tokens
        if tokens[index] == ")":
            return index + 1
        while True:
            cursor.name(index, "the name of a parameter")
            if tokens[index + 1] == ":" and (cursor.gaps[index + 1] or tokens[index][0] == "%"):
                cursor.fail("expected the shape of the parameter: only a name without '%' takes a ':'", index + 1)
            _, index = cursor.shape(index + 1 + (tokens[index + 1] == ":"))
            if tokens[index] != ",":
                return cursor.expect(")", index, "after the last parameter")
            index += 1

    def _computation_attribute(self, computation: HloComputation, index: int) -> int:
        key = self.cursor.tokens[index]
        if key != "execution_thread":
            self.cursor.fail(f"a computation has only the attribute 'execution_thread', found '{key}'", index)
        start = self.cursor.assigned(index + 1, "after execution_thread")
        text, index = self.cursor.value(start)
        computation.execution_thread = self.cursor.decode(unquote, text, start)
        return index

    def _instruction_list(self, computation: HloComputation, index: int, end: str) -> int:
        cursor, tokens, parse = self.cursor, self.cursor.tokens, self.instructions.parse
        self.instructions.scope = {}
        start = index
        root: HloInstruction | None = None
        last: HloInstruction | None = None
        while tokens[index] != end:
            if tokens[index] == END:
                cursor.fail(f"computation '{computation.name}' is not closed", index)
            begin = index
            last, is_root, index = parse(computation, index)
            if is_root:
                if root is not None:
                    cursor.fail(f"computation '{computation.name}' has two ROOT instructions", begin)
                root = last
        if last is None:
            cursor.fail(f"computation '{computation.name}' has no instructions", max(0, start - 1))
        computation.set_root_instruction(root or last)
        for number, parameter in enumerate(computation.parameter_instructions):
            if parameter.attributes_as(at.ParameterAttributes).parameter_number != number:
                cursor.fail(f"computation '{computation.name}' has no parameter {number}", start)
        self.computations.finish(computation)
        return index

    def _bare_instructions(self, index: int) -> None:
        computation = self.computations.define("entry", index)
        self._instruction_list(computation, index, END)


def _parse_bools(text: str) -> list[bool]:
    """Returns the booleans of `true` or `{true,false}`."""
    return [parse_bool(item) for item in (split_list(inside(text)) if text.startswith("{") else [text])]


def _int_pairs(text: str) -> dict[str, int]:
    """Returns the pairs of `{line=1 column=2}`."""
    pairs = (item.partition("=") for item in text.strip("{}").replace(",", " ").split())
    return {key: parse_int(value) for key, _, value in pairs}
