"""Computes in a wide type what a backend cannot compute in a narrow one: converts operands, and the result back."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import field

from xjit.dataclass import dataclass
from xjit.hlo import HloComputation, HloInstruction, HloModule, PrimitiveType, Shape, Trait
from xjit.hlo.annotations.sharding import sharding_fits
from xjit.hlo.edit.replacing import inherit_annotations
from xjit.ops import build
from xjit.ops.evaluation.reduction import simple_opcode
from xjit.passes.float_types.float_support import (
    FloatSupport,
    UniformFloatSupport,
    effective_operand_precision_is_output_precision,
)
from xjit.passes.framework.base import HloModulePass, selected_computations

_LEFT = frozenset({
    "tuple", "get-tuple-element", "constant", "domain", "parameter", "fusion", "convert", "call", "custom-call",
    "while", "conditional", "bitcast", "bitcast-convert", "opt-barrier", "add-dependency",
})  # fmt: skip


@dataclass
class BFloat16Normalization(HloModulePass):
    """Makes every instruction one that `support` allows: the rest is computed in the wide type, rounded once.

    What is not possible in the narrow type, or in both at once, gets its operands converted to the wide one, and
    users read its result converted back. Computations that are applied to elements are cloned with the types that
    they get. Signatures, tuples, control flow, custom calls and fusions are left.
    """

    support: FloatSupport = field(default_factory=FloatSupport)

    name = "bfloat16-normalization"
    aliases = ("float-normalization",)

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Normalizes in every computation but fusions; True if something changed."""
        return normalize(module, execution_threads, self.support, may_narrow=True)


@dataclass
class BFloat16MixedPrecisionRemoval(HloModulePass):
    """Computes in f32 whatever reads or makes both f32 and bf16; what is bf16 throughout stays."""

    support: UniformFloatSupport = field(default_factory=UniformFloatSupport)

    name = "bfloat16-mixed-precision-removal"

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Removes mixed precision in every computation but fusions; True if something changed."""
        return normalize(module, execution_threads, self.support, may_narrow=False)


def normalize(module: HloModule, execution_threads: Collection[str], support: FloatSupport, may_narrow: bool) -> bool:
    """Makes every instruction one that `support` allows; True if something changed.

    With `may_narrow`, mixed operands are rounded where that leaves the result as it is.
    """
    changed, waiting = False, selected_computations(module, execution_threads)
    while waiting:
        computation = waiting.pop()  # callers first: what they apply is cloned before it is changed
        if computation.parent is None:
            continue
        for instruction in computation.make_instruction_post_order():
            if _is_left(instruction):
                continue
            visit = _Visit(instruction, support, may_narrow)
            changed |= visit.run()
            waiting += visit.made
    return changed


def _is_left(instruction: HloInstruction) -> bool:
    has_effect = instruction.has_side_effect_no_recurse() and not instruction.op.has(Trait.COLLECTIVE)
    return instruction.opcode in _LEFT or has_effect or instruction.op.has(Trait.ASYNC)


class _Visit:
    """One instruction. `made` are the computations cloned for it."""

    def __init__(self, instruction: HloInstruction, support: FloatSupport, may_narrow: bool) -> None:
        self.instruction = instruction
        self.support = support
        self.may_narrow = may_narrow
        self.made: list[HloComputation] = []
        self._converted: dict[tuple[HloInstruction, PrimitiveType], HloInstruction] = {}

    def run(self) -> bool:
        """Normalizes the instruction; True if it changed."""
        i, s = self.instruction, self.support
        narrow = [n for n, o in enumerate(i.operands) if o.shape.element_type is s.low]
        makes_narrow = _has(i.shape, s.low)
        if not narrow and not makes_narrow:
            return False
        widened = [n for n in narrow if not s.supports_low_precision_operand(i, n)]
        widens_output = makes_narrow and not s.supports_low_precision_output(i)
        has_low = len(widened) < len(narrow) or (makes_narrow and not widens_output)
        wide = [n for n, o in enumerate(i.operands) if o.shape.element_type is s.high]
        applied = [p for c in i.called_computations for p in c.parameter_instructions]
        has_high = bool(widened or wide) or widens_output or any(_has(v.shape, s.high) for v in (i, *applied))
        if has_low and has_high and not s.supports_mixed_precisions(i):
            if self._narrows(wide, bool(widened) or widens_output):
                self._convert_operands(wide, s.low)
                return True
            widened, widens_output = narrow, makes_narrow
        if not widened and not widens_output:
            return False
        self._convert_operands(widened, s.high)
        if widens_output:
            self._widen_output()
        self._convert_computations()
        return True

    def _narrows(self, wide: list[int], must_widen: bool) -> bool:
        """Whether the wide operands may be rounded instead."""
        i, s = self.instruction, self.support
        if must_widen or not self.may_narrow or i.called_computations or i.shape.element_type is not s.low:
            return False
        return all(
            s.supports_low_precision_operand(i, n)
            and (
                s.effective_operand_precision_is_low_precision(i, n)
                or effective_operand_precision_is_output_precision(i, n)
            )
            for n in wide
        )

    def _convert_operands(self, numbers: list[int], kind: PrimitiveType) -> None:
        computation = self.instruction.parent
        assert computation is not None
        for n in numbers:
            operand = self.instruction.operand(n)
            new = self._converted.get((operand, kind))
            if new is None:
                new = self._converted[operand, kind] = self._add(build.convert(operand, kind), operand)
            self.instruction.replace_operand_with_different_shape(n, new)

    def _widen_output(self) -> None:
        """Gives the result the wide type, and its users the result converted back."""
        i, s = self.instruction, self.support
        computation, old, users, was_root = i.parent, i.shape, i.users, i.is_root()
        assert computation is not None
        i.shape = _with_type(old, s.low, s.high)
        if old.is_tuple:
            count = len(old.tuple_shapes)
            elements = [self._add(HloInstruction.create_get_tuple_element(i, n), i) for n in range(count)]
            back = [self._back(e, shape) for e, shape in zip(elements, old.tuple_shapes, strict=True)]
            new = self._add(HloInstruction.create_tuple(back), i)
        else:
            new = self._back(i, old)
        read_instead(i, new, users)
        if was_root:
            computation.set_root_instruction(new, accept_different_shape=True)

    def _back(self, value: HloInstruction, shape: Shape) -> HloInstruction:
        if shape.element_type is not self.support.low:
            return value
        return self._add(build.convert(value, self.support.low), value)

    def _add(self, new: HloInstruction, like: HloInstruction) -> HloInstruction:
        """Adds an instruction that stands for another in a different type: it is sharded as that is."""
        i = self.instruction
        assert i.parent is not None
        i.parent.add_instruction(new)
        new.metadata, new.place, new.frontend_attributes = i.metadata, i.place, dict(i.frontend_attributes)
        if sharding_fits(like.sharding, like.shape, new.shape):
            new.sharding = like.sharding
        return new

    def _convert_computations(self) -> None:
        """Clones what is applied to elements, for the types that it gets now; inside it computes as before."""
        i, s = self.instruction, self.support
        for n, computation in enumerate(i.called_computations):
            if not any(
                _has(v.shape, s.low) for v in (*computation.parameter_instructions, computation.root_instruction)
            ):
                continue
            assert computation.parent is not None
            opcode = simple_opcode(computation)
            if opcode is not None:  # summed in the wide type, and rounded once
                wide = build.make_binary_computation(opcode, s.high)
            else:
                wide = computation.clone("wide")
            computation.parent.add_embedded_computation(wide, i.parent)
            i.set_called_computation(n, wide)
            if opcode is None:
                _widen_signature(wide, s)
                self.made.append(wide)
            if not computation.caller_instructions():
                computation.parent.remove_embedded_computation(computation)


def read_instead(old: HloInstruction, new: HloInstruction, users: Iterable[HloInstruction]) -> None:
    """Makes some users read another instruction, of any shape."""
    for user in users:
        for n, operand in enumerate(user.operands):
            if operand is old:
                user.replace_operand_with_different_shape(n, new)


def narrow_reducer(instruction: HloInstruction, support: FloatSupport) -> None:
    """Gives a reduction by one opcode a computation on the narrow type."""
    module, wide = instruction.module, instruction.to_apply
    opcode = simple_opcode(wide)
    assert module is not None and opcode is not None
    narrow = build.make_binary_computation(opcode, support.low)
    instruction.to_apply = module.add_embedded_computation(narrow, instruction.parent)
    if not wide.caller_count:
        module.remove_embedded_computation(wide)


def _widen_signature(computation: HloComputation, support: FloatSupport) -> None:
    for parameter in computation.parameter_instructions:
        if parameter.shape.element_type is support.low:
            _widen_parameter(parameter, support)
    _widen_root(computation, support)


def _widen_parameter(parameter: HloInstruction, support: FloatSupport) -> None:
    assert parameter.parent is not None
    users, was_root = parameter.users, parameter.is_root()
    parameter.shape = parameter.shape.with_element_type(support.high)
    back = parameter.parent.add_instruction(build.convert(parameter, support.low))
    inherit_annotations(back, parameter)
    read_instead(parameter, back, users)
    if was_root:
        parameter.parent.set_root_instruction(back, accept_different_shape=True)


def _widen_root(computation: HloComputation, support: FloatSupport) -> None:
    root = computation.root_instruction
    if not _has(root.shape, support.low):
        return
    if root.shape.is_array:
        new = computation.add_instruction(build.convert(root, support.high))
    else:
        elements = root.operands if root.opcode == "tuple" else [
            computation.add_instruction(HloInstruction.create_get_tuple_element(root, n))
            for n in range(len(root.shape.tuple_shapes))
        ]  # fmt: skip
        wide = [
            computation.add_instruction(build.convert(e, support.high)) if e.shape.element_type is support.low else e
            for e in elements
        ]
        new = computation.add_instruction(HloInstruction.create_tuple(wide))
    inherit_annotations(new, root)
    computation.set_root_instruction(new, accept_different_shape=True)
    if root.opcode == "tuple" and not root.user_count:
        computation.remove_instruction(root)


def _has(shape: Shape, kind: PrimitiveType) -> bool:
    return any(s.element_type is kind for s in (shape.tuple_shapes if shape.is_tuple else (shape,)))


def _with_type(shape: Shape, old: PrimitiveType, new: PrimitiveType) -> Shape:
    if shape.is_tuple:
        return Shape.tuple_of([_with_type(s, old, new) for s in shape.tuple_shapes])
    return shape.with_element_type(new) if shape.element_type is old else shape
