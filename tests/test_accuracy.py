"""No math function is less accurate than docs/accuracy.md says."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.support.accuracy import PAGE, TRUTH, TYPES, measure, steps_off, ulp_errors
from xjit.llvm.target import Target

ROW = re.compile(r"^\| `([a-z-]+)` \| (.*) \|$", re.MULTILINE)
ONE_STEP = (
    *("exponential", "exponential-minus-one", "log", "log-plus-one"),
    *("sine", "cosine", "tanh", "rsqrt", "erf", "cbrt"),
)


pytestmark = pytest.mark.skipif(not Target.host().has_fma, reason="the page is for CPUs with fused multiply-add")


def documented() -> dict[tuple[str, str], tuple[float, int]]:
    """(ULPs, steps) by opcode and type."""
    found: dict[tuple[str, str], tuple[float, int]] = {}
    for opcode, cells in ROW.findall(PAGE.read_text(encoding="utf-8")):
        for kind, cell in zip(TYPES, cells.split(" | "), strict=True):
            ulp, steps = cell.split(" ")
            found[opcode, kind] = (float(ulp), int(steps.strip("()")))
    return found


@pytest.mark.parametrize("opcode", TRUTH)
def test_not_worse_than_the_page_says(opcode: str) -> None:
    for kind in TYPES:
        ulp, steps = documented()[opcode, kind]
        found = measure(opcode, kind)
        assert found.ulp <= ulp and found.steps <= steps, (kind, found)


def test_the_page_promises_one_step() -> None:
    table = documented()
    assert {key[0] for key in table} == set(TRUTH)
    assert all(table[opcode, kind][1] <= 1 for opcode in ONE_STEP for kind in TYPES)


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("opcode", ONE_STEP)
def test_every_f32(opcode: str) -> None:
    found = measure(opcode, "f32", every=True)
    assert found.steps <= 1, found


def test_errors_are_counted_right() -> None:
    f32 = np.dtype(np.float32)
    exact = np.array([1.0, 1.0, 1 + 2.0**-24, 0.0, np.nan, 1e40, 1e40, 1.0, 1.0])
    found = np.array([1.0, 1 + 2.0**-23, 1.0, 0.0, np.nan, np.inf, 3e38, np.nan, np.inf], np.float32)
    assert ulp_errors(found, exact, f32).tolist() == [0, 1, 0.5, 0, 0, 0, np.inf, np.inf, np.inf]
    assert steps_off(found[:4], exact[:4]).tolist() == [0, 1, 0, 0]
    assert steps_off(np.array([-0.0, -1e-45], f32), np.array([0.0, 1e-45])).tolist() == [0, 2]
