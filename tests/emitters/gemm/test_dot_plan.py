"""Collapsing of dot dimensions, checked by running what comes out."""

from __future__ import annotations

import itertools

import numpy as np

from tests.emitters.gemm.harness import compiled_gemm
from xjit.emitters.gemm.blocking.dot_plan import DotDimension, collapse, plan_dot
from xjit.emitters.gemm.blocking.method import GemmTypes
from xjit.emitters.gemm.blocking.plan import plan_gemm


def test_collapse() -> None:
    assert collapse([DotDimension(4, lhs=15, out=15), DotDimension(3, lhs=5, out=5)]) == [
        DotDimension(12, lhs=5, out=5)
    ]
    assert collapse([DotDimension(3, lhs=5, out=1), DotDimension(1, lhs=7), DotDimension(4, lhs=15, out=9)]) == [
        DotDimension(4, lhs=15, out=9),
        DotDimension(3, lhs=5, out=1),
    ]
    assert collapse([DotDimension(3, lhs=5), DotDimension(0, lhs=7)])[0].size == 0


def test_einsums_in_all_orders() -> None:
    """Every memory order of the operands of a dot with two batch, m and k dimensions gives the einsum, or None."""
    sizes = dict(zip("abmnkl", (2, 3, 5, 7, 4, 6)))
    target, compiled = compiled_gemm("host", GemmTypes())
    rng = np.random.default_rng(0)
    planned = 0
    for lhs_order, rhs_order, out_order in itertools.product(
        itertools.islice(itertools.permutations("abmkl"), 0, None, 7),
        ("abkln", "balkn", "nklab", "klabn"),
        ("abmn", "bmna", "nmab"),
    ):
        strides = [_strides(order, sizes) for order in (lhs_order, rhs_order, out_order)]
        groups = [
            [DotDimension(sizes[d], *(s.get(d, 0) for s in strides)) for d in names] for names in ("ab", "m", "n", "kl")
        ]
        plan = plan_dot(*groups)
        if plan is None:
            continue
        planned += 1
        lhs, rhs = (
            rng.integers(-4, 5, [sizes[d] for d in order]).astype(np.float32) for order in (lhs_order, rhs_order)
        )
        out = np.zeros([sizes[d] for d in out_order], np.float32)
        record = plan_gemm(plan.shape, GemmTypes(), target).to_array()
        first, second = (rhs, lhs) if plan.swapped else (lhs, rhs)
        compiled.call(out.ctypes.data, first.ctypes.data, second.ctypes.data, 0, record.ctypes.data)
        expected = np.einsum(f"{''.join(lhs_order)},{rhs_order}->{out_order}", lhs, rhs)
        np.testing.assert_array_equal(out, expected, err_msg=f"{lhs_order} {rhs_order} {out_order}")
    assert planned > 100


def test_too_many_loops_are_refused() -> None:
    loops = [DotDimension(2, lhs=100**i + i, rhs=10**i, out=7**i + 1) for i in range(1, 5)]
    assert plan_dot(loops, [DotDimension(3, lhs=1, out=1)], [], [DotDimension(4, 7, 9)]) is None


def _strides(order: tuple[str, ...] | str, sizes: dict[str, int]) -> dict[str, int]:
    strides: dict[str, int] = {}
    step = 1
    for dimension in reversed(order):
        strides[dimension] = step
        step *= sizes[dimension]
    return strides


def test_rows_that_are_contiguous_in_the_operand_are_no_loop() -> None:
    """x[a, k, c] w[k, n] -> out[a, c, n]: of the rows a and c, which no stride joins, c lies along memory."""
    rows = [DotDimension(512, lhs=56 * 64, out=64 * 64), DotDimension(64, lhs=1, out=64)]
    plan = plan_dot([], rows, [DotDimension(64, rhs=1, out=1)], [DotDimension(56, lhs=64, rhs=64)])
    assert plan is not None
    assert (plan.shape.m, plan.shape.lhs_row, plan.shape.num_batches) == (64, 1, 512)
