"""multi-output-fusion: whole programs with it compute the same, in place where they may, also in place."""

from __future__ import annotations

import random
from functools import partial

import numpy as np
import pytest

import xjit
from xjit.hlo.diagnostics import InvalidArgument
from xjit.passes import pipelines
from xjit.passes.framework.hlo_verifier import HloVerifier
from xjit.passes.fusion.multi_output_fusion import MultiOutputFusion
from xjit.text.parser import parse_hlo

STEP = """HloModule step, input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {}, may-alias) }
ENTRY e {
  p = f32[8,40] parameter(0)
  m = f32[8,40] parameter(1)
  g = f32[8,40] parameter(2)
  h = f32[] constant(0.5)
  b = f32[8,40] broadcast(h), dimensions={}
  decayed = f32[8,40] multiply(m, b)
  mn = f32[8,40] add(decayed, g)
  s = f32[8,40] sqrt(mn)
  pn = f32[8,40] subtract(p, s)
  ROOT t = (f32[8,40], f32[8,40]) tuple(pn, mn)
}
"""


@pytest.fixture(autouse=True)
def _any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipelines, "MultiOutputFusion", partial(MultiOutputFusion, min_bytes=1))


def test_results_lie_where_donated_parameters_did() -> None:
    exe = xjit.compile(STEP)
    assert [k.kind for k in exe.kernels] == ["loop"]
    assert exe.memory_analysis().alias_size_in_bytes == 2 * 8 * 40 * 4
    rng = np.random.default_rng(3)
    p, m, g = (rng.uniform(1, 2, (8, 40)).astype(np.float32) for _ in range(3))
    plain = exe(p, m, g)
    given = p.copy(), m.copy()
    donated = exe(*given, g, donate=[0, 1])
    for got, expected in zip(donated, plain, strict=True):
        np.testing.assert_array_equal(got, expected)
    assert {r.ctypes.data for r in donated} == {a.ctypes.data for a in given}


def test_a_parameter_that_another_result_reads_elsewhere_is_not_overwritten() -> None:
    text = """HloModule m, input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {}, may-alias) }
    ENTRY e {
      x = f32[8,8] parameter(0)
      y = f32[8,8] parameter(1)
      r = f32[8,8] reverse(x), dimensions={0}
      u = f32[8,8] add(x, y)
      v = f32[8,8] multiply(r, y)
      ROOT t = (f32[8,8], f32[8,8]) tuple(u, v)
    }"""
    x, y = np.arange(64, dtype=np.float32).reshape(8, 8), np.full((8, 8), 2, np.float32)
    exe = xjit.compile(text)
    assert [k.kind for k in exe.kernels] == ["loop"]
    with pytest.raises(InvalidArgument, match="cannot be donated"):
        exe(x, y, donate=[0])
    u, v = exe(x, y.copy(), donate=[1])
    np.testing.assert_array_equal(u, x + 2)
    np.testing.assert_array_equal(v, x[::-1] * 2)


def random_program(seed: int) -> str:
    """A program of elementwise instructions, slices, reverses and reductions that share operands."""
    rng = random.Random(seed)
    lines = [f"  v{i} = f32[6,24] parameter({i})" for i in range(3)] + ["  z = f32[] constant(0)"]
    arrays, rows = [f"v{i}" for i in range(3)], list[str]()
    for n in range(3, 24):
        a, b = rng.choice(arrays), rng.choice(arrays[-4:])
        kind = rng.choice(["add", "subtract", "maximum", "negate", "abs", "reverse", "sum", "max", "spread"])
        if kind in ("sum", "max"):
            lines.append(f"  v{n} = f32[6] reduce({a}, z), dimensions={{1}}, to_apply={kind}")
            rows.append(f"v{n}")
        elif kind == "spread" and rows:
            lines.append(f"  v{n} = f32[6,24] broadcast({rng.choice(rows)}), dimensions={{0}}")
            arrays.append(f"v{n}")
        elif kind == "reverse":
            lines.append(f"  v{n} = f32[6,24] reverse({a}), dimensions={{{rng.randrange(2)}}}")
            arrays.append(f"v{n}")
        else:
            operands = a if kind in ("negate", "abs") else f"{a}, {b}"
            lines.append(f"  v{n} = f32[6,24] {'minimum' if kind == 'spread' else kind}({operands})")
            arrays.append(f"v{n}")
    results = [*rng.sample(arrays[3:], min(4, len(arrays) - 3)), *rows[:2]]
    shapes = ", ".join("f32[6]" if r in rows else "f32[6,24]" for r in results)
    return "\n".join(
        [
            "HloModule m",
            "sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }",
            "max { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] maximum(a, b) }",
            "ENTRY e {",
            *lines,
            f"  ROOT t = ({shapes}) tuple({', '.join(results)})",
            "}",
        ]
    )


@pytest.mark.parametrize("seed", range(25))
def test_random_programs(seed: int) -> None:
    text = random_program(seed)
    module = parse_hlo(text)
    MultiOutputFusion(min_bytes=1).run(module)
    HloVerifier().run(module)
    rng = np.random.default_rng(seed)
    arguments = [rng.integers(-8, 8, (6, 24)).astype(np.float32) for _ in range(3)]
    expected = xjit.evaluate(text, *arguments)
    for got, want in zip(xjit.compile(text)(*arguments), expected, strict=True):
        np.testing.assert_array_equal(got, want)


def test_it_fuses_some_random_programs() -> None:
    modules = [parse_hlo(random_program(seed)) for seed in range(25)]
    assert sum(MultiOutputFusion(min_bytes=1).run(m) for m in modules) > 10
