"""Values that go from lane to lane of a warp, in registers."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.emitters.elemental import RegisterValue
from xjit.emitters.lane_combining import CombinePair
from xjit.emitters.reduction_loops import flatten, unflatten
from xjit.llvm.builder import IRBuilder
from xjit.llvm.gpu_models import WARP_SIZE
from xjit.llvm.types import FLOAT, I32, I64, LLVMType, int_type, vector
from xjit.llvm.values import Value, const_int, poison

_ALL = const_int(I32, -1)
_LAST_LANE = const_int(I32, WARP_SIZE - 1)


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
    if value.type.is_vector:
        result = poison(value.type)
        for lane in range(value.type.width):
            result = builder.insert_element(
                result, shuffle(builder, builder.extract_element(value, lane), distance), lane
            )
        return result
    if value.type is FLOAT:
        return _exchange(builder, value, distance)
    bits = int_type(value.type.bits)
    raw = value if value.type.is_int else builder.bitcast(value, bits)
    if bits.bits < 32:
        raw = builder.trunc(_exchange(builder, builder.zext(raw, I32), distance), bits)
    elif bits.bits == 64:
        raw = _halves(builder, raw, distance)
    else:
        raw = _exchange(builder, raw, distance)
    return raw if value.type.is_int else builder.bitcast(raw, value.type)


def _halves(builder: IRBuilder, value: Value, distance: int) -> Value:
    assert value.type is I64
    pair = builder.bitcast(value, vector(I32, 2))
    return builder.bitcast(shuffle(builder, pair, distance), I64)


def _exchange(builder: IRBuilder, value: Value, distance: int) -> Value:
    type: LLVMType = value.type
    name = f"nvvm.shfl.sync.bfly.{type.mangled}"
    return builder.intrinsic(name, type, (_ALL, value, const_int(I32, distance), _LAST_LANE), overloads=())
