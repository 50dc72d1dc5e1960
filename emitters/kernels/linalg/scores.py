"""Products with scores, as calls of the blocked kernel: attention and its gradients.

The kernel's function finds the operands of each unit by their indexing maps. What is computed from the tiles of the
first products (scales, masks, biases, exponentials of a gradient) is `score_elements`' business.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xjit.affine import AffineExpr, dim, substitute
from xjit.emitters.access.memory import Buffer
from xjit.emitters.attention.block import STRIP_BYTES
from xjit.emitters.attention.library import link_score_library, stack_bytes
from xjit.emitters.attention.pieces import add_block_record
from xjit.emitters.attention.shapes import ScoreParameters
from xjit.emitters.gemm.microkernels.kernels import pieces
from xjit.emitters.kernels.kernel import Kernel, KernelContext, range_arguments
from xjit.emitters.kernels.linalg.dot import NS_PER_FLOP
from xjit.emitters.kernels.linalg.score_elements import ScoreElements, emit_score_elements
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.loops.loop_nest import LoopNest
from xjit.emitters.planners.cpu.scores import ScoreWork
from xjit.emitters.planners.score_product import batch_index
from xjit.hlo.ir.instruction import HloInstruction
from xjit.llvm.structured_builder import StructuredBuilder
from xjit.llvm.types import I8, I64, PTR
from xjit.llvm.values import Value, const_int, zero
from xjit.passes.analysis.attention.places import Matrix, Place

NS_PER_SCORE = 1.0  # of what is computed from one element of a tile, with an exponential


def emit_scores(context: KernelContext, view: KernelView, work: ScoreWork) -> list[Kernel]:
    """Emits the kernel: units are blocks of rows of each product of the batch."""
    function, leaves, results = context.new_kernel(view)
    function.is_cold = True
    call = link_score_library(context.module, work.types)
    function.scratch_bytes += stack_bytes(work.types, context.target)
    nest = LoopNest(context.module, function, context.target)
    closures = [emit_score_elements(context, view, elements, nest, leaves) for elements in _elements(work)]
    statistics = [0 if found is None else found[1].row_stride for found in work.statistics]
    softmax, strides = work.product.softmax, (statistics[0], statistics[1])
    factor = 1.0 if softmax is None else softmax.factor
    parameters = ScoreParameters.of(work.shape, work.types, work.blocking, strides, work.masked, factor)
    rows, columns = pieces(work.shape.rows, work.blocking.rows), pieces(work.shape.columns, work.blocking.columns)
    record = add_block_record(context.module, parameters.to_array(), rows, {*columns, work.shape.width})
    unit = nest.new_variable(work.units)

    def one_unit(_: Sequence[Value]) -> Sequence[Value]:
        operands = _Unit(nest, work, unit)
        pointers = operands.pointers(leaves, results)
        nest.builder.call(call, (record, *closures, *pointers, *operands.place()))
        return ()

    begin, end = range_arguments(function)
    nest.loop(unit, one_unit, begin=begin, end=end, name="unit")
    nest.builder.ret_void()
    scores = work.shape.num_batches * work.shape.rows * work.shape.columns
    cost = work.shape.flops * NS_PER_FLOP + scores * NS_PER_SCORE
    return [Kernel(function, work.units, cost, "attention", view.byte_size, work.shape.flops)]


def _elements(work: ScoreWork) -> tuple[ScoreElements, ScoreElements]:
    """What is computed of the tiles, and of the softmax's exponentials."""
    product, shape = work.product, work.shape

    def index_of(batch: AffineExpr, row: AffineExpr, column: AffineExpr) -> dict[int, AffineExpr]:
        return {**batch_index(product, batch), product.rows: row, product.column.position: column}

    sizes = shape.num_batches, shape.rows, shape.columns
    tiles = [tile.place for tile in product.tiles]
    weights, exponentials = list[Place](), list[Place]()
    if product.weights is not None and product.softmax is not None:
        weights, exponentials = [product.weights], [product.softmax.exponential]
    return (
        ScoreElements(*sizes, index_of, tiles, [product.scores], STRIP_BYTES),
        ScoreElements(*sizes, index_of, exponentials, weights, STRIP_BYTES),
    )


class _Unit:
    """The unit at hand: which product, which rows, and where these lie."""

    def __init__(self, nest: LoopNest, work: ScoreWork, unit: int) -> None:
        self.nest = nest
        self.work = work
        units = work.blocking.units_per_batch
        self.batch = nest.simplify(dim(unit).floordiv(units))
        self.first_row = nest.simplify((dim(unit) % units) * work.blocking.rows)
        self.index = batch_index(work.product, self.batch)

    def place(self) -> tuple[Value, Value, Value]:
        """The number of the product, the first row and the number of rows."""
        nest, work = self.nest, self.work
        first_row = nest.index_value(self.first_row)
        left = nest.builder.sub(const_int(I64, work.shape.rows), first_row)
        rows = StructuredBuilder(nest.builder.block).min(const_int(I64, work.blocking.rows), left)
        return nest.index_value(self.batch), first_row, rows

    def pointers(self, leaves: Mapping[HloInstruction, Buffer], results: Sequence[Buffer]) -> list[Value]:
        """Where the operands and results of `block.UNIT_PARAMS` start, in their order."""
        product = self.work.product
        found: list[Value] = []
        for tile in product.tiles:
            found.append(self._start(tile.left, leaves[tile.left.leaf], at_row=True))
            found.append(self._start(tile.right, leaves[tile.right.leaf], at_row=False))
        found += [zero(PTR)] * (4 - len(found))
        found.append(self._start(product.right, leaves[product.right.leaf], at_row=False))
        found.append(self._start(product.result, results[0], at_row=True))
        for statistic in self.work.statistics:
            is_wanted = statistic is not None
            found.append(self._start(statistic[1], results[statistic[0]], at_row=True) if is_wanted else zero(PTR))
        return found

    def _start(self, matrix: Matrix, buffer: Buffer, at_row: bool) -> Value:
        nest = self.nest
        offset = substitute(matrix.base, self.index)
        if at_row:
            offset = offset + self.first_row * matrix.row_stride
        size = matrix.leaf.shape.element_type.bit_width // 8
        number = nest.index_value(nest.simplify(offset * size))
        return nest.builder.gep(I8, buffer.pointer, number, inbounds=False)
