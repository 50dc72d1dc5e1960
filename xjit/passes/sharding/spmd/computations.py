"""One computation after the other: calls, loops and branches meet their callees at agreed shardings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from xjit.hlo import HloComputation, HloInstruction
from xjit.hlo import attributes as at
from xjit.hlo.annotations.device_sharding import REPLICATED, DeviceSharding
from xjit.hlo.attributes.opcodes import Trait
from xjit.passes.sharding.sharding_slots import leaf_shapes
from xjit.passes.sharding.spmd.builder import NOTHING, SpmdBuilder, SpmdModule
from xjit.passes.sharding.spmd.leaves import annotated_leaves, assemble, local_value_shape, take_apart
from xjit.passes.sharding.spmd.opcode_rules import partition_instruction
from xjit.passes.sharding.spmd.partitioned_hlo import PartitionedHlo, reshard
from xjit.passes.sharding.spmd.placement import Groups, keep_tiles
from xjit.passes.sharding.spmd.summands import sum_of, summand_of

Leaves = list[DeviceSharding]


@dataclass(frozen=True, slots=True)
class Boundary:
    """The shardings of a computation's parameters and root, array by array.

    `owners` names, for arrays of the entry's parameters, the only device that has them; `summed` and `root_summed` the
    groups of devices that have summands of the entry's arrays.
    """

    parameters: Sequence[Leaves]
    root: Leaves
    owners: Sequence[Sequence[int | None]] = ()
    summed: Sequence[Sequence[Groups]] = ()
    root_summed: Sequence[Groups] = ()


def boundaries_of(computations: Iterable[HloComputation], entry: Boundary) -> dict[HloComputation, Boundary]:
    """Returns the boundary of every computation that runs in sequence, the entry first; each has one caller."""
    found: dict[HloComputation, Boundary] = {}
    for computation in computations:
        found.setdefault(computation, entry)
        for caller in computation.instructions:
            if not caller.op.has(Trait.CONTROL_FLOW):
                continue
            own = annotated_leaves(caller)
            if caller.opcode == "while":
                found[caller.while_condition] = Boundary(
                    [own], [_choice(annotated_leaves(caller.while_condition.root_instruction)[0])]
                )
                found[caller.while_body] = Boundary([own], own)
                continue
            for n, callee in enumerate(caller.called_computations):
                given = caller.operands[n + 1 : n + 2] if caller.opcode == "conditional" else caller.operands
                pairs = zip(callee.parameter_instructions, given, strict=True)
                found[callee] = Boundary([annotated_leaves(p if p.sharding else o) for p, o in pairs], own)
    return found


def partition_computation(
    computation: HloComputation, boundaries: Mapping[HloComputation, Boundary], spmd: SpmdModule
) -> None:
    """Replaces a computation's instructions by those of one device, in place."""
    for parameter in computation.parameter_instructions:
        _stand_in(parameter)
    partition = _ComputationPartition(boundaries, boundaries[computation], spmd)
    before = computation.make_instruction_post_order()
    for instruction in before:
        partition.visit(instruction)
    root = computation.root_instruction
    b = SpmdBuilder(spmd, root)
    own = boundaries[computation]
    parts = _resharded(partition.values[root], own.root, b)
    if any(own.root_summed):
        pairs = zip(parts, own.root_summed, strict=True)
        parts = [replace(part, local=summand_of(part.local, groups, b)) for part, groups in pairs]
    computation.set_root_instruction(assemble(root.shape, iter(parts), b), accept_different_shape=True)
    partition.keep_control_edges()
    for instruction in reversed(before):
        if instruction.opcode != "parameter":
            computation.force_remove_instruction(instruction)
    _remove_unused(computation, spmd)


def _choice(sharding: DeviceSharding) -> DeviceSharding:
    """Where what decides about branches is: all devices go the same way, but in manual regions."""
    in_region = sharding.kind == "manual" or "manual" in sharding.subgroups
    return keep_tiles(sharding, ()) if in_region else REPLICATED


def _stand_in(parameter: HloInstruction) -> None:
    """Puts a copy between a parameter, which becomes a tile, and its users, which are asked for whole shapes."""
    computation = parameter.parent
    assert computation is not None
    copy = HloInstruction.create("copy", parameter.shape, [])
    computation.add_instruction(copy)
    copy.sharding, copy.metadata, copy.place = parameter.sharding, parameter.metadata, parameter.place
    parameter.replace_all_uses_with(copy)
    copy.append_operand(parameter)


def _remove_unused(computation: HloComputation, spmd: SpmdModule) -> None:
    """Removes what was made and not needed in the end, elements of tuples and exchanges among them."""
    for instruction in reversed(computation.instructions):
        used = instruction.user_count or instruction.is_root() or instruction.opcode == "parameter"
        if not used and (spmd.made(instruction) or not instruction.has_side_effect()):
            computation.force_remove_instruction(instruction)


class _ComputationPartition:
    """The values of one computation so far, as lists of their arrays."""

    def __init__(self, boundaries: Mapping[HloComputation, Boundary], own: Boundary, spmd: SpmdModule) -> None:
        self.values: dict[HloInstruction, list[PartitionedHlo]] = {}
        self._boundaries = boundaries
        self._own = own
        self._spmd = spmd

    def visit(self, instruction: HloInstruction) -> None:
        """Makes the value of an instruction, whose operands have been visited, in the sharding it is annotated with."""
        b = SpmdBuilder(self._spmd, instruction)
        rule = _STRUCTURAL.get(instruction.opcode)
        if instruction.opcode == "parameter":
            self.values[instruction] = self._parameter(instruction, b)
            return
        target = annotated_leaves(instruction)
        if rule is not None:
            parts = rule(self, instruction, b)
        else:
            operands = [part for o in instruction.operands for part in self.values[o]]
            parts = partition_instruction(instruction, operands, target[0], b)
        self.values[instruction] = _resharded(parts, target, b)

    def _parameter(self, parameter: HloInstruction, b: SpmdBuilder) -> list[PartitionedHlo]:
        number = parameter.attributes_as(at.ParameterAttributes).parameter_number
        shape, shardings = parameter.shape, self._own.parameters[number]
        parameter.shape = local_value_shape(shape, iter(shardings), self._spmd.devices)
        parts = take_apart(parameter, shape, shardings, b)
        owners = self._own.owners[number] if self._own.owners else [None] * len(parts)
        summed = self._own.summed[number] if self._own.summed else [()] * len(parts)
        parts = [replace(p, local=sum_of(p.local, groups, b)) for p, groups in zip(parts, summed, strict=True)]
        return [_from(owner, part, b) for owner, part in zip(owners, parts, strict=True)]

    def call(self, caller: HloInstruction, b: SpmdBuilder) -> list[PartitionedHlo]:
        """The result of a loop, branches or a callee, whose parameters and roots are where they agree."""
        callees = caller.called_computations
        boundary = self._boundaries[callees[-1]]
        given: list[HloInstruction] = []
        for n, operand in enumerate(caller.operands):
            wanted = [_choice(part.sharding) for part in self.values[operand][:1]]
            if caller.opcode != "conditional":
                wanted = boundary.parameters[n]
            elif n:
                wanted = self._boundaries[callees[n - 1]].parameters[0]
            given.append(assemble(operand.shape, iter(_resharded(self.values[operand], wanted, b)), b))
        shape = local_value_shape(caller.shape, iter(boundary.root), self._spmd.devices)
        local = b.add(caller.clone_with_new_operands(shape, given))
        return take_apart(local, caller.shape, boundary.root, b)

    def keep_control_edges(self) -> None:
        """What had to run before something else still does."""
        for old, parts in self.values.items():
            for successor in old.control_successors:
                for before in {part.local: None for part in parts}:
                    for after in {part.local: None for part in self.values[successor]}:
                        if before is not after and before.parent is after.parent:
                            before.add_control_dependency_to(after)

    def elements(self, instruction: HloInstruction, _: SpmdBuilder) -> list[PartitionedHlo]:
        """The arrays of an element of a tuple."""
        operand = instruction.operand(0)
        index = instruction.attributes_as(at.GetTupleElementAttributes).index
        start = sum(1 for s in operand.shape.tuple_shapes[:index] for _ in leaf_shapes(s))
        return self.values[operand][start : start + sum(1 for _ in leaf_shapes(instruction.shape))]

    def all_of(self, instruction: HloInstruction, b: SpmdBuilder) -> list[PartitionedHlo]:
        """The arrays of all operands; an empty tuple is made anew."""
        parts = [part for o in instruction.operands for part in self.values[o]]
        return parts or [PartitionedHlo(b.tuple_of(), instruction.shape, REPLICATED)]

    def first_of(self, instruction: HloInstruction, b: SpmdBuilder) -> list[PartitionedHlo]:
        """The arrays of the first operand, through another one of the same opcode if that does something."""
        first, *others = instruction.operands
        parts = self.values[first]
        if instruction.opcode not in ("opt-barrier", "add-dependency"):
            return parts
        whole = assemble(first.shape, iter(parts), b)
        given = [whole, *[self.values[o][0].local for o in others]]
        local = b.add(instruction.clone_with_new_operands(whole.shape, given))
        return take_apart(local, first.shape, [part.sharding for part in parts], b)

    def join(self, instruction: HloInstruction, b: SpmdBuilder) -> list[PartitionedHlo]:
        """A token behind those of the operands."""
        tokens = [self.values[o][0].local for o in instruction.operands]
        return [
            PartitionedHlo(
                b.add(instruction.clone_with_new_operands(instruction.shape, tokens)), instruction.shape, REPLICATED
            )
        ]


_STRUCTURAL: Mapping[str, Callable[[_ComputationPartition, HloInstruction, SpmdBuilder], list[PartitionedHlo]]] = {
    "add-dependency": _ComputationPartition.first_of,
    "after-all": _ComputationPartition.join,
    "call": _ComputationPartition.call,
    "conditional": _ComputationPartition.call,
    "copy": _ComputationPartition.first_of,
    "domain": _ComputationPartition.first_of,
    "get-tuple-element": _ComputationPartition.elements,
    "opt-barrier": _ComputationPartition.first_of,
    "tuple": _ComputationPartition.all_of,
    "while": _ComputationPartition.call,
}


def _resharded(
    parts: Sequence[PartitionedHlo], target: Sequence[DeviceSharding], b: SpmdBuilder
) -> list[PartitionedHlo]:
    return [reshard(part, sharding, b) for part, sharding in zip(parts, target, strict=True)]


def _from(owner: int | None, part: PartitionedHlo, b: SpmdBuilder) -> PartitionedHlo:
    """The array on all devices, if only one has it."""
    if owner is None or not part.shape.is_array:
        return part
    own = b.is_on(owner)
    mask = b.broadcast(own, part.shape.dimensions) if part.shape.rank else own
    alone = b.make("select", mask, part.local, b.like(part.local, NOTHING))
    return PartitionedHlo(b.sum_over(alone, (tuple(range(b.spmd.devices)),)), part.shape, REPLICATED)
