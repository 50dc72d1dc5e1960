"""Two-stage reductions: a large reduction to few results becomes partial results that threads compute side by side.

The split depends on shapes alone, so the result does not depend on the number of threads. Compare XLA's
TreeReductionRewriter, which splits for precision and for GPUs.
"""

from __future__ import annotations

import math
from collections.abc import Collection

from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction, HloModule, PrimitiveType
from xjit.hlo.attributes import DimensionsAttributes
from xjit.ops.build import convert, make_binary_computation, make_constant, make_reduce, reshape
from xjit.ops.reducers import reduction_identity
from xjit.passes.framework.base import HloModulePass, has_control_dependencies, selected_computations
from xjit.passes.framework.expansion import Expansion

MIN_ELEMENTS = 1 << 17
MAX_RESULTS = 32  # of a reduction that is split in any case
ENOUGH_UNITS = 8  # a reduction of columns under that many outer results is split, too, ...
MIN_ROWS_PER_PARTIAL = 32  # ... if the partial results are few compared with what is read
PARTIALS = range(16, 513)  # how many partial results per result are worth having
WANTED_PARTIALS = 64
_WIDE = {PrimitiveType.BF16: PrimitiveType.F32, PrimitiveType.F16: PrimitiveType.F32}


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
    parts = _parts_of(dims[first], len(reduced))
    return parts is not None and math.prod(dims[d] for d in reduced) // parts >= MIN_ROWS_PER_PARTIAL


def _parts_of(size: int, reduced: int) -> int | None:
    """Returns into how many parts the most major of the reduced dimensions is cut; `size` leaves one index to each."""
    return size if size in PARTIALS and reduced > 1 else partial_count(size)


def partial_count(size: int) -> int | None:
    """Returns into how many parts a dimension is cut: the divisor nearest to WANTED_PARTIALS, or None."""
    divisors = [p for p in PARTIALS if size % p == 0 and size // p > 1]
    return min(divisors, key=lambda p: abs(p - WANTED_PARTIALS)) if divisors else None


def _split(reduce: HloInstruction) -> bool:
    """Replaces reduce(x) by reduce(partial reduce(reshape(x))) along the most major reduced dimension."""
    found = reduction_identity(reduce.to_apply)
    source = reduce.operand(0)
    if found is None:
        return False
    opcode, identity = found
    dimensions = reduce.attributes_as(DimensionsAttributes).dimensions
    major = next((d for d in reversed(source.shape.minor_to_major) if d in dimensions), None)
    if major is None or not source.shape.is_static or not source.shape.layout or source.shape.layout.tiles:
        return False
    size = source.shape.dimensions[major]
    parts = _parts_of(size, len(dimensions))
    if parts is None or not source.shape.layout.is_row_major():
        return False
    kind = _WIDE.get(source.shape.element_type, source.shape.element_type)
    into = Expansion(reduce)
    combine = into.embed(make_binary_computation(opcode, kind, f"{opcode}_partial"))
    add = into.add
    wide = source if kind is source.shape.element_type else add(convert(source, kind))
    rest = [d + 1 if d > major else d for d in dimensions if d != major]
    if parts != size:
        sizes = source.shape.dimensions
        wide = add(reshape(wide, [*sizes[:major], parts, size // parts, *sizes[major + 1 :]]))
        rest.append(major + 1)
    else:
        rest = [d for d in dimensions if d != major]
    neutral = add(make_constant(identity, kind))
    partial = add(make_reduce(wide, neutral, sorted(rest), combine))
    init = reduce.operand(1)
    init = init if kind is init.shape.element_type else add(convert(init, kind))
    kept_before = sum(1 for d in range(major) if d not in dimensions)
    total = make_reduce(partial, init, [kept_before], combine)
    result = add(total)
    if kind is not reduce.shape.element_type:
        result = add(convert(result, reduce.shape.element_type))
    into.replace_source(result)
    return True
