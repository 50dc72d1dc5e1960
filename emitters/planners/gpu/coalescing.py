"""How accesses move from step to step of a loop, read off their maps: what decides vectors and who runs which step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xjit.affine import AffineExpr, dim, substitute
from xjit.emitters.access.access_analysis import Accesses
from xjit.emitters.loops.variables import VariableTable, known_divisor
from xjit.emitters.planners.cpu.planning import LoopPlanning

MAX_LANES = 16


def widest_vector(planning: LoopPlanning) -> int:
    """Returns how many elements of the kernel's widest array fit into one access; 0 if vectors are not to be used."""
    boundary = (*(leaf for leaf in planning.view.leaves if leaf.shape.rank), *planning.work.roots)
    kinds = [shape.element_type for i in boundary for _, shape in i.shape.leaves() if shape.is_array]
    if any(kind.is_complex for kind in kinds):
        return 0
    widest = max((8 * kind.byte_width for kind in kinds), default=0)
    lanes = planning.context.target.vector_bits // widest if widest else 0
    return min(lanes, MAX_LANES) if lanes > 1 else 0


def walks_in_vectors(planning: LoopPlanning, accesses: Iterable[Accesses], loop: int, width: int) -> bool:
    """Whether `width` steps of a loop, from a multiple on, read each array in one aligned vector, or one element."""
    table = planning.table
    for item in accesses:
        if item.conditional and any(e.uses_dim(loop) for e in item.others):
            return False
        if not are_vectors(table, item.offsets, loop, width):
            return False
        if any(_differs(planning, p, loop, width) for e in item.offsets for p in e.dims):
            return False
    return True


def _differs(planning: LoopPlanning, variable: int, loop: int, width: int) -> bool:
    """Whether a variable that is read at run time may have several values within `width` steps of a loop."""
    value = planning.analysis.runtime.get(variable)
    if value is None:
        return False
    same = tuple([0] * width)
    return any(
        lane_steps(planning.table, e, loop, width) != same or any(_differs(planning, p, loop, width) for p in e.dims)
        for e in value.place
    )


def are_vectors(table: VariableTable, offsets: Sequence[AffineExpr], loop: int, width: int) -> bool:
    """Whether each offset stays the same for `width` steps, or grows by one each, from a multiple of the width on."""
    for offset in offsets:
        steps = lane_steps(table, offset, loop, width)
        if steps is None or steps not in (tuple([0] * width), tuple(range(width))):
            return False
        if steps[-1] and known_divisor(table, offset, {loop: width}) % width:
            return False
    return True


def lane_steps(table: VariableTable, offset: AffineExpr, loop: int, width: int) -> tuple[int, ...] | None:
    """Returns how far each of `width` steps lies from the first, if that is so at every multiple; None if not."""
    if not offset.uses_dim(loop):
        return tuple([0] * width)
    bounds = table.intervals[loop]
    first = dim(table.new_variable(max(1, table.size(loop) // width))) * width + bounds.lower
    start = table.simplify(substitute(offset, {loop: first}))
    found: list[int] = []
    for lane in range(width):
        moved = table.simplify(table.simplify(substitute(offset, {loop: first + lane})) - start)
        if not moved.is_constant:
            return None
        found.append(moved.value)
    return tuple(found)
