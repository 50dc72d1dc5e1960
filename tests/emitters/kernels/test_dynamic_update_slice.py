"""dynamic-update-slice against the evaluator: in place and not, clamped starts, fused updates, inside loops."""

from __future__ import annotations

import re

import numpy as np
import pytest

import xjit
from tests.support.kernels import Array, check, check_units, kernel_text

STARTS = [(0, 0), (2, 17), (4, 19), (100, -5), (-(2**31), 2**31 - 1)]


def update_text(kind: str = "f32", index: str = "s32", layout: str = "{1,0}", update_layout: str = "{1,0}") -> str:
    return f"""ENTRY e {{
  x = {kind}[7,40]{layout} parameter(0)
  u = {kind}[3,21]{update_layout} parameter(1)
  i = {index}[] parameter(2)
  j = {index}[] parameter(3)
  ROOT d = {kind}[7,40]{layout} dynamic-update-slice(x, u, i, j)
}}
"""


def arrays(kind: type = np.float32) -> list[Array]:
    rng = np.random.default_rng(0)
    return [rng.integers(-99, 99, s).astype(kind) for s in ((7, 40), (3, 21))]


@pytest.mark.parametrize("starts", STARTS)
def test_starts_are_clamped(starts: tuple[int, int]) -> None:
    check_units(update_text(), *arrays(), *map(np.int32, starts))


@pytest.mark.parametrize(
    ("index", "dtype"), [("u8", np.uint8), ("s64", np.int64), ("u32", np.uint32), ("u64", np.uint64)]
)
def test_index_types(index: str, dtype: type) -> None:
    info = np.iinfo(dtype)
    for i, j in ((1, 3), (info.max, info.min), (info.min, info.max)):
        check_units(update_text(index=index), *arrays(), dtype(i), dtype(j))


@pytest.mark.parametrize("layout", ["{1,0}", "{0,1}"])
@pytest.mark.parametrize("update_layout", ["{1,0}", "{0,1}"])
@pytest.mark.parametrize("kind", ["f32", "bf16", "pred", "c64", "s64"])
def test_layouts_and_types(kind: str, layout: str, update_layout: str) -> None:
    check_units(update_text(kind, "s32", layout, update_layout))


@pytest.mark.parametrize(
    ("sizes", "update"), [("", ""), ("9", "9"), ("9", "1"), ("9,2", "0,2"), ("0,4", "0,4"), ("2,1,5", "1,1,2")]
)
def test_shapes(sizes: str, update: str) -> None:
    """Scalars, updates of everything, of one element and of nothing."""
    rank = len(sizes.split(",")) if sizes else 0
    starts = [f"i{d}" for d in range(rank)]
    lines = "\n".join(f"  {name} = s32[] parameter({2 + d})" for d, name in enumerate(starts))
    check(f"""ENTRY e {{
  x = f32[{sizes}] parameter(0)
  u = f32[{update}] parameter(1)
{lines}
  ROOT d = f32[{sizes}] dynamic-update-slice({", ".join(["x", "u", *starts])})
}}
""")


def test_a_parameter_is_copied_first() -> None:
    """The caller's array stays as it is."""
    text = update_text()
    x, u = arrays()
    before = x.copy()
    exe = xjit.compile(text)
    result = exe(x, u, np.int32(1), np.int32(2))
    np.testing.assert_array_equal(x, before)
    np.testing.assert_array_equal(result[1:4, 2:23], u)
    assert "dynamic-update-slice" in [k.kind for k in exe.kernels]


IN_PLACE = """ENTRY e {
  p = f32[7,40] parameter(0)
  u = f32[3,21] parameter(1)
  i = s32[] parameter(2)
  j = s32[] parameter(3)
  x = f32[7,40] exponential(p)
  ROOT d = f32[7,40] dynamic-update-slice(x, u, i, j)
}
"""


def test_an_intermediate_is_updated_in_place() -> None:
    options = xjit.CompileOptions(fusion=False)
    for i, j in STARTS:
        check(IN_PLACE, *arrays(), np.int32(i), np.int32(j), rtol=1e-6, options=options)
    kinds = [k.kind for k in xjit.compile(IN_PLACE, options=options).kernels]
    assert kinds == ["loop", "dynamic-update-slice"], "no copy"


def test_the_update_may_be_computed() -> None:
    """A fusion: the update's elements are computed where they are stored."""
    text = """fused {
  x = f32[7,40] parameter(0)
  u = f32[21,3] parameter(1)
  i = s32[] parameter(2)
  j = s32[] parameter(3)
  t = f32[3,21] transpose(u), dimensions={1,0}
  n = f32[3,21] negate(t)
  y = f32[7,40] negate(x)
  k = s32[] add(i, j)
  ROOT d = f32[7,40] dynamic-update-slice(y, n, i, k)
}
ENTRY e {
  x = f32[7,40] parameter(0)
  u = f32[21,3] parameter(1)
  i = s32[] parameter(2)
  j = s32[] parameter(3)
  ROOT f = f32[7,40] fusion(x, u, i, j), kind=kLoop, calls=fused
}
"""
    x, u = arrays()
    for i, j in STARTS:
        check_units(text, x, np.ascontiguousarray(u.T), np.int32(i), np.int32(j // 2))
    names = re.findall(r"define \w+ void @(\S+)\(", kernel_text(text))
    assert names == ["f.base", "f.update"]


SECOND = {"c": "dynamic-update-slice(x, u, j, i)", "s": "negate(x)"}


@pytest.mark.parametrize("order", ["d, s", "s, d", "d, c"])
def test_beside_other_results(order: str) -> None:
    """A fusion with several results: all of them are written, wherever the update stands."""
    other = order.strip("d, ")
    check_units(f"""fused {{
  x = f32[7,40] parameter(0)
  u = f32[3,21] parameter(1)
  i = s32[] parameter(2)
  j = s32[] parameter(3)
  d = f32[7,40] dynamic-update-slice(x, u, i, j)
  {other} = f32[7,40] {SECOND[other]}
  ROOT r = (f32[7,40], f32[7,40]) tuple({order})
}}
ENTRY e {{
  x = f32[7,40] parameter(0)
  u = f32[3,21] parameter(1)
  i = s32[] parameter(2)
  j = s32[] parameter(3)
  ROOT fusion = (f32[7,40], f32[7,40]) fusion(x, u, i, j), kind=kLoop, calls=fused
}}
""")


@pytest.mark.parametrize("shift", [-1, 0, 1, 3])
def test_updates_that_read_what_they_update(shift: int) -> None:
    """x[i:i+9] = x[i+shift:i+shift+9] + 1: nothing may be overwritten before it is read."""
    text = f"""ENTRY e {{
  p = s32[40] parameter(0)
  i = s32[] parameter(1)
  shift = s32[] constant({shift})
  k = s32[] add(i, shift)
  x = s32[40] negate(p)
  part = s32[29] dynamic-slice(x, k), dynamic_slice_sizes={{29}}
  one = s32[] constant(1)
  ones = s32[29] broadcast(one), dimensions={{}}
  next = s32[29] add(part, ones)
  ROOT d = s32[40] dynamic-update-slice(x, next, i)
}}
"""
    for i in (0, 4, 11, 50):
        check(text, np.arange(40, dtype=np.int32), np.int32(i))


LOOP = """cond {
  s = (s32[], f32[50,33], f32[33]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(50)
  ROOT c = pred[] compare(i, n), direction=LT
}
body {
  s = (s32[], f32[50,33], f32[33]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[50,33] get-tuple-element(s), index=1
  r = f32[33] get-tuple-element(s), index=2
  z = s32[] constant(0)
  one = s32[] constant(1)
  half = f32[] constant(0.5)
  halves = f32[33] broadcast(half), dimensions={}
  h = f32[33] multiply(r, halves)
  old = f32[1,33] dynamic-slice(x, i, z), dynamic_slice_sizes={1,33}
  flat = f32[33] reshape(old)
  next = f32[33] add(h, flat)
  row = f32[1,33] reshape(next)
  y = f32[50,33] dynamic-update-slice(x, row, i, z)
  k = s32[] add(i, one)
  ROOT t = (s32[], f32[50,33], f32[33]) tuple(k, y, next)
}
ENTRY e {
  x = f32[50,33] parameter(0)
  r = f32[33] parameter(1)
  z = s32[] constant(0)
  t = (s32[], f32[50,33], f32[33]) tuple(z, x, r)
  ROOT w = (s32[], f32[50,33], f32[33]) while(t), condition=cond, body=body
}
"""


@pytest.mark.parametrize("fuse", [True, False])
def test_a_loop_writes_rows_in_place(fuse: bool) -> None:
    """A scan: every step reads its row, replaces it, and copies nothing else."""
    options = xjit.CompileOptions(fusion=fuse)
    check(LOOP, options=options)
    exe = xjit.compile(LOOP, options=options)
    assert "copy" not in [k.kind for k in exe.kernels]
    body = exe.as_text("llvm").split("\nwhile_body")[1].split("\nwhile_end")[0]
    assert "call void" in body and "memcpy" not in body


def test_a_kernel_costs_what_it_touches() -> None:
    text = """ENTRY e { x = f32[4000,64] parameter(0)  y = f32[4000,64] parameter(1)  i = s32[] parameter(2)
      z = s32[] constant(0)  s = f32[1,64] dynamic-slice(y, i, z), dynamic_slice_sizes={1,64}
      n = f32[1,64] negate(s)  ROOT d = f32[4000,64] dynamic-update-slice(x, n, i, z) }"""
    check(text, np.ones((4000, 64), np.float32), np.ones((4000, 64), np.float32), np.int32(7))
    exe = xjit.compile(text)
    update = next(k for k in exe.kernels if k.kind == "dynamic-update-slice")
    assert 2 * 64 * 4 <= update.bytes_accessed <= 2 * 64 * 4 + 2 * 4  # a row read, a row written, where it starts
    assert f"@{update.name}.task" not in exe.as_text("llvm")  # nothing to share between threads
