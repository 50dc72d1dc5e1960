"""Copies of computations and instructions: nothing is shared but immutable data and called computations.

An `HloCloneContext` collects what became what; with a context whose module differs from a callee's, the callee is
cloned into that module, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from xjit.hlo.attributes import ParameterAttributes
from xjit.hlo.diagnostics import InvalidArgument
from xjit.hlo.ir.post_order import post_order

if TYPE_CHECKING:
    from xjit.hlo.ir.computation import HloComputation
    from xjit.hlo.ir.instruction import HloInstruction
    from xjit.hlo.ir.module import HloModule
    from xjit.hlo.types.shape import Shape

Replacements = Mapping["HloInstruction", "HloInstruction | None"]


class HloCloneContext:
    """What was cloned into `module` so far, and the suffix of the clones' names."""

    def __init__(self, module: HloModule, suffix: str = "") -> None:
        self.module = module
        self.suffix = suffix
        self.instructions: dict[HloInstruction, HloInstruction] = {}
        self.computations: dict[HloComputation, HloComputation] = {}

    def map_instruction(self, old: HloInstruction, new: HloInstruction) -> None:
        """Records the clone of an instruction."""
        self.instructions[old] = new

    def map_computation(self, old: HloComputation, new: HloComputation) -> None:
        """Records the clone of a computation."""
        self.computations[old] = new

    def find_instruction(self, old: HloInstruction) -> HloInstruction | None:
        """Returns the clone of an instruction, or None."""
        return self.instructions.get(old)

    def find_computation(self, old: HloComputation) -> HloComputation | None:
        """Returns the clone of a computation, or None."""
        return self.computations.get(old)


def clone_name(name: str, suffix: str) -> str:
    """Returns the name of a clone: `x` -> `x.clone` -> `x.clone2` -> `x.clone3`; unchanged without a suffix."""
    if not suffix:
        return name
    match = re.fullmatch(rf"(.*\.{re.escape(suffix)})(\d*)", name)
    return f"{match[1]}{int(match[2] or 1) + 1}" if match else f"{name}.{suffix}"


# -- computations


def clone_computation(
    computation: HloComputation,
    called: Mapping[HloComputation, HloComputation],
    clones: dict[HloInstruction, HloInstruction] | None = None,
) -> HloComputation:
    """Returns a free copy of a computation, names kept; called computations are replaced where `called` has them.

    `clones`, if given, gets an entry per instruction.
    """
    clone = computation.new_computation(computation.name)
    clones = {} if clones is None else clones
    order = computation.make_instruction_post_order()
    for old in order:
        operands = [clones[o] for o in old.operands]
        callees = [called.get(c, c) for c in old.called_computations]
        clones[old] = old.clone_with_new_operands(old.shape, operands, called=callees)
    for old in computation.instructions:  # insertion order, which printing follows
        clone.add_instruction(clones[old])
    for old in order:
        for successor in old.control_successors:
            clones[old].add_control_dependency_to(clones[successor])
    clone.set_root_instruction(clones[computation.root_instruction])
    return clone


def clone_with_replacements(
    computation: HloComputation,
    replacements: Replacements,
    extra_parameters: Sequence[HloInstruction] = (),
    suffix: str = "clone",
    context: HloCloneContext | None = None,
) -> HloComputation:
    """Returns a free clone in which some instructions are replaced.

    `replacements` maps an instruction to None, which drops it, or to a free one, which is rewired to the clones: it
    reads instructions of the original or other replacements. `extra_parameters` are free parameters to add.
    Errors: InvalidArgument if a dropped instruction is the root or is read by one that stays, or if the numbers of
    the parameters leave a gap.
    """
    clone = computation.new_computation(clone_name(computation.name, suffix))
    clones = {parameter: clone.add_instruction(parameter) for parameter in extra_parameters}
    try:
        _clone_into(clone, clones, computation, replacements, suffix, context)
    except InvalidArgument:
        for instruction in clone.instructions:
            instruction.detach_from_operands()
        raise
    if context is not None:
        context.map_computation(computation, clone)
    return clone


def _clone_into(
    clone: HloComputation,
    clones: dict[HloInstruction, HloInstruction],
    computation: HloComputation,
    replacements: Replacements,
    suffix: str,
    context: HloCloneContext | None,
) -> None:
    replaced = {new: old for old, new in replacements.items() if new is not None}
    for new, old in replaced.items():
        if new.parent is not None:
            raise InvalidArgument(f"the replacement {new.name} of {old.name} is in use already")
    for old in _post_order(computation, replacements, replaced):
        source = replacements.get(old, old)
        if source is None:
            continue
        operands = [_required(clones, replaced.get(o, o), old) for o in source.operands]
        if source is old:
            new = clone_instruction_with_operands(old, old.shape, operands, context)
            new.name = clone_name(old.name, suffix)
        else:
            new = _rewired(source, operands)
        clones[old] = clone.add_instruction(new)
        if context is not None:
            context.map_instruction(old, new)
    _copy_control_edges(clones)
    clone.set_root_instruction(_required(clones, computation.root_instruction, computation))
    _check_dense(clone)


def _post_order(
    computation: HloComputation, replacements: Replacements, replaced: Mapping[HloInstruction, HloInstruction]
) -> list[HloInstruction]:
    """The instructions so that what their *replacements* read comes first."""
    if not replaced:
        return computation.make_instruction_post_order()

    def needs(old: HloInstruction) -> list[HloInstruction]:
        source = replacements.get(old) or old
        needed = [replaced.get(n, n) for n in (*source.operands, *old.control_predecessors)]
        return [n for n in needed if n.parent is computation]

    def refuse_cycle(old: HloInstruction) -> None:
        raise InvalidArgument(f"the replacement of {old.name} closes a cycle")

    return post_order(computation.instructions, needs, refuse_cycle)


def _required(
    clones: Mapping[HloInstruction, HloInstruction], old: HloInstruction, reader: HloInstruction | HloComputation
) -> HloInstruction:
    if old in clones:
        return clones[old]
    what = "was dropped" if old.parent is not None else "is not in the computation"
    raise InvalidArgument(f"{reader.name} needs {old.name}, which {what}")


def _rewired(instruction: HloInstruction, operands: Sequence[HloInstruction]) -> HloInstruction:
    for i, operand in enumerate(operands):
        instruction.replace_operand_with_different_shape(i, operand)
    return instruction


def _copy_control_edges(clones: Mapping[HloInstruction, HloInstruction]) -> None:
    for old, new in clones.items():
        for successor in old.control_successors:
            if successor in clones:
                new.add_control_dependency_to(clones[successor])


def _check_dense(computation: HloComputation) -> None:
    numbers = [p.attributes_as(ParameterAttributes).parameter_number for p in computation.parameter_instructions]
    if numbers != list(range(len(numbers))):
        raise InvalidArgument(f"the parameters of {computation.name} are numbered {numbers}")


# -- instructions


def clone_instruction(
    instruction: HloInstruction, suffix: str = "clone", context: HloCloneContext | None = None
) -> HloInstruction:
    """Returns a free copy that reads the same operands; its name has the suffix."""
    copied = clone_instruction_with_operands(instruction, instruction.shape, instruction.operands, context)
    copied.name = clone_name(instruction.name, suffix)
    return copied


def clone_instruction_with_operands(
    instruction: HloInstruction,
    shape: Shape,
    operands: Sequence[HloInstruction],
    context: HloCloneContext | None = None,
) -> HloInstruction:
    """Returns a free copy with other operands; callees of another module than the context's are cloned into that."""
    called = list(instruction.called_computations)
    if context is not None:
        for i, callee in enumerate(called):
            if callee.parent is not context.module:
                called[i] = context.module.deep_clone_computation(callee, context)
    copied = instruction.clone_with_new_operands(shape, operands, called=called)
    if context is not None:
        context.map_instruction(instruction, copied)
    return copied
