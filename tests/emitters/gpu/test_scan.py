"""reduce-window that is a scan, on GPUs: warps for lines along memory, threads for the others, tiles for long lines."""

from __future__ import annotations

import numpy as np
import pytest

import xjit
from tests.support.gpu_simulation import check_simulated
from tests.support.scans import last_set

SLOW = pytest.mark.slow


def scan(
    kind: str, shape: tuple[int, ...], axis: int, opcode: str = "add", init: str = "0", backwards: bool = False
) -> str:
    size = "x".join(str(n) if d == axis else "1" for d, n in enumerate(shape))
    edges = f"0_{shape[axis] - 1}" if backwards else f"{shape[axis] - 1}_0"
    pad = "x".join(edges if d == axis else "0_0" for d in range(len(shape)))
    array = f"{kind}[{','.join(map(str, shape))}]"
    return f"""HloModule m
step {{ a = {kind}[] parameter(0)
 b = {kind}[] parameter(1)
 ROOT c = {kind}[] {opcode}(a, b) }}
ENTRY e {{ x = {array} parameter(0)
 z = {kind}[] constant({init})
 ROOT r = {array} reduce-window(x, z), window={{size={size} pad={pad}}}, to_apply=step }}"""


@pytest.mark.parametrize(
    "case",
    [
        ("s32", (70,), 0),
        ("s64", (2, 3, 65), 2),
        ("pred", (2, 40), 1, "or", "false"),
        ("f32", (5, 33), 1, "maximum", "-inf", True),
        ("f32", (30, 20), 0),
        ("f32", (4, 9), 1, "subtract"),
    ],
)
def test_short_lines(case: tuple[str, tuple[int, ...], int]) -> None:
    executable = check_simulated(scan(*case), rtol=1e-6)
    assert [kernel.kind for kernel in executable.kernels] == ["scan"]


@pytest.mark.parametrize("backwards", [False, True])
def test_any_reducer_combines_in_the_order_of_the_window(backwards: bool) -> None:
    executable = check_simulated(last_set((2, 70), backwards))
    assert [kernel.kind for kernel in executable.kernels] == ["scan"]


@pytest.mark.parametrize(
    ("kind", "tolerance"),
    [("f32", 1e-5), pytest.param("bf16", 1e-2, marks=SLOW), pytest.param("c64", 1e-5, marks=SLOW)],
)
def test_sums_are_regrouped(kind: str, tolerance: float) -> None:
    check_simulated(scan(kind, (2, 100), 1), rtol=tolerance, atol=10 * tolerance)


@pytest.mark.parametrize("backwards", [False, True])
def test_long_lines_are_cut_into_tiles(backwards: bool) -> None:
    """More than 1024 elements: tiles, their totals, and both together."""
    text = scan("s32", (2, 2500), 1, backwards=backwards)
    executable = xjit.compile(text, "cuda-sim")
    kinds = [kernel.kind for kernel in executable.kernels]
    assert "scan" in kinds and len(kinds) > 2
    x = np.random.default_rng(0).integers(-9, 9, (2, 2500)).astype(np.int32)
    expected = np.cumsum(x[:, ::-1], 1)[:, ::-1] if backwards else np.cumsum(x, 1)
    assert (executable(x) == expected).all()
