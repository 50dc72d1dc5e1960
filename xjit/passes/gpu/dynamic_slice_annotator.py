"""Dynamic slices whose place in memory is known in every round of a loop say so."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from itertools import pairwise

from xjit.dataclass import dataclass
from xjit.hlo import HloComputation, HloInstruction, HloModule
from xjit.hlo.attributes import ConstantAttributes, GetTupleElementAttributes
from xjit.hlo.diagnostics import InvalidArgument
from xjit.ops.reducers import integer_limits
from xjit.passes.framework.base import HloModulePass, selected_computations
from xjit.passes.gpu.slice_places import ARITHMETIC, is_contiguous, offsets_of, part_and_whole, start_indices
from xjit.passes.loops.while_loop_trip_count_annotator import known_trip_count

KEY = "dynamic_slice_config"
MAX_ROUNDS = 4096
"""Of loops with more rounds nothing is found out: places are computed for each."""
_PARTS = frozenset({"dynamic-slice", "dynamic-update-slice"})


@dataclass
class DynamicSliceAnnotator(HloModulePass):
    """Writes `dynamic_slice_config` into the backend config of dynamic slices and updates: `byte_offset` in the first
    round of the loop that runs them, and `byte_stride` from round to round.

    Start indices are arithmetic on constants and the loop's induction variable, as the loop's own backend config gives
    it; a slice is one block of memory. What clamps indices in some rounds only has no stride.
    """

    name = "dynamic-slice-annotator"

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """True if a backend config changed."""
        changed = False
        for computation in selected_computations(module, execution_threads):
            parts = [i for i in computation.instructions if i.opcode in _PARTS and KEY not in i.backend_config]
            rounds = _rounds_of(computation) if parts else None
            for part in parts:
                changed |= _annotate(part, rounds)
        return changed


@dataclass(frozen=True)
class _Rounds:
    """The element of a loop's state that counts its rounds, and its values."""

    tuple_index: int
    values: range


def _rounds_of(computation: HloComputation) -> _Rounds | None:
    """What the backend config of the loop whose body this is says; None without one, or for several loops."""
    callers = computation.caller_instructions()
    if len(callers) != 1 or callers[0].opcode != "while" or callers[0].while_body is not computation:
        return None
    count = known_trip_count(callers[0])
    if not count or count > MAX_ROUNDS:
        return None
    try:
        config = callers[0].parsed_backend_config
        index = int(config["known_induction_variable"]["tuple_index"])
        init, step = (int(config["known_init_step"][name]) for name in ("init", "step"))
    except (InvalidArgument, KeyError, TypeError, ValueError):
        return None
    return _Rounds(index, range(init, init + count * step, step)) if step else None


def _annotate(part: HloInstruction, rounds: _Rounds | None) -> bool:
    if not is_contiguous(part):
        return False
    leaves = [i for i in start_indices(part) if i.opcode not in (*ARITHMETIC, "constant")]
    known = offsets_of(part)
    leaves += [o for i in known for o in i.operands if o not in known]
    counters = [leaf for leaf in leaves if rounds is not None and _is_counter(leaf, rounds)]
    if len(counters) != len(leaves):
        return False
    values = rounds.values if rounds is not None and counters else range(1)
    try:
        places = [_place(part, known, dict.fromkeys(counters, value)) for value in values]
    except OverflowError:
        return False
    strides = {b - a for a, b in pairwise(places)} or {0}
    if len(strides) != 1:
        return False
    try:
        config = part.parsed_backend_config
    except InvalidArgument:
        return False
    found = {"byte_offset": str(places[0]), "byte_stride": str(strides.pop())}
    if counters:
        found = {"loop_index": "0", **found}
    part.backend_config = {**config, KEY: found}
    return True


def _is_counter(value: HloInstruction, rounds: _Rounds) -> bool:
    if value.opcode != "get-tuple-element" or value.operand(0).opcode != "parameter":
        return False
    return value.attributes_as(GetTupleElementAttributes).index == rounds.tuple_index


def _place(part: HloInstruction, known: list[HloInstruction], leaves: Mapping[HloInstruction, int]) -> int:
    """How many bytes in front of the slice the array has; OverflowError if an index leaves its type on the way."""
    values = dict(leaves)
    for instruction in known:
        if instruction.opcode == "constant":
            values[instruction] = int(instruction.attributes_as(ConstantAttributes).literal.array[()])
        else:
            values[instruction] = ARITHMETIC[instruction.opcode](*[values[o] for o in instruction.operands])
        low, high = integer_limits(instruction.shape.element_type)
        if not low <= values[instruction] <= high:
            raise OverflowError(instruction.name)
    small, large = part_and_whole(part)
    assert large.layout is not None, "a block of memory has one"
    starts = [values[i] for i in start_indices(part)]
    place, stride = 0, large.element_type.bit_width
    for d in large.layout.minor_to_major:
        place += stride * min(max(starts[d], 0), large.dimensions[d] - small.dimensions[d])
        stride *= large.dimensions[d]
    return place // 8
