"""Whether products of bf16 planes are those of the numbers: a look at the operands before they are multiplied.

Matrix units take subnormals for zeros, and a plane of an infinity is a NaN, so operands must hold neither such planes
nor anything whose products may overflow or become subnormal. If all exponents are in the range that is asked for here,
every product of planes is a multiple of 2^-126 and no sum of them is larger than the largest f32: whatever the order,
nothing is flushed and nothing overflows. Zeros are in any range; subnormal f32 are zeros to multiply-adds too.

The answer depends on the operands alone, not on how the work is shared out.
"""

from __future__ import annotations

from xjit.emitters.gemm.blocking.method import GemmTypes
from xjit.emitters.gemm.blocking.storage import size_of
from xjit.emitters.gemm.control_flow import emit_parallel_for
from xjit.emitters.gemm.packing.conversions import lane_mask, load_as
from xjit.llvm import Function, LLVMType, Module, Value
from xjit.llvm.reductions import reduce_tree
from xjit.llvm.structured_builder import StructuredBuilder, define
from xjit.llvm.types import FLOAT, I1, I32, I64, PTR, vector
from xjit.llvm.values import const_int, zero

FIT_PARAMS = ((PTR, "lhs"), (I64, "lhs_count"), (PTR, "rhs"), (I64, "rhs_count"), (I64, "most"))
"""The operands, as many elements as there are from the first to the last; `most`: see `greatest_exponents`."""

_BIAS = 127
_LEAST = 24
"""The exponent (biased, as all here) from which on the lowest of the 24 bits of an f32 is a normal number."""
_LEAST_SUM = 2 * _BIAS - 126 + 2 * 23
"""Sum of exponents from which on products of lowest bits are normal numbers."""
_GREATEST = 253
"""A number below 2^127, so that the plane next to it is finite. Infinities and NaNs have 255."""
_TASK_ELEMENTS = 1 << 16
_MAX_TASKS = 64


def greatest_exponents(terms: int) -> int:
    """The largest sum of exponents of two operands for which `terms` products cannot overflow.

    A number is less than 2^(e + 1), and so are its planes together but for 2^-7 of it: products are below 2^(e + 3).
    """
    return 2 * _BIAS + 126 - 3 - max(0, terms - 1).bit_length()


def planes_fit_name(types: GemmTypes) -> str:
    """The name of the function in its module."""
    return f"xjit_planes_fit_{types.lhs.mangled}_{types.rhs.mangled}"


def emit_planes_fit(module: Module, types: GemmTypes) -> Function:
    """Defines `i1 name(FIT_PARAMS)`."""
    tasks = {storage: _emit_task(module, storage) for storage in (types.lhs, types.rhs)}
    builder = define(module, planes_fit_name(types), FIT_PARAMS, linkage="", return_type=I1)
    lhs, lhs_count, rhs, rhs_count, most = builder.function.args
    least_lhs, greatest_lhs = _exponents(builder, tasks[types.lhs], lhs, lhs_count)
    least_rhs, greatest_rhs = _exponents(builder, tasks[types.rhs], rhs, rhs_count)
    fits = builder.icmp_signed("<=", builder.add(greatest_lhs, greatest_rhs), most)
    at_least = ((least_lhs, _LEAST), (least_rhs, _LEAST), (builder.add(least_lhs, least_rhs), _LEAST_SUM))
    for exponent, bound in at_least:
        fits = builder.and_(fits, builder.icmp_signed(">=", exponent, builder.i64(bound)))
    for exponent in (greatest_lhs, greatest_rhs):
        fits = builder.and_(fits, builder.icmp_signed("<=", exponent, builder.i64(_GREATEST)))
    builder.ret(fits)
    return builder.function


def _exponents(builder: StructuredBuilder, task: Function, data: Value, count: Value) -> tuple[Value, Value]:
    """The least and the greatest exponent of `count` elements, zeros and subnormals left out: 512 and 0 of none."""
    wanted = builder.udiv(count, builder.i64(_TASK_ELEMENTS))
    at_least_one = builder.select(builder.icmp_signed("<", wanted, builder.i64(1)), builder.i64(1), wanted)
    num_tasks = builder.min(at_least_one, builder.i64(_MAX_TASKS))
    size = builder.udiv(builder.add(count, builder.sub(num_tasks, builder.i64(1))), num_tasks)
    extremes = builder.alloca(I64, 2 * _MAX_TASKS, align=64, name="extremes")
    context = builder.alloca(I64, 4, align=8, name="context")
    for slot, value in enumerate((data, count, size, extremes)):
        builder.store_slot(value, context, slot)
    parallel = builder.icmp_signed(">", num_tasks, builder.i64(1))
    emit_parallel_for(builder, task, context, num_tasks, parallel)
    initial = (builder.i64(512), builder.i64(0))
    with builder.loop_with(builder.i64(0), num_tasks, initial, 1, "part") as (part, carried, following):
        place = builder.offset(extremes, builder.mul(part, builder.i64(16)))
        least, greatest = builder.load_i64(place, 0), builder.load_i64(place, 1)
        following.append(builder.min(carried[0], least))
        more = builder.icmp_signed(">", greatest, carried[1])
        following.append(builder.select(more, greatest, carried[1]))
    return carried[0], carried[1]


def _emit_task(module: Module, storage: LLVMType) -> Function:
    """Defines, once per module, `void (context, task)`: writes the exponents of a part of an operand to `extremes`."""
    name = f"xjit_exponents_{storage.mangled}"
    if name in module.functions:
        return module.functions[name]
    builder = define(module, name, ((PTR, "context"), (I64, "task")))
    context, task = builder.function.args
    data, extremes = builder.load_ptr(context, 0), builder.load_ptr(context, 3)
    count, size = builder.load_i64(context, 1), builder.load_i64(context, 2)
    width = module.target.vector_width(FLOAT)
    begin = builder.min(builder.mul(task, size), count)
    length = builder.min(size, builder.sub(count, begin))
    source, unit = builder.offset(data, builder.mul(begin, builder.i64(size_of(storage)))), size_of(storage)
    full = builder.and_(length, builder.i64(-width))
    type = vector(I32, width)
    initial = (const_int(type, -1), zero(type))
    with builder.loop_with(builder.i64(0), full, initial, width, "element") as (index, carried, following):
        place = builder.offset(source, builder.mul(index, builder.i64(unit)))
        following.extend(_wider(builder, list(carried), load_as(builder, FLOAT, storage, place, width)))
    mask = lane_mask(builder, builder.sub(length, full), width)
    rest = builder.offset(source, builder.mul(full, builder.i64(unit)))
    least, greatest = _wider(builder, list(carried), load_as(builder, FLOAT, storage, rest, width, mask))
    least = reduce_tree(builder, least, lambda a, b: builder.intrinsic("umin", a.type, (a, b)))
    greatest = reduce_tree(builder, greatest, lambda a, b: builder.intrinsic("smax", a.type, (a, b)))
    place = builder.offset(extremes, builder.mul(task, builder.i64(16)))
    least = builder.add(builder.lshr(least, const_int(I32, 23)), const_int(I32, 1))
    builder.store_slot(builder.zext(least, I64), place, 0)
    builder.store_slot(builder.zext(builder.lshr(greatest, const_int(I32, 23)), I64), place, 1)
    builder.ret_void()
    return builder.function


def _wider(builder: StructuredBuilder, extremes: list[Value], values: Value) -> list[Value]:
    """The extremes with those of `values`: the least bits above those of subnormals, and the greatest bits.

    What is no normal number wraps around to more than any other: it does not count as the least.
    """
    type = extremes[0].type
    bits = builder.and_(builder.bitcast(values, I32), const_int(type, 0x7FFFFFFF))
    above = builder.sub(bits, const_int(type, 0x00800000))
    return [
        builder.intrinsic("umin", type, (extremes[0], above)),
        builder.intrinsic("smax", type, (extremes[1], bits)),
    ]
