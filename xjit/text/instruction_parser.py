"""Parses one instruction: `ROOT %name = shape opcode(operands), key=value, ...`.

Values are cached by their text (attributes are immutable), so a repeated attribute costs one lookup.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from xjit.hlo import attributes as at
from xjit.hlo.annotations.metadata import OpMetadata
from xjit.hlo.attributes.codecs.annotations import (
    parse_frontend_attributes,
    parse_metadata,
    parse_name_list,
    parse_statistics,
    parse_string_or_braces,
)
from xjit.hlo.attributes.codecs.literals import parse_literal
from xjit.hlo.attributes.codecs.scalars import parse_braces, parse_int
from xjit.hlo.attributes.codecs.shardings import parse_sharding
from xjit.hlo.attributes.opcodes import OPCODES, Opcode
from xjit.hlo.diagnostics import HloError, InvalidArgument, did_you_mean
from xjit.hlo.ir.computation import HloComputation
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.literal import Literal
from xjit.hlo.types.shape import Shape
from xjit.ops.build import NEEDS_SHAPE
from xjit.ops.shape_inference import infer_shape
from xjit.text.computation_table import ComputationTable
from xjit.text.cursor import Cursor
from xjit.text.opcode_syntax import OpcodeSyntax, async_wrapped_opcode, opcode_syntax, without_default_comparison_type

MAX_NESTED_INSTRUCTIONS = 64
_OF_ONE_SHAPE = frozenset({"partition-id", "replica-id"})
"""Opcodes without operands that have a shape nevertheless if none is written."""

_METADATA_LIMIT = 1 << 16
_UNKNOWN = Shape.tuple_of(())


@dataclass(slots=True)
class _Pending:
    """An instruction while its attributes are read: own attributes as text, the rest by key with the token's index."""

    name: str
    index: int
    shape: Shape
    operands: list[HloInstruction]
    own: list[tuple[str, str, int]] = field(default_factory=list)
    called: list[tuple[str, HloComputation, int]] = field(default_factory=list)
    common: list[tuple[str, str, int]] = field(default_factory=list)


class InstructionParser:
    """Parses the instructions of one computation after the other; `scope` holds the names of the current one.

    `parse_body(computation, index, end)` reads the instructions of a computation that is written inside of one, up to
    the token `end`, and returns the index of that. `elided_constants` are places of constants without values.
    """

    def __init__(
        self,
        cursor: Cursor,
        computations: ComputationTable,
        parse_body: Callable[[HloComputation, int, str], int],
    ) -> None:
        self.cursor = cursor
        self.computations = computations
        self.parse_body = parse_body
        self.elided_constants: list[int] = []
        self.scope: dict[str, HloInstruction] = {}
        self._depth = 0
        self._inlined = 0
        self._attributes: dict[tuple[Any, ...], at.Attributes] = {}
        self._metadata: dict[str, OpMetadata] = {}

    def parse(self, computation: HloComputation, index: int) -> tuple[HloInstruction, bool, int]:
        """Reads one instruction into the computation; returns it, whether it is the root, and the next index."""
        cursor, tokens = self.cursor, self.cursor.tokens
        is_root = tokens[index] == "ROOT"
        index += is_root
        name = cursor.name(index, "the name of an instruction")
        if name in self.scope:
            cursor.fail(f"instruction name '{name}' is used twice in computation '{computation.name}'", index)
        start = index
        index = cursor.expect("=", index + 1, f"after the instruction name '{name}'")
        if not cursor.gaps[start + 1] and tokens[start][0] != "%":
            cursor.fail(f"'{name}=' is an attribute: a space is missing before '=', or '%' before the name", start)
        instruction, index = self._right_hand_side(computation, name, start, index)
        self._add(computation, instruction, name, start)
        return instruction, bool(is_root), index

    def _right_hand_side(
        self, computation: HloComputation, name: str, start: int, index: int
    ) -> tuple[HloInstruction, int]:
        """Reads `shape opcode(operands), attributes`; without a shape it is inferred from the operands."""
        cursor, tokens = self.cursor, self.cursor.tokens
        infer = tokens[index + 1] == "(" and (tokens[index] in OPCODES or async_wrapped_opcode(tokens[index]))
        shape = _UNKNOWN
        if not infer:
            shape, index = cursor.shape(index)
        opcode = tokens[index]
        op = OPCODES.get(opcode)
        wrapped = ""
        if op is None:
            op, wrapped = self._async_opcode(index)
        if infer and (wrapped or op.name in NEEDS_SHAPE or (op.arity == 0 and op.name not in _OF_ONE_SHAPE)):
            cursor.fail(f"expected the result shape before the opcode '{opcode}'", index)
        after = cursor.expect("(", index + 1, f"after the opcode '{opcode}'")
        if op.name == "constant":
            return self._constant(name, shape, after)
        if op.name == "parameter":
            return self._parameter(name, shape, after)
        pending = _Pending(name, start, shape, [])
        after = self._operands(computation, pending, op, after)
        after = self._read_attributes(pending, opcode_syntax(wrapped or op.name), bool(wrapped), after)
        instruction = self._build(pending, op, wrapped)
        if infer:
            self._infer_shape(instruction, index)
        return instruction, after

    def _infer_shape(self, instruction: HloInstruction, index: int) -> None:
        if any(c.instruction_count == 0 for c in instruction.called_computations):
            self.cursor.fail(f"{instruction.opcode} needs a result shape: what it calls is defined later", index)
        try:
            instruction.shape = infer_shape(instruction).with_default_layouts()
        except HloError as error:
            self.cursor.fail(f"no result shape is written, and none can be inferred: {error.message}", index)

    def _add(self, computation: HloComputation, instruction: HloInstruction, name: str, index: int) -> None:
        try:
            computation.add_instruction(instruction)
        except InvalidArgument as error:
            self.cursor.fail(error.message, index)
        self.scope[name] = instruction
        instruction.place = (self.cursor.stream.places, index)

    def _async_opcode(self, index: int) -> tuple[Opcode, str]:
        opcode = self.cursor.tokens[index]
        spelled = async_wrapped_opcode(opcode)
        if spelled is None:
            hint = did_you_mean(opcode, OPCODES)
            if not opcode or not opcode[0].isalpha():
                self.cursor.fail(f"expected an opcode, found {self.cursor.describe(index)}", index)
            self.cursor.fail(f"unknown opcode {self.cursor.describe(index)}{hint}", index)
        return OPCODES[spelled[0]], spelled[1]

    # -- leaves

    def _parameter(self, name: str, shape: Shape, index: int) -> tuple[HloInstruction, int]:
        cursor = self.cursor
        number = cursor.decode(parse_int, cursor.tokens[index], index)
        if number < 0:
            cursor.fail("a parameter number cannot be negative", index)
        after = cursor.expect(")", index + 1, "after the parameter number")
        pending = _Pending(name, index, shape, [])
        after = self._read_attributes(pending, opcode_syntax("parameter"), False, after)
        replication = next((text for key, text, _ in pending.own if key == "parameter_replication"), None)
        key = ("parameter", number, replication)
        attributes = self._attributes.get(key)
        if attributes is None:
            values = self._own_values(pending, opcode_syntax("parameter"))
            attributes = self._attributes[key] = at.ParameterAttributes(number, **values)
        instruction = HloInstruction(OPCODES["parameter"], shape, (), attributes, (), name)
        self._annotate(instruction, pending)
        return instruction, after

    def _constant(self, name: str, shape: Shape, index: int) -> tuple[HloInstruction, int]:
        cursor, tokens = self.cursor, self.cursor.tokens
        if tokens[index + 1] == ")" and tokens[index] != "(":
            text, after = tokens[index], index + 2
        else:
            end = cursor.group_end(index - 1)
            text, after = cursor.stream.source(index, end - 1) if end > index else "", end + 1
        key = ("constant", shape, text)
        attributes = self._attributes.get(key) if len(text) < 64 else None
        if attributes is None:
            attributes = at.ConstantAttributes(self._literal(text, shape, index))
            if len(text) < 64:
                self._attributes[key] = attributes
        pending = _Pending(name, index, shape, [])
        after = self._read_attributes(pending, opcode_syntax("constant"), False, after)
        instruction = HloInstruction(OPCODES["constant"], shape, (), attributes, (), name)
        self._annotate(instruction, pending)
        return instruction, after

    def _literal(self, text: str, shape: Shape, index: int) -> Literal:
        if text.replace(" ", "") == "{...}" and shape.is_array:
            self.elided_constants.append(index)
            return Literal.full(shape, 0)
        return self.cursor.decode(lambda value: parse_literal(value, shape), text, index)

    # -- operands

    def _operands(self, computation: HloComputation, pending: _Pending, op: Opcode, index: int) -> int:
        cursor, tokens, scope, operands = self.cursor, self.cursor.tokens, self.scope, pending.operands
        first = index
        while True:
            token = tokens[index]
            operand = scope.get(token[1:] if token[:1] == "%" else token)
            if operand is not None and tokens[index + 1] != "(":
                index += 1
            elif token == ")":
                index += 1
                break
            elif token == ",":  # XLA takes any number of them, wherever they are
                index += 1
                continue
            else:
                operand, index = self._other_operand(computation, index)
            operands.append(operand)
            separator = tokens[index]
            index += 1
            if separator == ")":
                break
            if separator != ",":
                cursor.fail(f"expected ',' or ')' after an operand, found {cursor.describe(index - 1)}", index - 1)
        if op.arity >= 0 and len(operands) != op.arity:
            plural = "operand" if op.arity == 1 else "operands"
            cursor.fail(f"{op.name} takes {op.arity} {plural}, found {len(operands)}", first)
        return index

    def _other_operand(self, computation: HloComputation, index: int) -> tuple[HloInstruction, int]:
        """Reads an operand with its shape in front, or a nested instruction; reports names that are not defined."""
        cursor = self.cursor
        shape: Shape | None = None
        start = index
        if cursor.is_shape(index):
            shape, index = cursor.shape(index)
            index += cursor.tokens[index] == ","  # XLA takes a comma between an operand's shape and its name
        if cursor.tokens[index + 1] == "(" and cursor.tokens[index] in OPCODES:
            return self._nested(computation, start, index)
        name = cursor.name(index, "the name of an operand")
        operand = self.scope.get(name)
        if operand is None:
            cursor.fail(f"operand '{name}' is not defined before its use{did_you_mean(name, self.scope)}", index)
        if shape is not None and not shape.compatible(operand.shape):
            cursor.fail(f"operand '{name}' is written as {shape}, but its shape is {operand.shape}", start)
        return operand, index + 1

    def _nested(self, computation: HloComputation, start: int, index: int) -> tuple[HloInstruction, int]:
        """Reads an instruction written in place of an operand: `add(x, negate(y))`."""
        if self._depth >= MAX_NESTED_INSTRUCTIONS:
            self.cursor.fail(f"instructions are nested deeper than {MAX_NESTED_INSTRUCTIONS}", index)
        self._depth += 1
        name = f"{self.cursor.tokens[index]}.anon"
        instruction, after = self._right_hand_side(computation, name, index, start)
        self._depth -= 1
        computation.add_instruction(instruction)
        instruction.place = (self.cursor.stream.places, index)
        return instruction, after

    # -- attributes

    def _read_attributes(self, pending: _Pending, syntax: OpcodeSyntax, is_async: bool, index: int) -> int:
        cursor, tokens = self.cursor, self.cursor.tokens
        while tokens[index] == ",":
            key, start = tokens[index + 1], index + 3
            if tokens[index + 2] != "=" or cursor.gaps[index + 2]:
                if self._depth:
                    break  # the comma is that of the operands that this instruction is one of
                found = cursor.describe(index + 1) + (" and a space" if tokens[index + 2] == "=" else "")
                cursor.fail(f"expected 'key=value' after ',', found {found}", index + 1)
            if key in syntax.called or (is_async and key == "calls"):
                index = self._called(pending, key, syntax.called.get(key, -1), start)
                continue
            text, index = self._value(key, start)
            if key in syntax.fields or (is_async and key.startswith("async_")):
                pending.own.append((key, text, start))
            elif key in _COMMON:
                if any(given == key for given, _, _ in pending.common):
                    cursor.fail(f"attribute '{key}' is given twice", start - 2)
                pending.common.append((key, text, start))
            elif key in syntax.forgotten:
                cursor.decode(syntax.forgotten[key].parse, text, start)
            else:
                hint = did_you_mean(key, syntax.keys())
                note = "the attributes are " + ", ".join(syntax.keys())
                cursor.fail(f"{syntax.op.name} has no attribute '{key}'{hint}", start - 2, note)
        return index

    def _value(self, key: str, index: int) -> tuple[str, int]:
        if key == "literal":
            return self.cursor.shaped_literal(index)
        if key == "backend_config" and self.cursor.tokens[index] == "{":
            return self.cursor.json(index)
        return self.cursor.value(index)

    def _called(self, pending: _Pending, key: str, position: int, index: int) -> int:
        cursor, tokens = self.cursor, self.cursor.tokens
        if tokens[index] == "{" and (tokens[index + 2] == "=" or tokens[index + 1] == "ROOT"):
            return self._inline_computation(pending, key, index)
        if tokens[index] == "{" and tokens[index + 1] == "{":
            while tokens[index] != "}":
                index = self._inline_computation(pending, key, index + 1)
                if tokens[index] not in (",", "}"):
                    cursor.fail(f"expected ',' or '}}' after a computation, found {cursor.describe(index)}", index)
            return index + 1
        if not tokens[index].startswith("{"):
            name = cursor.name(index, "the name of a computation")
            pending.called.append((key, self.computations.reference(name, index), index))
            return index + 1
        if position >= 0:
            cursor.fail(f"attribute '{key}' takes one computation, found {cursor.describe(index)}", index)
        text, after = cursor.value(index)
        for name in cursor.decode(parse_name_list, text, index):
            pending.called.append((key, self.computations.reference(name, index), index))
        return after

    def _inline_computation(self, pending: _Pending, key: str, index: int) -> int:
        """Reads a computation written where its name would stand: `to_apply={ a = f32[] parameter(0) ... }`."""
        if self._inlined >= MAX_NESTED_INSTRUCTIONS:
            self.cursor.fail(f"computations are nested deeper than {MAX_NESTED_INSTRUCTIONS}", index)
        scope, depth = self.scope, self._depth
        self._inlined, self._depth = self._inlined + 1, 0
        computation = HloComputation(f"{pending.name}.{key}")
        after = self.parse_body(computation, index + 1, "}") + 1
        self.scope, self._depth = scope, depth
        self._inlined -= 1
        pending.called.append((key, computation, index))
        return after

    def _own_values(self, pending: _Pending, syntax: OpcodeSyntax) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key, text, index in pending.own:
            declared = syntax.fields.get(key)
            if declared is None:
                continue
            if declared.name in values:
                self.cursor.fail(f"attribute '{key}' is given twice", index - 2)
            values[declared.name] = self.cursor.decode(declared.codec.parse, text, index)
        missing = [key for key in syntax.required if syntax.fields[key].name not in values]
        if missing:
            self.cursor.fail(f"{syntax.op.name} needs the attribute '{missing[0]}'", pending.index)
        return values

    def _attributes_of(self, pending: _Pending, syntax: OpcodeSyntax) -> at.Attributes:
        key = (syntax.op.name, *[item[:2] for item in pending.own])
        attributes = self._attributes.get(key)
        if attributes is None:
            attributes = self._attributes[key] = syntax.op.attributes(**self._own_values(pending, syntax))
        return attributes

    def _build(self, pending: _Pending, op: Opcode, wrapped: str) -> HloInstruction:
        if wrapped and op.name == "async-start":
            called = [self._wrap(pending, opcode_syntax(wrapped))]
        else:
            called = self._called_in_order(pending, opcode_syntax(op.name))
        if not called and op.name in ("async-update", "async-done"):
            called = list(pending.operands[0].called_computations)
        if wrapped and op.name != "async-start" and called and called[0].root_instruction.opcode != wrapped:
            found = called[0].root_instruction.opcode
            self.cursor.fail(f"the operand of this {wrapped} runs a {found}", pending.index)
        attributes = self._attributes_of(pending, opcode_syntax(op.name))
        if isinstance(attributes, at.AsyncAttributes) and attributes.async_execution_thread and called:
            _run_on_thread(called[0], attributes.async_execution_thread)
        if op.name == "compare":
            attributes = without_default_comparison_type(attributes, pending.operands[0].shape.element_type)
        if op.name == "broadcast" and not pending.own and not pending.operands[0].shape.is_scalar:
            self.cursor.fail("broadcast needs the attribute 'dimensions' unless its operand is a scalar", pending.index)
        instruction = HloInstruction(op, pending.shape, pending.operands, attributes, called, pending.name)
        self._annotate(instruction, pending)
        return instruction

    def _called_in_order(self, pending: _Pending, syntax: OpcodeSyntax) -> list[HloComputation]:
        if not pending.called:
            needed = [role for role in syntax.op.called if not role.endswith("*")]
            if needed and syntax.op.name not in ("async-update", "async-done"):
                self.cursor.fail(f"{syntax.op.name} needs the attribute '{needed[0]}'", pending.index)
            if syntax.op.name == "conditional":
                self.cursor.fail("conditional needs the attribute 'branch_computations'", pending.index)
            return []
        if any(syntax.called.get(key, -1) < 0 for key, _, _ in pending.called):
            if len({key for key, _, _ in pending.called}) > 1:
                self.cursor.fail("computations are given by two attributes", pending.called[-1][2])
            return [computation for _, computation, _ in pending.called]
        by_position: dict[int, HloComputation] = {}
        for key, computation, index in pending.called:
            if syntax.called[key] in by_position:
                self.cursor.fail(f"attribute '{key}' is given twice", index)
            by_position[syntax.called[key]] = computation
        for key, position in syntax.called.items():
            if position >= 0 and position not in by_position and syntax.op.name != "custom-call":
                self.cursor.fail(f"{syntax.op.name} needs the attribute '{key}'", pending.index)
        return [by_position[i] for i in sorted(by_position)]

    def _wrap(self, pending: _Pending, syntax: OpcodeSyntax) -> HloComputation:
        """Makes the computation that `custom-call-start(...)` and its like stand for."""
        shapes = pending.shape.tuple_shapes
        if len(shapes) < 2 or not shapes[0].is_tuple:
            self.cursor.fail("an async start has the shape ((operands), result, ...)", pending.index)
        computation = HloComputation("async_wrapped")
        parameters = [
            computation.add_instruction(HloInstruction.create_parameter(i, operand.shape, f"async_param.{i}"))
            for i, operand in enumerate(pending.operands)
        ]
        called = self._called_in_order(pending, syntax)
        attributes = self._attributes_of(pending, syntax)
        root = HloInstruction(syntax.op, shapes[1], parameters, attributes, called, "async_op")
        computation.add_instruction(root)
        self._annotate(root, _Pending(pending.name, pending.index, shapes[1], [], common=pending.common), control=False)
        computation.set_root_instruction(root)
        return self.computations.add_anonymous(computation)

    # -- annotations

    def _annotate(self, instruction: HloInstruction, pending: _Pending, control: bool = True) -> None:
        for key, text, index in pending.common:
            if key == "metadata":
                metadata = self._metadata.get(text)
                if metadata is None:
                    if len(self._metadata) > _METADATA_LIMIT:
                        self._metadata.clear()
                    metadata = self._metadata[text] = self.cursor.decode(parse_metadata, text, index)
                instruction.metadata = metadata
            elif key == "control-predecessors":
                if control:
                    self._control_predecessors(instruction, text, index)
            else:
                name, parse = _COMMON[key]
                setattr(instruction, name, self.cursor.decode(parse, text, index))

    def _control_predecessors(self, instruction: HloInstruction, text: str, index: int) -> None:
        names = self.cursor.decode(parse_name_list, text, index)
        if not names:
            self.cursor.fail("expected the name of a control predecessor, found none", index)
        for name in names:
            predecessor = self.scope.get(name)
            if predecessor is None:
                self.cursor.fail(f"control predecessor '{name}' is not defined before its use", index)
            predecessor.control_successors.append(instruction)
            instruction.control_predecessors.append(predecessor)


def _run_on_thread(computation: HloComputation, thread: str) -> None:
    """Gives a computation, and all that it calls, to a thread: what starts it asynchronously says which."""
    stack = [computation]
    while stack:
        current = stack.pop()
        current.execution_thread = thread
        stack.extend(called for i in current.instructions for called in i.called_computations)


_COMMON: dict[str, tuple[str, Any]] = {
    "metadata": ("metadata", parse_metadata),
    "control-predecessors": ("control_predecessors", parse_name_list),
    "sharding": ("sharding", parse_sharding),
    "frontend_attributes": ("frontend_attributes", parse_frontend_attributes),
    "backend_config": ("raw_backend_config", parse_string_or_braces),
    "origin": ("origin", parse_braces),
    "original_value": ("origin", parse_braces),
    "statistics": ("statistics", parse_statistics),
}
