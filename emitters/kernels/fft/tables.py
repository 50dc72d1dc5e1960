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
from xjit.llvm.structured_builder import StructuredBuilder
from xjit.llvm.types import DOUBLE, I64
from xjit.llvm.values import Value, const_int


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
    bits = ((order - 1).bit_length() + 1) // 2
    block = 1 << bits
    module, register = builder.module, register_type(kind)
    parts: list[Value] = []
    for values in (roots_of_unity(order, -(-order // block), block), roots_of_unity(order, block)):
        parts += [module.add_constant_array(part, hint="roots") for part in (values.real, values.imag)]

    def load(table: Value, i: Value) -> Value:
        return builder.load(DOUBLE, builder.gep(DOUBLE, table, i), 8)

    with builder.loop(const_int(I64, 0), const_int(I64, count), name="root") as i:
        number = exponent(i)
        high = builder.lshr(number, const_int(I64, bits))
        low = builder.and_(number, const_int(I64, block - 1))
        root = multiply(
            builder, (load(parts[0], high), load(parts[1], high)), (load(parts[2], low), load(parts[3], low))
        )
        for pointer, part in zip(target, root, strict=True):
            value = part if register is DOUBLE else builder.fptrunc(part, register)
            builder.store(value, builder.gep(register, pointer, i), kind.byte_width)
