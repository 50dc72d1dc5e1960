"""Convolutions against their definition: windows, padding, dilations, groups, layouts, types and levels of x86-64."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.emitters.gemm.convolution_harness import Case, convolution_shape, run_convolution
from tests.emitters.gemm.harness import target_of
from tests.emitters.gemm.test_gemm import LEVELS
from xjit.emitters.gemm.blocking.convolution_dimensions import as_gemm
from xjit.emitters.gemm.blocking.convolution_plan import plan_convolution
from xjit.emitters.gemm.blocking.method import GemmTypes, with_unit
from xjit.emitters.gemm.blocking.storage import UNSIGNED
from xjit.llvm import Target
from xjit.llvm.types import BFLOAT, DOUBLE, FLOAT, HALF, I8, I32

SAME = ((1, 1), (1, 1))
CASES = [
    Case(1, 4, 8, (5, 5), (3, 3)),
    Case(2, 16, 48, (10, 12), (3, 3), padding=SAME),
    Case(2, 3, 20, (15, 17), (7, 7), stride=(2, 2), padding=((3, 3), (3, 3))),
    Case(3, 130, 70, (7, 7), (3, 3), padding=SAME),
    Case(2, 8, 24, (9, 9), (1, 1), stride=(2, 2)),
    Case(2, 20, 24, (9, 19), (3, 3), window_dilation=(2, 3), padding=SAME),
    Case(2, 20, 24, (9, 9), (3, 3), base_dilation=(2, 3), padding=((2, 1), (0, 3))),
    Case(2, 20, 24, (9, 9), (3, 3), (2, 1), ((-2, 1), (0, -3)), base_dilation=(2, 3), reversal=(True, False)),
    Case(2, 20, 24, (9, 9), (2, 3), reversal=(True, True)),
    Case(2, 12, 24, (9, 9), (3, 3), feature_groups=4, padding=SAME),
    Case(2, 33, 33, (9, 9), (3, 3), feature_groups=33, padding=SAME),
    Case(2, 70, 70, (9, 9), (5, 3), (2, 2), ((2, 2), (1, 1)), feature_groups=70),
    Case(2, 7, 21, (9, 9), (3, 3), feature_groups=7, padding=SAME),
    Case(6, 5, 12, (9, 9), (3, 3), batch_groups=3, padding=SAME),
    Case(2, 5, 6, (40,), (5,)),
    Case(2, 5, 6, (4, 5, 6), (3, 2, 3), (2, 1, 2), ((1, 1), (0, 1), (1, 1))),
    Case(1, 3, 4, (), ()),
    Case(8, 4, 5, (20, 20), (18, 18)),
    Case(2, 3, 4, (5, 5), (3, 3), padding=((5, 5), (5, 5))),
    Case(2, 0, 4, (5, 5), (3, 3)),
    Case(2, 3, 4, (2, 5), (3, 3)),
    Case(1, 6, 7, (300, 2), (100, 1)),
    Case(2, 20, 24, (50, 50), (3, 3), window_dilation=(20, 20)),
    Case(1, 40, 300, (30, 30), (3, 3), padding=SAME),
]  # fmt: skip


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_definition(case: Case, level: str) -> None:
    run_convolution(case, level)


@pytest.mark.parametrize(
    "orders", [("first", "first", "first"), ("mixed", "first", "mixed"), ("last", "first", "first")]
)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_layouts(case: Case, orders: tuple[str, str, str]) -> None:
    run_convolution(replace(case, orders=orders))


@pytest.mark.parametrize(
    "types",
    [GemmTypes(DOUBLE, DOUBLE, DOUBLE), GemmTypes(BFLOAT, BFLOAT, BFLOAT), GemmTypes(HALF, HALF, FLOAT)],
    ids=str,
)
@pytest.mark.parametrize("level", LEVELS)
def test_types(types: GemmTypes, level: str) -> None:
    for case in (CASES[1], CASES[3], CASES[10], replace(CASES[2], orders=("first", "first", "first"))):
        run_convolution(replace(case, types=types), level)


INTEGERS = [GemmTypes(I8, I8, I32), GemmTypes(UNSIGNED, I8, I32), GemmTypes(UNSIGNED, UNSIGNED, I32)]


@pytest.mark.parametrize("types", INTEGERS, ids=lambda t: t.name)
@pytest.mark.parametrize("level", LEVELS)
def test_integers(types: GemmTypes, level: str) -> None:
    """Channels that fill no lane, padding of biased numbers, several chunks, other layouts."""
    types = with_unit(types, target_of(level))
    for case in (CASES[0], CASES[2], CASES[3], CASES[6], CASES[9], CASES[13], CASES[23]):
        run_convolution(replace(case, types=types), level)
        run_convolution(replace(case, types=types, orders=("first", "first", "first")), level)


def test_random_windows() -> None:
    rng = np.random.default_rng(11)
    for seed in range(60):
        rank = int(rng.integers(1, 4))

        def draw(low: int, high: int, rank: int = rank) -> tuple[int, ...]:
            return tuple(int(x) for x in rng.integers(low, high, rank))

        groups = int(rng.integers(1, 4))
        case = Case(
            int(rng.integers(1, 4)),
            groups * int(rng.integers(1, 20)),
            groups * int(rng.integers(1, 40)),
            draw(1, 12),
            draw(1, 4),
            draw(1, 3),
            tuple(zip(draw(-1, 4), draw(-1, 4))),
            draw(1, 3),
            draw(1, 3),
            tuple(bool(x) for x in draw(0, 2)),
            groups,
        )
        if min(case.output) == 0:
            continue
        run_convolution(case, seed=seed)


def test_pointwise_convolution_is_a_multiplication() -> None:
    shape = as_gemm(convolution_shape(Case(8, 64, 256, (56, 56), (1, 1))))
    assert shape is not None
    assert (shape.m, shape.n, shape.k, shape.batch) == (8 * 56 * 56, 256, 64, ())
    first = as_gemm(convolution_shape(Case(8, 64, 256, (56, 56), (1, 1), orders=("first", "first", "first"))))
    assert first is not None
    assert (first.m, first.out_column, first.batch[0].size) == (56 * 56, 56 * 56, 8)
    assert as_gemm(convolution_shape(Case(8, 64, 256, (56, 56), (1, 1), stride=(2, 2)))) is None


def test_too_many_dimensions_are_refused() -> None:
    case = Case(1, 2, 2, (3, 3, 3, 3), (2, 2, 2, 2))
    with pytest.raises(ValueError, match="at most 3 spatial dimensions"):
        plan_convolution(convolution_shape(case), GemmTypes(), Target.host())


@pytest.mark.parametrize(("batch", "size"), [(1, 1 << 34), (1 << 34, 4)])
def test_tiles_of_large_arrays_are_found_among_the_small_ones(batch: int, size: int) -> None:
    case = Case(batch, 1, 4, (size, 8), (3, 3), padding=((1, 1), (1, 1)))
    plan_convolution(convolution_shape(case), GemmTypes(), Target.host())
