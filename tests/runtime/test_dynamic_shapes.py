"""Programs of dynamic shapes: arrays of their true sizes in and out, equal to the evaluator's, compiled once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import xjit
from xjit.hlo.diagnostics import InvalidArgument

PRELUDE = """HloModule m
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
most { c = f32[] parameter(0) d = f32[] parameter(1) ROOT m = f32[] maximum(c, d) }
less { e = f32[] parameter(0) f = f32[] parameter(1) ROOT l = pred[] compare(e, f), direction=LT }
both { g = (f32[<=6], s32[]) parameter(0) h = f32[<=6] get-tuple-element(g), index=0 k = s32[] get-tuple-element(g), index=1
  o = s32[] constant(1) kk = s32[] add(k, o) hh = f32[<=6] add(h, h) ROOT gg = (f32[<=6], s32[]) tuple(hh, kk) }
till { q = (f32[<=6], s32[]) parameter(0) u = s32[] get-tuple-element(q), index=1 v = s32[] constant(3) ROOT w = pred[] compare(u, v), direction=LT }
neg { n1 = f32[<=6] parameter(0) ROOT n2 = f32[<=6] negate(n1) }
same { n3 = f32[<=6] parameter(0) ROOT n4 = f32[<=6] exponential(n3) }
ENTRY e {
  x = f32[6] parameter(0) y = f32[4,6] parameter(1) n = s32[] parameter(2)
  zero = f32[] constant(0) one = s32[] constant(1) low = f32[] constant(-inf)
  dx = f32[<=6] set-dimension-size(x, n), dimensions={0}
  dy = f32[4,<=6] set-dimension-size(y, n), dimensions={1}
"""

BODIES = {
    "elementwise": "ROOT r = f32[<=6] multiply(dx, dx)",
    "size": "ROOT r = s32[] get-dimension-size(dx), dimensions={0}",
    "sum": "ROOT r = f32[] reduce(dx, zero), dimensions={0}, to_apply=add",
    "maximum of rows": "ROOT r = f32[4] reduce(dy, low), dimensions={1}, to_apply=most",
    "sum of columns": "ROOT r = f32[<=6] reduce(dy, zero), dimensions={0}, to_apply=add",
    "tuple": "s = s32[] get-dimension-size(dx), dimensions={0} ROOT r = (f32[<=6], s32[], f32[4,<=6]) tuple(dx, s, dy)",
    "batch norm": "c = f32[4] constant({1,2,3,4}) ROOT r = (f32[4,<=6], f32[4], f32[4])"
    " batch-norm-training(dy, c, c), epsilon=0.01, feature_index=0",
    "dot": "ROOT r = f32[4] dot(dy, dx), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    "outer dot": "ROOT r = f32[<=6,4] dot(dy, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}, lhs_batch_dims={}"
    .replace("f32[<=6,4] dot(dy, y)", "f32[<=6,6] dot(dy, y)"),
    "transpose": "ROOT r = f32[<=6,4] transpose(dy), dimensions={1,0}",
    "pad": "ROOT r = f32[<=10] pad(dx, low), padding=1_3",
    "interior pad": "ROOT r = f32[<=11] pad(dx, low), padding=0_0_1",
    "reverse": "ROOT r = f32[<=6] reverse(dx), dimensions={0}",
    "concatenate": "ROOT r = f32[<=12] concatenate(dx, x), dimensions={0}",
    "two dynamic parts": "ROOT r = f32[<=12] concatenate(dx, dx), dimensions={0}",
    "broadcast": "ROOT r = f32[3,<=6] broadcast(dx), dimensions={1}",
    "sort": "ROOT r = f32[<=6] sort(dx), dimensions={0}, to_apply=less",
    "reshape": "ROOT r = f32[2,2,<=6] reshape(dy)",
    "reshape to a row": "ROOT r = f32[<=24] reshape(dy)",
    "dynamic-reshape": "m = s32[] constant(4) t = s32[] multiply(n, m) ROOT r = f32[<=24] dynamic-reshape(dy, t)",
    "dynamic-reshape of inner dimensions": "two = s32[] constant(2) ROOT r = f32[2,<=6,2] dynamic-reshape(dy, two, n, two)",
    "dynamic-slice": "ROOT r = f32[2] dynamic-slice(dx, n), dynamic_slice_sizes={2}",
    "dynamic-update-slice": "u = f32[2] constant({7, 8}) ROOT r = f32[<=6] dynamic-update-slice(dx, u, one)",
    "while": "z = s32[] constant(0) i = (f32[<=6], s32[]) tuple(dx, z) w = (f32[<=6], s32[]) while(i), condition=till, body=both "
    "ROOT r = f32[<=6] get-tuple-element(w), index=0",
    "conditional": "ROOT r = f32[<=6] conditional(one, dx, dx), branch_computations={neg, same}",
    "call": "ROOT r = f32[<=6] call(dx), to_apply=neg",
    "window": "ROOT r = f32[<=5] reduce-window(dx, zero), window={size=2}, to_apply=add",
    "select": "p = pred[<=6] compare(dx, dx), direction=EQ ROOT r = f32[<=6] select(p, dx, dx)",
    "two sizes": "d2 = f32[<=4,<=6] set-dimension-size(dy, one), dimensions={0} ROOT r = f32[<=4,<=6] negate(d2)",
    "gather": "ind = s32[2] constant({1, 0}) ROOT r = f32[2] gather(dx, ind), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1}",
    "convolution": "l = f32[1,1,<=6] reshape(dx) k = f32[1,1,2] constant({{{1, 2}}}) ROOT r = f32[1,1,<=5] convolution(l, k), window={size=2}, dim_labels=bf0_io0->bf0",
    "custom calls": 'c = f32[<=6] custom-call(x, n), custom_call_target="SliceToDynamic" q = (f32[6], s32[]) custom-call(c), custom_call_target="PadToStatic" '
    "ROOT r = s32[] get-tuple-element(q), index=1",
}  # fmt: skip


def _arguments(size: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(size)
    return (
        rng.standard_normal(6).astype(np.float32),
        rng.standard_normal((4, 6)).astype(np.float32),
        np.int32(size),
    )


def _check(got: Any, expected: Any) -> None:
    if isinstance(expected, tuple):
        for a, b in zip(got, expected, strict=True):
            _check(a, b)
        return
    assert got.shape == expected.shape
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", BODIES)
def test_compiled_equals_evaluated(name: str):
    text = PRELUDE + BODIES[name] + "\n}"
    exe = xjit.compile(text)
    for size in (3, 2, 6):
        arguments = _arguments(size)
        _check(exe(*arguments), xjit.evaluate(text, *arguments))


PARAMETERS = """HloModule m
ENTRY e {
  p = (f32[<=6,2], s32[]) parameter(0)
  q = f32[<=6] parameter(1)
  a = f32[<=6,2] get-tuple-element(p), index=0
  n = s32[] get-dimension-size(a), dimensions={0}
  b = f32[<=6,2] broadcast(q), dimensions={0}
  s = f32[<=6,2] add(a, b)
  ROOT r = (f32[<=6,2], f32[<=6], s32[]) tuple(s, q, n)
}"""


@pytest.mark.parametrize("size", [0, 1, 4, 6])
def test_parameters_have_the_sizes_of_their_arrays(size: int):
    a, q = np.ones((size, 2), np.float32), np.arange(size, dtype=np.float32)
    s, same, n = xjit.compile(PARAMETERS)((a, np.int32(0)), q)
    assert (s == a + q[:, None]).all() and s.shape == (size, 2)
    assert (same == q).all() and same.shape == (size,)
    assert n == size


def test_lists_are_arrays():
    exe = xjit.compile("HloModule m\nENTRY e { x = s64[<=4] parameter(0) ROOT n = s64[<=4] negate(x) }")
    assert exe([1, 2]).tolist() == [-1, -2]


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        (np.zeros(7, np.float32), r"parameter 0 'x': expected the shape \[<=6\], got \[7\]"),
        (np.zeros((2, 2), np.float32), r"parameter 0 'x': expected the shape \[<=6\], got \[2, 2\]"),
        (np.zeros(2, np.float64), r"parameter 0 'x': expected f32\[6\], got float64"),
    ],
)
def test_arguments_beyond_their_bounds(argument: Any, message: str):
    exe = xjit.compile("HloModule m\nENTRY e { x = f32[<=6] parameter(0) ROOT n = f32[<=6] negate(x) }")
    with pytest.raises(InvalidArgument, match=message):
        exe(argument)


def test_results_are_fresh_arrays():
    exe = xjit.compile("HloModule m\nENTRY e { x = f32[<=6] parameter(0) ROOT n = f32[<=6] negate(x) }")
    with pytest.raises(InvalidArgument, match="takes no out"):
        exe(np.zeros(2, np.float32), out=np.zeros(2, np.float32))


def test_an_executable_out_of_the_cache_gives_true_sizes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("XJIT_FLAGS", raising=False)
    options = xjit.CompileOptions(cache_dir=str(tmp_path))
    for _ in range(2):
        exe = xjit.compile(PARAMETERS, options=options)
        assert exe((np.ones((2, 2), np.float32), np.int32(0)), np.ones(2, np.float32))[0].shape == (2, 2)
    assert exe.is_from_cache
