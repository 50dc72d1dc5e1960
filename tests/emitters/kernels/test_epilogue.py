"""Dots and convolutions with what is computed from them: sizes, types, layouts, batches, several results.

Elements are small integers, so the sums are exact: results are compared with the evaluator bit by bit.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

import xjit
from tests.support.kernels import Array, check_units, emit_view, view_of
from xjit.emitters.kernels.view import KernelView
from xjit.text.parser import parse_hlo


def fusion(params: Sequence[str], body: str, root: str) -> str:
    """A module whose root is a fusion of `body`, with parameters p0, p1, ... of the given shapes."""
    lines = "\n".join(f"  p{i} = {shape} parameter({i})" for i, shape in enumerate(params))
    names = ", ".join(f"p{i}" for i in range(len(params)))
    return (
        f"HloModule m\nf {{\n{lines}\n{body}\n}}\nENTRY e {{\n{lines}\n"
        f"  ROOT q = {root} fusion({names}), kind=kOutput, calls=f\n}}\n"
    )


def inputs(text: str) -> list[Array]:
    rng = np.random.default_rng(0)
    shapes = [p.shape for p in parse_hlo(text).entry_computation.parameter_instructions]
    return [rng.integers(-3, 4, s.dimensions).astype(s.dtype) for s in shapes]


def view(text: str) -> KernelView:
    return view_of(parse_hlo(text).entry_computation.root_instruction)


def check(text: str, kind: str | None = None) -> None:
    """Compares with the evaluator; `kind` is that of the kernel that must have been chosen."""
    if kind is not None:
        assert [k.kind for k in emit_view(view(text))[1]] == [kind]
    check_units(text, *inputs(text))


NUMBERS = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"


def bias_residual(m: int, n: int, k: int, kind: str = "f32", operand: str = "") -> str:
    """max(x w + b, r) * (x w + b), of [m,k] and [k,n]."""
    source = operand or kind
    out = f"{kind}[{m},{n}]"
    body = f"""
  d = {out} dot(p0, p1), {NUMBERS}
  b = {out} broadcast(p2), dimensions={{1}}
  s = {out} add(d, b)
  t = {out} maximum(s, p3)
  ROOT o = {out} multiply(t, s)"""
    return fusion([f"{source}[{m},{k}]", f"{source}[{k},{n}]", f"{kind}[{n}]", out], body, out)


SIZES = [
    (33, 37, 40), (5, 100, 700), (1, 50, 60), (64, 1, 64), (1, 2500, 300), (2500, 1, 300), (3, 1100, 1031),
    (130, 1000, 300), (17, 16, 9), (9, 600, 2100),
]  # fmt: skip


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_sizes(size: tuple[int, int, int]) -> None:
    check(bias_residual(*size), "gemm")


@pytest.mark.parametrize("size", [(3, 2, 1), (7, 9, 3)], ids=str)
def test_small_ones_are_loops(size: tuple[int, int, int]) -> None:
    check(bias_residual(*size), "loop")


def test_sums_of_nothing() -> None:
    check(bias_residual(5, 7, 0), "loop")


@pytest.mark.parametrize("kind", ["f64", "bf16", "f16", "s32"])
def test_types(kind: str) -> None:
    for size in ((33, 37, 40), (1, 300, 70), (70, 1, 40)):
        check(bias_residual(*size, kind))


@pytest.mark.parametrize("operand", ["s8", "u8", "s16"])
def test_sums_of_small_integers(operand: str) -> None:
    for size in ((33, 37, 40), (70, 300, 530)):
        check(bias_residual(*size, "s32", operand), "gemm")


def test_the_sum_is_rounded_to_its_type_first() -> None:
    """257 * 1 is 256 in bf16: what is subtracted afterwards must see that."""
    body = f"""
  d = bf16[40,40] dot(p0, p1), {NUMBERS}
  c = f32[40,40] convert(d)
  ROOT o = f32[40,40] subtract(c, p2)"""
    text = fusion(["bf16[40,257]", "bf16[257,40]", "f32[40,40]"], body, "f32[40,40]")
    one = np.ones
    view_kinds = [k.kind for k in emit_view(view(text))[1]]
    assert view_kinds == ["gemm"]
    given = [one((40, 257)), one((257, 40)), one((40, 40))]
    shapes = [p.shape for p in parse_hlo(text).entry_computation.parameter_instructions]
    check_units(text, *[a.astype(s.dtype) for a, s in zip(given, shapes, strict=True)])


def test_convert_and_several_results() -> None:
    """The dot itself, a narrower copy, and a scaled one; only one of them can hold the sums."""
    body = f"""
  d = f32[50,70] dot(p0, p1), {NUMBERS}
  h = bf16[50,70] convert(d)
  m = f32[50,70] multiply(d, p2)
  ROOT t = (bf16[50,70], f32[50,70], f32[50,70]) tuple(h, d, m)"""
    shape = "(bf16[50,70], f32[50,70], f32[50,70])"
    check(fusion(["f32[50,300]", "f32[300,70]", "f32[50,70]"], body, shape), "gemm")


def test_only_results_of_another_type() -> None:
    body = f"""
  d = f32[150,70] dot(p0, p1), {NUMBERS}
  ROOT h = bf16[150,70] convert(d)"""
    check(fusion(["f32[150,300]", "f32[300,70]"], body, "bf16[150,70]"), "gemm")
    body = body.replace("bf16[150,70] convert(d)", "pred[150,70] compare(d, p2), direction=LT")
    check(fusion(["f32[150,300]", "f32[300,70]", "f32[150,70]"], body, "pred[150,70]"), "gemm")


def test_converted_operands() -> None:
    body = f"""
  w = f32[300,70] convert(p1)
  d = f32[50,70] dot(p0, w), {NUMBERS}
  ROOT o = f32[50,70] negate(d)"""
    check(fusion(["f32[50,300]", "bf16[300,70]"], body, "f32[50,70]"), "gemm")


@pytest.mark.parametrize("order", ["{1,0}", "{0,1}"])
@pytest.mark.parametrize("sides", ["lhs_contracting_dims={1}, rhs_contracting_dims={0}",
                                   "lhs_contracting_dims={0}, rhs_contracting_dims={1}"])  # fmt: skip
def test_transposed_operands_and_results(sides: str, order: str) -> None:
    lhs, rhs = ("[37,40]", "[40,53]") if "lhs_contracting_dims={1}" in sides else ("[40,37]", "[53,40]")
    out = f"f32[37,53]{order}"
    body = f"""
  d = {out} dot(p0, p1), {sides}
  b = {out} broadcast(p2), dimensions={{0}}
  s = {out} add(d, b)
  ROOT o = {out} subtract(s, p3)"""
    check(fusion([f"f32{lhs}", f"f32{rhs}", "f32[37]", out], body, out), "gemm")


def test_batches_heads_and_bitcasts() -> None:
    """Scores of attention in (batch, head, query, key) order, scaled, masked, and seen under another shape."""
    out = "f32[2,3,20,24]"
    body = f"""
  d = {out} dot(p0, p1), lhs_batch_dims={{0,2}}, rhs_batch_dims={{0,2}}, lhs_contracting_dims={{3}}, rhs_contracting_dims={{3}}
  m = {out} broadcast(p2), dimensions={{0,3}}
  s = {out} add(d, m)
  f = f32[6,480] bitcast(s)
  ROOT o = f32[6,480] multiply(f, p3)"""
    check(fusion(["f32[2,20,3,16]", "f32[2,24,3,16]", "f32[2,24]", "f32[6,480]"], body, "f32[6,480]"), "gemm")


def test_constants_and_iotas() -> None:
    body = f"""
  d = f32[40,3] dot(p0, p1), {NUMBERS}
  c = f32[3] constant({{1, -2, 4}})
  b = f32[40,3] broadcast(c), dimensions={{1}}
  i = f32[40,3] iota(), iota_dimension=0
  s = f32[40,3] multiply(d, b)
  ROOT o = f32[40,3] add(s, i)"""
    check(fusion(["f32[40,300]", "f32[300,3]"], body, "f32[40,3]"), "gemm")


WINDOWS = [
    ("f32[2,9,11,20]", "f32[3,3,20,40]", "f32[2,9,11,40]", "window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f"),
    ("f32[2,9,11,20]", "f32[1,1,20,40]", "f32[2,9,11,40]", "window={size=1x1}, dim_labels=b01f_01io->b01f"),
    ("f32[2,20,9,11]", "f32[40,20,3,3]", "f32[2,40,9,11]", "window={size=3x3 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01"),
    ("f32[2,9,11,48]", "f32[3,3,1,48]", "f32[2,9,11,48]",
     "window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f, feature_group_count=48"),
    ("f32[2,9,11,48]", "f32[3,3,12,40]", "f32[2,5,6,40]",
     "window={size=3x3 stride=2x2 pad=1_1x1_1}, dim_labels=b01f_01io->b01f, feature_group_count=4"),
    ("f32[2,5,6,7,8]", "f32[2,3,3,8,33]", "f32[2,4,6,7,33]",
     "window={size=2x3x3 pad=0_0x1_1x1_1}, dim_labels=b012f_012io->b012f"),
    ("bf16[2,9,11,20]", "bf16[3,3,20,40]", "bf16[2,9,11,40]",
     "window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f"),
    ("f32[1,60,70,8]", "f32[3,3,8,300]", "f32[1,60,70,300]",
     "window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f"),
    ("f32[1,3,9,8]", "f32[1,3,3,2]", "f32[1,1,7,7]", "window={size=3x2}, dim_labels=bf01_oi01->bf01"),
    ("f32[2,9,11,20]", "f32[3,3,20,1]", "f32[2,9,11,1]", "window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f"),
    ("f32[3,9,11,20]", "f32[3,3,20,40]", "f32[40,9,11,3]", "window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->f01b"),
]  # fmt: skip


@pytest.mark.parametrize("case", WINDOWS, ids=lambda c: f"{c[0]} {c[1]}")
def test_convolutions(case: tuple[str, str, str, str]) -> None:
    source, kernel, out, window = case
    kind = out.split("[")[0]
    dims = out[len(kind) + 1 : -1].split(",")
    feature = window.split("->")[1].split(",")[0].index("f")
    body = f"""
  d = {out} convolution(p0, p1), {window}
  b = {out} broadcast(p2), dimensions={{{feature}}}
  s = {out} add(d, b)
  r = {out} add(s, p3)
  z = {kind}[] constant(0)
  y = {out} broadcast(z), dimensions={{}}
  ROOT o = {out} maximum(r, y)"""
    check(fusion([source, kernel, f"{kind}[{dims[feature]}]", out], body, out), "convolution")


@pytest.mark.parametrize(("columns", "kind", "is_masked"), [(12, "f32", False), (5, "f64", False), (12, "bf16", True)])
def test_the_last_columns_are_stored_without_masks(columns: int, kind: str, is_masked: bool) -> None:
    """A load of the next row's sums would wait for a masked store to be done. Smaller elements have sums elsewhere."""
    text = bias_residual(70, columns, 40, kind)
    check(text, "gemm")
    options = xjit.CompileOptions(cpu_level="avx512")
    assert ("masked.store" in str(xjit.compile(text, options=options).as_text("llvm"))) == is_masked
