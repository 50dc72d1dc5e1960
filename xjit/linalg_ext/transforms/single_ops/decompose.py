"""decompose: an op that is several loop nests at once, as the ops that do one each."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.affine import AffineMap, dim
from xjit.linalg_ext.ir import (
    Block,
    Builder,
    DenseArrayAttr,
    DenseAttr,
    FloatType,
    IntegerType,
    LinalgError,
    Operation,
    Region,
    TensorType,
    Value,
    element_type,
)
from xjit.linalg_ext.structured import PARALLEL, REDUCTION, as_structured, shape_of
from xjit.linalg_ext.structured.creation import create_generic
from xjit.linalg_ext.structured.view import attribute_integers
from xjit.linalg_ext.transforms.building_blocks.collectives import neutral_element
from xjit.linalg_ext.transforms.building_blocks.index_values import IndexBuilder
from xjit.linalg_ext.transforms.building_blocks.slices import create_empty, extract_tile, insert_tile
from xjit.linalg_ext.transforms.building_blocks.tiles import Tile

__all__ = ["decompose", "decompose_window"]


def decompose(op: Operation) -> Operation:
    """Replaces a `linalg.softmax` on tensors by the maximum, the exponentials, their sum, and the quotient; returns
    the last one.

    LinalgError, with the operation's place, for other operations.
    """
    view = as_structured(op)
    if view is None or op.name != "linalg.softmax" or not op.results:
        raise LinalgError(f"'{op.name}' op is not made of other ops: only linalg.softmax on tensors is", op.location)
    source, init = view.operands
    rank, axis = len(shape_of(source)), attribute_integers(op, "dimension")[0]
    rows = _Rows(op, rank, axis)
    highest = rows.reduce("arith.maxnumf", source, init)
    exponentials = rows.elementwise(("arith.subf", "math.exp"), (source, highest), init)
    total = rows.reduce("arith.addf", exponentials, init)
    quotient = rows.elementwise(("arith.divf",), (exponentials, total), init)
    op.replace_all_uses_with([quotient])
    op.erase()
    assert quotient.defining_op is not None
    return quotient.defining_op


_WINDOWS = {
    "conv_2d": ("conv_1d", (0, 0, 0)),
    "conv_2d_nhwc_hwcf": ("conv_1d_nwc_wcf", (1, 0, 1)),
    "conv_2d_nchw_fchw": ("conv_1d_ncw_fcw", (2, 2, 2)),
    "depthwise_conv_2d_nhwc_hwc": ("depthwise_conv_1d_nwc_wc", (1, 0, 1)),
    "depthwise_conv_2d_nchw_chw": ("depthwise_conv_1d_ncw_cw", (2, 1, 2)),
    **{
        f"pooling_nhwc_{name}": (f"pooling_nwc_{name}", (1, 0, 1))
        for name in ("sum", "max", "max_unsigned", "min", "min_unsigned")
    },
    **{f"pooling_nchw_{name}": (f"pooling_ncw_{name}", (2, 0, 2)) for name in ("sum", "max")},
}
"""Convolutions and poolings with one spatial dimension less, and where the first of two is in image, window and result;
the second one follows it."""


def decompose_window(op: Operation) -> Operation:
    """Replaces a 2-D convolution or pooling on tensors, of which a dimension of window and result has size 1, by the
    1-D one along the other dimension; returns that.

    LinalgError, with the operation's place, for other operations.
    """
    view = as_structured(op)
    name, first = _WINDOWS.get(op.name.removeprefix("linalg."), ("", ()))
    shapes = [] if view is None else [shape_of(v) for v in view.operands]
    flat = [k for k in (0, 1) if first and shapes[1][first[1] + k] == 1 == shapes[2][first[2] + k]]
    if view is None or not op.results or not flat:
        what = "only 2-D convolutions and poolings on tensors with a window of one row or column are"
        raise LinalgError(f"'{op.name}' op is not made of an op with a dimension less: {what}", op.location)
    index = IndexBuilder(Builder.before(op))
    parts: list[Value] = []
    tiles: list[Tile] = []
    for value, axis in zip(view.operands, first):
        kind, dropped = value.type, axis + flat[0]
        assert isinstance(kind, TensorType)
        sizes = [1 if i == dropped else index.dim_of(value, i) for i in range(kind.rank)]
        tiles.append(Tile.of((0, size, True) for size in sizes))
        less = kind.with_shape(tuple(n for i, n in enumerate(kind.shape) if i != dropped))
        parts.append(extract_tile(index.builder, value, tiles[-1], less))
    attributes = dict(op.attributes)
    for key in ("strides", "dilations"):
        if key in attributes:
            kept = attribute_integers(op, key)[1 - flat[0]]
            attributes[key] = DenseAttr((kept,), TensorType((1,), IntegerType(64)))
    made = index.builder.create(f"linalg.{name}", parts, (parts[-1].type,), attributes)
    op.replace_all_uses_with([insert_tile(index.builder, made.result, view.inits[0], tiles[-1])])
    op.erase()
    return made


class _Rows:
    """Makes ops on the rows of tensors along dimension `axis`, in front of an operation."""

    def __init__(self, op: Operation, rank: int, axis: int) -> None:
        self.index = IndexBuilder(Builder.before(op))
        self.whole = AffineMap.identity(rank)
        self.reduced = AffineMap(rank, 0, tuple(dim(i) for i in range(rank) if i != axis))
        self.kinds = [REDUCTION if i == axis else PARALLEL for i in range(rank)]

    def reduce(self, name: str, value: Value, like: Value) -> Value:
        """Combines the elements of each row; sizes are those of `like`."""
        kind = like.type
        assert isinstance(kind, TensorType) and isinstance(kind.element, FloatType)
        builder = self.index.builder
        sizes = [self.index.dim_of(like, e.position) for e in self.reduced.results]
        start = builder.constant(neutral_element(name, kind.element), kind.element)
        empty = create_empty(builder, sizes, kind)
        segments = {"operandSegmentSizes": DenseArrayAttr.i32((1, 1))}
        filled = builder.create("linalg.fill", (start, empty), (empty.type,), segments).result
        return self._generic((name,), [value], filled, [self.whole, self.reduced], self.kinds)

    def elementwise(self, names: Sequence[str], values: Sequence[Value], init: Value) -> Value:
        """Applies scalar ops to each element and what its row has."""
        maps = [self.whole, self.reduced, self.whole]
        return self._generic(names, values, init, maps, [PARALLEL] * len(self.kinds))

    def _generic(
        self,
        names: Sequence[str],
        inputs: Sequence[Value],
        init: Value,
        maps: Sequence[AffineMap],
        kinds: Sequence[str],
    ) -> Value:
        """A generic whose body applies the first op to two arguments, and each other one to what that gives."""
        element = element_type(init.type)
        body = Block([element] * (len(inputs) + 1))
        inside = Builder(body)
        values: Sequence[Value] = body.arguments[:2]
        for name in names:
            values = (inside.create(name, values, (element,)).result,)
        inside.create("linalg.yield", values)
        return create_generic(self.index.builder, inputs, [init], maps, kinds, Region([body])).result
