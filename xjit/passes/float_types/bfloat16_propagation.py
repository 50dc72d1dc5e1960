"""Rounds early: what is rounded to bf16 in the end is moved, carried and compared in bf16 from the start."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

import numpy as np

from xjit.hlo import HloInstruction, HloModule, Literal, PrimitiveType
from xjit.hlo import attributes as at
from xjit.hlo.edit.replacing import inherit_annotations
from xjit.ops import build
from xjit.passes.float_types.float_normalization import narrow_reducer, read_instead
from xjit.passes.float_types.float_support import (
    ExactFloatSupport,
    FloatSupport,
    effective_operand_precision_is_output_precision,
)
from xjit.passes.float_types.type_classes import (
    Leaf,
    TypeClasses,
    hands_on,
    is_converted_for_tuple,
    leaves,
    with_leaf_types,
)
from xjit.passes.framework.base import HloModulePass, has_control_dependencies


@dataclass
class BFloat16Propagation(HloModulePass):
    """Gives an f32 value the type bf16 if all its uses round it, or hand it on to what is rounded.

    Values go through tuples, loops and fusions, and out of associative scans. Instructions that commute with rounding,
    and that `support` allows, compute in bf16; what others make is converted before it is handed on. So results stay
    bit for bit. Where an operand has more elements than the result, the conversion stays behind. The entry's signature
    stays, as do those of calls, branches and shared computations.
    """

    support: FloatSupport = field(default_factory=ExactFloatSupport)

    name = "bfloat16-propagation"

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Propagates in all computations at once; True if something changed."""
        instructions = [i for c in module.make_computation_post_order() for i in c.make_instruction_post_order()]
        if not any(rounds(i, n, self.support) for i in instructions for n in range(i.operand_count)):
            return False
        decision = _Decision(instructions, TypeClasses(module, execution_threads), self.support)
        decision.make()
        rounding = [use for c in decision.narrow for use in decision.uses.get(c, ()) if decision.rounds(*use)]
        computing = set(filter(decision.computes_narrow, instructions))
        for instruction in instructions:
            if hands_on(instruction):
                _narrow_leaves(instruction, decision)
        for instruction in instructions:
            if instruction in computing:
                _compute_narrow(instruction, self.support)
            elif not hands_on(instruction) and decision.is_narrow(instruction):
                _hand_on_rounded(instruction, self.support)
        for user, n in rounding:
            _read_rounded(user, n, self.support)
        return bool(decision.narrow)


class _Decision:
    """Which classes of leaves are `narrow`: at first all that may be, then without those that a use forbids."""

    def __init__(self, instructions: list[HloInstruction], classes: TypeClasses, support: FloatSupport) -> None:
        self.instructions = instructions
        self.classes = classes
        self.support = support
        self.narrow: dict[Leaf, None] = {}  # a set in order, as `handed_on`: each run decides alike
        self.refused: set[HloInstruction] = set()
        self.handed_on: dict[Leaf, None] = {}
        self.makers: dict[Leaf, list[HloInstruction]] = defaultdict(list)
        self.uses: dict[Leaf, list[tuple[HloInstruction, int]]] = defaultdict(list)
        for i in instructions:
            if hands_on(i):
                self.handed_on.update(dict.fromkeys(self._wide_classes(i)))
                continue
            for c in self._wide_classes(i):
                self.makers[c].append(i)
            for n, operand in enumerate(i.operands):
                for c in self._wide_classes(operand):
                    self.uses[c].append((i, n))

    def make(self) -> None:
        """Finds the narrow classes: those of which each use rounds, or belongs to an instruction that computes in the
        narrow type itself, and such that there is not more to convert than there was.
        """
        known = (*self.makers, *self.uses, *self.handed_on)
        self.narrow = dict.fromkeys(c for c in known if not self.classes.is_fixed(c))
        self._remove([c for c in self.narrow if not all(self._allows(use) for use in self.uses.get(c, ()))])
        waiting = self.instructions[::-1]
        while True:
            while waiting:
                i = waiting.pop()
                if self.computes_narrow(i) and self._converts_more(i):
                    waiting += self._refuse(i)
            end_rounded = self._end_rounded()
            lost = [c for c in self.narrow if c not in end_rounded or not self._is_gain(c)]
            if not lost:
                return
            waiting = self._remove(lost)

    def is_narrow(self, instruction: HloInstruction) -> bool:
        """Whether an instruction makes an array that is narrow."""
        return instruction.shape.is_array and self.classes.of((instruction, 0)) in self.narrow

    def computes_narrow(self, instruction: HloInstruction) -> bool:
        """Whether an instruction computes an array in the narrow type."""
        if hands_on(instruction) or instruction in self.refused or not self.is_narrow(instruction):
            return False
        return _may_compute_narrow(instruction, self.support)

    def rounds(self, user: HloInstruction, n: int) -> bool:
        """Whether an instruction rounds a wide operand, and may read a narrow one instead."""
        return rounds(user, n, self.support)

    def _wide_classes(self, instruction: HloInstruction) -> list[Leaf]:
        if not instruction.shape.is_tuple:
            return [self.classes.of((instruction, 0))] if instruction.shape.element_type is self.support.high else []
        shapes = (shape for _, shape in instruction.shape.leaves())
        wide = [n for n, shape in enumerate(shapes) if shape.element_type is self.support.high]
        return [self.classes.of((instruction, n)) for n in wide]

    def _refuse(self, instruction: HloInstruction) -> list[HloInstruction]:
        """Lets an instruction compute in the wide type; returns what has to convert more for it."""
        self.refused.add(instruction)
        lost = [
            c
            for n, operand in enumerate(instruction.operands)
            for c in self._wide_classes(operand)
            if not self._allows((instruction, n))
        ]
        own = self.classes.of((instruction, 0))
        return self._remove(lost if self._is_gain(own) else [*lost, own])

    def _remove(self, lost: Iterable[Leaf]) -> list[HloInstruction]:
        """Takes classes back, and what was narrow for their sake; returns what reads them."""
        waiting, readers = list(lost), list[HloInstruction]()
        while waiting:
            c = waiting.pop()
            if c in self.narrow:
                del self.narrow[c]
                readers += [user for user, _ in self.uses.get(c, ())]
                for maker in self.makers.get(c, ()):
                    for n, operand in enumerate(maker.operands):
                        waiting += [o for o in self._wide_classes(operand) if not self._allows((maker, n))]
        return readers

    def _allows(self, use: tuple[HloInstruction, int]) -> bool:
        user, n = use
        if not user.operand(n).shape.is_array:
            return False
        if self.rounds(user, n):
            return True
        return self.computes_narrow(user) and effective_operand_precision_is_output_precision(user, n)

    def _is_gain(self, c: Leaf) -> bool:
        """Whether something hands a class on, or computes it in the narrow type: of others a conversion only moves."""
        return c in self.handed_on or any(map(self.computes_narrow, self.makers.get(c, ())))

    def _end_rounded(self) -> set[Leaf]:
        """Classes with a use that rounds, or that goes into one of those."""
        sources: dict[Leaf, list[Leaf]] = defaultdict(list)
        waiting: list[Leaf] = []
        for c in self.narrow:
            for user, n in self.uses.get(c, ()):
                if self.rounds(user, n):
                    waiting.append(c)
                else:
                    sources[self.classes.of((user, 0))].append(c)
        found: set[Leaf] = set()
        while waiting:
            c = waiting.pop()
            if c not in found:
                found.add(c)
                waiting += sources[c]
        return found

    def _converts_more(self, instruction: HloInstruction) -> bool:
        high, size = self.support.high, instruction.shape.num_elements
        wide = [o for o in instruction.operands if o.shape.element_type is high and not self.is_narrow(o)]
        return any(o.shape.num_elements > size and not _is_widened(o, self.support) for o in wide)


def rounds(user: HloInstruction, n: int, support: FloatSupport) -> bool:
    """Whether an instruction rounds a wide operand, and may read a narrow one instead."""
    operand = user.operand(n).shape
    is_wide = operand.is_array and operand.element_type is support.high
    if not is_wide or not support.effective_operand_precision_is_low_precision(user, n):
        return False
    return user.opcode != "convert" or not has_control_dependencies(user)


def _may_compute_narrow(instruction: HloInstruction, support: FloatSupport) -> bool:
    if not support.supports_low_precision_output(instruction):
        return False
    wide = [n for n, o in enumerate(instruction.operands) if o.shape.element_type is support.high]
    return bool(wide) and all(
        effective_operand_precision_is_output_precision(instruction, n)
        and support.supports_low_precision_operand(instruction, n)
        for n in wide
    )


def _is_widened(instruction: HloInstruction, support: FloatSupport) -> bool:
    return instruction.opcode == "convert" and instruction.operand(0).shape.element_type is support.low


def _narrow_leaves(instruction: HloInstruction, decision: _Decision) -> None:
    """Gives what hands leaves on their new types."""
    low, high = decision.support.low, decision.support.high
    numbers = {n for n, leaf in enumerate(leaves(instruction)) if decision.classes.of(leaf) in decision.narrow}
    if numbers:
        if instruction.opcode == "tuple":
            for n, operand in enumerate(instruction.operands):
                leaf = instruction.shape.leaf_offsets[n]
                if leaf in numbers and is_converted_for_tuple(instruction, leaf, operand):
                    instruction.replace_operand_with_different_shape(n, _converted(operand, low, instruction))
        instruction.shape = with_leaf_types(
            instruction.shape,
            lambda n, s: s.with_element_type(low) if n in numbers and s.element_type is high else s,
        )


def _compute_narrow(instruction: HloInstruction, support: FloatSupport) -> None:
    """Computes an instruction in the narrow type; its operands were seen to before."""
    computation = instruction.parent
    assert computation is not None
    narrow: dict[HloInstruction, HloInstruction] = {}
    for n, operand in enumerate(instruction.operands):
        if operand.shape.element_type is support.high:
            if operand not in narrow:
                known = _is_widened(operand, support)
                narrow[operand] = operand.operand(0) if known else _converted(operand, support.low, instruction)
            instruction.replace_operand_with_different_shape(n, narrow[operand])
    if instruction.called_computations:
        narrow_reducer(instruction, support)
    instruction.shape = instruction.shape.with_element_type(support.low)
    for operand in narrow:
        if not has_control_dependencies(operand):
            computation.remove_instruction_and_unused_operands(operand)


def _hand_on_rounded(instruction: HloInstruction, support: FloatSupport) -> None:
    """Rounds what an instruction makes, for all that reads it; constants are rounded here and now."""
    users, was_root, computation = instruction.users, instruction.is_root(), instruction.parent
    assert computation is not None
    new = _converted(instruction, support.low, instruction)
    read_instead(instruction, new, users)
    if was_root:
        computation.set_root_instruction(new, accept_different_shape=True)
    if instruction.opcode == "constant" and not has_control_dependencies(instruction):
        computation.remove_instruction(instruction)


def _read_rounded(user: HloInstruction, n: int, support: FloatSupport) -> None:
    """Lets what rounded an operand read it as it is now, or converted back if it must."""
    operand, computation = user.operand(n), user.parent
    assert computation is not None
    if user.opcode == "convert":
        computation.replace_instruction(user, operand)
    elif not (support.supports_low_precision_operand(user, n) and support.supports_mixed_precisions(user)):
        user.replace_operand_with_different_shape(n, _converted(operand, support.high, user))


def _converted(operand: HloInstruction, kind: PrimitiveType, source: HloInstruction) -> HloInstruction:
    """Adds the conversion of an operand, which is sharded as that is, for the sake of an instruction."""
    computation = operand.parent
    assert computation is not None
    if operand.opcode == "constant":
        array = operand.attributes_as(at.ConstantAttributes).literal.array
        new = HloInstruction.create_constant(Literal.from_array(np.asarray(array).astype(kind.dtype)))
        new.shape = operand.shape.with_element_type(kind)
    else:
        new = build.convert(operand, kind)
    computation.add_instruction(new)
    inherit_annotations(new, source)
    new.sharding = operand.sharding
    return new
