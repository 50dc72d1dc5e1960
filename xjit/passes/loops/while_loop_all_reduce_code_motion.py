"""Sums over devices move behind the loop that adds them up: the devices exchange data once, not in every step."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import count

from xjit.dataclass import dataclass
from xjit.hlo import HloComputation, HloInstruction, HloModule
from xjit.hlo import attributes as at
from xjit.hlo.edit.replacing import inherit_annotations
from xjit.ops import build
from xjit.passes.analysis.replication import Across, HloReplicationAnalysis
from xjit.passes.calls_and_control.ownership import own_computations
from xjit.passes.framework.base import HloModulePass
from xjit.passes.loops.accumulations import Accumulation, find_accumulations
from xjit.passes.loops.loop_state import loops_to_change, resize


@dataclass
class WhileLoopAllReduceCodeMotion(HloModulePass):
    """Takes all-reduces, and reduce-scatters, whose results a loop only accumulates out of its body.

    Each device adds up what it has, from zero; behind the loop the sums are reduced and added to what the element of
    the state was before. Between collective and sum may be conversions of floats, changes of shape, and products,
    quotients and selections with values that are the same on all devices. `enable_reduce_scatter`: reduce-scatters,
    too, though the loop then carries all parts and not one.
    """

    name = "while-loop-all-reduce-code-motion"
    enable_reduce_scatter: bool = True

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Moves collectives out of inner loops first; True if there was one."""
        changed = False
        for loop in loops_to_change(module, execution_threads):
            if self._find(loop):
                own_computations(loop)
                _move(loop, self._find(loop))
                changed = True
        return changed

    def _find(self, loop: HloInstruction) -> list[Accumulation]:
        if loop.while_init.opcode != "tuple" or loop.module is None:
            return []
        return find_accumulations(loop, partial(_is_same, _replication(loop.module)), self.enable_reduce_scatter)


def _replication(module: HloModule) -> list[HloReplicationAnalysis]:
    """What is the same on all devices that the header tells of, in the module as the last loop left it."""
    counts = (module.config.replica_count, module.config.num_partitions)
    return [HloReplicationAnalysis(module, across, *counts) for across in Across]


def _is_same(replication: Sequence[HloReplicationAnalysis], value: HloInstruction) -> bool:
    return all(analysis.is_replicated_at(value) for analysis in replication)


def _move(loop: HloInstruction, moved: Sequence[Accumulation]) -> None:
    """Gives the loop an element more per accumulation, which starts as zero, and takes the old ones away."""
    computation, channels = loop.parent, _channels(loop.module)
    assert computation is not None
    starts = [loop.while_init.operand(a.index) for a in moved]
    reducers = [a.collective.to_apply for a in moved]
    zeros = [computation.add_instruction(build.make_constant(0, a.add.shape.element_type)) for a in moved]
    sums = [computation.add_instruction(build.broadcast_scalar(z, a.whole_shape)) for z, a in zip(zeros, moved)]
    size = len(loop.shape.tuple_shapes)
    loop = resize(loop, range(size), sums)
    for position, accumulation in enumerate(moved):
        _accumulate(loop, accumulation, size + position)
    _remove(moved)
    keep = [i for i in range(size + len(moved)) if i not in {a.index for a in moved}]
    places = {a.index: n for n, a in enumerate(moved)}
    used: set[HloInstruction] = set()
    made: dict[int, HloInstruction] = {}

    def value_after(new: HloInstruction, index: int) -> HloInstruction:
        if index in made:
            return made[index]
        n = places[index]
        element = HloInstruction.create_get_tuple_element(new, keep.index(size + n))
        collective = _reduced(moved[n], reducers[n], computation.add_instruction(element))
        if collective.channel_id is not None and moved[n].collective in used:
            collective.update_attributes(channel_id=next(channels))  # one channel for one collective
        used.add(moved[n].collective)
        made[index] = computation.add_instruction(build.make("add", collective, starts[n]))
        return made[index]

    resize(loop, keep, [], value_after)


def _channels(module: HloModule | None) -> Iterator[int]:
    """Yields channels that nothing in the module uses."""
    assert module is not None
    return count(1 + max((i.channel_id or 0 for c in module.computations() for i in c.instructions), default=0))


def _accumulate(loop: HloInstruction, accumulation: Accumulation, index: int) -> None:
    """Makes the body add to element `index` what this device contributes, and pass the old element on."""
    body, root = loop.while_body, loop.while_body.root_instruction
    total = build.make("add", root.operand(index), accumulation.step())
    inherit_annotations(total, accumulation.add)
    root.replace_operand_with(index, body.add_instruction(total))
    root.replace_operand_with(accumulation.index, accumulation.element)


def _remove(moved: Sequence[Accumulation]) -> None:
    """Removes from the body what led from the collectives to the old sums."""
    for accumulation in moved:
        body = accumulation.add.parent
        assert body is not None
        for dead in (accumulation.add, *reversed(accumulation.path), accumulation.collective):
            if dead.parent is body and not dead.user_count:
                body.remove_instruction_and_unused_operands(dead)


def _reduced(accumulation: Accumulation, reducer: HloComputation, total: HloInstruction) -> HloInstruction:
    """Returns the sum over devices of a sum over steps, in the type of the latter."""
    old, computation, kind = accumulation.collective, total.parent, total.shape.element_type
    assert computation is not None and computation.parent is not None
    attributes = old.attributes_as(at.CollectiveAttributes)
    if accumulation.is_scattered:
        attributes = replace(attributes, dimensions=(accumulation.dimension,))
    if reducer.root_instruction.shape.element_type is not kind:
        add = build.make_binary_computation("add", kind)
        reducer = computation.parent.add_embedded_computation(add, computation)
    shape = accumulation.add.shape
    new = HloInstruction.create(old.opcode, shape, [total], attributes, [reducer], name=old.name)
    inherit_annotations(new, old)
    return computation.add_instruction(new)
