"""Inserts the copies without which loops, branches and results could not live in one buffer per leaf.

The rule of the compiler: the initial value, the loop-carried element, the body's result and the result of a while share
one buffer per leaf, as do the roots of branches and the result of their conditional; every leaf of the entry's root has
a buffer of its own that is neither a parameter's nor a constant's. Ties that live ranges allow are kept without a copy;
an element that the body passes through, or only updates in place, is never copied.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from xjit.dataclass import dataclass
from xjit.hlo import HloComputation, HloInstruction, HloModule
from xjit.hlo.diagnostics import PassError
from xjit.hlo.edit.replacing import inherit_annotations
from xjit.hlo.types.shape import ShapeIndex
from xjit.passes.analysis.alias_analysis import HloAliasAnalysis, Tie
from xjit.passes.analysis.linear_order import module_sequences
from xjit.passes.analysis.liveness import Liveness
from xjit.passes.framework import analyses
from xjit.passes.framework.base import HloModulePass
from xjit.passes.schedule_and_memory.buffer_classes import BufferClasses
from xjit.passes.schedule_and_memory.copy_cycles import CopyCycles
from xjit.passes.schedule_and_memory.hlo_schedulers import HloMemoryScheduler
from xjit.passes.schedule_and_memory.input_output_aliasing import keep_aliases, must_aliases

_MAX_ROUNDS = 6  # a cycle of elements of several shapes needs two; each further level of nesting can add one


@dataclass
class CopyInsertion(HloModulePass):
    """Copies only where the order of execution leaves no other way; schedules the module first if it has no schedule.

    Elements that change places take one copy each: copies that are right only if they are done at once, which is for
    copy-fusion to see to.
    Copies go where they are needed in the schedule, so nothing may reorder the instructions afterwards.
    """

    name = "copy-insertion"
    is_required = True

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Inserts copies until no tie is in conflict; True if the module changed."""
        changed = False
        if not module.has_schedule():
            changed = HloMemoryScheduler().run(module)
        for round_number in range(_MAX_ROUNDS + 1):
            buffers = analyze_buffers(module)
            cycles = CopyCycles(buffers.flow)
            conflicts = [tie for tie in buffers.conflicts if not cycles.of(tie)]
            if not conflicts:
                break
            if round_number == _MAX_ROUNDS:
                name = conflicts[0].instruction.name
                raise PassError(f"copy-insertion: {conflicts[0].value!r} still cannot share the buffer of {name}")
            _resolve(module, conflicts)
            changed = True
        return _free_aliased_parameters(module) or changed


def analyze_buffers(module: HloModule) -> BufferClasses:
    """Returns the buffer classes of a module in its scheduled order."""
    live = analyses.get(Liveness, module)  # first: it says what is wrong with a module that cannot be analysed
    return BufferClasses(analyses.get(HloAliasAnalysis, module), live)


def _free_aliased_parameters(module: HloModule) -> bool:
    """Copies parameters whose buffers results must have, where those are written while the parameter is still read."""
    wanted_aliases = must_aliases(module)
    if not wanted_aliases:
        return False
    kept = keep_aliases(module, analyze_buffers(module))
    missed = {alias.parameter for alias in wanted_aliases if alias not in kept}
    number = 0
    sequences = module_sequences(module)
    sequence = sequences[module.entry_computation]
    for parameter in module.entry_computation.parameter_instructions:
        indices = [index for index, leaf in parameter.shape.leaves() if leaf.is_array]
        wanted = [index for n, index in enumerate(indices, number) if n in missed]
        number += len(indices)
        if not wanted:
            continue
        readers = parameter.users
        copied, added = copy_leaves(parameter, wanted)
        for reader in readers:
            parameter.replace_use_with(reader, copied)
        sequence.remove(parameter)
        sequence[:0] = [parameter, *added]
    if missed:
        module.schedule.set_sequence(module.entry_computation, sequence)
    return bool(missed)


def _resolve(module: HloModule, conflicts: Sequence[Tie]) -> None:
    sequences = module_sequences(module)
    inits: dict[HloInstruction, list[Tie]] = {}
    roots: dict[HloComputation, list[Tie]] = {}
    for tie in conflicts:
        if tie.kind == "init":
            inits.setdefault(tie.instruction, []).append(tie)
        else:
            roots.setdefault(_computation_of(module, tie), []).append(tie)
    before = {loop: _copy_initial_values(loop, ties) for loop, ties in inits.items()}
    behind = {computation: _copy_root_leaves(computation, _in_safe_order(ties)) for computation, ties in roots.items()}
    schedule = module.schedule
    for computation, sequence in sequences.items():
        order = [i for old in sequence for i in (*before.get(old, ()), old)] + behind.get(computation, [])
        schedule.set_sequence(computation, [i for i in order if i.parent is computation])
    module.set_schedule(schedule)


def _computation_of(module: HloModule, tie: Tie) -> HloComputation:
    if tie.kind == "body":
        return tie.instruction.while_body
    if tie.kind == "branch":
        return tie.instruction.called_computations[tie.branch]
    return module.entry_computation


def _in_safe_order(ties: Sequence[Tie]) -> list[Tie]:
    """Orders copies so that one which overwrites a loop-carried element runs after those that still read it.

    Cycles (a swap) are cut anywhere. Those of one shape are fused later; in others the next round finds the overwritten
    element and adds one copy more.
    """
    reads: dict[object, list[int]] = {}
    for n, tie in enumerate(ties):
        reads.setdefault(tie.value, []).append(n)
    order: list[Tie] = []
    state = [0] * len(ties)  # 0 new, 1 waiting for its readers, 2 done
    for start in range(len(ties)):
        stack = [start]
        while stack:
            n = stack[-1]
            if state[n] == 0:
                state[n] = 1
                stack.extend(m for m in reversed(reads.get(ties[n].target, [])) if state[m] == 0)
            else:
                stack.pop()
                if state[n] == 1:
                    state[n] = 2
                    order.append(ties[n])
    return order


def _copy_initial_values(loop: HloInstruction, ties: Sequence[Tie]) -> list[HloInstruction]:
    """Copies leaves of the operand of a while; returns what is to run right before it."""
    operand = loop.operand(0)
    copied, added = copy_leaves(operand, _leaf_indices(operand, ties))
    loop.replace_operand_with(0, copied)
    _drop_if_dead(operand)
    return added


def _copy_root_leaves(computation: HloComputation, ties: Sequence[Tie]) -> list[HloInstruction]:
    """Copies leaves of a computation's root; returns what is to run at its end."""
    root = computation.root_instruction
    copied, added = copy_leaves(root, _leaf_indices(root, ties))
    computation.set_root_instruction(copied)
    _drop_if_dead(root)
    return added


def _drop_if_dead(instruction: HloInstruction) -> None:
    if instruction.opcode == "tuple" and instruction.is_dead() and not instruction.control_successors:
        assert instruction.parent is not None
        instruction.parent.force_remove_instruction(instruction)


def _leaf_indices(instruction: HloInstruction, ties: Sequence[Tie]) -> list[ShapeIndex]:
    indices = [index for index, _ in instruction.shape.leaves()]
    return [indices[tie.leaf] for tie in ties]


def _copy_of(source: HloInstruction) -> HloInstruction:
    """Returns a free copy of a value; a broadcast scalar is broadcast again, which reads nothing."""
    if source.opcode == "broadcast" and source.operand(0).shape.is_scalar:
        return source.clone_with_new_operands(source.shape, source.operands)
    copy = HloInstruction.create("copy", source.shape, [source], name="copy")
    inherit_annotations(copy, source)
    return copy


def copy_leaves(
    instruction: HloInstruction, leaves: Sequence[ShapeIndex]
) -> tuple[HloInstruction, list[HloInstruction]]:
    """Returns `instruction` with copies at some leaves, and the instructions that were added, in order.

    The copies run in the order of `leaves`. Tuples are rebuilt along the paths to the leaves; other elements are
    passed.
    """
    computation = instruction.parent
    assert computation is not None
    added: list[HloInstruction] = []

    def add(new: HloInstruction) -> HloInstruction:
        added.append(computation.add_instruction(new))
        return new

    def element(value: HloInstruction, i: int) -> HloInstruction:
        if value.opcode == "tuple":
            return value.operand(i)
        existing = elements.get((value, i))
        if existing is None:
            existing = elements[value, i] = add(HloInstruction.create_get_tuple_element(value, i))
        return existing

    elements: dict[tuple[HloInstruction, int], HloInstruction] = {}
    copies: dict[ShapeIndex, HloInstruction] = {}
    for index in leaves:
        source = instruction
        for i in index:
            source = element(source, i)
        copies[index] = add(_copy_of(source))

    def rebuild(value: HloInstruction, prefix: ShapeIndex, wanted: Sequence[ShapeIndex]) -> HloInstruction:
        if prefix in copies:
            return copies[prefix]
        if not wanted:
            return value
        depth = len(prefix)
        parts: dict[int, list[ShapeIndex]] = {}
        for index in wanted:
            parts.setdefault(index[depth], []).append(index)
        operands = [
            rebuild(element(value, i), (*prefix, i), parts.get(i, ())) for i in range(len(value.shape.tuple_shapes))
        ]
        new = add(HloInstruction.create_tuple(operands))
        if not prefix:
            inherit_annotations(new, instruction, same_value=True)
        return new

    return rebuild(instruction, (), leaves), added
