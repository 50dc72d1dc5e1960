"""Values that go from lane to lane of a warp, in registers."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xjit.emitters.elemental import RegisterValue
from xjit.emitters.reductions.lane_combining import CombinePair
from xjit.emitters.reductions.reduction_loops import flatten, unflatten
from xjit.llvm.builder import IRBuilder
from xjit.llvm.gpu_models import WARP_SIZE
from xjit.llvm.types import FLOAT, I32, I64, int_type, vector
from xjit.llvm.values import Value, const_int, poison

_ALL = const_int(I32, -1)
_FIRST_LANE, _LAST_LANE = const_int(I32, 0), const_int(I32, WARP_SIZE - 1)
Exchange = Callable[[Value], Value]
"""Emits the value of another lane: of an i32 or a float."""


def combine_across(
    builder: IRBuilder, values: Sequence[RegisterValue], combine: CombinePair, count: int = WARP_SIZE
) -> list[RegisterValue]:
    """Combines the values of each group of `count` lanes (a power of two), always by the same tree: all get the result.

    Every lane of the warp must be here. At a distance d, lane i and lane i xor d hold the same pair; the operands of
    `combine` are in either order.
    """
    result = list(values)
    distance = count // 2
    while distance:
        others = [shuffle(builder, part, distance) for part in flatten(result)]
        result = combine(result, unflatten(others, result))
        distance //= 2
    return result


def shuffle(builder: IRBuilder, value: Value, distance: int) -> Value:
    """Emits the value (a scalar, or a vector of them) of the lane whose number differs in the bit `distance`."""
    return _in_words(builder, value, _exchange(builder, "bfly", distance, _LAST_LANE))


def shuffle_up(builder: IRBuilder, value: Value, distance: int) -> Value:
    """Emits the value of the lane `distance` below; the lowest lanes keep their own."""
    return _in_words(builder, value, _exchange(builder, "up", distance, _FIRST_LANE))


def shuffle_from(builder: IRBuilder, value: Value, lane: int) -> Value:
    """Emits the value of one lane, for all lanes."""
    return _in_words(builder, value, _exchange(builder, "idx", lane, _LAST_LANE))


def _exchange(builder: IRBuilder, mode: str, operand: int, clamp: Value) -> Exchange:
    def emit(value: Value) -> Value:
        name = f"nvvm.shfl.sync.{mode}.{value.type.mangled}"
        return builder.intrinsic(name, value.type, (_ALL, value, const_int(I32, operand), clamp), overloads=())

    return emit


def _in_words(builder: IRBuilder, value: Value, exchange: Exchange) -> Value:
    """Exchanges a scalar of any type, or a vector lane by lane, as words of 32 bits."""
    if value.type.is_vector:
        result = poison(value.type)
        for lane in range(value.type.width):
            part = _in_words(builder, builder.extract_element(value, lane), exchange)
            result = builder.insert_element(result, part, lane)
        return result
    if value.type is FLOAT:
        return exchange(value)
    bits = int_type(value.type.bits)
    raw = value if value.type.is_int else builder.bitcast(value, bits)
    if bits.bits < 32:
        raw = builder.trunc(exchange(builder.zext(raw, I32)), bits)
    elif bits.bits == 64:
        assert raw.type is I64
        raw = builder.bitcast(_in_words(builder, builder.bitcast(raw, vector(I32, 2)), exchange), I64)
    else:
        raw = exchange(raw)
    return raw if value.type.is_int else builder.bitcast(raw, value.type)
