"""sort and topk. A comparator that just orders the first key becomes a stable argsort; any other runs a merge sort.

The merge sort works on all rows and all runs at once: each element finds its place in the neighbouring run by binary
search, with one comparator call on whole arrays per step. A comparator that is not a strict weak order could send two
elements to one place; such rows are merged element by element instead, which always gives a permutation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from xjit.hlo.attributes import CompareAttributes, ParameterAttributes, SortAttributes, TopKAttributes
from xjit.hlo.ir.computation import HloComputation
from xjit.hlo.ir.instruction import HloInstruction
from xjit.ops.evaluation.numerics import Array, Value, ordered_bits, type_of, widen
from xjit.ops.opdef import Evaluator

if TYPE_CHECKING:
    from xjit.ops.evaluation.interpreter import Interpreter

Less = Callable[[Array, Array], Array]
"""`less(i, j)` for flat element numbers: whether element i must come before element j."""


def _simple_order(comparator: HloComputation) -> tuple[int, bool, str] | None:
    """Returns (operand, descending, compare type) for a comparator that is one LT or GT of an operand's two values."""
    root = comparator.root_instruction
    if root.opcode != "compare" or root.attributes_as(CompareAttributes).direction not in ("LT", "GT"):
        return None
    if any(o.opcode != "parameter" for o in root.operands):
        return None
    first, second = (o.attributes_as(ParameterAttributes).parameter_number for o in root.operands)
    if first // 2 != second // 2 or first == second:
        return None
    return first // 2, (root.direction == "GT") != (first > second), str(root.attributes.type)  # type: ignore[attr-defined]


def _sort_key(interpreter: Interpreter, x: Array, descending: bool, compare: str) -> Array | None:
    """Returns integers whose ascending order is the comparator's order, or None if there are none (NaN)."""
    if type_of(x).is_complex:
        return None
    if type_of(x).is_float:
        if compare != "TOTALORDER":
            x = interpreter.flush(widen(x))
            if np.isnan(x).any():
                return None
            x = x + x.dtype.type(0)  # -0 equals +0
        key = ordered_bits(x)
    else:
        key = widen(x)
        key = key.astype(np.uint8) if key.dtype == np.bool_ else key
    return np.invert(key) if descending else key


def _sort(interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Array]) -> Value:
    axis = instruction.attributes_as(SortAttributes).dimensions[0]
    moved = [np.moveaxis(x, axis, -1) for x in operands]
    simple = _simple_order(instruction.to_apply)
    key = None if simple is None else _sort_key(interpreter, moved[simple[0]], *simple[1:])
    if key is not None:
        order = np.argsort(key, axis=-1, kind="stable")
    else:
        order = _comparator_order(interpreter, instruction.to_apply, moved)
    results = tuple(np.moveaxis(np.take_along_axis(x, order, -1), -1, axis) for x in moved)
    return results if instruction.shape.is_tuple else results[0]


def _comparator_order(interpreter: Interpreter, comparator: HloComputation, rows: Sequence[Array]) -> Array:
    shape = rows[0].shape
    if 0 in shape:
        return np.zeros(shape, np.int64)
    flat = [x.reshape(-1) for x in rows]

    def less(i: Array, j: Array) -> Array:
        pairs = [x[at] for x in flat for at in (i, j)]
        return np.asarray(interpreter.call_elementwise(comparator, *pairs))

    length = shape[-1]
    order = np.arange(flat[0].size).reshape(-1, length)
    first = order[:, :1].copy()
    width = 1
    while width < length:
        order = _merge_runs(order, width, less)
        width *= 2
    return (order - first).reshape(shape)


def _merge_runs(order: Array, width: int, less: Less) -> Array:
    """Merges neighbouring sorted runs of `width` in every row of `order` (element numbers); stable."""
    length = order.shape[1]
    column = np.broadcast_to(np.arange(length), order.shape)
    pair = column // (2 * width) * (2 * width)
    is_left = column - pair < width
    other = np.where(is_left, np.minimum(pair + width, length), pair)
    low, high = np.zeros_like(column), np.minimum(other + width, length) - other
    for _ in range(int(width).bit_length()):
        active = low < high
        middle = (low + high) // 2
        opponent = np.take_along_axis(order, np.minimum(other + middle, length - 1), 1)
        first, second = np.where(is_left, opponent, order), np.where(is_left, order, opponent)
        right_is_less = less(first.reshape(-1), second.reshape(-1)).reshape(order.shape)
        before = np.where(is_left, right_is_less, ~right_is_less)  # a tie keeps the left one first
        low = np.where(active & before, middle + 1, low)
        high = np.where(active & ~before, middle, high)
    own = np.where(is_left, column - pair, column - pair - width)
    place = pair + own + low
    if (np.sort(place, axis=1) == column).all():
        merged = np.empty_like(order)
        np.put_along_axis(merged, place, order, 1)
        return merged
    return _merge_one_by_one(order, width, less)


def _merge_one_by_one(order: Array, width: int, less: Less) -> Array:
    """Merges neighbouring runs by taking the smaller head, all rows at once: always a permutation."""
    rows, length = order.shape
    merged = np.empty_like(order)
    lane = np.arange(rows)
    for begin in range(0, length, 2 * width):
        middle, end = min(begin + width, length), min(begin + 2 * width, length)
        left, right = np.full(rows, begin), np.full(rows, middle)
        for at in range(begin, end):
            a = order[lane, np.minimum(left, middle - 1)]
            b = order[lane, np.minimum(right, end - 1)]
            take_right = (right < end) & ((left >= middle) | less(b, a))
            merged[lane, at] = np.where(take_right, b, a)
            left, right = left + ~take_right, right + take_right
    return merged


def top_k(x: Array, k: int, largest: bool) -> tuple[Array, Array]:
    """Returns the k first values of each row in total order (+NaN is the largest) and their positions, s32."""
    key = ordered_bits(x) if type_of(x).is_float else widen(x)
    key = key.astype(np.uint8) if key.dtype == np.bool_ else key
    order = np.argsort(np.invert(key) if largest else key, axis=-1, kind="stable")[..., :k]
    return np.take_along_axis(x, order, -1), order.astype(np.int32)


def _topk(_interpreter: Interpreter, instruction: HloInstruction, operands: Sequence[Array]) -> Value:
    attributes = instruction.attributes_as(TopKAttributes)
    return top_k(operands[0], attributes.k, attributes.largest)


EVALUATORS: Mapping[str, Evaluator] = MappingProxyType({"sort": _sort, "topk": _topk})
