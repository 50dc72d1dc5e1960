"""Programs in parts: a long entry computation is a cold part of its own, and what is linked computes the same."""

from __future__ import annotations

import numpy as np
import pytest

import xjit
from xjit.llvm import partition


def chain(length: int) -> str:
    opcodes = ("add", "multiply", "maximum", "subtract", "minimum")
    lines = ["HloModule chain", "ENTRY main {", "  x0 = f32[6,5] parameter(0)", "  y = f32[6,5] parameter(1)"]
    for i in range(1, length + 1):
        root = "ROOT " if i == length else ""
        lines.append(f"  {root}x{i} = f32[6,5] {opcodes[i % len(opcodes)]}(x{i - 1}, y)")
    return "\n".join((*lines, "}"))


@pytest.mark.parametrize(("length", "parts"), [(5, 1), (40, 2)])
def test_a_long_entry_computation_is_a_part_of_its_own(
    length: int, parts: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition, "COLD_BYTES", 2500)
    exe = xjit.compile(chain(length), options=xjit.CompileOptions(fusion=False))
    assert len(exe.program.object_code) == parts
    x, y = np.random.default_rng(0).random((2, 6, 5), np.float32)
    assert np.array_equal(exe(x, y), xjit.evaluate(chain(length), x, y))


@pytest.mark.parametrize("profile", [False, True])
def test_many_parts(profile: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition, "PART_BYTES", 1)
    monkeypatch.setattr(partition, "COLD_BYTES", 1)
    text = """
      HloModule m
      body { t = (s32[], f32[8]) parameter(0) i = s32[] get-tuple-element(t), index=0 one = s32[] constant(1)
        x = f32[8] get-tuple-element(t), index=1 e = f32[8] negate(x) n = s32[] add(i, one)
        ROOT r = (s32[], f32[8]) tuple(n, e) }
      condition { t = (s32[], f32[8]) parameter(0) i = s32[] get-tuple-element(t), index=0 c = s32[] constant(7)
        ROOT less = pred[] compare(i, c), direction=LT }
      ENTRY main { x = f32[8] parameter(0) zero = s32[] parameter(1) t = (s32[], f32[8]) tuple(zero, x)
        w = (s32[], f32[8]) while(t), condition=condition, body=body s = f32[8] get-tuple-element(w), index=1
        ROOT y = f32[8] exponential(s) }
    """
    exe = xjit.compile(text, options=xjit.CompileOptions(profile=profile, disabled_passes=("while-loop-unroller",)))
    assert len(exe.program.object_code) > 2 or profile
    x, zero = np.linspace(-1, 1, 8, dtype=np.float32), np.int32(0)
    np.testing.assert_allclose(exe(x, zero), np.exp(-x), rtol=1e-6)
