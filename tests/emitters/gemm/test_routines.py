"""Routines have what a shape needs, no less and little more."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.emitters.gemm.convolution_harness import Case, convolution_shape, run_convolution
from tests.emitters.gemm.harness import run_gemm, target_of
from xjit.emitters.gemm.blocking.convolution_plan import plan_convolution
from xjit.emitters.gemm.blocking.method import GemmTypes, with_unit
from xjit.emitters.gemm.blocking.plan import plan_gemm
from xjit.emitters.gemm.blocking.shapes import GemmShape, row_major
from xjit.emitters.gemm.gemm import gemm_name
from xjit.emitters.gemm.library import convolution_module, gemm_module, link_convolution, link_gemm
from xjit.emitters.gemm.routine import ConvolutionRoutine, Routine, convolution_routine_for, more_able, routine_for
from xjit.llvm import Module, Target
from xjit.llvm.types import BFLOAT, FLOAT, I8, I32
from xjit.runtime.machine_code.jit import missing_features

BYTES, BF16, F32 = GemmTypes(I8, I8, I32), GemmTypes(BFLOAT, BFLOAT, FLOAT), GemmTypes()
LEVELS = [
    level
    for level in ("sse2", "avx2", "avx512", "avx512_bf16_emulated", "amx_emulated")
    if not missing_features(target_of(level).features)
]
WHOLE = row_major(40, 192, 64), row_major(7, 96, 4096), row_major(300, 192, 192, batch=2)
SAME = (1, 1), (1, 1)


def routine(shape: GemmShape, types: GemmTypes, level: str = "avx2") -> Routine:
    target = target_of(level)
    return routine_for(plan_gemm(shape, types, target), types, target)


def convolution_routine(case: Case, level: str = "avx2") -> ConvolutionRoutine:
    target = target_of(level)
    return convolution_routine_for(plan_convolution(convolution_shape(case), case.types, target), case.types, target)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("types", [BYTES, BF16, F32], ids=lambda t: t.name)
def test_products(level: str, types: GemmTypes) -> None:
    types = with_unit(types, target_of(level))
    for shape in (*WHOLE, row_major(33, 190, 70), row_major(40, 192, 64, transpose_rhs=True), row_major(9, 17, 300)):
        run_gemm(shape, types, level, fits=True)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("types", [BYTES, F32], ids=lambda t: t.name)
def test_convolutions(level: str, types: GemmTypes) -> None:
    case = Case(2, 64, 96, (9, 7), (3, 3), padding=SAME, types=with_unit(types, target_of(level)))
    for channels, features, kernel in ((64, 96, (3, 3)), (64, 96, (1, 2)), (320, 48, (3, 3)), (60, 50, (3, 3))):
        run_convolution(replace(case, channels=channels, features=features, kernel=kernel), level, fits=True)
    run_convolution(replace(case, feature_groups=2, orders=("last", "first", "first")), level, fits=True)
    if case.types.lanes.group == 1:
        for channels in (72, 70):
            deep = replace(case, channels=channels, features=channels, feature_groups=channels)
            run_convolution(deep, level, fits=True)


def test_which_copies_are_whole() -> None:
    pairs = with_unit(BYTES, target_of("avx2"))
    assert all(routine(shape, pairs).whole for shape in WHOLE)
    for odd in (
        row_major(40, 190, 64),  # columns are no whole vectors
        row_major(40, 192, 72),  # k is none of lanes
        row_major(40, 192, 64, transpose_rhs=True),
        row_major(40, 192, 64, transpose_lhs=True),
    ):
        assert not routine(odd, pairs).whole
    large = row_major(300, 512, 300)
    assert routine(large, F32).whole, "left operands are read where they lie"
    assert not routine(large, BF16).whole, "rows of k are no whole vectors"
    assert routine(row_major(300, 512, 320), BF16).whole
    assert not routine(replace(large, n=520), F32).whole, "half a panel"
    assert not routine(row_major(12, 16, 64), F32).whole, "nothing is packed"
    case = Case(1, 64, 64, (14, 14), (3, 3), padding=SAME)
    assert convolution_routine(case).whole
    assert convolution_routine(replace(case, types=pairs)).whole
    assert convolution_routine(replace(case, feature_groups=64)).whole
    for other in (
        replace(case, features=72),
        replace(case, channels=60, types=pairs),
        replace(case, channels=60),
        replace(case, orders=("last", "first", "last")),
        replace(case, channels=60, features=60, feature_groups=60),
    ):
        assert not convolution_routine(other).whole


def test_a_whole_routine_has_no_code_for_the_rest() -> None:
    target = target_of("avx2")
    pairs = with_unit(BYTES, target)
    whole, general = (routine(shape, pairs) for shape in (row_major(64, 64, 64), row_major(64, 60, 60)))
    texts = [gemm_module(pairs, r, target).to_text() for r in (whole, general)]
    assert len(texts[0]) < 0.8 * len(texts[1])
    assert ["llvm.memset" in text for text in texts] == [False, True]
    turned = routine(replace(row_major(64, 64, 64), out_row=2, out_column=128), pairs)
    assert turned.unpacks and "xjit_copy" in gemm_module(pairs, turned, target).to_text()
    assert "xjit_copy" not in texts[0] + texts[1]
    case = Case(1, 64, 64, (14, 14), (3, 3), padding=SAME)
    routines = [convolution_routine(c) for c in (case, replace(case, features=60))]
    whole_text, text = (convolution_module(F32, r, target).to_text() for r in routines)
    assert len(whole_text) < len(text)


def test_a_whole_product_takes_what_is_there() -> None:
    """A module has no second routine where the first does both; one without copies is done by any."""
    target = Target.for_features("avx2")
    pairs = with_unit(BYTES, target)
    whole, general = (routine(shape, pairs) for shape in (row_major(64, 64, 64), row_major(64, 60, 60)))
    assert general in more_able(whole) and whole not in more_able(general)
    module = Module("m", target)
    assert [link_gemm(module, pairs, r).name for r in (general, whole)] == [gemm_name(pairs, general)] * 2
    module = Module("m", target)
    assert len({link_gemm(module, pairs, r).name for r in (whole, general)}) == 2
    copying, plain = (routine(shape, F32) for shape in (row_major(300, 512, 320), row_major(12, 16, 64)))
    assert copying.whole and copying in more_able(plain)
    case = Case(1, 64, 64, (14, 14), (3, 3), padding=SAME)
    routines = [convolution_routine(c) for c in (replace(case, features=60), case)]
    module = Module("m", target)
    assert len({link_convolution(module, F32, r).name for r in routines}) == 1
