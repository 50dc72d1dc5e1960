"""Computing what has one element type in another one."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from xjit.hlo import HloInstruction, HloModule, PrimitiveType, Shape, Trait
from xjit.hlo.diagnostics import FailedPrecondition, InvalidArgument
from xjit.hlo.types.primitive_type import BY_TEXT
from xjit.ops import build
from xjit.passes.framework.base import HloModulePass
from xjit.passes.framework.expansion import Expansion

_LEFT = frozenset({
    "parameter", "constant", "tuple", "get-tuple-element", "convert", "bitcast-convert", "bitcast", "infeed",
    "outfeed", "custom-call", "while", "call", "conditional", "fusion", "map", "reduce", "reduce-window", "scatter",
    "scan", "select-and-scatter", "sort", "all-reduce", "reduce-scatter", "opt-barrier", "add-dependency", "domain",
    "send", "recv", "send-done", "recv-done", "get-dimension-size", "partition-id", "replica-id", "rng-bit-generator",
    "rng-get-and-update-state", "shift-left", "shift-right-arithmetic", "shift-right-logical", "popcnt",
    "count-leading-zeros", "mulhi", "reduce-precision",
})  # fmt: skip
"""What forwards values, what calls a computation (that is converted instead), and what depends on a type's bits."""

_TYPE_FOLLOWS_OPERAND = frozenset({"complex", "fft"})
"""Their result has the precision of what they read, in another type."""

_DATA_OPERANDS = {"set-dimension-size": 1, "dynamic-reshape": 1}
"""How many operands, from the first, are data: sizes of dimensions keep their type."""


@dataclass
class HloElementTypeConverter(HloModulePass):
    """Computes in `replace_type` what reads `eliminate_type`: operands are converted, and the result back.

    Types are floats, or integers of one signedness, and the second is the wider one. InvalidArgument for others.
    FailedPrecondition, before anything has changed, where an instruction makes the type out of others.
    """

    name = "hlo-element-type-converter"
    eliminate_type: str = "f16"
    replace_type: str = "f32"

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Converts in every computation, those of fusions and reducers, too; True if something was converted."""
        if self.eliminate_type == self.replace_type:
            return False
        old, new = self._types()
        computations = [
            c
            for c in module.make_computation_post_order()
            if not execution_threads or c.execution_thread in execution_threads
        ]
        found = [i for c in computations for i in c.make_instruction_post_order() if _is_converted(i, old)]
        for instruction in found:
            _convert(instruction, old, new)
        return bool(found)

    def _types(self) -> tuple[PrimitiveType, PrimitiveType]:
        old, new = self._type(self.eliminate_type), self._type(self.replace_type)
        alike = (old.is_float and new.is_float) or (
            old.is_integer and new.is_integer and old.is_signed == new.is_signed
        )
        if not alike or new.bit_width <= old.bit_width:
            raise InvalidArgument(f"{self.name}: {new.text} does not hold every {old.text}, or is of another kind")
        return old, new

    def _type(self, text: str) -> PrimitiveType:
        kind = BY_TEXT.get(text)
        if kind is None:
            raise InvalidArgument(f"{self.name}: '{text}' is no element type")
        return kind


def _is_converted(instruction: HloInstruction, old: PrimitiveType) -> bool:
    """Whether an instruction reads the type, or makes it out of nothing."""
    if instruction.opcode in _LEFT or instruction.op.has(Trait.ASYNC):
        return False
    if any(o.shape.is_tuple for o in instruction.operands):
        return False  # a copy: it forwards what others compute
    reads = any(o.shape.element_type is old for o in _data(instruction))
    if reads and not (instruction.opcode in _TYPE_FOLLOWS_OPERAND and not _has(instruction.shape, old)):
        return True
    makes = reads or _has(instruction.shape, old)
    if makes and instruction.operand_count:
        how = f"makes another type out of {old.text}" if reads else f"makes {old.text} out of other types"
        message = f"{instruction.name}: {instruction.opcode} {how}"
        raise FailedPrecondition(message, instruction.span)
    return makes


def _data(instruction: HloInstruction) -> tuple[HloInstruction, ...]:
    return instruction.operands[: _DATA_OPERANDS.get(instruction.opcode)]


def _convert(instruction: HloInstruction, old: PrimitiveType, new: PrimitiveType) -> None:
    into, data = Expansion(instruction), _data(instruction)
    converted: dict[HloInstruction, HloInstruction] = {}
    for operand in instruction.unique_operands():
        wide = operand in data and operand.shape.element_type is old
        converted[operand] = into.add(build.convert(operand, new)) if wide else operand
    shape = _with_type(instruction.shape, old, new)
    operands = [converted[o] if i < len(data) else o for i, o in enumerate(instruction.operands)]
    clone = into.add(instruction.clone_with_new_operands(shape, operands))
    if shape == instruction.shape:
        into.replace_source(clone)
    elif shape.is_tuple:
        elements = [into.element(clone, n) for n in range(len(shape.tuple_shapes))]
        back = [_back(into, e, s) for e, s in zip(elements, instruction.shape.tuple_shapes, strict=True)]
        into.replace_source(into.tuple_of(*back))
    else:
        into.replace_source(_back(into, clone, instruction.shape))
    if instruction.parent is not None:  # it has a side effect, which its clone has now
        into.computation.force_remove_instruction(instruction)


def _back(into: Expansion, value: HloInstruction, shape: Shape) -> HloInstruction:
    if value.shape.element_type is shape.element_type:
        return value
    return into.add(HloInstruction.create("convert", shape, [value]))


def _has(shape: Shape, kind: PrimitiveType) -> bool:
    return any(s.element_type is kind for _, s in shape.leaves())


def _with_type(shape: Shape, old: PrimitiveType, new: PrimitiveType) -> Shape:
    if shape.is_tuple:
        return Shape.tuple_of([_with_type(s, old, new) for s in shape.tuple_shapes])
    return shape.with_element_type(new) if shape.element_type is old else shape
