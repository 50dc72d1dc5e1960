"""softmax cut along its dimension and fused into a matrix product: the sum is rescaled as the maximum grows.

With acc' and max' after a tile, and scale = acc * exp(max - max') / acc', the product of the normalized rows so far is
diag(scale) * product + softmax(tile) * values. This is exact: nothing but max, acc and the product is carried.
"""

from __future__ import annotations

from collections.abc import Callable

from xjit.linalg_ext.ir import Attribute, DenseArrayAttr, FloatType, StringAttr, TensorType, Value
from xjit.linalg_ext.structured import as_structured, shape_of
from xjit.linalg_ext.structured.creation import create_fill, is_filled_with
from xjit.linalg_ext.structured.extension import axis_of
from xjit.linalg_ext.transforms.building_blocks.index_values import Index, IndexBuilder
from xjit.linalg_ext.transforms.building_blocks.slices import create_empty
from xjit.linalg_ext.transforms.building_blocks.tiles import Tile
from xjit.linalg_ext.transforms.fusion.plan import Planned, Request
from xjit.linalg_ext.transforms.tilable import StructuredTilable
from xjit.linalg_ext.transforms.tiling.loop_nest import LoopNest

__all__ = ["accepts_online_softmax", "rescaled"]

_PRODUCTS = frozenset(("linalg.matmul", "linalg.batch_matmul", "linalg_ext.batch_matmul"))


def accepts_online_softmax(nest: LoopNest) -> Callable[[StructuredTilable, Tile, list[Request]], bool]:
    """Returns the test of a fusion plan for `nest` that lets softmax be cut where that is exact."""

    def accept(tilable: StructuredTilable, domain: Tile, requests: list[Request]) -> bool:
        if tilable.op.name != "linalg_ext.softmax" or len(requests) != 1 or requests[0].number != 0:
            return False
        consumer = requests[0].consumer
        uses = tilable.op.results[0].uses
        if len(uses) != 1 or tilable.op.results[3].has_uses or not _is_product_of_rows(consumer, requests[0].operand):
            return False
        axis = axis_of(tilable.view)
        if axis != len(domain.sizes) - 1:
            return False
        rows = [offset for i, offset in enumerate(domain.offsets) if i != axis]
        along = domain.offsets[axis]
        return all(domain.covers) and any(along is iv for iv in nest.ivs) and _each_once(nest, rows, along)

    return accept


def _each_once(nest: LoopNest, rows: list[Index], along: Index) -> bool:
    """Whether the loops give each row each tile along the dimension once, and nothing else."""
    if any(not isinstance(row, int) and all(row is not iv for iv in nest.ivs) for row in rows):
        return False
    return all(iv is along or any(iv is row for row in rows) for iv in nest.ivs if not nest.runs_once(iv))


def _is_product_of_rows(consumer: Planned, operand: int) -> bool:
    """Whether rows of the operand are multiplied with a matrix and added to zeros."""
    op = consumer.op
    if not consumer.is_root or op.name not in _PRODUCTS or operand != 0:
        return False
    layout = op.attributes.get("layout")
    if isinstance(layout, StringAttr) and layout.value not in ("nn", "nt"):
        return False
    view = as_structured(op)
    assert view is not None
    return isinstance(view.inits[0].type, TensorType) and is_filled_with(view.inits[0], 0.0)


def rescaled(index: IndexBuilder, scale: Value, total: Value) -> Value:
    """Returns diag(scale) times `total`. Shapes: scale [.., m], total [.., m, n]."""
    builder, kind, of_total = index.builder, scale.type, total.type
    assert isinstance(kind, TensorType) and isinstance(of_total, TensorType)
    sizes = _sizes(index, scale)
    empty = create_empty(builder, [*sizes, sizes[-1]], kind)
    unary: dict[str, Attribute] = {"operandSegmentSizes": DenseArrayAttr.i32((1, 1))}
    diagonal = builder.create("linalg_ext.diag", (scale, empty), (empty.type,), unary).result
    assert isinstance(of_total.element, FloatType)
    zero = index.outer.builder.constant_float(0.0, of_total.element)
    empty = create_empty(builder, _sizes(index, total), of_total)
    zeros = create_fill(builder, zero, empty)
    binary: dict[str, Attribute] = {"operandSegmentSizes": DenseArrayAttr.i32((2, 1))}
    name = "linalg.matmul"
    if of_total.rank > 2:
        name, binary = "linalg_ext.batch_matmul", {"layout": StringAttr("nn"), **binary}
    return builder.create(name, (diagonal, total, zeros), (empty.type,), binary).result


def _sizes(index: IndexBuilder, tile: Value) -> list[Index]:
    """The sizes of a tensor in the loops."""
    local = IndexBuilder(index.builder)
    return [local.dim_of(tile, axis) for axis in range(len(shape_of(tile)))]
