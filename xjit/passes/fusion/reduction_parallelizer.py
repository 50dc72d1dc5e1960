"""Two-stage reductions: a large reduction to few results becomes partial results that threads compute side by side.

The split depends on shapes alone, so the result does not depend on the number of threads. Compare XLA's
TreeReductionRewriter, which splits for precision and for GPUs.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from xjit.hlo import HloInstruction, HloModule
from xjit.hlo.attributes import DimensionsAttributes
from xjit.passes.framework.base import HloModulePass, has_control_dependencies, selected_computations
from xjit.passes.framework.expansion import Expansion
from xjit.passes.reductions.reduce_parts import reduce_in_parts

MIN_ELEMENTS = 1 << 17
MAX_RESULTS = 32  # of a reduction that is split in any case
ENOUGH_UNITS = 8  # a reduction of columns under that many outer results is split, too, ...
MIN_ROWS_PER_PARTIAL = 32  # ... if the partial results are few compared with what is read
PARTIALS = range(16, 513)  # how many partial results per result are worth having
WANTED_PARTIALS = 64


@dataclass
class ReductionParallelizer(HloModulePass):
    """Splits reductions of at least MIN_ELEMENTS elements by a reducer with an identity: those to at most MAX_RESULTS
    results, and those of columns that would keep few threads busy."""

    name = "reduction-parallelizer"
    opcodes = frozenset({"reduce"})

    def run_impl(self, module: HloModule, execution_threads: Collection[str]) -> bool:
        """Rewrites every non-fusion computation; True if something changed."""
        changed = False
        for computation in selected_computations(module, execution_threads):
            for instruction in computation.make_instruction_post_order():
                if instruction.opcode == "reduce" and _is_candidate(instruction):
                    changed |= _split(instruction)
        return changed


def _is_candidate(reduce: HloInstruction) -> bool:
    if reduce.operand_count != 2 or has_control_dependencies(reduce) or reduce.shape.num_elements == 0:
        return False
    if reduce.operand(0).shape.num_elements < MIN_ELEMENTS:
        return False
    return reduce.shape.num_elements <= MAX_RESULTS or _is_of_columns(reduce)


def _is_of_columns(reduce: HloInstruction) -> bool:
    """Whether the minor dimensions stay, and there is little to do side by side as long as nothing is split."""
    dims = reduce.operand(0).shape.dimensions
    reduced = sorted(reduce.attributes_as(DimensionsAttributes).dimensions)
    first = next((d for d in reduced if dims[d] > 1), len(dims))
    if not reduced or reduced[-1] == len(dims) - 1 or math.prod(dims[:first]) >= ENOUGH_UNITS:
        return False
    cut = _cut_of(dims, reduced)
    return cut is not None and math.prod(dims[d] for d in reduced) // cut.partials(dims) >= MIN_ROWS_PER_PARTIAL


@dataclass(frozen=True, slots=True)
class _Cut:
    """The partial results have the dimensions `kept`, which are reduced in the end, and `parts` of dimension `cut`."""

    kept: tuple[int, ...]
    cut: int
    parts: int

    def partials(self, sizes: Sequence[int]) -> int:
        """Returns how many partial results there are per result."""
        return self.parts * math.prod(sizes[d] for d in self.kept)


def _cut_of(sizes: Sequence[int], reduced: Sequence[int]) -> _Cut | None:
    """Returns how the most major of the reduced dimensions, in order, are cut; None if they are not.

    There are as nearly WANTED_PARTIALS as divisors allow, or as a whole dimension, if others are left to be reduced.
    A dimension that is too short stays whole, and the next one is cut, if it follows in memory.
    """
    first = next((i for i, d in enumerate(reduced) if sizes[d] > 1), len(reduced))
    outer = 1
    for i, d in enumerate(reduced[first:], first):
        kept, most = tuple(reduced[first:i]), sizes[d] - (d == reduced[-1])
        if kept and d != kept[-1] + 1:
            return None
        few = min(most, (PARTIALS.stop - 1) // outer)  # of a dimension of any size
        counts = [n for n in range(1, few + 1) if sizes[d] % n == 0 and outer * n in PARTIALS]
        if counts:
            return _Cut(kept, d, min(counts, key=lambda n: abs(outer * n - WANTED_PARTIALS)))
        outer *= sizes[d]
        if outer >= PARTIALS.stop:
            return None
    return None


def _split(reduce: HloInstruction) -> bool:
    """Replaces reduce(x) by reduce(partial reduce(reshape(x))) along the most major reduced dimensions."""
    source = reduce.operand(0)
    layout = source.shape.layout
    if not source.shape.is_static or not layout or layout.tiles or not layout.is_row_major():
        return False
    sizes, dimensions = source.shape.dimensions, sorted(reduce.attributes_as(DimensionsAttributes).dimensions)
    cut = _cut_of(sizes, dimensions)
    if cut is None:
        return False
    rest = [d for d in dimensions if d not in (*cut.kept, cut.cut)]
    if cut.parts != sizes[cut.cut]:
        own = (cut.parts, sizes[cut.cut] // cut.parts)
        sizes = (*sizes[: cut.cut], *own, *sizes[cut.cut + 1 :])
        rest = [cut.cut + 1, *(d + (d > cut.cut) for d in rest)]
    into = Expansion(reduce)
    result = reduce_in_parts(into, sizes, sorted(rest), [*cut.kept, cut.cut])
    if result is None:
        return False
    into.replace_source(result)
    return True
