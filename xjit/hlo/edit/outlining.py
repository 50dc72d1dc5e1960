"""Outlining: instructions move into a computation of their own, and a call takes their place. Replacing callees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from xjit.hlo.diagnostics import InvalidArgument
from xjit.hlo.edit.replacing import replace
from xjit.hlo.ir.paths import instruction_between

if TYPE_CHECKING:
    from xjit.hlo.ir.computation import HloComputation
    from xjit.hlo.ir.instruction import HloInstruction
    from xjit.hlo.ir.module import HloModule


def outline_expression_from_computation(
    module: HloModule, instructions: Sequence[HloInstruction], name: str, computation: HloComputation
) -> HloInstruction:
    """Moves `instructions` into a new computation `name` and returns the call that replaces the last of them.

    They come in topological order; only the last, the root, may have users outside or be the computation's root.
    What they read from outside becomes the parameters, each value once, in the order of first use.
    Errors: InvalidArgument if one of this does not hold.
    """
    _check(module, instructions, computation)
    outlined = computation.new_computation(name)
    mapping: dict[HloInstruction, HloInstruction] = {}
    arguments: list[HloInstruction] = []
    members = set(instructions)
    for operand in (o for i in instructions for o in i.operands):
        if operand not in members and operand not in mapping:
            parameter = operand.create_parameter(len(arguments), operand.shape, f"p{len(arguments)}")
            mapping[operand] = outlined.add_instruction(parameter)
            arguments.append(operand)
    for old in instructions:
        clone = old.clone_with_new_operands(old.shape, [mapping[o] for o in old.operands])
        mapping[old] = outlined.add_instruction(clone)
    _move_control_edges(instructions, mapping)
    outlined.set_root_instruction(mapping[instructions[-1]])
    module.add_embedded_computation(outlined)
    return _replace_by_call(computation, instructions, arguments, outlined)


def _replace_by_call(
    computation: HloComputation,
    instructions: Sequence[HloInstruction],
    arguments: Sequence[HloInstruction],
    outlined: HloComputation,
) -> HloInstruction:
    root = instructions[-1]
    call = computation.add_instruction(root.create("call", root.shape, arguments, called_computations=[outlined]))
    members = set(instructions)
    for old in instructions[:-1]:  # edges to the outside are the call's from now on
        for predecessor in old.control_predecessors:
            if predecessor not in members:
                predecessor.add_control_dependency_to(call)
        for successor in old.control_successors:
            if successor not in members:
                call.add_control_dependency_to(successor)
        old.drop_all_control_deps()
    replace(root, call, [call])
    for old in reversed(instructions):
        if old.parent is computation:
            computation.force_remove_instruction(old)
    return call


def _move_control_edges(instructions: Sequence[HloInstruction], mapping: dict[HloInstruction, HloInstruction]) -> None:
    members = set(instructions)
    for old in instructions:
        for successor in old.control_successors:
            if successor in members:
                mapping[old].add_control_dependency_to(mapping[successor])


def _check(module: HloModule, instructions: Sequence[HloInstruction], computation: HloComputation) -> None:
    if not instructions:
        raise InvalidArgument("there is nothing to outline")
    if computation.parent is not module:
        raise InvalidArgument(f"computation {computation.name} is not in module {module.name}")
    members = set(instructions)
    if len(members) != len(instructions):
        raise InvalidArgument("an instruction to outline is listed twice")
    seen: set[HloInstruction] = set()
    for instruction in instructions:
        if instruction.parent is not computation:
            raise InvalidArgument(f"{instruction.name} is not in computation {computation.name}")
        if instruction.opcode == "parameter":
            raise InvalidArgument(f"parameter {instruction.name} cannot be outlined")
        if late := next((o for o in instruction.operands if o in members and o not in seen), None):
            raise InvalidArgument(f"{late.name} must come before its user {instruction.name}")
        seen.add(instruction)
        if instruction is instructions[-1]:
            continue
        if instruction.is_root():
            raise InvalidArgument(f"{instruction.name} is the root of {computation.name}, but not the last to outline")
        if outside := next((u for u in instruction.users if u not in members), None):
            raise InvalidArgument(f"{instruction.name} is not the last to outline, but {outside.name} reads it")
    if outside := instruction_between(instructions):
        raise InvalidArgument(f"{outside.name} lies between the instructions to outline: the call would need itself")


def check_replacements(module: HloModule, replacements: Mapping[HloComputation, HloComputation]) -> None:
    """Raises InvalidArgument unless both sides are of the module, with one signature, and nothing replaced is used."""
    for old, new in replacements.items():
        for computation in (old, new):
            if computation.parent is not module:
                raise InvalidArgument(f"computation {computation.name} is not in module {module.name}")
        if new in replacements:
            raise InvalidArgument(f"computation {new.name} replaces {old.name}, but is to be replaced itself")
        ours, theirs = old.compute_program_shape(), new.compute_program_shape()
        same = len(ours.parameters) == len(theirs.parameters) and ours.result.compatible(theirs.result)
        if not same or not all(x.compatible(y) for x, y in zip(ours.parameters, theirs.parameters)):
            raise InvalidArgument(f"{new.name} {theirs} cannot replace {old.name} {ours}: the signatures differ")
