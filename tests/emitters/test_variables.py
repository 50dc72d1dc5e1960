"""The table of a kernel's variables."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from xjit.affine import AffineExpr, Interval, constant, dim
from xjit.affine.walks import evaluate
from xjit.emitters.loops.variables import VariableTable, known_divisor


@pytest.mark.parametrize(
    ("expr", "divisor"),
    [
        (dim(0), 4),
        (dim(0) * 3 + dim(1) * 8, 4),
        (dim(0) + 2, 2),
        (dim(1) * 6, 6),
        (dim(0).mod(10), 2),
        ((dim(0) * 2).floordiv(8), 1),
        ((dim(0) * 2).floordiv(4), 2),
        (dim(0).floordiv(3), 1),
        (constant(0), 0),
        (constant(12), 12),
    ],
)
def test_a_known_divisor_divides_all_values(expr: AffineExpr, divisor: int) -> None:
    table = VariableTable([Interval(8, 31), Interval(0, 9)])
    assert known_divisor(table, expr, {0: 4}) == divisor
    found = [evaluate(expr, (i, j)) for i, j in itertools.product(range(8, 32, 4), range(10))]
    assert all(np.gcd(divisor, v) == divisor for v in found)
