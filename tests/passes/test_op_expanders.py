"""Expanders: the expanded module computes the same, compiled and by the evaluator, and holds no expanded opcode."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.kernels import check, compare, leaves_of, random_inputs
from xjit import evaluate, run_passes
from xjit.hlo.diagnostics import Unsupported
from xjit.passes.collectives.reducing_collective_expander import ReducingCollectiveExpander
from xjit.passes.expand.logistic_expander import LogisticExpander
from xjit.passes.expand.op_expander_pass import OpExpanderPass
from xjit.text.parser import parse_hlo

PASSES = [
    "collective-expander",
    "hlo-get-dimension-size-rewriter",
    "dynamic-dimension-simplifier",
    "batch-norm-expander",
    "dot-expander",
    "scan-expander",
]


def test_a_filter_says_what_is_expanded() -> None:
    text = "HloModule m ENTRY e { x = f32[4] parameter(0) a = f32[4] negate(x) ROOT b = f32[4] negate(a) }"
    module = parse_hlo(text)
    assert OpExpanderPass(extra_filter=lambda i: i.name == "a").run(module)
    assert [i.opcode for i in module.entry_computation.instructions].count("negate") == 1
    assert not LogisticExpander(extra_filter=lambda _: False).run(
        parse_hlo("HloModule m ENTRY e { x = f32[4] parameter(0) ROOT l = f32[4] logistic(x) }")
    )


def check_expanded(text: str, *inputs: np.ndarray, tolerance: float = 0.0) -> None:
    module = parse_hlo(text)
    given = list(inputs) or random_inputs(module)
    before = {i.opcode for i in module.entry_computation.instructions} & EXPANDED
    assert run_passes(module, PASSES)
    after = {i.opcode for c in module.computations() for i in c.instructions}
    assert before and not before & after
    expected, actual = leaves_of(evaluate(parse_hlo(text), *given)), leaves_of(evaluate(module, *given))
    for a, e in zip(actual, expected, strict=True):
        compare(a, e, tolerance, tolerance, "after expansion")
    check(text, *given, rtol=tolerance, atol=tolerance)


EXPANDED = frozenset(
    {"batch-norm-training", "batch-norm-inference", "batch-norm-grad", "ragged-dot", "scaled-dot", "scan", "all-reduce",
     "all-gather-start", "all-gather-done", "collective-permute", "collective-permute-start", "copy-start", "copy-done",
     "async-start", "async-update", "async-done", "all-reduce-start", "all-reduce-done", "get-dimension-size",
     "set-dimension-size", "dynamic-reshape"}
)  # fmt: skip


@pytest.mark.parametrize("kind", ["f32", "f64", "bf16"])
@pytest.mark.parametrize("feature", [0, 2])
def test_batch_norm(kind: str, feature: int) -> None:
    dims = (3, 4, 5)
    n, tolerance = dims[feature], {"f32": 2e-4, "f64": 1e-11, "bf16": 5e-2}[kind]
    x, v = f"{kind}[3,4,5]", f"{kind}[{n}]"
    attributes = f"epsilon=0.01, feature_index={feature}"
    check_expanded(
        f"""HloModule m
ENTRY e {{
  x = {x} parameter(0)
  s = {v} parameter(1)
  o = {v} parameter(2)
  ROOT r = ({x}, {v}, {v}) batch-norm-training(x, s, o), {attributes}
}}
""",
        tolerance=tolerance,
    )
    header = f"""HloModule m
ENTRY e {{
  x = {x} parameter(0)
  s = {v} parameter(1)
  o = {v} parameter(2)
  w = {v} parameter(3)
  v = {v} multiply(w, w)
"""
    check_expanded(
        header + f"  ROOT r = {x} batch-norm-inference(x, s, o, o, v), {attributes}\n}}\n", tolerance=tolerance
    )
    check_expanded(
        header
        + f"  g = {x} parameter(4)\n  ROOT r = ({x}, {v}, {v}) batch-norm-grad(x, s, o, v, g), {attributes}\n}}\n",
        tolerance=tolerance * 10,
    )


@pytest.mark.parametrize("reverse", ["true", "false"])
@pytest.mark.parametrize("size", [0, 1, 5])
def test_scan(reverse: str, size: int) -> None:
    check_expanded(
        f"""HloModule m
body {{
  x = f32[3] parameter(0)
  c = f32[3] parameter(1)
  n = s32[] parameter(2)
  one = s32[] constant(1)
  s = f32[3] add(x, c)
  m = s32[] add(n, one)
  ROOT t = (f32[3], f32[3], s32[]) tuple(s, s, m)
}}
ENTRY e {{
  x = f32[3,{size}] parameter(0)
  c = f32[3] parameter(1)
  n = s32[] parameter(2)
  ROOT r = (f32[3,{size}], f32[3], s32[]) scan(x, c, n), dimensions={{1}}, num_carries=2,
    is_reverse={reverse}, to_apply=body
}}
""",
        tolerance=1e-5,
    )


def test_ragged_dot_rows_and_depth() -> None:
    rng = np.random.default_rng(0)
    for sizes in ([2, 0, 3], [4, 1, 2], [0, 0, 0]):
        groups = np.array(sizes, np.int32)
        lhs, rhs = rng.standard_normal((7, 4)), rng.standard_normal((3, 4, 5))
        check_expanded(
            """HloModule m
ENTRY e {
  a = f32[7,4] parameter(0)
  b = f32[3,4,5] parameter(1)
  g = s32[3] parameter(2)
  ROOT r = f32[7,5] ragged-dot(a, b, g), lhs_contracting_dims={1}, rhs_contracting_dims={1}, lhs_ragged_dims={0},
    rhs_group_dims={0}
}
""",
            lhs.astype(np.float32), rhs.astype(np.float32), groups, tolerance=1e-4,
        )  # fmt: skip
        check_expanded(
            """HloModule m
ENTRY e {
  a = f32[4,7] parameter(0)
  b = f32[7,5] parameter(1)
  g = s32[3] parameter(2)
  ROOT r = f32[3,4,5] ragged-dot(a, b, g), lhs_contracting_dims={1}, rhs_contracting_dims={0}, lhs_ragged_dims={1}
}
""",
            lhs.T.astype(np.float32).copy(), rng.standard_normal((7, 5)).astype(np.float32), groups, tolerance=1e-4,
        )  # fmt: skip


def test_scaled_dot() -> None:
    check_expanded(
        """HloModule m
ENTRY e {
  a = f8e4m3fn[4,64] parameter(0)
  b = f8e4m3fn[64,3] parameter(1)
  s = bf16[4,2] parameter(2)
  t = bf16[2,3] parameter(3)
  ROOT r = bf16[4,3] scaled-dot(a, b, s, t), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
""",
        tolerance=5e-2,
    )


def test_collectives_of_one_device() -> None:
    check_expanded(
        """HloModule m
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
ENTRY e {
  x = f32[3,4] parameter(0)
  y = f32[5] parameter(1)
  r = (f32[3,4], f32[5]) all-reduce(x, y), replica_groups={}, to_apply=add
  s = f32[3,4] all-reduce-start(x), replica_groups={}, to_apply=add
  d = f32[3,4] all-reduce-done(s)
  g = (f32[5], f32[5]) all-gather-start(y), replica_groups={}, dimensions={0}
  h = f32[5] all-gather-done(g)
  p = f32[5] collective-permute(y), source_target_pairs={{0,0}}
  z = f32[5] collective-permute(y), source_target_pairs={}
  q = (f32[5], f32[5], u32[], u32[]) collective-permute-start(y), source_target_pairs={{0,0}}
  k = f32[5] collective-permute-done(q)
  c = (f32[3,4], f32[3,4], u32[]) copy-start(x)
  f = f32[3,4] copy-done(c)
  ROOT t = ((f32[3,4], f32[5]), f32[3,4], f32[5], f32[5], f32[5], f32[5], f32[3,4]) tuple(r, d, h, p, z, k, f)
}
"""
    )


def test_asynchronous_computations() -> None:
    check_expanded(
        """HloModule m
work {
  a = f32[4] parameter(0)
  ROOT b = f32[4] negate(a)
}
ENTRY e {
  x = f32[4] parameter(0)
  s = ((f32[4]), f32[4], u32[]) async-start(x), calls=work
  u = ((f32[4]), f32[4], u32[]) async-update(s)
  ROOT d = f32[4] async-done(u)
}
"""
    )


def test_static_sizes() -> None:
    check_expanded(
        """HloModule m
ENTRY e {
  x = f32[3,4] parameter(0)
  n = s32[] get-dimension-size(x), dimensions={1}
  m = s32[] constant(3)
  y = f32[3,4] set-dimension-size(x, m), dimensions={0}
  a = s32[] constant(2)
  b = s32[] constant(6)
  z = f32[2,6] dynamic-reshape(y, a, b)
  ROOT t = (s32[], f32[2,6]) tuple(n, z)
}
"""
    )


def test_a_reduce_scatter_for_other_groups_is_refused() -> None:
    module = parse_hlo(
        """HloModule m
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
ENTRY e { x = f32[8] parameter(0)  ROOT r = f32[4] reduce-scatter(x), dimensions={0}, to_apply=add }"""
    )
    with pytest.raises(Unsupported, match="for other groups than those of 1"):
        ReducingCollectiveExpander().run(module)
