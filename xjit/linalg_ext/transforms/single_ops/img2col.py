"""convert_conv2d_to_img2col: a convolution as a product of a matrix whose rows, or columns, are its windows."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from xjit.affine import AffineExpr, AffineMap, constant, dim
from xjit.linalg_ext.ir import (
    Block,
    Builder,
    IndexType,
    IntegerAttr,
    IntegerType,
    LinalgError,
    Operation,
    Region,
    TensorType,
    Value,
    element_type,
)
from xjit.linalg_ext.structured import PARALLEL, REDUCTION, as_structured, shape_of
from xjit.linalg_ext.structured.contractions import multiply_add
from xjit.linalg_ext.structured.creation import create_generic
from xjit.linalg_ext.structured.view import StructuredOp, attribute_integers
from xjit.linalg_ext.transforms.building_blocks.slices import create_empty
from xjit.linalg_ext.transforms.single_ops.reshapes import collapse_shape, expand_shape

__all__ = ["convert_conv2d_to_img2col"]


@dataclass(frozen=True)
class _Layout:
    """Where image, window and result have their dimensions, by letters: `n` images, `h` and `w` places, `c` channels,
    `f` features.
    """

    image: str
    window: str
    result: str


_LAYOUTS = {
    "linalg.conv_2d_nhwc_hwcf": _Layout("nhwc", "hwcf", "nhwf"),
    "linalg.conv_2d_nhwc_fhwc": _Layout("nhwc", "fhwc", "nhwf"),
    "linalg.conv_2d_nchw_fchw": _Layout("nchw", "fchw", "nfhw"),
}


def convert_conv2d_to_img2col(op: Operation) -> tuple[Operation, Operation]:
    """Replaces a convolution on tensors of known sizes; returns what gathers the windows, and what makes the result.

    LinalgError, with the operation's place, for other operations, and for windows with dilations.
    """
    view = as_structured(op)
    layout = _LAYOUTS.get(op.name)
    if view is None or layout is None or not op.results:
        raise LinalgError(f"'{op.name}' op is no convolution on tensors that has windows as a matrix", op.location)
    if any(None in shape_of(v) for v in view.operands):
        raise LinalgError(f"'{op.name}' op: expected a static shape", op.location)
    if attribute_integers(op, "dilations", (1, 1)) not in ((1, 1), (1,)):
        raise LinalgError(f"'{op.name}' op: expected all ones for dilations", op.location)
    return _Img2Col(view, layout).run()


class _Img2Col:
    """One convolution at a time. `inner` are the dimensions of a window that are summed over, in its order."""

    def __init__(self, op: StructuredOp, layout: _Layout) -> None:
        self.op = op
        self.layout = layout
        self.builder = Builder.before(op.operation)
        self.image, self.window, self.result = op.operands
        self.sizes = {name: n or 0 for name, n in zip(layout.window, shape_of(self.window))}
        self.places = {name: n or 0 for name, n in zip(layout.result, shape_of(self.result))}
        self.inner = layout.window.replace("f", "")
        strides = attribute_integers(op.operation, "strides", (1, 1))
        self.strides = dict(zip("hw", strides * 2 if len(strides) == 1 else strides))
        self.features_first = layout.result.index("f") < layout.result.index("h")

    def run(self) -> tuple[Operation, Operation]:
        operation = self.op.operation
        columns = self._gather()
        in_groups = [(0,), (1,), (2, 3)] if self.features_first else [(0,), (1, 2), (3,)]
        filters = collapse_shape(self.builder, self.window, self._groups_of_window())
        init = collapse_shape(self.builder, self.result, in_groups)
        product = self._multiply(columns.result, filters, init)
        shape = shape_of(self.result)
        whole = expand_shape(self.builder, product, in_groups, shape, ())
        operation.replace_all_uses_with([whole])
        operation.erase()
        assert whole.defining_op is not None
        return columns, whole.defining_op

    def _groups_of_window(self) -> list[tuple[int, ...]]:
        return [(0, 1, 2), (3,)] if self.layout.window[-1] == "f" else [(0,), (1, 2, 3)]

    def _gather(self) -> Operation:
        """Returns the generic that writes all windows: images, places, elements; or elements, then places."""
        count = prod(self.sizes[name] for name in self.inner)
        places = self.places["h"] * self.places["w"]
        sizes = [self.places["n"], *((count, places) if self.features_first else (places, count))]
        kind = self.image.type
        assert isinstance(kind, TensorType)
        empty = create_empty(self.builder, sizes, kind)
        block = Block([kind.element])
        inside = Builder(block)
        loops = [
            inside.create("linalg.index", (), (IndexType(),), {"dim": IntegerAttr(d, IntegerType(64))}).result
            for d in range(3)
        ]
        index = [inside.affine_apply(AffineMap(3, 0, (e,)), loops) for e in self._image_index()]
        element = inside.create("tensor.extract", (self.image, *index), (kind.element,)).result
        inside.create("linalg.yield", (element,))
        return create_generic(self.builder, [], [empty], [AffineMap.identity(3)], [PARALLEL] * 3, Region([block]))

    def _image_index(self) -> list[AffineExpr]:
        """Returns where an element of a window lies in the images, over the three loops; empty ones are never run."""
        place, element = (dim(2), dim(1)) if self.features_first else (dim(1), dim(2))
        width = max(self.places["w"], 1)
        at = {"n": dim(0), "h": place.floordiv(width), "w": place % width}
        below = 1
        offsets: dict[str, AffineExpr] = {}
        for name in reversed(self.inner):
            size = max(self.sizes[name], 1)
            offsets[name] = element.floordiv(below) % size
            below *= size
        found = {"n": at["n"], "c": offsets["c"]}
        for name in "hw":
            found[name] = at[name] * self.strides[name] + offsets[name]
        return [found.get(name, constant(0)) for name in self.layout.image]

    def _multiply(self, columns: Value, filters: Value, init: Value) -> Value:
        """Returns the product as a generic: images, rows and columns of the result, elements of a window."""
        b, m, n, k = map(dim, range(4))
        filters_map = [k, n] if self.layout.window[-1] == "f" else [n, k]
        operands, maps = [columns, filters], [(b, m, k), tuple(filters_map)]
        if self.features_first:
            operands, maps = [filters, columns], [(m, k), (b, k, n)]
        block = Block([*(element_type(v.type) for v in operands), element_type(init.type)])
        inside = Builder(block)
        inside.create("linalg.yield", multiply_add(inside, self.op, block.arguments))
        indexing = [AffineMap(4, 0, tuple(e)) for e in (*maps, (b, m, n))]
        kinds = [PARALLEL] * 3 + [REDUCTION]
        return create_generic(self.builder, operands, [init], indexing, kinds, Region([block])).result
