"""Products with scores that are computed in the kernel, by blocks: attention and its gradients.

What the fusion computes is found again by the analysis that made it (`xjit.passes.analysis.attention`); its operands
are then the kernel's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from xjit.affine import dim
from xjit.emitters.attention.shapes import (
    PRODUCTS,
    Blocking,
    ScoreShape,
    ScoreTypes,
    TileStrides,
    plan_blocks,
)
from xjit.emitters.gemm.blocking.register_tile import register_tile
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.planners.cpu.dot import GEMM_TYPES
from xjit.emitters.planners.plan import HandWritten, KernelPlan, PlanContext
from xjit.emitters.planners.score_product import score_product
from xjit.llvm.types import LLVMType
from xjit.passes.analysis.attention.masks import NOTHING_MASKED, Masked, MaskFinder
from xjit.passes.analysis.attention.places import Matrix
from xjit.passes.analysis.attention.products import ScoreProduct


@dataclass(frozen=True, slots=True)
class ScoreWork:
    """The product, its sizes, and how it is blocked. `statistics` are where the maxima and sums of rows go, with the
    number of the result; None for those that are no results.

    `masked` is where scores have an upper bound.
    """

    product: ScoreProduct
    shape: ScoreShape
    types: ScoreTypes
    blocking: Blocking
    statistics: tuple[tuple[int, Matrix] | None, ...]
    masked: Masked

    @property
    def units(self) -> int:
        """Blocks of rows, of all products."""
        return self.shape.num_batches * self.blocking.units_per_batch

    def facts(self, context: PlanContext) -> Mapping[str, object]:
        """Its sizes, and how it is blocked."""
        shape, tile = self.shape, register_tile(context.target, PRODUCTS)
        depths = " and ".join(str(t.depth) for t in shape.tiles)
        kind = "a softmax" if self.types.divides else "exponentials of a softmax"
        softmax = f", {kind} along columns, block by block" if self.product.softmax else ""
        return {
            "product": f"{shape.num_batches} x [{shape.rows}, {shape.columns}] * [{shape.columns}, {shape.width}]",
            "scores": f"from products over {depths}{softmax}",
            "types": self.types.mangled,
            "method": f"register tiles of {tile.rows}x{tile.columns}",
            "blocks": f"{self.blocking.rows} rows, {self.blocking.columns} columns; scores stay in the cache",
            "tasks": f"{self.units} units",
            **self.masked.facts(),
        }


def plan_scores(context: PlanContext, view: KernelView) -> list[KernelPlan]:
    """Plans a product with scores."""
    product = score_product(view)
    shape = _shape(product)
    blocking = plan_blocks(shape, context.target)
    products = [tile.place for tile in product.tiles]
    finder = MaskFinder(product.space, dim(product.rows), product.column, products)
    masked = finder.bounded(product.scores) if product.softmax is not None else NOTHING_MASKED
    work = ScoreWork(product, shape, _types(product), blocking, _statistics(view, product), masked)
    reason = "scores stay in the cache, block by block"
    return [HandWritten(view.instruction.name, "scores", reason, work)]


def _shape(product: ScoreProduct) -> ScoreShape:
    sizes = product.root.shape.dimensions
    return ScoreShape(
        num_batches=math.prod(sizes[d] for d in product.batch),
        rows=sizes[product.rows],
        columns=product.num_columns,
        width=sizes[product.width],
        tiles=tuple(
            TileStrides(t.depth, t.left.row_stride, t.left.column_stride, t.right.row_stride, t.right.column_stride)
            for t in product.tiles
        ),
        right_row=product.right.row_stride,
        right_column=product.right.column_stride,
        out_row=product.result.row_stride,
        out_column=product.result.column_stride,
    )


def _types(product: ScoreProduct) -> ScoreTypes:
    def storage(matrix: Matrix) -> LLVMType:
        return GEMM_TYPES[matrix.leaf.shape.element_type]

    tiles = tuple((storage(t.left), storage(t.right)) for t in product.tiles)
    softmax = product.softmax
    is_scaled = softmax is not None and softmax.factor != 1.0
    right, result = storage(product.right), storage(product.result)
    return ScoreTypes(tiles, right, result, softmax is not None, product.weights is None, is_scaled)


def _statistics(view: KernelView, product: ScoreProduct) -> tuple[tuple[int, Matrix] | None, ...]:
    """Returns where the rows' maxima and sums go, if the view has them as further results."""
    softmax = product.softmax
    if softmax is None:
        return None, None
    found: list[tuple[int, Matrix] | None] = []
    for place in (softmax.maximum, softmax.total):
        number = view.roots.index(place.instruction) if place.instruction in view.roots else None
        matrix = product.space.matrix(place, dim(product.rows), product.column, dim(product.width))
        assert number is None or matrix is not None
        found.append(None if number is None or matrix is None else (number, matrix))
    return tuple(found)
