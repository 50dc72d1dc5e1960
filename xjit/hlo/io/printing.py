"""Prints modules, computations and instructions as HLO text that parses back to an equal module.

The layout of the text is XLA's: one instruction per line, attributes in the order of their dataclass, annotations last.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field, fields, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from xjit.dataclass import dataclass
from xjit.hlo.annotations.alias_config import format_entries
from xjit.hlo.annotations.metadata import NO_METADATA, StackFrameIndex
from xjit.hlo.attributes import Attributes, ConstantAttributes, ParameterAttributes
from xjit.hlo.attributes.codecs import attribute_fields
from xjit.hlo.attributes.codecs.annotations import format_frontend_attributes, format_metadata, format_string_or_braces
from xjit.hlo.attributes.codecs.literals import format_literal
from xjit.hlo.attributes.codecs.value_text import quote
from xjit.hlo.diagnostics import InvalidArgument
from xjit.hlo.ir.post_order import reading_order
from xjit.hlo.types.primitive_type import PrimitiveType

if TYPE_CHECKING:
    from xjit.hlo.ir.computation import HloComputation
    from xjit.hlo.ir.instruction import HloInstruction
    from xjit.hlo.ir.module import HloModule

LARGE_CONSTANT = 10  # elements; more count as large


@dataclass(frozen=True, slots=True)
class HloPrintOptions:
    """What to print. The defaults lose nothing; `print_large_constants=False` gives text that does not parse."""

    print_large_constants: bool = True
    print_metadata: bool = True
    print_backend_config: bool = True
    print_operand_shape: bool = False
    print_percent: bool = True
    print_ids: bool = True  # the numeric suffixes that make names unique
    print_control_dependencies: bool = True
    print_layouts: bool = True
    print_sharding: bool = True
    print_program_shape: bool = True
    print_header: bool = True
    canonicalize_names: bool = False
    indent: int = 0

    @staticmethod
    def short_parsable() -> HloPrintOptions:
        """Returns options for compact text: no metadata, no backend config, no sigils."""
        return HloPrintOptions(
            print_metadata=False, print_backend_config=False, print_percent=False, print_program_shape=False
        )

    @staticmethod
    def canonical() -> HloPrintOptions:
        """Returns options for text that does not depend on names and metadata."""
        return HloPrintOptions(print_metadata=False, canonicalize_names=True)

    @staticmethod
    def fingerprint() -> HloPrintOptions:
        """Returns options for hashing: canonical and compact."""
        return replace(HloPrintOptions.canonical(), print_percent=False, print_program_shape=False)


_DEFAULT = HloPrintOptions()


def module_to_string(module: HloModule, options: HloPrintOptions | None = None) -> str:
    """Returns the HLO text of a module: header, source tables, computations with callees first."""
    options = options or _DEFAULT
    printer = _Printer(options)
    parts: list[str] = []
    if options.print_header:
        parts.append(_header(module, options) + "\n\n")
        if options.print_metadata and module.stack_frame_index != StackFrameIndex():
            parts.append(_stack_frame_tables(module.stack_frame_index) + "\n\n")
    entry = module.entry_computation if module.has_entry_computation() else None
    texts = [printer.computation(c, c is entry) for c in module.make_computation_post_order()]
    return "".join(parts) + "\n\n".join(texts) + "\n"


def computation_to_string(computation: HloComputation, options: HloPrintOptions | None = None) -> str:
    """Returns the HLO text of one computation."""
    return _Printer(options or _DEFAULT).computation(computation, computation.is_entry_computation())


def instruction_to_string(instruction: HloInstruction, options: HloPrintOptions | None = None) -> str:
    """Returns the HLO text of one instruction, without indentation and ROOT."""
    return _Printer(options or _DEFAULT).instruction(instruction)


def attributes_to_strings(attributes: Attributes) -> list[str]:
    """Returns `key=value` for each attribute that is not at its default."""
    parts: list[str] = []
    for declared in attribute_fields(type(attributes)):
        value = getattr(attributes, declared.name)
        if declared.always or value != declared.default:
            parts.append(f"{declared.key}={declared.codec.format(value)}")
    return parts


@dataclass(slots=True)
class _Printer:
    options: HloPrintOptions
    _names: dict[HloInstruction | HloComputation, str] = field(default_factory=dict)
    _numbers: dict[str, int] = field(default_factory=dict)
    _attributes: dict[int, list[str]] = field(default_factory=dict)  # by id, as of the texts of metadata:
    _metadata: dict[int, str] = field(default_factory=dict)  # many instructions share theirs

    def name(self, item: HloInstruction | HloComputation, prefix: str = "tmp_") -> str:
        """Returns the name to print, with its sigil."""
        name = item.name
        if self.options.canonicalize_names:
            name = self._canonical_name(item, prefix)
        elif not self.options.print_ids:
            name = item.name.rstrip("0123456789").rstrip(".") or item.name
        return "%" + name if self.options.print_percent else name

    def computation_name(self, computation: HloComputation) -> str:
        """Returns the name of a computation to print, with its sigil."""
        return self.name(computation, "computation_")

    def _canonical_name(self, item: HloInstruction | HloComputation, prefix: str) -> str:
        name = self._names.get(item)
        if name is None:
            number = self._numbers[prefix] = self._numbers.get(prefix, -1) + 1
            name = self._names[item] = f"{prefix}{number}"
        return name

    def computation(self, computation: HloComputation, is_entry: bool) -> str:
        """Returns the text of a computation."""
        try:
            instructions: Iterable[HloInstruction] = _order(computation)
        except InvalidArgument:  # a broken graph is still worth reading
            instructions = computation.instructions
        pad = "  " * self.options.indent
        lines = [
            f"{pad}{'ENTRY ' if is_entry else ''}{self.computation_name(computation)}{self._signature(computation)} {{"
        ]
        root = computation.root_instruction
        for instruction in instructions:
            mark = "ROOT " if instruction is root else ""
            lines.append(f"{pad}  {mark}{self.instruction(instruction)}")
        thread = computation.execution_thread
        lines.append(pad + "}" + (f", execution_thread={quote(thread)}" if thread != "main" else ""))
        return "\n".join(lines)

    def _signature(self, computation: HloComputation) -> str:
        if not self.options.print_program_shape:
            return ""
        parameters = ", ".join(
            f"{self.name(p).removeprefix('%')}: {p.shape.to_string(layout=False)}"
            for p in computation.parameter_instructions
        )
        return f" ({parameters}) -> {computation.root_instruction.shape.to_string(layout=False)}"

    def instruction(self, instruction: HloInstruction) -> str:
        """Returns `%name = shape opcode(operands), attributes`."""
        shape = instruction.shape.to_string(self.options.print_layouts)
        parts = [f"{self.name(instruction)} = {shape} {instruction.op.name}({self._arguments(instruction)})"]
        attributes = self._attributes.get(id(instruction.attributes))
        if attributes is None:
            attributes = self._attributes[id(instruction.attributes)] = attributes_to_strings(instruction.attributes)
        parts.extend(attributes)
        self._called(instruction, parts)
        self._annotations(instruction, parts)
        return ", ".join(parts)

    def _arguments(self, instruction: HloInstruction) -> str:
        attributes = instruction.attributes
        if isinstance(attributes, ParameterAttributes):
            return str(attributes.parameter_number)
        if isinstance(attributes, ConstantAttributes):
            return format_literal(attributes.literal, None if self.options.print_large_constants else LARGE_CONSTANT)
        operands = instruction.operands
        if len(operands) == 1 and not self.options.print_operand_shape:
            return self.name(operands[0])
        return ", ".join(
            (f"/*index={i}*/" if i and i % 5 == 0 else "") + self._operand(operand)
            for i, operand in enumerate(operands)
        )

    def _operand(self, operand: HloInstruction) -> str:
        if not self.options.print_operand_shape:
            return self.name(operand)
        return f"{operand.shape.to_string(self.options.print_layouts)} {self.name(operand)}"

    def _called(self, instruction: HloInstruction, parts: list[str]) -> None:
        called = instruction.called_computations
        if not called:
            return
        op = instruction.op
        if op.name == "conditional" and instruction.operand(0).shape.element_type is PrimitiveType.PRED:
            roles: tuple[str, ...] = ("true_computation", "false_computation")
        elif op.called and not op.called[0].endswith("*"):
            roles = op.called
        else:
            key = op.called[0].removesuffix("*") if op.called else "called_computations"
            parts.append(f"{key}={{{', '.join(map(self.computation_name, called))}}}")
            return
        parts.extend(f"{role}={self.computation_name(computation)}" for role, computation in zip(roles, called))

    def _annotations(self, instruction: HloInstruction, parts: list[str]) -> None:
        options = self.options
        if instruction.sharding is not None and options.print_sharding:
            parts.append(f"sharding={instruction.sharding}")
        if instruction.frontend_attributes:
            parts.append(f"frontend_attributes={format_frontend_attributes(instruction.frontend_attributes)}")
        if instruction.control_predecessors and options.print_control_dependencies:
            names = ", ".join(map(self.name, instruction.control_predecessors))
            parts.append(f"control-predecessors={{{names}}}")
        if options.print_metadata:
            metadata = instruction.metadata
            if metadata is not NO_METADATA and metadata != NO_METADATA:
                text = self._metadata.get(id(metadata))
                if text is None:
                    text = self._metadata[id(metadata)] = f"metadata={format_metadata(metadata)}"
                parts.append(text)
            if instruction.origin:
                parts.append(f"origin={instruction.origin}")
            if instruction.statistics:
                parts.append(f"statistics={instruction.statistics}")
        if instruction.backend_config and options.print_backend_config:
            parts.append(f"backend_config={format_string_or_braces(instruction.backend_config)}")


def _order(computation: HloComputation) -> Iterable[HloInstruction]:
    """Returns the instructions in the schedule's order if there is one, else in that in which XLA prints them."""
    module = computation.parent
    if module is not None and module.has_schedule() and module.schedule.is_scheduled(computation):
        return module.schedule.sequence(computation)
    return reading_order(computation)


_FIRST_HEADER_KEYS = ("is_scheduled", "input_output_alias", "buffer_donor")


def _header(module: HloModule, options: HloPrintOptions) -> str:
    config = module.config
    attributes = dict(config.header_attributes)
    if config.alias_passthrough_params:
        attributes["alias_passthrough_params"] = "true"
    if config.input_output_alias:
        attributes["input_output_alias"] = format_entries(config.input_output_alias)
    if config.buffer_donors:
        attributes["buffer_donor"] = format_entries(config.buffer_donors)
    parts = [f"HloModule {module.name if not options.canonicalize_names else 'module'}"]
    parts.extend(f"{key}={attributes.pop(key)}" for key in _FIRST_HEADER_KEYS if key in attributes)
    layout = config.entry_computation_layout
    if layout is not None and options.print_layouts:
        shapes = ", ".join(
            (f"/*index={i}*/" if i and i % 5 == 0 else "") + str(s) for i, s in enumerate(layout.parameter_shapes)
        )
        parts.append(f"entry_computation_layout={{({shapes})->{layout.result_shape}}}")
    parts.extend(f"{key}={value}" for key, value in attributes.items())
    if config.replica_count != 1:
        parts.append(f"replica_count={config.replica_count}")
    if config.num_partitions != 1:
        parts.append(f"num_partitions={config.num_partitions}")
    if module.frontend_attributes:
        parts.append(f"frontend_attributes={format_frontend_attributes(module.frontend_attributes)}")
    return ", ".join(parts)


def _stack_frame_tables(index: StackFrameIndex) -> str:
    tables = [
        _table("FileNames", map(quote, index.file_names)),
        _table("FunctionNames", map(quote, index.function_names)),
        _table("FileLocations", (_pairs(location) for location in index.file_locations)),
        _table("StackFrames", (_pairs(frame) for frame in index.stack_frames)),
    ]
    return "\n\n".join(tables)


def _table(title: str, rows: Iterable[str]) -> str:
    return "\n".join([title, *(f"{i} {row}" for i, row in enumerate(rows, 1))])


def _pairs(row: object) -> str:
    names = _field_names(type(row))
    return "{" + " ".join(f"{name}={getattr(row, name)}" for name in names) + "}"


@cache
def _field_names(kind: type[Any]) -> tuple[str, ...]:
    return tuple(f.name for f in fields(kind))
