"""The result of a kernel cut into boxes that are looped over for themselves."""

from __future__ import annotations

from xjit.affine import dim
from xjit.emitters.loops.iteration_space import IterationSpace
from xjit.emitters.planners.cpu.planning import LoopPlanning
from xjit.hlo import attributes as at
from xjit.hlo.ir.instruction import HloInstruction
from xjit.llvm.gpu_models import SECTOR_BYTES

MAX_PIECES = 32


def whole_result(planning: LoopPlanning) -> IterationSpace:
    """Returns loops over all elements, in memory order."""
    shape = planning.work.shape
    return IterationSpace.over(planning.table, shape.dimensions, shape.minor_to_major[::-1])


def regions(planning: LoopPlanning) -> list[IterationSpace]:
    """Returns one box, or one per operand of a concatenate at the root: no element tests which operand it is in.

    Indices along dimensions of one element are constants.
    """
    return [space.replace({}, space.loops) for space in _boxes(planning)]


def _boxes(planning: LoopPlanning) -> list[IterationSpace]:
    work = planning.work
    root = work.roots[0]
    if root.opcode != "concatenate" or len(work.roots) != 1 or work.offsets or work.scalar:
        return [whole_result(planning)]
    axis = root.attributes_as(at.ConcatenateAttributes).dimension
    if planning.context.block_threads and _has_short_pieces(root, axis):
        return [whole_result(planning)]
    spaces: list[IterationSpace] = []
    start = 0
    for operand in root.operands:
        size = operand.shape.dimensions[axis]
        if size:
            space = whole_result(planning)
            old = space.index[axis].position
            piece = planning.table.new_variable(size)
            loops = [piece if p == old else p for p in space.loops]
            spaces.append(space.replace({old: dim(piece) + start}, loops))
        start += size
    return spaces


def _has_short_pieces(concatenate: HloInstruction, axis: int) -> bool:
    """Whether a piece along memory is shorter than a sector, which several blocks of a GPU would then write.

    Each element asks which of the operands it is of, so these must not be too many.
    """
    width = concatenate.shape.element_type.byte_width
    is_along = concatenate.shape.minor_to_major[0] == axis and concatenate.operand_count <= MAX_PIECES
    return is_along and any(operand.shape.dimensions[axis] * width < SECTOR_BYTES for operand in concatenate.operands)
