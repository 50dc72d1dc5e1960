"""The result of a kernel cut into boxes that are looped over for themselves."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TypeAlias

from xjit.affine import dim
from xjit.emitters.access.access_analysis import WALKS
from xjit.emitters.loops.iteration_space import MAX_COLUMNS, MAX_PERIOD, IterationSpace, period_of
from xjit.emitters.planners.cpu.planning import LoopPlanning
from xjit.emitters.planners.cpu.row_columns import MIN_ELEMENTS, joins_columns
from xjit.hlo import attributes as at
from xjit.hlo.attributes.opcodes import Trait
from xjit.hlo.ir.instruction import HloInstruction
from xjit.hlo.types.shape import Shape
from xjit.llvm.gpu_models import SECTOR_BYTES
from xjit.passes.analysis.fusion_cost import MAX_BOXES, edges_of_pieces, has_pieces_inside

MAX_PIECES = 32
MAX_STACKED = 8
MAX_MASKED_VECTORS, MAX_MASKED_PIECES = 8, 3
MIN_PADDED_ELEMENTS = 1 << 14  # for fewer, loops around what is padded are not worth their compilation

Box: TypeAlias = Mapping[int, tuple[int, int]]
"""First element and size along some dimensions; along the others, all."""


def whole_result(planning: LoopPlanning) -> IterationSpace:
    """Returns loops over all elements, in memory order."""
    shape = planning.work.shape
    return IterationSpace.over(planning.table, shape.dimensions, shape.minor_to_major[::-1])


def regions(planning: LoopPlanning) -> list[IterationSpace]:
    """Returns one box; or one per operand of a concatenate at the root, and what is padded and what lies around it, or
    windows without padding and those around them: no element tests where it is from.

    Indices along dimensions of one element are constants.
    """
    return [space.replace({}, space.loops) for space in map(partial(_space, planning), _boxes(planning))]


def _boxes(planning: LoopPlanning) -> list[Box]:
    work, blocks = planning.work, planning.context.block_threads
    root = work.roots[0]
    if len(work.roots) != 1 or work.offsets or work.scalar:
        return [{}]
    boxes: list[Box] = [{}]
    if root.opcode == "concatenate" and work.steps:  # the others are stored with the first one
        boxes = list(_operands(root))[:1]
    elif root.opcode == "concatenate" and not (_has_short_pieces(root) if blocks else _stays_whole(planning, root)):
        boxes = list(_operands(root))
    elif root.opcode == "pad" and not blocks and root.shape.num_elements >= MIN_PADDED_ELEMENTS:
        boxes = list(_padding(planning, root))
    elif (windows := _padded_windows(planning)) is not None:
        boxes = list(_window_padding(planning, windows))
    elif not blocks and not _reduces(planning) and has_pieces_inside(planning.view.instruction):
        boxes = _between_edges(planning, root)
    return [box for box in boxes if all(size for _, size in box.values())]


def _reduces(planning: LoopPlanning) -> bool:
    """Whether there are reductions, each of which every box would do again."""
    return any(i.opcode in WALKS for i in planning.view.instructions())


def _between_edges(planning: LoopPlanning, root: HloInstruction) -> list[Box]:
    """Returns the boxes between the places where pieces meet that elementwise instructions join, short rows aside."""
    edges: dict[int, set[int]] = {}
    stack, seen = [root], {root}
    while stack:
        instruction = stack.pop()
        if instruction.opcode == "concatenate":
            axis, found = edges_of_pieces(instruction)
            if not any(edge % planning.lanes for edge in found) or not _is_short_row(planning, root.shape, axis):
                edges.setdefault(axis, set()).update(found)
        elif instruction.op.has(Trait.ELEMENTWISE):
            for operand in instruction.operands:
                if operand not in seen and operand.shape.dimensions == root.shape.dimensions:
                    seen.add(operand)
                    stack.append(operand)
    boxes: list[Box] = [{}]
    for axis, found in sorted(edges.items()):
        ends = [0, *sorted(found), root.shape.dimensions[axis]]
        boxes = [{**box, axis: (a, b - a)} for box in boxes for a, b in itertools.pairwise(ends)]
    return boxes if len(boxes) <= MAX_BOXES else [{}]


def _space(planning: LoopPlanning, box: Box) -> IterationSpace:
    """Returns loops over the elements of a box, in memory order."""
    space = whole_result(planning)
    for axis, (start, size) in box.items():
        old = space.index[axis].position
        piece = planning.table.new_variable(size)
        loops = [piece if p == old else p for p in space.loops]
        space = space.replace({old: dim(piece) + start}, loops)
    return space


def _operands(concatenate: HloInstruction) -> Iterator[Box]:
    axis = concatenate.attributes_as(at.ConcatenateAttributes).dimension
    start = 0
    for operand in concatenate.operands:
        size = operand.shape.dimensions[axis]
        yield {axis: (start, size)}
        start += size


def _padding(planning: LoopPlanning, pad: HloInstruction) -> Iterator[Box]:
    """Yields the box from the operand's first element to its last and those around it; the ones along outer dimensions
    have whole rows of inner ones. Inside, indices are those of elements, also between two of them. Short rows stay
    whole."""
    operand: dict[int, tuple[int, int]] = {}
    padding = pad.attributes_as(at.PadAttributes).padding
    for axis in reversed(pad.shape.minor_to_major):
        size, low, step = pad.shape.dimensions[axis], padding[axis].edge_padding_low, padding[axis].interior_padding + 1
        count = pad.operand(0).shape.dimensions[axis]
        span = (count - 1) * step + 1 if count else 0
        begin = min(max(low, 0), size)
        end = max(begin, min(size, low + span))
        if (begin, end) == (0, size) or (step > 1 and not (low >= 0 and low + span <= size)):
            continue
        if _is_in_vectors(planning, pad.shape, axis) or (step == 1 and _is_short_row(planning, pad.shape, axis)):
            continue
        yield {**operand, axis: (0, begin)}
        yield {**operand, axis: (end, size - end)}
        operand[axis] = begin, end - begin
    yield operand


def _padded_windows(planning: LoopPlanning) -> HloInstruction | None:
    """The reduce-window whose elements are those of the result, or what they are computed from one by one."""
    hero, shape = planning.view.hero, planning.work.shape
    if hero.opcode != "reduce-window" or hero.shape.is_tuple or hero.shape.dimensions != shape.dimensions:
        return None
    return hero if not planning.context.block_threads and shape.num_elements >= MIN_PADDED_ELEMENTS else None


def _window_padding(planning: LoopPlanning, windows: HloInstruction) -> Iterator[Box]:
    """Yields the box of windows that have no padding, and those around it, as `_padding` does."""
    inside: dict[int, tuple[int, int]] = {}
    dimensions = windows.attributes_as(at.WindowAttributes).window.dimensions
    for axis in reversed(windows.shape.minor_to_major):
        size, window, count = (
            windows.shape.dimensions[axis],
            dimensions[axis],
            windows.operand(0).shape.dimensions[axis],
        )
        last = count - 1 + window.padding_low - (window.size - 1) * window.window_dilation
        begin = max(0, -(-window.padding_low // window.stride))
        end = min(size, last // window.stride + 1)
        if window.base_dilation != 1 or (begin, end) == (0, size) or begin >= end:
            continue
        if _is_in_vectors(planning, planning.work.shape, axis) or _is_short_row(planning, planning.work.shape, axis):
            continue
        yield {**inside, axis: (0, begin)}
        yield {**inside, axis: (end, size - end)}
        inside[axis] = begin, end - begin
    yield inside


def _has_short_pieces(concatenate: HloInstruction) -> bool:
    """Whether a piece along memory is shorter than a sector, which several blocks of a GPU would then write.

    Each element asks which of the operands it is of, so these must not be too many.
    """
    axis = concatenate.attributes_as(at.ConcatenateAttributes).dimension
    width = concatenate.shape.element_type.byte_width
    is_along = concatenate.shape.minor_to_major[0] == axis and concatenate.operand_count <= MAX_PIECES
    return is_along and any(operand.shape.dimensions[axis] * width < SECTOR_BYTES for operand in concatenate.operands)


def _stays_whole(planning: LoopPlanning, concatenate: HloInstruction) -> bool:
    """Whether one loop writes all operands: where they meet in vectors, in short rows of few."""
    axis = concatenate.attributes_as(at.ConcatenateAttributes).dimension
    if concatenate.operand_count <= MAX_MASKED_PIECES and _is_short_row(planning, concatenate.shape, axis):
        return any(operand.shape.dimensions[axis] % planning.lanes for operand in concatenate.operands[:-1])
    return is_in_a_vector(planning, concatenate)


def is_in_a_vector(planning: LoopPlanning, concatenate: HloInstruction) -> bool:
    """Whether a loop over the elements of one operand would write a few here and there (`_is_in_vectors`)."""
    axis = concatenate.attributes_as(at.ConcatenateAttributes).dimension
    if joins_columns(concatenate):
        is_large = concatenate.shape.num_elements >= MIN_ELEMENTS
        return concatenate.shape.dimensions[axis] <= (MAX_COLUMNS if is_large else MAX_STACKED)
    return concatenate.operand_count <= MAX_STACKED and _is_in_vectors(planning, concatenate.shape, axis)


def _is_in_vectors(planning: LoopPlanning, shape: Shape, axis: int) -> bool:
    """Whether what lies together in memory along an axis is so short that a vector, or a few, take all of it."""
    inner = shape.minor_to_major[: shape.minor_to_major.index(axis) + 1]
    row, lanes = math.prod(shape.dimensions[d] for d in inner), planning.lanes
    return row <= lanes and period_of(row, lanes) <= MAX_PERIOD


def _is_short_row(planning: LoopPlanning, shape: Shape, axis: int) -> bool:
    """Whether an axis is a row of a few vectors, whose ends are lanes under a mask: a loop for them alone would go
    through memory once more.
    """
    has_masks = planning.context.target.has_masked_ops and shape.element_type.byte_width >= 4
    is_row = shape.minor_to_major[0] == axis and shape.dimensions[axis] <= MAX_MASKED_VECTORS * planning.lanes
    return has_masks and is_row
