"""Library calls read slices of arrays, and write into them, where they lie."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import field

from xjit.dataclass import dataclass
from xjit.hlo import HloComputation, HloInstruction, HloModule
from xjit.hlo.attributes import GetTupleElementAttributes
from xjit.passes.analysis.reachability import HloReachabilityMap
from xjit.passes.framework.base import HloModulePass, has_control_dependencies, selected_computations
from xjit.passes.fusion.unit_merging import merge_units
from xjit.passes.gpu.dynamic_slice_annotator import KEY
from xjit.passes.gpu.slice_places import is_contiguous, offsets_of

FUSION_CONFIG = {
    "fusion_backend_config": {
        "kind": "__custom_fusion",
        "custom_fusion_config": {"name": "dynamic_slice_fusion"},
    }
}


@dataclass
class DynamicSliceFusionRewriterV2(HloModulePass):
    """Fuses a custom call with the slices that it reads and the dynamic-update-slices that its results go into.

    A slice is one block of memory, and nothing but bitcasts is between it and the call. Its place is constant, or its
    backend config says that it is known (`dynamic-slice-annotator`). At `opt_level` 2 operands are followed through
    tuples. `fuse_slices` and `fuse_updates` are for what goes in and out.
    """

    name = "dynamic-slice-fusion-rewriter-v2"
    opt_level: int = 1
    fuse_slices: bool = True
    fuse_updates: bool = True

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """True if a call was fused."""
        changed = False
        for computation in selected_computations(module, execution_threads):
            for call in [i for i in computation.instructions if i.opcode == "custom-call"]:
                changed |= self._fuse(computation, call)
        return changed

    def _fuse(self, computation: HloComputation, call: HloInstruction) -> bool:
        if has_control_dependencies(call) or call.called_computations:
            return False
        found = _Units(call)
        if self.fuse_slices:
            for position, operand in enumerate(call.operands):
                source = _through_tuples(operand) if self.opt_level > 1 else operand
                if path := _slice_path(source):
                    if source is not operand:
                        call.replace_operand_with(position, source)
                    found.take_slice(path)
        results = _results_of(call)
        if self.fuse_updates:
            updates = [_without_cycles(_update_path(result), call) for result in results]
            for path in filter(None, updates):
                found.take_update(path)
            results = [path[-1] if path else r for path, r in zip(updates, results, strict=True)]
        if not found.slices:
            return False
        elements = [r for r in _results_of(call) if r is not call]
        units = [*found.before, call, *elements, *found.after]
        first = [s.operand(0) for s in found.slices if s.operand(0) not in units]
        fusion = merge_units(computation, units, results, call, "kCustom", "dynamic-slice-fusion", first)[0]
        fusion.backend_config = FUSION_CONFIG
        return True


@dataclass
class _Units:
    """What goes into a fusion with a call: in front of it and behind it, operands first; and the slices in it."""

    call: HloInstruction
    before: list[HloInstruction] = field(default_factory=list[HloInstruction])
    after: list[HloInstruction] = field(default_factory=list[HloInstruction])
    slices: list[HloInstruction] = field(default_factory=list[HloInstruction])

    def take_slice(self, path: list[HloInstruction]) -> None:
        """Adds a slice and the bitcasts behind it."""
        self.slices.append(path[0])
        _add(self.before, [*offsets_of(path[0]), *path])

    def take_update(self, path: list[HloInstruction]) -> None:
        """Adds the bitcasts behind a result and the update that they go into."""
        self.slices.append(path[-1])
        _add(self.before, offsets_of(path[-1]))
        _add(self.after, path)


def _add(units: list[HloInstruction], more: Iterable[HloInstruction]) -> None:
    units.extend(i for i in dict.fromkeys(more) if i not in units)


def _through_tuples(operand: HloInstruction) -> HloInstruction:
    """The value that a get-tuple-element reads from a tuple of the same computation."""
    path = list[int]()
    source = operand
    while source.opcode == "get-tuple-element" or (source.opcode == "tuple" and path):
        if source.opcode == "tuple":
            source = source.operand(path.pop())
        else:
            path.append(source.attributes_as(GetTupleElementAttributes).index)
            source = source.operand(0)
    return operand if path else source


def _slice_path(operand: HloInstruction) -> list[HloInstruction]:
    """The slice that an operand of a call is, then the bitcasts behind it; nothing if it is none."""
    path = [operand]
    while path[-1].opcode == "bitcast" and not has_control_dependencies(path[-1]):
        path.append(path[-1].operand(0))
    found = path[-1]
    if found.opcode not in ("slice", "dynamic-slice") or not _has_known_place(found):
        return []
    return path[::-1]


def _has_known_place(part: HloInstruction) -> bool:
    known = part.opcode == "slice" or KEY in part.backend_config
    return known and is_contiguous(part) and not has_control_dependencies(part)


def _results_of(call: HloInstruction) -> list[HloInstruction]:
    """The elements of a tuple that are read, if it is only taken apart; else the call."""
    elements = [u for u in call.users if u.opcode == "get-tuple-element"]
    apart = call.shape.is_tuple and elements and len(elements) == call.user_count and not call.is_root()
    return elements if apart and not any(map(has_control_dependencies, elements)) else [call]


def _update_path(result: HloInstruction) -> list[HloInstruction]:
    """The bitcasts behind a result, then the update that alone reads it; nothing if there is none."""
    path, value = list[HloInstruction](), result
    while value.user_count == 1 and not value.is_root():
        reader = value.users[0]
        if has_control_dependencies(reader):
            return []
        path.append(reader)
        if reader.opcode == "dynamic-update-slice":
            is_written = reader.operand_index(value) == 1 and reader.operands.count(value) == 1
            return path if is_written and _has_known_place(reader) else []
        if reader.opcode != "bitcast":
            return []
        value = reader
    return []


def _without_cycles(path: list[HloInstruction], call: HloInstruction) -> list[HloInstruction]:
    """The path to an update, unless the array or the place that it writes to depends on another result of the call."""
    if not path or call.user_count == 1 or call.parent is None:
        return path
    update = path[-1]
    others = [o for i, o in enumerate(update.operands) if i != 1]
    return [] if HloReachabilityMap(call.parent).reaches_any(call, others) else path
