"""Kernels with several results: siblings that read the same array, and a producer in one of its readers."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from xjit.hlo import HloComputation, HloInstruction, HloModule
from xjit.hlo.attributes import FusionAttributes, SliceAttributes
from xjit.passes.analysis import fusion_cost
from xjit.passes.analysis.call_graph import CallGraph
from xjit.passes.analysis.reachability import HloReachability, HloReachabilityMap
from xjit.passes.framework import analyses
from xjit.passes.framework.base import HloModulePass, has_control_dependencies
from xjit.passes.gpu.fusion_heroes import (
    hero_of,
    loop_shape,
    parameters_of,
    reads_once,
    roots_of,
    shared_memory_bytes,
    tiles_of,
)

MAX_ARGUMENTS = 64
"""Operands and results of a kernel."""

MIN_SPLIT_BYTES = 1024
"""Smaller arrays are read as a whole, whatever two kernels need of them."""

MAX_REDUCTIONS = 8
MAX_SHARED_MEMORY = 48 << 10


@dataclass
class GpuMultiOutputFusion(HloModulePass):
    """Fuses loops over one space that read the same array, and a loop that others need, too, into one of its readers.

    Users come before what they read. Of the readers of an array, a fusion takes in others that neither need it nor
    are needed by it. A producer is a loop that does not transpose; what takes it in reads each element once.
    """

    name = "gpu-multi-output-fusion"

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Fuses in every sequential computation, until nothing more can be; True if something was fused."""
        changed = False
        for computation in analyses.get(CallGraph, module).sequential:
            if not execution_threads or computation.execution_thread in execution_threads:
                while _Fuser(computation).run():  # what was fused may be a sibling above
                    changed = True
        return changed


class _Fuser:
    """One computation, and what in it must run before what."""

    def __init__(self, computation: HloComputation) -> None:
        self.computation = computation
        self.changed = False

    @property
    def reachability(self) -> HloReachabilityMap:
        """What must run before what, as the computation is now."""
        assert self.computation.parent is not None
        return analyses.get(HloReachability, self.computation.parent).map(self.computation)

    def run(self) -> bool:
        """Looks at every instruction, users first; True if something was fused."""
        for value in reversed(self.computation.make_instruction_post_order()):
            if value.parent is not self.computation or value.opcode == "constant" or _is_custom(value):
                continue
            if not value.shape.is_array or value.shape.num_elements > 1:
                self._fuse_siblings(value)
            if value.parent is self.computation and _may_be_producer(value):
                self._fuse_into_reader(value)
        return self.changed

    def _fuse_siblings(self, value: HloInstruction) -> None:
        siblings = [u for u in _by_preference(value.users) if u.user_count and _may_be_root(u)]
        position = 0
        while position < len(siblings) and siblings[position].opcode == "fusion":
            fusion = siblings[position]
            for other in siblings[position + 1 :]:
                if self._are_fusible_siblings(fusion, other, value):
                    siblings.remove(other)
                    _merge(fusion, other)
                    self.changed = True
            position += 1

    def _are_fusible_siblings(self, fusion: HloInstruction, other: HloInstruction, value: HloInstruction) -> bool:
        return (
            _have_one_loop(fusion, other)
            and not _read_different_parts(fusion, other, value)
            and _fit_together(fusion, other)
            and not self.reachability.is_connected(fusion, other)  # last: it may have to be found out anew
        )

    def _fuse_into_reader(self, producer: HloInstruction) -> None:
        readers = producer.users
        if len(readers) == 1 and not readers[0].is_multi_output_fusion():
            return
        for reader in _by_preference(readers):
            if self._may_take_in(reader, producer):
                if reader.opcode != "fusion":
                    reader = self.computation.create_fusion_instruction([reader])
                if producer.users == (reader,) and not producer.is_root():
                    _take_in(reader, producer)
                else:
                    _merge(reader, producer)
                self.changed = True
                return

    def _may_take_in(self, reader: HloInstruction, producer: HloInstruction) -> bool:
        others = [o for o in reader.operands if o is not producer]
        return (
            _may_be_root(reader)
            and _have_one_loop(producer, reader)
            and reads_once(reader, producer)
            and _fit_together(producer, reader)
            and not self.reachability.reaches_any(producer, others)
        )


def _is_custom(unit: HloInstruction) -> bool:
    return unit.opcode == "fusion" and unit.attributes_as(FusionAttributes).kind == "kCustom"


def _by_preference(users: Sequence[HloInstruction]) -> list[HloInstruction]:
    """Returns fusions of several results first, then other fusions, then the rest."""
    return sorted(users, key=lambda u: 0 if u.is_multi_output_fusion() else 1 if u.opcode == "fusion" else 2)


def _may_be_root(unit: HloInstruction) -> bool:
    """Whether a kernel with several results may begin with a unit."""
    if has_control_dependencies(unit) or unit.has_side_effect() or not unit.operand_count:
        return False
    if any(r.opcode in ("dynamic-update-slice", "scatter") or not r.shape.is_static_array for r in roots_of(unit)):
        return False
    if unit.opcode != "fusion":
        return (unit.is_elementwise() and unit.opcode != "copy") or tiles_of(unit) is not None
    if unit.is_multi_output_fusion() and any(u.opcode != "get-tuple-element" for u in unit.users):
        return False
    return unit.is_loop_fusion() or (unit.is_input_fusion() and tiles_of(hero_of(unit)) is not None)


def _may_be_producer(unit: HloInstruction) -> bool:
    """Whether a unit is a loop over one array that reads nothing across memory."""
    if not unit.users or not _may_be_root(unit) or unit.is_multi_output_fusion():
        return False
    if unit.opcode != "fusion":
        return unit.is_elementwise()
    body = unit.fused_instructions_computation.instructions
    return unit.is_loop_fusion() and not any(map(fusion_cost.changes_minor_dimension, body))


def _have_one_loop(unit: HloInstruction, other: HloInstruction) -> bool:
    """Whether two units go over the same elements in the same order; what both do in tiles, in the same tiles."""
    heroes = hero_of(unit), hero_of(other)
    tiles = [t for t in map(tiles_of, heroes) if t is not None]
    if len(tiles) == 2 and tiles[0] != tiles[1]:
        return False
    shapes = [loop_shape(hero) for hero in heroes]
    if not all(s.is_static_array for s in shapes):
        return False
    if shapes[0].same_dimensions(shapes[1]):
        return shapes[0].minor_to_major == shapes[1].minor_to_major
    return shapes[0].num_elements == shapes[1].num_elements and all(s.is_row_major for s in shapes)


def _read_different_parts(fusion: HloInstruction, other: HloInstruction, value: HloInstruction) -> bool:
    """Whether two units read slices of a large array that have no element in common."""
    if not value.shape.is_array or value.shape.byte_size < MIN_SPLIT_BYTES:
        return False
    slices = [_only_slice(unit, value) for unit in (fusion, other)]
    if slices[0] is None or slices[1] is None:
        return False
    pairs = zip(slices[0].slice, slices[1].slice, strict=True)
    return any(a.limit <= b.start or b.limit <= a.start for a, b in pairs)


def _only_slice(unit: HloInstruction, value: HloInstruction) -> SliceAttributes | None:
    if unit.opcode != "fusion":
        return unit.attributes_as(SliceAttributes) if unit.opcode == "slice" else None
    uses = [u for p in parameters_of(unit, value) for u in p.users]
    return uses[0].attributes_as(SliceAttributes) if len(uses) == 1 and uses[0].opcode == "slice" else None


def _fit_together(unit: HloInstruction, other: HloInstruction) -> bool:
    """Whether one kernel has the parameters, the shared memory and the reductions that two units need."""
    roots = [*roots_of(unit), *roots_of(other)]
    operands = {*unit.operands, *other.operands} - {unit, other}
    return (
        len(operands) + len(roots) <= MAX_ARGUMENTS
        and sum(r.opcode == "reduce" for r in roots) <= MAX_REDUCTIONS
        and sum(map(shared_memory_bytes, roots)) <= MAX_SHARED_MEMORY
    )


def _merge(fusion: HloInstruction, other: HloInstruction) -> None:
    """Makes the results of another unit results of a fusion."""
    bodies = other.called_computations if other.opcode == "fusion" else ()
    if other.opcode == "fusion":
        fusion.merge_fusion_instruction_into_multi_output(other)
    else:
        fusion.fuse_instruction_into_multi_output(other)
    _remove_unused(bodies)
    _set_kind(fusion)


def _take_in(fusion: HloInstruction, producer: HloInstruction) -> None:
    """Computes what only a fusion reads in it."""
    bodies = producer.called_computations if producer.opcode == "fusion" else ()
    if producer.opcode == "fusion":
        fusion.merge_fusion_instruction(producer)
    else:
        fusion.fuse_instruction(producer)
    _remove_unused(bodies)
    _set_kind(fusion)


def _remove_unused(bodies: Sequence[HloComputation]) -> None:
    for body in bodies:
        if body.parent is not None and not body.caller_instructions():
            body.parent.remove_embedded_computation(body)


def _set_kind(fusion: HloInstruction) -> None:
    tiled = any(tiles_of(hero) is not None for hero in (hero_of(fusion), *roots_of(fusion)))
    kind = "kInput" if tiled else "kLoop"
    if fusion.attributes_as(FusionAttributes).kind != kind:
        fusion.update_attributes(kind=kind)
