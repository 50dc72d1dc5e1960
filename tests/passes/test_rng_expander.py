"""rng and its state: reproducible, new numbers at every use, the right range and moments."""

from __future__ import annotations

import numpy as np
import pytest

import xjit
from tests.support.kernels import check
from xjit.hlo import HloModule
from xjit.hlo.attributes import ConstantAttributes, RngStateAttributes
from xjit.ops.evaluation import evaluate, evaluate_devices
from xjit.passes.expand.rng_expander import RngExpander
from xjit.text.parser import parse_hlo


def rng_text(kind: str, dims: str, distribution: str) -> str:
    return f"""HloModule m
ENTRY e {{
  a = {kind}[] parameter(0)
  b = {kind}[] parameter(1)
  x = {kind}[{dims}] rng(a, b), distribution={distribution}
  y = {kind}[{dims}] rng(a, b), distribution={distribution}
  ROOT t = ({kind}[{dims}], {kind}[{dims}]) tuple(x, y)
}}
"""


def run(text: str, a: object, b: object) -> tuple[np.ndarray, np.ndarray]:
    exe = xjit.compile(text)
    first, again = exe(a, b), exe(a, b)
    for x, y in zip(first, again, strict=True):
        assert x.tobytes() == y.tobytes()
    assert first[0].size < 2 or first[0].tobytes() != first[1].tobytes()
    return first


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_moments(dtype: type) -> None:
    kind = "f32" if dtype is np.float32 else "f64"
    for x in run(rng_text(kind, "200,100", "rng_uniform"), dtype(-1), dtype(3)):
        assert x.min() >= -1 and x.max() < 3
        assert abs(x.mean() - 1) < 0.05 and abs(x.var() - 16 / 12) < 0.05
    for x in run(rng_text(kind, "200,100", "rng_normal"), dtype(2), dtype(0.5)):
        centred = (x.astype(np.float64) - 2) / 0.5
        assert abs(centred.mean()) < 0.04 and abs(centred.var() - 1) < 0.05
        assert abs((centred**4).mean() - 3) < 0.3 and np.isfinite(x).all()


@pytest.mark.parametrize(("kind", "dtype"), [("s8", np.int8), ("s32", np.int32), ("u64", np.uint64)])
def test_integers(kind: str, dtype: type) -> None:
    low = dtype(0) if kind == "u64" else dtype(-3)
    for x in run(rng_text(kind, "4000", "rng_uniform"), low, dtype(4)):
        assert set(x.tolist()) == set(range(int(low), 4))
    for x in xjit.compile(rng_text(kind, "10", "rng_uniform"))(dtype(4), dtype(4)):
        assert (x == 4).all()


def test_state_advances_and_starts_anew() -> None:
    check("""HloModule m
ENTRY e {
  a = u64[2] rng-get-and-update-state(), delta=7
  b = u64[2] rng-get-and-update-state(), delta=-1
  c = u64[2] rng-get-and-update-state(), delta=3
  ROOT t = (u64[2], u64[2], u64[2]) tuple(a, b, c)
}
""")


def test_numbers_differ_between_iterations() -> None:
    text = """HloModule m
condition {
  s = (s32[], f32[4,6]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(4)
  ROOT r = pred[] compare(i, n), direction=LT
}
body {
  s = (s32[], f32[4,6]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[4,6] get-tuple-element(s), index=1
  a = f32[] constant(0)
  b = f32[] constant(1)
  r = f32[1,6] rng(a, b), distribution=rng_uniform
  z = s32[] constant(0)
  u = f32[4,6] dynamic-update-slice(x, r, i, z)
  one = s32[] constant(1)
  j = s32[] add(i, one)
  ROOT t = (s32[], f32[4,6]) tuple(j, u)
}
ENTRY e {
  x = f32[4,6] parameter(0)
  z = s32[] constant(0)
  s = (s32[], f32[4,6]) tuple(z, x)
  w = (s32[], f32[4,6]) while(s), condition=condition, body=body
  ROOT r = f32[4,6] get-tuple-element(w), index=1
}
"""
    exe = xjit.compile(text)
    result = exe(np.zeros((4, 6), np.float32))
    assert len({row.tobytes() for row in result}) == 4
    assert exe(np.zeros((4, 6), np.float32)).tobytes() == result.tobytes()


TWO_DRAWS = """HloModule m
ENTRY e {
  a = s32[] constant(0)
  b = s32[] constant(1000000)
  x = s32[6] rng(a, b), distribution=rng_uniform
  y = s32[6] rng(a, b), distribution=rng_uniform
  ROOT t = (s32[6], s32[6]) tuple(x, y)
}
"""


def expanded(text: str, seed: int = 0) -> HloModule:
    module = parse_hlo(text)
    module.config.seed = seed
    assert RngExpander().run(module)
    return module


def test_devices_draw_numbers_of_their_own() -> None:
    module = expanded(TWO_DRAWS.replace("HloModule m", "HloModule m, replica_count=2, num_partitions=2"))
    drawn = [np.stack(values).tobytes() for values in evaluate_devices(module, [[]] * 4)]
    assert len(set(drawn)) == 4


def test_seeds_and_instructions_have_streams_of_their_own() -> None:
    first, again = (np.stack(evaluate(expanded(TWO_DRAWS))) for _ in range(2))
    other = np.stack(evaluate(expanded(TWO_DRAWS, seed=1)))
    assert first.tobytes() == again.tobytes()
    assert not (first == other).any()
    keys = {
        call.operand(0).attributes_as(ConstantAttributes).literal.array.item()
        for call in expanded(TWO_DRAWS).entry_computation.instructions
        if call.opcode == "call"
    }
    assert len(keys) == 2


def test_draws_of_one_shape_call_one_computation_and_count_words() -> None:
    module = expanded(TWO_DRAWS)
    assert module.computation_count == 2
    deltas = [i.attributes_as(RngStateAttributes).delta for i in module.entry_computation.instructions
              if i.opcode == "rng-get-and-update-state"]  # fmt: skip
    assert deltas == [6, 6]


@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_normal_numbers_of_odd_and_even_counts(count: int) -> None:
    text = rng_text("f32", str(count), "rng_normal")
    x, y = evaluate(expanded(text), np.float32(0), np.float32(1))
    assert x.shape == y.shape == (count,) and np.isfinite(x).all()
    assert len({*x.tolist(), *y.tolist()}) == 2 * count
