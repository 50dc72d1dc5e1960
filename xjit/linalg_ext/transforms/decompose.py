"""decompose: an op that is several loop nests at once, as the ops that do one each."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.affine import AffineMap, dim
from xjit.linalg_ext.ir import (
    Block,
    Builder,
    DenseArrayAttr,
    FloatType,
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
from xjit.linalg_ext.transforms.collectives import neutral_element
from xjit.linalg_ext.transforms.index_values import IndexBuilder
from xjit.linalg_ext.transforms.slices import create_empty

__all__ = ["decompose"]


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
