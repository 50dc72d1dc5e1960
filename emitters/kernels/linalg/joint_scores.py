"""Several products of one set of scores, as calls of their blocked kernel: the gradient of attention."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xjit.affine import AffineExpr, delinearize, dim, substitute
from xjit.emitters.access.memory import Buffer
from xjit.emitters.attention.joint_block import sums_bytes
from xjit.emitters.attention.joint_shapes import joint_parameters
from xjit.emitters.attention.library import link_score_library, stack_bytes
from xjit.emitters.attention.pieces import add_block_record
from xjit.emitters.attention.shapes import COMPUTE, COMPUTE_BYTES
from xjit.emitters.gemm.microkernels.kernels import pieces
from xjit.emitters.kernels.kernel import Kernel, KernelContext, range_arguments
from xjit.emitters.kernels.linalg.dot import NS_PER_FLOP
from xjit.emitters.kernels.linalg.score_elements import (
    IDENTITIES,
    ScoreElements,
    emit_condition,
    emit_level,
    emit_score_elements,
)
from xjit.emitters.kernels.linalg.scores import NS_PER_SCORE
from xjit.emitters.kernels.loops.hand_loops import Scratch
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.loops.loop_nest import LoopNest
from xjit.emitters.planners.cpu.joint_scores import JointWork
from xjit.hlo.ir.instruction import HloInstruction
from xjit.llvm.structured_builder import StructuredBuilder
from xjit.llvm.types import I8, I64, PTR
from xjit.llvm.values import Value, const_int, constant, zero
from xjit.passes.analysis.attention.joint import JointProducts
from xjit.passes.analysis.attention.places import Matrix


def emit_joint_scores(context: KernelContext, view: KernelView, work: JointWork) -> list[Kernel]:
    """Emits the kernel: units are ranges of rows of each set of products."""
    function, leaves, results = context.new_kernel(view)
    function.is_cold = True
    call = link_score_library(context.module, work.types)
    function.scratch_bytes += stack_bytes(work.types, context.target)
    nest = LoopNest(context.module, function, context.target)
    elements = _elements(work)
    record = _record(context, work)
    widths = [m.width for m in work.products.members if not m.over_rows]
    sizes = [sum(sums_bytes(work.blocking.unit_rows, width) for width in widths), *_whole_columns_bytes(work, elements)]
    scratch = Scratch(context.module, nest.builder, sizes) if any(sizes) else None
    memory, planes, flags, known = [zero(PTR)] * 4 if scratch is None else scratch.pieces
    closure = emit_score_elements(context, view, elements, nest, leaves, known)
    condition = emit_condition(context, view, elements, work.masked.condition, nest, leaves, known)
    levels = nest.builder.alloca(I64, max(work.types.levels, 1), align=8, name="levels")
    for level in range(work.types.levels):
        of_level = emit_level(context, view, elements, level, nest, leaves, known)
        nest.builder.store(of_level, nest.builder.gep(I64, levels, const_int(I64, level)), align=8)
    matrices = _matrices(work.products, leaves, results)
    pointers = nest.builder.alloca(I64, len(matrices), align=8, name="pointers")
    unit = nest.new_variable(work.units)

    def one_unit(_: Sequence[Value]) -> Sequence[Value]:
        units = work.blocking.units_per_batch
        batch = nest.simplify(dim(unit).floordiv(units))
        first = nest.simplify((dim(unit) % units) * work.blocking.unit_rows)
        index = _batch_index(work.products, batch)
        for slot, (matrix, buffer) in enumerate(matrices):
            size = matrix.leaf.shape.element_type.bit_width // 8
            offset = nest.index_value(nest.simplify(substitute(matrix.base, index) * size))
            address = nest.builder.gep(I8, buffer.pointer, offset, inbounds=False)
            nest.builder.store(address, nest.builder.gep(I64, pointers, const_int(I64, slot)), align=8)
        first_row = nest.index_value(first)
        left = nest.builder.sub(const_int(I64, work.shape.rows), first_row)
        rows = StructuredBuilder(nest.builder.block).min(const_int(I64, work.blocking.unit_rows), left)
        where = nest.index_value(batch), first_row, rows
        _clear(nest, elements, known)
        nest.builder.call(call, (record, closure, condition, pointers, memory, *where, levels, planes, flags))
        return ()

    begin, end = range_arguments(function)
    nest.loop(unit, one_unit, begin=begin, end=end, name="unit")
    if scratch is not None:
        scratch.free(nest.builder)
    nest.builder.ret_void()
    scores = work.shape.num_batches * work.shape.rows * work.shape.columns
    cost = work.shape.flops * NS_PER_FLOP + scores * NS_PER_SCORE
    return [Kernel(function, work.units, cost, "attention", view.byte_size, work.shape.flops)]


def _whole_columns_bytes(work: JointWork, elements: ScoreElements) -> tuple[int, int, int]:
    """Returns the bytes of a block's scores, of flags of its blocks of rows, and of what is known of columns."""
    if not work.types.levels:
        return 0, 0, 0
    blocks = -(-work.shape.rows // work.blocking.rows)
    known = COMPUTE_BYTES * elements.statistic_numbers * len(work.statistics)
    return work.types.planes * work.blocking.plane_bytes, 8 * blocks, known


def _clear(nest: LoopNest, elements: ScoreElements, known: Value) -> None:
    """Makes what is known of columns what it is before the first score."""
    if not elements.statistics:
        return
    numbers = elements.statistic_numbers
    position = nest.new_variable(numbers)

    def one(_: Sequence[Value]) -> Sequence[Value]:
        column = nest.index_value(dim(position))
        for number, statistic in enumerate(elements.statistics):
            place = nest.builder.add(column, const_int(I64, number * numbers))
            start = constant(COMPUTE, IDENTITIES[statistic.opcode])
            nest.builder.store(start, nest.builder.gep(COMPUTE, known, place), align=COMPUTE_BYTES)
        return ()

    nest.scalar_loop(position, one)


def _record(context: KernelContext, work: JointWork) -> Value:
    """Sizes and strides, and the kernels: blocks of rows, and of columns where something is summed over rows."""
    shape, blocking = work.shape, work.blocking
    rows = {rows for unit in pieces(shape.rows, blocking.unit_rows) for rows in pieces(unit, blocking.rows)}
    columns = pieces(shape.columns, blocking.columns)
    numbers = joint_parameters(shape, work.types, blocking, work.masked)
    results = {*columns, *(member.width for member in shape.members)}
    return add_block_record(context.module, numbers, rows | columns, results)


def _elements(work: JointWork) -> ScoreElements:
    joint, shape = work.products, work.shape

    def index_of(batch: AffineExpr, row: AffineExpr, column: AffineExpr) -> dict[int, AffineExpr]:
        return {**_batch_index(joint, batch), joint.row: row, joint.column: column}

    sizes = shape.num_batches, shape.rows, shape.columns
    given = [tile.place for tile in joint.tiles]
    return ScoreElements(*sizes, index_of, given, joint.scores, work.blocking.plane_bytes, work.statistics)


def _batch_index(joint: JointProducts, batch: AffineExpr) -> dict[int, AffineExpr]:
    """Returns the variables that say which set of products it is, by its number."""
    return dict(zip(joint.batch, delinearize(batch, [joint.sizes[d] for d in joint.batch]), strict=True))


def _matrices(
    joint: JointProducts, leaves: Mapping[HloInstruction, Buffer], results: Sequence[Buffer]
) -> list[tuple[Matrix, Buffer]]:
    """Returns the operands and results in the order of `joint_block.JOINT_PARAMS`' pointers."""
    operands = [side for tile in joint.tiles for side in (tile.left, tile.right)]
    operands += [member.right for member in joint.members]
    found = [(matrix, leaves[matrix.leaf]) for matrix in operands]
    return found + [(m.result, buffer) for m, buffer in zip(joint.members, results, strict=True)]
