"""maximum and minimum of floats, with constants and without: NaN wins, then the sign of zeros counts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.llvm import jit
from xjit.llvm import types as ty
from xjit.llvm.builder import IRBuilder
from xjit.llvm.math.math_functions import BINARY
from xjit.llvm.math.vec import Vec
from xjit.llvm.target import Target
from xjit.llvm.values import Value

LIMITS = (0.0, -0.0, 1.5, -1.5, float("inf"), float("-inf"), float("nan"))
NUMBERS = [*LIMITS, -2.0, 3.0, -float("nan")]


def check(opcode: str, got: Any, a: Any, b: Any) -> None:
    order = np.where(a == b, np.signbit(a), a < b)  # whether a is the smaller one
    want = np.where(np.isnan(a) | np.isnan(b), np.nan, np.where(order == (opcode == "maximum"), b, a))
    np.testing.assert_array_equal(got, want)
    known = ~np.isnan(want)
    np.testing.assert_array_equal(np.signbit(got)[known], np.signbit(want)[known])


@pytest.mark.parametrize("level", jit.host_levels())
@pytest.mark.parametrize("opcode", ["maximum", "minimum"])
def test_special_values_in_both_orders(opcode: str, level: str) -> None:
    target, numbers = Target.for_features(level), np.array(NUMBERS * 8, np.float32)
    width = target.vector_width(ty.FLOAT)

    def pair(builder: IRBuilder, x: Value, y: Value) -> Value:
        return BINARY[opcode](Vec(builder, x), Vec(builder, y)).v

    kernel: Any = jit.Kernel(pair, [ty.FLOAT] * 2, [ty.FLOAT], width, target)
    for limit in LIMITS:
        other = np.full_like(numbers, limit)
        check(opcode, kernel([numbers, other], [np.float32])[0], numbers, other)
        check(opcode, kernel([other, numbers], [np.float32])[0], other, numbers)

        def with_constant(builder: IRBuilder, value: Value, limit: float = limit) -> Value:
            x = Vec(builder, value)
            return BINARY[opcode](x, x.const(limit)).v

        own: Any = jit.Kernel(with_constant, [ty.FLOAT], [ty.FLOAT], width, target)
        check(opcode, own([numbers], [np.float32])[0], numbers, other)
