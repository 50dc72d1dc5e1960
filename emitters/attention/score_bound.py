"""What no score of a block exceeds, by its operands: their largest numbers, times how many products are summed."""

from __future__ import annotations

from xjit.emitters.attention.shapes import COMPUTE, COMPUTE_BYTES
from xjit.llvm import Function, Module, Value
from xjit.llvm.reductions import reduce_tree
from xjit.llvm.structured_builder import StructuredBuilder, define
from xjit.llvm.types import I32, I64, PTR, vector
from xjit.llvm.values import const_int, constant, zero
from xjit.passes.analysis.attention.ranges import MAX_SCORE

PARAMS = ((PTR, "left"), (I64, "left_row"), (I64, "rows"), (PTR, "right"), (I64, "numbers"), (I64, "depth"))
"""Rows of `depth` numbers, `left_row` bytes apart, and `numbers` that are packed."""
_MAGNITUDE = 0x7FFFFFFF


def score_bound_function(module: Module) -> Function:
    """The function with `PARAMS`, emitted once: returns the bound; infinity above `MAX_SCORE` and with NaN."""
    name = "xjit_score_bound"
    return module.functions.get(name) or _emit(module, name)


def _emit(module: Module, name: str) -> Function:
    builder = define(module, name, PARAMS, return_type=COMPUTE)
    left, left_row, rows, right, numbers, depth = builder.function.args
    with builder.loop_with(builder.i64(0), rows, (zero(I32),), name="row") as (i, carried, following):
        row = builder.offset(left, builder.mul(i, left_row))
        following.append(_larger(builder, carried[0], _largest(builder, row, depth)))
    found = carried[0], _largest(builder, right, numbers)
    a, b = (builder.bitcast(bits, COMPUTE) for bits in found)
    bound = builder.fmul(builder.fmul(a, b), builder.sitofp(depth, COMPUTE))
    is_known = builder.fcmp_ordered("<=", bound, constant(COMPUTE, MAX_SCORE))
    builder.ret(builder.select(is_known, bound, constant(COMPUTE, float("inf"))))
    return builder.function


def _largest(builder: StructuredBuilder, start: Value, count: Value) -> Value:
    """The bits of the largest magnitude; those of NaN are above all others."""
    lanes = builder.target.vector_width(COMPUTE)
    whole = builder.and_(count, builder.i64(-lanes))
    kind = vector(I32, lanes)
    with builder.loop_with(builder.i64(0), whole, (zero(kind),), lanes, "v") as (i, vectors, following):
        following.append(_larger(builder, vectors[0], _magnitude(builder, start, i, lanes)))
    first = reduce_tree(builder, vectors[0], lambda a, b: _larger(builder, a, b))
    with builder.loop_with(whole, count, (first,), name="rest") as (i, numbers, following):
        following.append(_larger(builder, numbers[0], _magnitude(builder, start, i, 1)))
    return numbers[0]


def _magnitude(builder: StructuredBuilder, start: Value, index: Value, lanes: int) -> Value:
    kind = vector(I32, lanes) if lanes > 1 else I32
    place = builder.offset(start, builder.mul(index, builder.i64(COMPUTE_BYTES)))
    return builder.and_(builder.load(kind, place, COMPUTE_BYTES), const_int(kind, _MAGNITUDE))


def _larger(builder: StructuredBuilder, a: Value, b: Value) -> Value:
    return builder.select(builder.icmp_signed(">", a, b), a, b)
