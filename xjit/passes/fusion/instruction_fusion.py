"""Vertical fusion for the CPU: producers are evaluated inside the loops of their consumers.

Users are decided before what they read (reverse post order), so one walk suffices. An instruction joins the fusion of
its users if all of them are in that one; if they are in several it is duplicated into each, where that is cheaper than
memory traffic, or else stored. Both keep fusions convex - no path leaves a fusion and comes back - so no cycle can
arise and no reachability is needed. The fused computations are built in one go at the end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

from xjit.hlo import HloComputation, HloInstruction, HloModule, Trait
from xjit.hlo.attributes import FusionAttributes
from xjit.hlo.edit.fusion_body import FusionBody
from xjit.hlo.ir.use_def import replace_users_operand
from xjit.indexing.operand_reads import OperandRead, OperandReads
from xjit.passes.analysis import fusion_cost as cost
from xjit.passes.analysis.call_graph import CallGraph
from xjit.passes.analysis.in_place import parts_read_elsewhere
from xjit.passes.framework import analyses
from xjit.passes.framework.base import HloModulePass, has_control_dependencies

Evaluations = dict[int, float]
"""Which index expressions an instruction is evaluated at, by number, and how many elements each evaluates."""

TINY = 8
"""Up to that many elements, computing some of them more than once costs less than a kernel."""


@dataclass(eq=False, slots=True)
class _Group:
    """A fusion in the making: members users-first, what it reads from outside, where members are evaluated."""

    root: HloInstruction
    reads: OperandReads
    members: dict[HloInstruction, Evaluations]
    operands: dict[HloInstruction, None]
    duplicates: int = 0
    next_index: int = 1
    indices: dict[tuple[int, tuple[HloInstruction, int] | OperandRead], int] = field(default_factory=dict)
    stays_out: set[HloInstruction] = field(default_factory=set[HloInstruction])  # what an update does not take in
    divisions: dict[int, int] = field(default_factory=lambda: {0: 0})  # through how many an index expression has gone
    edges: dict[int, frozenset[int]] = field(default_factory=dict)  # of joined pieces, along each axis

    def evaluations_of(self, producer: HloInstruction, readers: Sequence[HloInstruction]) -> Evaluations:
        """Returns where the members that read a producer would evaluate it."""
        found: Evaluations = {}
        for user in readers:
            for position, (operand, read) in enumerate(zip(user.operands, self.reads.of(user), strict=True)):
                if operand is producer:
                    there = self.members[user] if read.keeps_index else self._read_at(user, position, read)
                    found = {**found, **there} if found else there
        return found

    def _read_at(self, user: HloInstruction, position: int, read: OperandRead) -> Evaluations:
        found: Evaluations = {}
        for index, count in self.members[user].items():
            # reads that are alike, of one index, are of one index, if it does not depend on data
            key = (index, (user, position) if any(m.rt_vars for m in read.maps) else read)
            number = self.indices.get(key)
            if number is None:
                number = self.indices[key] = self.next_index
                self.next_index += 1
                self.divisions[number] = self.divisions[index] + read.divides
            once = user.opcode in cost.UPDATE_ROOTS
            found[number] = float(read.operand.num_elements) if once else count * read.evaluations
        return found

    def takes_pieces(self, concatenate: HloInstruction, evaluations: Evaluations) -> bool:
        """Whether the loops over the root can be cut where the pieces of an operand meet, too."""
        root = self.root
        if evaluations.keys() != {0} or not root.op.has(Trait.ELEMENTWISE) or not root.shape.is_static_array:
            return False
        axis, edges = cost.edges_of_pieces(concatenate)
        edges = edges | self.edges.get(axis, frozenset())
        boxes = math.prod(len(found) + 1 for found in (self.edges | {axis: edges}).values())
        return root.shape.dimensions == concatenate.shape.dimensions and boxes <= cost.MAX_BOXES

    def add(self, producer: HloInstruction, evaluations: Evaluations) -> None:
        self.members[producer] = evaluations
        if producer.opcode == "concatenate":
            axis, edges = cost.edges_of_pieces(producer)
            self.edges[axis] = edges | self.edges.get(axis, frozenset())
        self.operands.pop(producer, None)
        self.operands.update(dict.fromkeys(producer.operands))


class _Producer:
    """An instruction that may join groups, with what each of them asks.

    `is_free`: no arithmetic. `max_computed`: how many elements of it may be computed in one group.
    """

    __slots__ = ("instruction", "is_free", "max_computed", "operands")

    def __init__(self, instruction: HloInstruction, max_recompute: float) -> None:
        self.instruction = instruction
        self.operands = instruction.operands
        self.is_free = cost.chooses_elements(instruction)
        self.max_computed = math.inf
        if not self.is_free and instruction.opcode != "convert":
            elements, is_expensive = instruction.shape.num_elements, cost.is_expensive(instruction)
            if elements > TINY or is_expensive:
                self.max_computed = (1.01 if is_expensive else max_recompute) * max(elements, 1)


@dataclass
class InstructionFusion(HloModulePass):
    """Fuses elementwise and index-only producers into their consumers, and into reduce, concatenate,
    dynamic-update-slice and, if `into_updates`, scatter roots.

    With `cuts_loops`, elementwise roots take in concatenates, too: their loops are cut where the pieces meet.

    A fusion takes `max_instructions`, and what costs nothing besides.

    `max_evaluations` bounds how many different index expressions one instruction is emitted for, `max_recompute` how
    many times as many elements of a cheap instruction may be computed as it has.

    What is expensive is computed once, but for elementwise values of `recompute_bytes` and more, which leave the caches
    before they are read again: fusions that read all that they are made of, by one transcendental function at most,
    compute them, too. So a training step keeps an activation's argument for its backward half, and not the tanh or
    logistic of it as well.
    """

    name = "instruction-fusion"
    aliases = ("fusion",)
    may_duplicate: bool = True
    max_instructions: int = 300
    max_operands: int = 64
    max_evaluations: int = 15
    max_duplicates: int = 32
    max_recompute: float = 1.5
    recompute_bytes: int = 1 << 22
    into_updates: bool = True
    cuts_loops: bool = True

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Fuses in every sequential computation; True if a fusion was made."""
        changed = False
        for computation in analyses.get(CallGraph, module).sequential:
            if not execution_threads or computation.execution_thread in execution_threads:
                changed |= self._run_on(computation)
        return changed

    def _run_on(self, computation: HloComputation) -> bool:
        homes: dict[HloInstruction, list[_Group]] = {}
        groups: list[_Group] = []
        reads, sources = OperandReads(), cost.LargeSources()
        for instruction in reversed(computation.make_instruction_post_order()):
            joined, stored = self._place(instruction, homes, sources)
            if stored and self._takes_producers(instruction):
                group = _Group(instruction, reads, {instruction: {0: _root_elements(instruction)}}, {})
                group.operands = dict.fromkeys(instruction.operands)
                if instruction.opcode in cost.UPDATE_ROOTS:
                    group.stays_out = _made_from(instruction.operand(0)) | cost.better_made_in_lanes(instruction)
                elif instruction.opcode == "dynamic-update-slice":
                    group.stays_out = parts_read_elsewhere(instruction)
                groups.append(group)
                # users of the stored value read memory; producers may still go into the loop that stores it
                joined = [*joined, group]
            homes[instruction] = joined
        chosen = [members for g in groups if (members := _worth_a_fusion(g)) is not None]
        module = computation.parent
        if module is not None and module.on_rewrite is not None:
            _build_one_by_one(computation, chosen, module.on_rewrite)
        else:
            _build(computation, chosen)
        return bool(chosen)

    def _takes_producers(self, root: HloInstruction) -> bool:
        return cost.may_be_root(root) or (self.into_updates and cost.may_be_update_root(root))

    def _place(
        self, p: HloInstruction, homes: dict[HloInstruction, list[_Group]], sources: cost.LargeSources
    ) -> tuple[list[_Group], bool]:
        """Returns the groups that the instruction joined, and whether its value must (also) be stored."""
        if not p.user_count or p.is_root():
            return [], True
        if not cost.may_be_producer(p) and not (self.cuts_loops and cost.is_joined_by_readers(p)):
            return [], True
        candidates: dict[_Group, list[HloInstruction]] = {}
        outside = False
        for user in p.users:
            user_groups = homes.get(user)
            if not user_groups:
                outside = True
                continue
            for group in user_groups:
                candidates.setdefault(group, []).append(user)
        is_kept = (outside or len(candidates) > 1) and not self._may_duplicate(p)
        if not candidates or (is_kept and (outside or not self._may_compute_again(p, candidates, sources))):
            return [], True
        producer = _Producer(p, self.max_recompute)
        accepted = {g: e for g, readers in candidates.items() if (e := self._accepts(g, producer, readers)) is not None}
        stored = outside or len(accepted) < len(candidates)
        if not accepted or (is_kept and stored):
            return [], True
        if len(accepted) > 1 or stored:
            crowded = not producer.is_free and any(g.duplicates >= self.max_duplicates for g in accepted)
            if crowded or not (
                cost.worth_duplicating(p, len(accepted), stored)
                or (not stored and self._may_compute_again(p, accepted, sources))
            ):
                return [], True
            if not producer.is_free:
                for group in accepted:
                    group.duplicates += 1
        for group, evaluations in accepted.items():
            group.add(p, evaluations)
        return list(accepted), stored

    def _may_duplicate(self, p: HloInstruction) -> bool:
        return self.may_duplicate and cost.may_be_duplicated(p)

    def _may_compute_again(self, p: HloInstruction, groups: Iterable[_Group], sources: cost.LargeSources) -> bool:
        """Whether groups should compute a large array each instead of keeping it: they read all that it is made of.

        A second transcendental function would cost more than memory does.
        """
        if not self.may_duplicate or not cost.is_large_elementwise(p, self.recompute_bytes):
            return False
        if sources.num_transcendental(p) > 1:
            return False
        wanted = sources.of(p)
        return bool(wanted) and all(
            wanted.issubset(found for o in group.operands if o is not p for found in sources.of(o)) for group in groups
        )

    def _accepts(self, group: _Group, producer: _Producer, readers: Sequence[HloInstruction]) -> Evaluations | None:
        """Returns where the group would evaluate the producer for its readers, or None if it should not."""
        p = producer.instruction
        if len(group.members) >= self.max_instructions and not cost.is_better_made_again(p):
            return None
        most = len(group.operands) + len(producer.operands) - 1  # most have few, or they are counted
        if most > self.max_operands:
            added = sum(o not in group.operands for o in set(producer.operands))
            if len(group.operands) + added - 1 > self.max_operands:
                return None
        if group.root.opcode in cost.BUFFER_READERS and not _reads_may_fuse(group.root, p):  # they are roots only
            return None
        if p in group.stays_out or cost.is_read_across_rows(group.root, p, group.operands):
            return None
        evaluations = group.evaluations_of(p, readers)
        total = sum(evaluations.values())
        if p.opcode == "concatenate" and not self._takes(group, p, evaluations):
            return None
        if len(evaluations) > self.max_evaluations or cost.is_column_read_again(group.root, p, total):
            return None
        divisions = group.divisions
        if len(divisions) > cost.MAX_DIVISIONS and max([divisions[i] for i in evaluations]) > cost.MAX_DIVISIONS:
            return None
        if total > producer.max_computed:
            return None
        return evaluations

    @staticmethod
    def _takes(group: _Group, concatenate: HloInstruction, evaluations: Evaluations) -> bool:
        is_small = cost.is_index_vector(concatenate) or cost.is_read_in_part(concatenate)
        return is_small or group.takes_pieces(concatenate, evaluations)


def _root_elements(root: HloInstruction) -> float:
    shape = root.shape.tuple_shapes[0] if root.shape.is_tuple else root.shape
    return float(shape.num_elements)


def _made_from(array: HloInstruction) -> set[HloInstruction]:
    """Returns the producers that are computed from an array: with them inside, it could not be updated in place."""
    found, stack = set[HloInstruction](), [array]
    while stack:
        for user in stack.pop().users:
            if user not in found and cost.may_be_producer(user):
                found.add(user)
                stack.append(user)
    return found


def _reads_may_fuse(user: HloInstruction, producer: HloInstruction) -> bool:
    return all(cost.may_read_fused(user, i) for i, o in enumerate(user.operands) if o is producer)


def _worth_a_fusion(group: _Group) -> list[HloInstruction] | None:
    """Returns the members without bitcasts at the edge (reading a buffer under another shape is free); None if
    nothing but constants is left besides the root."""
    if len(group.members) == 1:
        return None
    members = dict.fromkeys(group.members)
    for member in reversed(group.members):
        if member.opcode == "bitcast" and member.operand(0) not in members:
            del members[member]
    read = {o for member in members for o in member.operands}  # a constant may have users without end
    for member in list(members):
        if member.opcode == "constant" and member not in read:
            del members[member]
    if all(m is group.root or m.opcode == "constant" for m in members):
        return None
    return list(members)


def _build_one_by_one(
    computation: HloComputation,
    groups: list[list[HloInstruction]],
    told: Callable[[str, HloInstruction], None],
) -> None:
    """Makes the fusions one after the other and tells of each: who listens may end the pass between two of them."""
    for members in groups:
        text = "; ".join(map(str, reversed(members)))
        (fusion,) = _build(computation, [members])
        told(text, fusion)


def _build(computation: HloComputation, groups: list[list[HloInstruction]]) -> list[HloInstruction]:
    """Makes and returns a fusion of every list of members (root first, users before producers), which move into it.

    Members of several lists, and those that something else needs, are cloned. What is in the last of its lists moves:
    it must be read as it was until then, and a root's own list comes behind those of what reads it.
    """
    module = computation.parent
    assert module is not None
    bodies = [FusionBody(HloComputation("fused_computation")) for _ in groups]
    for body in reversed(bodies):  # producers first
        module.add_embedded_computation(body.computation, computation)
    last = {member: number for number, members in enumerate(groups) for member in members}
    leaving = _leaving(computation, groups)
    for number, (members, body) in enumerate(zip(groups, bodies, strict=True)):
        values = [body.take(m, stays=m not in leaving or last[m] != number) for m in reversed(members)]
        body.computation.set_root_instruction(values[-1])
    fusions: dict[HloInstruction, HloInstruction] = {}
    for members, body in zip(reversed(groups), reversed(bodies), strict=True):
        root = members[0]
        fusion = HloInstruction.create(
            "fusion",
            root.shape,
            [fusions.get(o, o) for o in body.parameters],
            FusionAttributes("kInput" if root.opcode in ("reduce", *cost.UPDATE_ROOTS) else "kLoop"),
            [body.computation],
            name=fusion_name(root),
        )
        fusion.copy_annotations_from(root)
        fusion.backend_config = ""
        fusions[root] = computation.add_instruction(fusion)
    for root, fusion in fusions.items():
        replace_users_operand(root, root.users, fusion)
        if computation.root_instruction is root:
            computation.set_root_instruction(fusion)
    return list(fusions.values())


def _leaving(computation: HloComputation, groups: Sequence[Sequence[HloInstruction]]) -> set[HloInstruction]:
    """Returns the members that nothing outside of the fusions needs, once these stand for their roots."""
    needed = {computation.root_instruction}
    for members in groups:
        inside = set(members)
        needed.update(o for member in members for o in member.operands if o not in inside)
    leaving = {members[0] for members in groups}
    members = {member for members in groups for member in members} - needed
    users_first = groups[0] if len(groups) == 1 else reversed(computation.make_instruction_post_order())
    for instruction in users_first:
        if (
            instruction in members
            and leaving.issuperset(instruction.users)
            and not has_control_dependencies(instruction)
        ):
            leaving.add(instruction)
    return leaving


def fusion_name(root: HloInstruction) -> str:
    """Returns the name of a fusion: that of its root, marked."""
    return f"{root.opcode.replace('-', '_')}_fusion"
