"""Concatenates inside of elementwise fusions: loops are cut where pieces meet, and compute what they did."""

from __future__ import annotations

import numpy as np
import pytest

import xjit
from tests.support.kernels import check


def roll(rows: int, columns: int, *shifts: tuple[int, int]) -> str:
    """x + the sum of x rolled along axes, as `jnp.roll` writes it."""
    lines, total = [], "x"
    for number, (axis, by) in enumerate(shifts):
        size = (rows, columns)[axis]
        low = [f"[{size - by}:{size}]", f"[0:{size - by}]"]
        pieces = []
        for half, bounds in enumerate(low):
            count = (by, size - by)[half]
            dims = f"{count},{columns}" if axis == 0 else f"{rows},{count}"
            cut = f"{bounds}, [0:{columns}]" if axis == 0 else f"[0:{rows}], {bounds}"
            lines.append(f"  s{number}_{half} = f32[{dims}] slice(x), slice={{{cut}}}")
            pieces.append(f"s{number}_{half}")
        lines.append(f"  r{number} = f32[{rows},{columns}] concatenate({', '.join(pieces)}), dimensions={{{axis}}}")
        root = "ROOT " if number == len(shifts) - 1 else ""
        lines.append(f"  {root}a{number} = f32[{rows},{columns}] add({total}, r{number})")
        total = f"a{number}"
    return f"ENTRY e {{\n  x = f32[{rows},{columns}] parameter(0)\n" + "\n".join(lines) + "\n}\n"


ROTATED = """
ENTRY e {
  x = f32[16,40,64] parameter(0)
  cos = f32[40,64] parameter(1)
  sin = f32[40,64] parameter(2)
  low = f32[16,40,32] slice(x), slice={[0:16], [0:40], [0:32]}
  high = f32[16,40,32] slice(x), slice={[0:16], [0:40], [32:64]}
  minus = f32[16,40,32] negate(high)
  turned = f32[16,40,64] concatenate(minus, low), dimensions={2}
  c = f32[16,40,64] broadcast(cos), dimensions={1,2}
  s = f32[16,40,64] broadcast(sin), dimensions={1,2}
  xc = f32[16,40,64] multiply(x, c)
  xs = f32[16,40,64] multiply(turned, s)
  ROOT y = f32[16,40,64] add(xc, xs)
}
"""


def numbers(text: str) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    parameters = xjit.parse_hlo(text).entry_computation.parameter_instructions
    return [rng.integers(-9, 10, p.shape.dimensions).astype(np.float32) for p in parameters]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (roll(160, 144, (0, 1)), 2),
        (roll(160, 144, (1, 3), (1, 125)), 3),
        (roll(160, 144, (0, 1), (0, 159), (1, 1), (1, 127)), 9),
        (roll(130, 129, (1, 128)), 2),
        (ROTATED, 2),
    ],
    ids=["rows", "columns", "both", "odd", "rotated halves"],
)
def test_one_loop_in_boxes(text: str, parts: int) -> None:
    exe = xjit.compile(text)
    assert [k.kind for k in exe.kernels] == ["loop"]
    assert exe.as_text("schedule").count("part {") == parts
    check(text, *numbers(text))


@pytest.mark.parametrize(
    "text",
    [
        roll(60, 64, (0, 1)),
        roll(1024, 16, (1, 1)),
        roll(160, 128, *((0, n) for n in range(1, 20)), (1, 1)),
    ],
    ids=["few elements", "short rows", "many boxes"],
)
def test_what_stays_a_kernel(text: str) -> None:
    assert len(xjit.compile(text).kernels) > 1
    check(text, *numbers(text))


def test_rows_of_pieces_are_reduced_as_before() -> None:
    text = """
sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
ENTRY e {
  x = f32[160,100] parameter(0)
  y = f32[160,28] parameter(1)
  z = f32[160,128] parameter(2)
  xy = f32[160,128] concatenate(x, y), dimensions={1}
  t = f32[160,128] multiply(xy, z)
  zero = f32[] constant(0)
  r = f32[160] reduce(t, zero), dimensions={1}, to_apply=sum
  rows = f32[160,128] broadcast(r), dimensions={0}
  ROOT u = f32[160,128] subtract(t, rows)
}
"""
    check(text, *numbers(text))
