"""Stages of Stockham's algorithm whose vectors lie along their columns: a function for each radix, for all lengths.

Sizes are arguments, so that the stages of a transform, and of several ones, share code.
"""

from __future__ import annotations

from collections.abc import Sequence

from xjit.emitters.elemental import register_type
from xjit.emitters.kernels.fft.butterflies import Pair, butterfly, multiply
from xjit.emitters.kernels.kernel import KernelContext
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.llvm.function import Function
from xjit.llvm.structured_builder import StructuredBuilder, define
from xjit.llvm.types import I64, PTR, LLVMType, vector
from xjit.llvm.values import Value

_POINTERS = ("source_re", "source_im", "target_re", "target_im", "roots_re", "roots_im")
WIDE_STAGE_PARAMS = (*((PTR, name) for name in _POINTERS), (I64, "m"), (I64, "stride"), (I64, "step"))
"""Sizes are in elements; `stride` is a multiple of the vectors' width."""


def wide_stage(context: KernelContext, radix: int, kind: PrimitiveType) -> Function:
    """Returns the module's function for
    target[q + s(rp + k)] = roots[p k step] sum_j source[q + s(p + mj)] w_r^(jk), p < m, q < s, with s = stride.
    """
    name = f"fft.stage.{radix}.{kind.text}"
    found = context.module.functions.get(name)
    if found is not None:
        return found
    element = register_type(kind)
    lanes = vector(element, context.target.vector_width(element))
    builder = define(context.module, name, WIDE_STAGE_PARAMS)
    source_re, source_im, target_re, target_im, roots_re, roots_im, m, stride, step = builder.function.args
    row = builder.mul(stride, builder.i64(kind.byte_width))
    between = builder.mul(m, row)
    with builder.loop(builder.i64(0), m, name="p") as p:
        roots = _roots(builder, (roots_re, roots_im), builder.mul(p, step), radix, lanes)
        read = builder.mul(p, row)
        written = builder.mul(read, builder.i64(radix))
        with builder.loop(builder.i64(0), row, lanes.width * kind.byte_width, "q") as q:
            sources, targets = builder.add(read, q), builder.add(written, q)
            re = [builder.load(lanes, a, kind.byte_width) for a in _rows(builder, source_re, sources, between, radix)]
            im = [builder.load(lanes, a, kind.byte_width) for a in _rows(builder, source_im, sources, between, radix)]
            first, *others = butterfly(builder, list(zip(re, im, strict=True)))
            values = [first, *(multiply(builder, x, root) for x, root in zip(others, roots, strict=True))]
            for part, base in enumerate((target_re, target_im)):
                for value, address in zip(values, _rows(builder, base, targets, row, radix), strict=True):
                    builder.store(value[part], address, kind.byte_width)
    builder.ret_void()
    return builder.function


def _roots(
    builder: StructuredBuilder, tables: tuple[Value, Value], first: Value, radix: int, lanes: LLVMType
) -> list[Pair]:
    """The roots number `first` times 1 .. radix - 1, in all lanes."""
    roots: list[Pair] = []
    for k in range(1, radix):
        number = builder.mul(first, builder.i64(k))
        places = (builder.gep(lanes.elem, table, number) for table in tables)
        re, im = (builder.load(lanes.elem, place, lanes.elem.bits // 8) for place in places)
        roots.append((builder.splat(re, lanes.width), builder.splat(im, lanes.width)))
    return roots


def _rows(builder: StructuredBuilder, base: Value, offset: Value, step: Value, count: int) -> Sequence[Value]:
    """Addresses base + offset + j * step for j < count, in forms that an instruction's operand can have."""
    place = builder.offset(base, offset)
    addresses: list[Value] = []
    twice, thrice = builder.shl(step, builder.i64(1)), builder.mul(step, builder.i64(3))
    for j in range(count):
        if j and j % 4 == 0:
            place = builder.offset(place, builder.shl(step, builder.i64(2)))
        addresses.append(builder.offset(place, (step, twice, thrice)[j % 4 - 1]) if j % 4 else place)
    return addresses
