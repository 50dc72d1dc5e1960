"""split_squares: sums of squared distances, as variances are, in parts of rows, together with the rows' sums.

A variance needs the mean first, so that a row is read twice. With n the length of a part, m its own mean, and any c,

    sum (x - c)^2 = sum (x - m)^2 + n (m - c)^2

over the part: both sums of a part are known while it is in the cache, and c, the mean of the row, follows from them.
"""

from __future__ import annotations

from collections.abc import Sequence

from xjit.dataclass import dataclass
from xjit.linalg_ext.ir import Builder, FloatType, LinalgError, Operation, Value
from xjit.linalg_ext.structured import Access, StructuredOp, as_structured, shape_of
from xjit.linalg_ext.structured.creation import is_filled_with
from xjit.linalg_ext.structured.view import identity_access
from xjit.linalg_ext.transforms.building_blocks.collectives import combiner_of
from xjit.linalg_ext.transforms.reductions.row_parts import RowParts, binary
from xjit.linalg_ext.transforms.reductions.split_reduction import split_reduction

__all__ = ["split_squares"]


@dataclass(frozen=True, slots=True)
class _Squares:
    """The sum along `axis` of (data - center)^2, where `center` is of rows, and the op that sums the data itself."""

    axis: int
    data: Value
    center: Value
    total: Operation


def split_squares(op: Operation, parts: int) -> Operation:
    """Cuts the rows of a sum of squared distances into parts, and those of the sum of the same data; returns the merge.

    LinalgError, with the place of the op, for what is no such sum, if nothing sums the data of the same rows before
    it, and for rows that cannot be cut into `parts` of one length; then nothing has changed.
    """
    found = _find(op)
    if found is None:
        raise LinalgError(f"'{op.name}' op is no sum of squares of rows that are summed before", op.location)
    sums = split_reduction(found.total, parts, found.axis).split
    work = RowParts(op, found.data, found.axis, parts)
    length = float(work.sizes[found.axis + 1])

    def mean(builder: Builder, given: Sequence[Value]) -> Value:
        return binary(builder, "arith.divf", given[0], builder.constant_float(length, work.kind))

    def add_moved(builder: Builder, given: Sequence[Value]) -> Value:
        squares, mean, center, total = given
        distance = _square_of_difference(builder, mean, center)
        moved = binary(builder, "arith.mulf", builder.constant_float(length, work.kind), distance)
        return binary(builder, "arith.addf", total, binary(builder, "arith.addf", squares, moved))

    means = work.generic([(sums.result, work.parts)], work.empty(work.parts), work.parts, mean).result
    cut = [(sums.operands[0], work.all), (means, work.parts)]
    squares = work.generic(cut, work.zeros(), work.parts, _add_square).result
    given = [(squares, work.parts), (means, work.parts), (found.center, work.rows)]
    merge = work.generic(given, op.operands[-1], work.rows, add_moved)
    op.replace_all_uses_with(merge.results)
    op.erase()
    return merge


def _square_of_difference(builder: Builder, a: Value, b: Value) -> Value:
    difference = binary(builder, "arith.subf", a, b)
    return binary(builder, "arith.mulf", difference, difference)


def _add_square(builder: Builder, given: Sequence[Value]) -> Value:
    element, mean, total = given
    return binary(builder, "arith.addf", total, _square_of_difference(builder, element, mean))


def _find(op: Operation) -> _Squares | None:
    axis = _summed_axis(op)
    if axis is None:
        return None
    factors = _operands(op.operands[0], "arith.mulf")
    if factors is None or factors[0] is not factors[1]:
        return None
    terms = _operands(factors[0], "arith.subf")
    center = None if terms is None else _repeated(terms[1], axis)
    if terms is None or center is None:
        return None
    block = op.block
    for user in terms[0].users:
        is_near = block is not None and user.block is block and block.position(user) < block.position(op)
        if is_near and _summed_axis(user) == axis:
            return _Squares(axis, terms[0], center, user)
    return None


def _summed_axis(op: Operation) -> int | None:
    """Returns the dimension along which an op sums a tensor of floats of static shape, starting from 0."""
    view = as_structured(op)
    if view is None or not op.results or len(view.inputs) != 1 or len(view.reduction_loops) != 1:
        return None
    combiner, [axis] = combiner_of(view), view.reduction_loops
    rank = view.num_loops
    if combiner is None or combiner.op.name != "arith.addf" or not is_filled_with(view.inits[0], 0.0):
        return None
    if view.body.arguments[0] not in combiner.op.operands or None in shape_of(view.inputs[0]):
        return None
    is_plain = view.accesses == (
        identity_access(rank),
        tuple(e for i, e in enumerate(identity_access(rank)) if i != axis),
    )
    return axis if is_plain and isinstance(combiner.op.result.type, FloatType) else None


def _elementwise(value: Value) -> StructuredOp | None:
    """Returns the op that makes a tensor element by element."""
    view = None if value.defining_op is None else as_structured(value.defining_op)
    if view is None or not view.is_elementwise or view.accesses[-1] != identity_access(view.num_loops):
        return None
    return view


def _operands(value: Value, name: str) -> tuple[Value, Value] | None:
    """Returns the tensors of whose elements a tensor's are `name`, one operation of two operands."""
    view = _elementwise(value)
    inner = None if view is None else view.yielded[0].defining_op
    if view is None or inner is None or inner.name != name:
        return None
    given = dict[Value, int](zip(view.body.arguments, range(len(view.inputs))))
    numbers = [given.get(v, -1) for v in inner.operands]
    if any(n < 0 or view.accesses[n] != view.accesses[-1] for n in numbers):
        return None
    left, right = (view.inputs[n] for n in numbers)
    return left, right


def _repeated(value: Value, axis: int) -> Value | None:
    """Returns the tensor that another one repeats along `axis`."""
    view = _elementwise(value)
    if view is None or len(view.inputs) != 1 or view.yielded[0] is not view.body.arguments[0]:
        return None
    return view.inputs[0] if view.accesses[0] == _without(view.num_loops, axis) else None


def _without(rank: int, axis: int) -> Access:
    """The index of what has all loops but one."""
    return tuple(e for i, e in enumerate(identity_access(rank)) if i != axis)
