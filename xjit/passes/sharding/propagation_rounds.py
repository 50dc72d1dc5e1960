"""The propagation itself: from operands to results and back, in rounds, until no array's sharding improves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xjit.hlo import HloInstruction
from xjit.hlo.annotations.device_sharding import MANUAL, REPLICATED, DeviceSharding
from xjit.hlo.annotations.sharding_algebra import move, reshape
from xjit.hlo.attributes.opcodes import Trait
from xjit.passes.sharding.acceptance import Acceptance
from xjit.passes.sharding.axis_factors import FIRST, AxisFactors
from xjit.passes.sharding.dimension_factors import factors_of, same_factors
from xjit.passes.sharding.factor_rows import Dims, Factors
from xjit.passes.sharding.manual_regions import TO_REGION, pass_free_axes
from xjit.passes.sharding.sharding_annotations import BARRIERS, BOUNDARIES, target_of
from xjit.passes.sharding.sharding_slots import DataFlowEdge, ShardingSlots, Slot

ROUNDS = 4
"""Round 0 passes what keeps shapes, 1 everything but from users into broadcasts, 2 that and between operands too."""

_RESHAPES = frozenset({"reshape", "bitcast"})
_MANUAL_TUPLES = frozenset({"reduce", "reduce-window", "sort", "scatter", "custom-call", "async-start", "all-reduce"})

_ALIKE = frozenset({"ResizeNearest", "ResizeNearestGrad", "ResizeBilinear", "ResizeBilinearGrad", "Cholesky"})
"""Targets of custom-calls whose result is split as their operand is."""


Step = HloInstruction | DataFlowEdge
"""What lets some arrays agree."""


class Propagation:
    """Propagates shardings through slots to a fixed point."""

    def __init__(
        self,
        slots: ShardingSlots,
        acceptance: Acceptance,
        groups: Mapping[str, Sequence[HloInstruction]],
        own_rows: Mapping[str, Callable[[HloInstruction], Factors]],
    ) -> None:
        self.slots = slots
        self.accept = acceptance
        self.by_axes = AxisFactors(acceptance.axes, slots) if acceptance.axes else None
        self.groups = groups
        self.order = [i for c in slots.computations for i in c.make_instruction_post_order()]
        self.steps = self._in_order_of_execution() if self.by_axes else []
        self.rows: dict[HloInstruction, Factors | None] = {i: own_rows.get(i.opcode, factors_of)(i) for i in self.order}
        self.rows.update((i, same_factors(i, 1)) for i in self.order if target_of(i) in _ALIKE and _keeps_rank(i))
        self._touched = {step: self._slots_around(step) for step in self.steps}
        self._touching: dict[Slot, list[Step]] = {}
        for step, around in self._touched.items():
            for slot in around:
                self._touching.setdefault(slot, []).append(step)

    def _in_order_of_execution(self) -> list[Step]:
        """All instructions, those that run within one before it, and its edges right behind it."""
        steps: dict[Step, None] = {}
        entry = self.slots.entry.make_instruction_post_order() if self.slots.entry in self.slots.computations else []
        pending: list[tuple[HloInstruction, bool]] = [(i, False) for i in reversed([*entry, *self.order])]
        while pending:
            instruction, is_done_within = pending.pop()
            if instruction in steps or instruction not in self.slots.slots:
                continue
            if is_done_within or not instruction.op.has(Trait.CONTROL_FLOW):
                steps.update(dict.fromkeys([instruction, *self.slots.edges.get(instruction, ())]))
                continue
            pending.append((instruction, True))
            within = [i for c in instruction.called_computations for i in c.make_instruction_post_order()]
            pending += [(i, False) for i in reversed(within)]
        return list(steps)

    def _slots_around(self, step: Step) -> list[Slot]:
        """The arrays of an instruction and of its operands, and what passes through it, each once; those of an edge."""
        if isinstance(step, DataFlowEdge):
            return list(dict.fromkeys([*step.sources, step.target]))
        instruction = step
        own = self.slots.of_all((instruction, *instruction.operands))
        return list(dict.fromkeys([*own, *(slot for link in self.slots.links[instruction] for slot in link)]))

    def run(self) -> None:
        """Runs all rounds."""
        for round_ in range(FIRST if self.by_axes else 0, ROUNDS):
            changed = True
            while changed:
                changed = self._within_groups(round_)  # before what an operation between two members would say
                if self.by_axes:
                    changed |= self._in_order_of_changes(round_)
                    continue
                for instruction in self.order:
                    changed |= self._from_operands(instruction, round_)
                for instruction in reversed(self.order):
                    changed |= self._from_users(instruction, round_)

    def _in_order_of_changes(self, round_: int) -> bool:
        """Goes through instructions in order, and back to those whose arrays change, at once: Shardy's order.

        It matters where operands disagree.
        """
        pending = list(reversed(self.steps))
        waiting = set(pending)
        changed = False
        while pending:
            step = pending.pop()
            waiting.remove(step)
            before = [(slot, slot.sharding) for slot in self._touched[step]]
            self._do(step, round_)
            for slot in [slot for slot, old in before if slot.sharding is not old]:
                new = [i for i in self._touching[slot] if i not in waiting]
                pending += new
                waiting.update(new)
                changed = True
        return changed

    def _do(self, step: Step, round_: int) -> None:
        if isinstance(step, HloInstruction):
            self._from_operands(step, round_)
            self._from_users(step, round_)
        elif self.by_axes and self.by_axes.can_say_along(step):
            self.by_axes.agree_along(step)
        else:
            for source in step.sources:
                self.accept.offer(step.target, source.sharding, round_)

    def leave_out_what_does_not_fit(self) -> None:
        """Takes back axes that were passed through dimensions of fewer elements: these have no such tiles."""
        axes = self.accept.axes
        for slot in (slot for i in self.order for slot in self.slots[i] if axes and slot.shape.is_array):
            if axes and slot.sharding is not None and not slot.fixed:
                slot.sharding = axes.fitting(slot.sharding, slot.shape.dimensions)

    def _from_operands(self, instruction: HloInstruction, round_: int) -> bool:
        if target_of(instruction) in BARRIERS | BOUNDARIES:
            return self._over_boundary(instruction)
        changed = False
        single = instruction.user_count <= 1
        for source, target in self.slots.links[instruction]:
            changed |= self.accept.offer(target, source.sharding, round_, single_use=single)
        if self._take_manual(instruction):
            return True
        if instruction.opcode in _RESHAPES:
            if self.by_axes and round_ == FIRST and self.by_axes.uses.is_shared(instruction):
                return changed
            return changed | self._reshape(instruction.operands[0], instruction, round_, single)
        row = self.rows[instruction]
        if row is None:
            return changed | self._replicate_unsupported(instruction, round_)
        if self.by_axes and self.by_axes.can_say(instruction, row):
            return changed | self.by_axes.agree(instruction, row, round_)
        if round_ < row.level:
            return changed
        for operand, dims in self._by_preference(instruction, row):
            for slot, result in zip(self.slots[instruction], row.results):
                if result is not None:
                    sharding = _moved(self.slots[operand][0].sharding, dims, result, slot, row, round_)
                    changed |= self.accept.offer(slot, sharding, round_, single_use=single)
        return changed

    def _from_users(self, user: HloInstruction, round_: int) -> bool:
        """Gives the operands of an instruction what follows from its results, and late from each other."""
        if target_of(user) in BARRIERS | BOUNDARIES:
            return self._over_boundary(user)
        changed = False
        for source, target in self.slots.links[user]:
            changed |= self.accept.offer(source, target.sharding, round_)
        changed |= self._give_manual(user)
        if user.opcode in _RESHAPES:
            return changed | self._reshape(user, user.operands[0], round_, user.operands[0].user_count <= 1)
        row = self.rows[user]
        if self.by_axes and row is not None and self.by_axes.can_say(user, row):
            return changed | self.by_axes.agree(user, row, round_)
        if row is None:
            return changed | self._give_alike(user, round_)
        if round_ < row.level:
            return changed
        for operand, dims in zip(user.operands, row.operands):
            if dims is None or (operand.opcode == "broadcast" and round_ < 2):
                continue
            slot, single = self.slots[operand][0], operand.user_count <= 1
            sources = list(zip(self.slots[user], row.results))
            if row.siblings and round_ >= 2:
                sources += [(self.slots[o][0], d) for o, d in zip(user.operands, row.operands) if o is not operand]
            for source, source_dims in sources:
                if source_dims is not None:
                    sharding = _moved(source.sharding, source_dims, dims, slot, row, round_)
                    changed |= self.accept.offer(slot, sharding, round_, single_use=single)
        return changed

    def _give_alike(self, user: HloInstruction, round_: int) -> bool:
        """What no sharding passes through gives its own to operands of its dimensions."""
        if self.by_axes or not user.shape.is_array or self.slots.links[user] or round_ < 1:
            return False
        changed = False
        for operand in user.operands:
            is_late = operand.opcode == "broadcast" and round_ < 2
            if not is_late and operand.shape.is_array and operand.shape.dimensions == user.shape.dimensions:
                changed |= self.accept.offer(self.slots[operand][0], self.slots[user][0].sharding, round_)
        return changed

    def _over_boundary(self, call: HloInstruction) -> bool:
        """Axes of a mesh that a manual region leaves to the compiler split arrays alike on both sides of its edge."""
        axes = self.accept.axes
        if axes is None or target_of(call) not in BOUNDARIES:
            return False
        sides = self.slots[call.operand(0)][0], self.slots[call][0]
        outside, inside = sides if target_of(call) == TO_REGION else reversed(sides)
        return pass_free_axes(axes, outside, inside)

    def _by_preference(self, instruction: HloInstruction, row: Factors) -> list[tuple[HloInstruction, Dims]]:
        """Returns the operands that say something: those split along batch dimensions first."""
        known = [(o, dims) for o, dims in zip(instruction.operands, row.operands) if dims is not None]
        if not row.first:
            return known

        def batch_tiles(item: tuple[HloInstruction, Dims]) -> int:
            sharding = self.slots[item[0]][0].sharding
            if sharding is None or not sharding.is_tiled or sharding.rank != len(item[1]):
                return 0
            return -max((t for t, f in zip(sharding.data_tiles, item[1]) if f in row.first), default=0)

        return sorted(known, key=batch_tiles)

    def _reshape(self, source: HloInstruction, target: HloInstruction, round_: int, single: bool) -> bool:
        slot, sharding = self.slots[target][0], self.slots[source][0].sharding
        if sharding is None or not slot.shape.is_array or not source.shape.is_array:
            return False
        new = reshape(sharding, source.shape.dimensions, target.shape.dimensions)
        if sharding.is_tiled and not new.is_tiled and (slot.sharding is not None or self.by_axes):
            return False
        return self.accept.offer(slot, new, round_, single_use=single)

    def _take_manual(self, instruction: HloInstruction) -> bool:
        if instruction.shape.is_tuple and instruction.opcode not in _MANUAL_TUPLES:
            return False
        operands = [slot.sharding for o in instruction.operands for slot in self.slots[o]]
        if not any(sharding is not None and sharding.kind == "manual" for sharding in operands):
            return False
        return self._set_manual(self.slots[instruction])

    def _give_manual(self, user: HloInstruction) -> bool:
        own = self.slots[user]
        if user.opcode in ("tuple", "while", "conditional") or not own:
            return False
        if any(slot.sharding is None or slot.sharding.kind != "manual" for slot in own):
            return False
        changed = False
        for operand in user.operands:
            if operand.user_count == 1 and operand.shape.is_array:
                changed |= self._set_manual(self.slots[operand])
        return changed

    def _set_manual(self, slots: Sequence[Slot]) -> bool:
        changed = False
        for slot in slots:
            if slot.sharding is None and slot.shape.is_array:
                slot.sharding = MANUAL
                changed = True
        return changed

    def _replicate_unsupported(self, instruction: HloInstruction, round_: int) -> bool:
        """What no sharding passes through is replicated if an operand is."""
        if not instruction.shape.is_array or instruction.op.has(Trait.SIDE_EFFECT) or instruction.is_root():
            return False
        if instruction.opcode in ("get-tuple-element", "call", "domain", "opt-barrier", "add-dependency", "fusion"):
            return False
        if not any(slot.sharding == REPLICATED for o in instruction.operands for slot in self.slots[o]):
            return False
        return self.accept.offer(self.slots[instruction][0], REPLICATED, round_)

    def _within_groups(self, round_: int) -> bool:
        """Gives each member of a group, and what it annotates, what is said of another."""
        changed = False
        for members in self.groups.values():
            for member in members:
                changed |= self._from_operands(member, round_)
            for source in members:
                for target in members:
                    for a, b in zip(self.slots[source], self.slots[target]):
                        changed |= self.accept.offer(b, a.sharding, round_, single_use=True)
            for member in members:
                changed |= self._from_users(member, round_)
        return changed


def _keeps_rank(call: HloInstruction) -> bool:
    shapes = [call.shape, *(o.shape for o in call.operands)]
    return len(shapes) == 2 and all(s.is_array and s.rank == shapes[0].rank for s in shapes)


def _moved(
    sharding: DeviceSharding | None, source: Dims, target: Dims, slot: Slot, row: Factors, round_: int
) -> DeviceSharding | None:
    """Returns what an array's sharding means for a slot; None if nothing of it passes in this round."""
    if sharding is None or not slot.shape.is_array:
        return None
    if not sharding.is_tiled:
        return sharding if sharding.kind in ("replicated", "manual") else None
    if sharding.rank != len(source):
        return None
    if round_ == 0 and any(t > 1 and f in row.changed for t, f in zip(sharding.data_tiles, source)):
        return None
    return move(sharding, source, target, slot.shape.dimensions)
