"""Roots of unity: as constants, and code that fills long tables of them from two short ones.

exp(-2 pi i k / n) = exp(-2 pi i h B / n) exp(-2 pi i l / n) with k = h B + l: two tables of about sqrt(n) entries in
f64 keep the code small, and the product is exact enough for f64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xjit.emitters.elemental import register_type
from xjit.emitters.kernels.fft.butterflies import multiply
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.llvm.builder import IRBuilder
from xjit.llvm.library import Library
from xjit.llvm.module import Module
from xjit.llvm.structured_builder import StructuredBuilder, define
from xjit.llvm.target import Target
from xjit.llvm.types import DOUBLE, I64, PTR, VOID, LLVMType, vector
from xjit.llvm.values import Value, const_int

_POINTERS = ("high_re", "high_im", "low_re", "low_im", "re", "im")
_PARAMS = (*((PTR, name) for name in _POINTERS), (I64, "bits"), (I64, "count"))


def roots_of_unity(n: int, count: int, step: int = 1) -> np.ndarray[Any, Any]:
    """Returns exp(-2 pi i k step / n) for k < count as c128; angles are reduced to an eighth of a turn, exactly."""
    eighths = np.array([k * step % n * 8 for k in range(count)], dtype=object)
    nearest = (2 * eighths + n) // (2 * n)
    rest = ((eighths - nearest * n) / n).astype(np.float64) * (math.pi / 4)
    half = math.sqrt(0.5)
    exact = np.array([1, half * (1 - 1j), -1j, half * (-1 - 1j), -1, half * (-1 + 1j), 1j, half * (1 + 1j)])
    return (np.cos(rest) - 1j * np.sin(rest)) * exact[nearest.astype(np.int64) % 8]


def emit_root_table(
    builder: StructuredBuilder,
    order: int,
    count: int,
    exponent: Callable[[Value], Value],
    kind: PrimitiveType,
    target: Sequence[Value],
) -> None:
    """Emits code that fills target[i] (parts apart) with exp(-2 pi i e(i) / order) for i < count, 0 <= e(i) < order."""
    bits, short = _short_tables(builder.module, order)
    bounds = const_int(I64, 0), const_int(I64, count)
    _emit_products(builder, short, const_int(I64, bits), bounds, exponent, kind, target)


def emit_roots_in_order(
    builder: IRBuilder, order: int, count: int, kind: PrimitiveType, target: Sequence[Value]
) -> None:
    """Emits the same for e(i) = i: a call of a library that programs share. The order must be that of a long table."""
    module, name = builder.module, f"xjit_fft_roots_{kind.text}"
    module.libraries.setdefault(name, Library.of(name, _module, name, kind, module.target))
    function = module.declare(name, VOID, [type for type, _ in _PARAMS])
    bits, short = _short_tables(module, order)
    builder.call(function, [*short, *target, const_int(I64, bits), const_int(I64, count)])


def _short_tables(module: Module, order: int) -> tuple[int, list[Value]]:
    """The bits of l, and constants: the parts of the roots for h and of those for l."""
    bits = ((order - 1).bit_length() + 1) // 2
    block = 1 << bits
    parts: list[Value] = []
    for values in (roots_of_unity(order, -(-order // block), block), roots_of_unity(order, block)):
        parts += [module.add_constant_array(part, hint="roots") for part in (values.real, values.imag)]
    return bits, parts


def _module(name: str, kind: PrimitiveType, target: Target) -> Module:
    module = Module(f"{name}_library", target)
    builder = define(module, name, _PARAMS, linkage="")
    *short, re, im, bits, count = builder.function.args
    _emit_blocks(builder, short, (bits, count), kind, (re, im))
    rest = builder.shl(builder.lshr(count, bits), bits)
    _emit_products(builder, short, bits, (rest, count), lambda k: k, kind, (re, im))
    builder.ret_void()
    return module


def _emit_blocks(
    builder: StructuredBuilder,
    short: Sequence[Value],
    sizes: tuple[Value, Value],
    kind: PrimitiveType,
    target: Sequence[Value],
) -> None:
    """Emits the roots of all whole blocks, those of one h in vectors along l; `sizes`: the bits of l, the count."""
    bits, count = sizes
    register = register_type(kind)
    width = builder.module.target.vector_width(register)
    block = builder.shl(builder.i64(1), bits)

    def load(table: Value, i: Value, type: LLVMType) -> Value:
        return builder.load(type, builder.gep(DOUBLE, table, i), 8)

    with builder.loop(builder.i64(0), builder.lshr(count, bits), name="high") as high:
        first = builder.shl(high, bits)
        turn = builder.splat(load(short[0], high, DOUBLE), width), builder.splat(load(short[1], high, DOUBLE), width)
        with builder.loop(builder.i64(0), block, width, name="low") as low:
            re, im = (load(part, low, vector(DOUBLE, width)) for part in short[2:])
            root = multiply(builder, turn, (re, im))
            for pointer, part in zip(target, root, strict=True):
                value = part if register is DOUBLE else builder.fptrunc(part, vector(register, width))
                builder.store(value, builder.gep(register, pointer, builder.add(first, low)), kind.byte_width)


def _emit_products(
    builder: StructuredBuilder,
    short: Sequence[Value],
    bits: Value,
    bounds: tuple[Value, Value],
    exponent: Callable[[Value], Value],
    kind: PrimitiveType,
    target: Sequence[Value],
) -> None:
    register = register_type(kind)
    mask = builder.sub(builder.shl(const_int(I64, 1), bits), const_int(I64, 1))

    def load(table: Value, i: Value) -> Value:
        return builder.load(DOUBLE, builder.gep(DOUBLE, table, i), 8)

    with builder.loop(*bounds, name="root") as i:
        number = exponent(i)
        high, low = builder.lshr(number, bits), builder.and_(number, mask)
        root = multiply(
            builder, (load(short[0], high), load(short[1], high)), (load(short[2], low), load(short[3], low))
        )
        for pointer, part in zip(target, root, strict=True):
            value = part if register is DOUBLE else builder.fptrunc(part, register)
            builder.store(value, builder.gep(register, pointer, i), kind.byte_width)
