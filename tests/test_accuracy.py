"""No math function is less accurate than docs/accuracy.md says."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.support.accuracy import PAGE, PIECES, TYPES, kinds_of, measure, steps_off, ulp_errors
from tests.support.accuracy_truth import TRUTH
from xjit.llvm.target import Target

ROW = re.compile(r"^\| `([a-z-]+)` \| (.*) \|$", re.MULTILINE)
ONE_STEP = (
    *("exponential", "exponential-minus-one", "log", "log-plus-one"),
    *("sine", "cosine", "tanh", "rsqrt", "erf", "cbrt"),
)
WIDE = ("f64", "c64", "c128")


pytestmark = pytest.mark.skipif(not Target.host().has_fma, reason="the page is for CPUs with fused multiply-add")


def documented() -> dict[tuple[str, str], tuple[float, int]]:
    """(ULPs, steps) by opcode and type."""
    found: dict[tuple[str, str], tuple[float, int]] = {}
    for opcode, cells in ROW.findall(PAGE.read_text(encoding="utf-8")):
        for kind, cell in zip(TYPES, cells.split(" | "), strict=True):
            if cell.strip():
                ulp, _, steps = cell.partition(" ")
                found[opcode, kind] = (float(ulp), int(steps.strip("()") or -1))
    return found


@pytest.mark.parametrize("opcode", TRUTH)
def test_not_worse_than_the_page_says(opcode: str) -> None:
    for kind in ("f16", "bf16", "f32"):
        _check(opcode, kind)


@pytest.mark.slow
@pytest.mark.parametrize("opcode", TRUTH)
def test_wide_types_are_not_worse_than_the_page_says(opcode: str) -> None:
    for kind in WIDE:
        if kind in kinds_of(opcode):
            _check(opcode, kind)


def _check(opcode: str, kind: str) -> None:
    ulp, steps = documented()[opcode, kind]
    found = measure(opcode, kind)
    assert found.ulp <= ulp and found.steps <= steps, (kind, found)


def test_the_page_promises_one_step() -> None:
    table = documented()
    assert set(table) == {(opcode, kind) for opcode in TRUTH for kind in kinds_of(opcode)}
    assert all(table[opcode, kind][1] <= 1 for opcode in ONE_STEP for kind in ("f16", "bf16", "f32"))


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("piece", range(PIECES))
@pytest.mark.parametrize("opcode", ONE_STEP)
def test_every_f32(opcode: str, piece: int) -> None:
    """A sixteenth of all inputs takes some minutes: `-m slow -k "every_f32 and tanh-3"` runs one piece."""
    found = measure(opcode, "f32", piece)
    assert found.steps <= 1, found


def test_errors_are_counted_right() -> None:
    f32 = np.dtype(np.float32)
    exact = np.array([1.0, 1.0, 1 + 2.0**-24, 0.0, np.nan, 1e40, 1e40, 1.0, 1.0])
    found = np.array([1.0, 1 + 2.0**-23, 1.0, 0.0, np.nan, np.inf, 3e38, np.nan, np.inf], np.float32)
    assert ulp_errors(found, exact, f32).tolist() == [0, 1, 0.5, 0, 0, 0, np.inf, np.inf, np.inf]
    assert steps_off(found[:4], exact[:4]).tolist() == [0, 1, 0, 0]
    assert steps_off(np.array([-0.0, -1e-45], f32), np.array([0.0, 1e-45])).tolist() == [0, 2]
