"""`verify_module`: every rule that a valid module keeps - shapes, structure, signatures, aliasing.

Raises HloVerifyError at the first broken rule, with the instruction's place in the text and its computation as notes.
Linear in the size of the module, without recursion. Structure is checked before shapes, because shape rules follow
operands and called computations.
"""

from __future__ import annotations

from collections.abc import Sequence

from xjit.hlo import attributes as at
from xjit.hlo.annotations.alias_config import parse_aliases
from xjit.hlo.annotations.input_output_alias import subshape_at
from xjit.hlo.diagnostics import ArrayTooLarge, HloError, HloVerifyError, Unsupported
from xjit.hlo.ir.computation import HloComputation
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.ir.module import HloModule
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.hlo.types.shape import Shape
from xjit.ops.shape_inference import infer_shape
from xjit.ops.shape_inference.common import compatible_up_to_precision, show
from xjit.ops.verifier_buffers import verify_buffers
from xjit.ops.verifier_deadlocks import verify_no_deadlocks
from xjit.ops.verifier_layouts import check_layouts, check_no_host_memory
from xjit.ops.verifier_module import check_shape, verify_aliasing, verify_entry_layout, verify_origins
from xjit.ops.verifier_options import VerifierOptions
from xjit.ops.verifier_pairs import verify_pairs
from xjit.ops.verifier_sharding import verify_sharding
from xjit.ops.verifier_structure import verify_structure

# Opcodes whose result has exactly the type that they read.
_EXACT = frozenset({
    "bitcast", "call", "conditional", "constant", "copy-done", "copy-start", "custom-call", "get-tuple-element",
    "infeed", "outfeed", "opt-barrier", "parameter", "recv", "recv-done", "send", "send-done", "tuple", "while",
    "broadcast", "reshape", "dynamic-reshape", "dynamic-update-slice", "fusion", "convert", "bitcast-convert", "iota",
})  # fmt: skip
_WITH_ALIASING = (at.AsyncAttributes, at.CallAttributes, at.CustomCallAttributes, at.FusionAttributes)

# Opcodes that pass values through or have a precision of their own, so that operands may differ in precision.
_MIXED_PRECISION_ALLOWED = frozenset({
    "call", "conditional", "constant", "convolution", "dot", "ragged-dot", "scaled-dot", "custom-call", "domain",
    "all-reduce", "all-reduce-start", "all-reduce-done", "all-gather", "all-gather-start", "all-gather-done",
    "async-start", "async-update", "async-done", "copy-start", "copy-done", "fusion", "get-tuple-element",
    "opt-barrier", "infeed", "outfeed", "parameter", "recv", "recv-done", "reduce-precision", "reduce-window", "send",
    "send-done", "sort", "tuple", "while", "reduce-scatter", "collective-permute", "collective-permute-start",
    "collective-permute-done", "add-dependency",
})  # fmt: skip
_DEFAULT = VerifierOptions()

# These pass elements of their operands to their computation as they are.
_APPLIES_TO_OPERANDS = frozenset(("map", "reduce", "scatter", "select-and-scatter"))


def verify_module(module: HloModule, options: VerifierOptions = _DEFAULT) -> None:
    """Raises HloVerifyError at the first rule that the module breaks."""
    verify_structure(module)
    checker = _ShapeChecker(options)
    for computation in module.computations():
        for instruction in computation.instructions:
            try:
                checker.check(instruction)
            except HloError as error:
                raise _in_context(error, instruction, computation) from None
    verify_pairs(module, options.verify_unique_channel_ids)
    verify_buffers(module)
    if options.verify_no_collective_deadlocks:
        verify_no_deadlocks(module)
    verify_entry_layout(module, options.layout_sensitive)
    verify_aliasing(module)
    verify_sharding(module, options.verify_sharding_device_numbers)
    verify_origins(module)


def verify_executable(module: HloModule) -> None:
    """Raises HloVerifyError as `verify_module` does, Unsupported for a valid module with values that nothing here runs.

    What is run is exact about precision; buffers, whose values may not be copied, are what XLA's own runtimes know.
    """
    verify_module(module, VerifierOptions(allow_mixed_precision=False))
    for computation in module.computations():
        for instruction in computation.instructions:
            if instruction.shape.holds_buffer:
                message = f"{instruction.opcode} '{instruction.name}' has a buffer, {show(instruction.shape)}"
                raise Unsupported(message, instruction.span)


def _in_context(error: HloError, instruction: HloInstruction, computation: HloComputation) -> HloVerifyError:
    text = repr(instruction)
    text = text if len(text) <= 300 else text[:297] + "..."
    span = error.span or instruction.span
    kind = ArrayTooLarge if isinstance(error, ArrayTooLarge) else HloVerifyError
    return kind(error.message, span, *error.notes, text, f"in computation {computation.name}")


class _ShapeChecker:
    """Compares declared with inferred shapes; remembers shapes that were found valid."""

    def __init__(self, options: VerifierOptions) -> None:
        self._options = options
        self._allow_mixed_precision = options.allow_mixed_precision
        self._valid: dict[int, Shape] = {}  # by id; holding the shape keeps the id taken

    def check(self, instruction: HloInstruction) -> None:
        declared = instruction.shape
        if id(declared) not in self._valid:
            check_shape(declared)
            self._valid[id(declared)] = declared
        if not self._allow_mixed_precision and instruction.opcode not in _MIXED_PRECISION_ALLOWED:
            _check_one_precision(instruction)
        if not self._allow_mixed_precision and instruction.op.name == "reduce-window":
            _check_window_precision(instruction)
        inferred = infer_shape(instruction)
        if inferred is not declared and not self._agree(instruction.op.name, declared, inferred):
            raise HloVerifyError(
                f"{instruction.opcode}: the declared shape is {show(declared)}, but the operands give {show(inferred)}"
            )
        options = self._options
        if options.layout_sensitive:
            check_layouts(instruction, inferred, options)
        if options.verify_no_host_memory_space:
            check_no_host_memory(declared)
        if options.verify_broadcast_dimensions_order and instruction.opcode == "broadcast":
            _check_broadcast_order(instruction)
        attributes = instruction.attributes
        if isinstance(attributes, at.CallAttributes) and attributes.is_composite:
            _check_composite(instruction)
        if isinstance(attributes, _WITH_ALIASING) and attributes.output_to_operand_aliasing:
            _check_operand_aliasing(instruction, attributes.output_to_operand_aliasing)

    def _agree(self, opcode: str, declared: Shape, inferred: Shape) -> bool:
        if declared.element_type is inferred.element_type and not declared.tuple_shapes and not inferred.tuple_shapes:
            return declared.dimensions == inferred.dimensions
        if self._allow_mixed_precision and opcode not in _EXACT:
            return compatible_up_to_precision(declared, inferred)
        return declared.compatible(inferred)


def _check_broadcast_order(broadcast: HloInstruction) -> None:
    dimensions = broadcast.attributes_as(at.DimensionsAttributes).dimensions
    if list(dimensions) != sorted(dimensions):
        raise HloVerifyError(f"broadcast: dimensions={{{','.join(map(str, dimensions))}}} must be sorted")


def _check_composite(call: HloInstruction) -> None:
    """A call that stands for one operation says which, and of which version."""
    given = call.frontend_attributes
    if not given.get("composite.name"):
        raise HloVerifyError("call: a composite needs the frontend attribute composite.name")
    version = given.get("composite.version")
    if version is None or not version.isdecimal():
        found = "" if version is None else f", found '{version}'"
        raise HloVerifyError(f"call: a composite needs a composite.version that is a number from 0 on{found}")
    if given.get("composite.attributes") == "":
        raise HloVerifyError("call: composite.attributes of a composite are {} or more, not empty")


def _are_arrays_of_one_type(values: Sequence[HloInstruction]) -> bool:
    """Whether there is nothing to compare: so it is for nearly all instructions."""
    first = values[0].shape.element_type if values else None
    for value in values:  # noqa: SIM110 - a loop takes half the time of `all`
        if value.shape.tuple_shapes or value.shape.element_type is not first:
            return False
    return True


def _check_one_precision(instruction: HloInstruction) -> None:
    values = instruction.operands
    applies = instruction.opcode in _APPLIES_TO_OPERANDS
    if not applies and _are_arrays_of_one_type(values):
        return
    if applies:
        values += tuple(p for c in instruction.called_computations for p in c.parameter_instructions)
    kinds = frozenset[PrimitiveType]().union(*[v.shape.float_types for v in values])
    if len(kinds) > 1:
        names = " and ".join(sorted(k.text for k in kinds))
        what = "operands" if len(values) == instruction.operand_count else "operands and the parameters of to_apply"
        raise HloVerifyError(f"{instruction.opcode}: the {what} mix the precisions {names}")


def _check_window_precision(instruction: HloInstruction) -> None:
    """The inputs of a reduce-window may differ from each other, but not from what its computation takes."""
    parameters = instruction.to_apply.parameter_instructions
    count = instruction.operand_count // 2
    for i, operand in enumerate(instruction.operands):
        for parameter in (parameters[i % count], parameters[count + i % count]):
            if parameter.shape.element_type is not operand.shape.element_type:
                raise HloVerifyError(
                    f"reduce-window: operand {i} has type {operand.shape.element_type.text}, "
                    f"but parameter {parameter.name} of {instruction.to_apply.name} is {show(parameter.shape)}"
                )


# -- aliasing of operands


def _content(shape: Shape) -> Shape:
    """The array inside a buffer: an operand may become one, and a buffer an array again, at the same place."""
    return shape.tuple_shapes[0] if shape.is_buffer else shape


def _check_operand_aliasing(instruction: HloInstruction, text: str) -> None:
    """output_to_operand_aliasing of fusions, calls and custom calls."""
    for alias in parse_aliases(text):
        what = f"{instruction.opcode}: output_to_operand_aliasing {alias}"
        if alias.parameter_number >= instruction.operand_count:
            raise HloVerifyError(f"{what}: there are only {instruction.operand_count} operands")
        source = subshape_at(instruction.operand(alias.parameter_number).shape, alias.parameter_index, what)
        target = subshape_at(instruction.shape, alias.output_index, what)
        if instruction.opcode != "async-start" and not _content(source).compatible(_content(target)):
            raise HloVerifyError(f"{what}: the operand has shape {show(source)}, the output {show(target)}")
