"""dot against the evaluator: dimension numbers, layouts, element types, the multiplication and the loops.

Elements are small integers without zero, so every order of summation gives the same bits: results are compared exactly.
"""

from __future__ import annotations

import random

import numpy as np
import pytest

import xjit
from tests.support.kernels import Array, check, check_units
from xjit.emitters.planners.cpu.dot import plan_of
from xjit.text.parser import parse_hlo

SIZES = (1, 2, 3, 5, 8, 17, 33)
FEW = (0, 1, 1, 1, 2, 2, 3)


def inputs_of(text: str) -> list[Array]:
    rng = np.random.default_rng(0)
    shapes = [p.shape for p in parse_hlo(text).entry_computation.parameter_instructions]
    return [(rng.integers(1, 4, s.dimensions) * rng.choice([-1, 1], s.dimensions)).astype(s.dtype) for s in shapes]


def check_dot(text: str) -> None:
    """Checks the kernel of the root by itself."""
    check_units(text, *inputs_of(text))


def shape_text(kind: str, sizes: list[int], order: list[int] | None = None) -> str:
    layout = "{" + ",".join(map(str, order)) + "}" if order is not None else ""
    return f"{kind}[{','.join(map(str, sizes))}]{layout}"


def dot_text(lhs: str, rhs: str, out: str, numbers: str) -> str:
    return (
        f"ENTRY e {{\n  x = {lhs} parameter(0)\n  y = {rhs} parameter(1)\n  ROOT d = {out} dot(x, y), {numbers}\n}}\n"
    )


def matrices(kind: str, m: int, n: int, k: int, rhs_kind: str = "", out_kind: str = "") -> str:
    numbers = "lhs_contracting_dims={1}, rhs_contracting_dims={0}"
    return dot_text(f"{kind}[{m},{k}]", f"{rhs_kind or kind}[{k},{n}]", f"{out_kind or kind}[{m},{n}]", numbers)


def random_dot(seed: int, kind: str = "f32", most: int = 40) -> str:
    """Returns a dot of up to three dimensions of each sort, in any order and in any layout."""
    rng = random.Random(seed)
    batch, rows, columns, inner = (
        [rng.choice(SIZES) for _ in range(rng.choice(counts))] for counts in ((0, 1, 2, 3), FEW, FEW, FEW)
    )
    for sizes in (batch, rows, columns, inner):
        while np.prod([*sizes, 1]) > most:
            sizes.remove(max(sizes))
    names = {f"{sort}{i}": n for sort, sizes in zip("bmnk", (batch, rows, columns, inner)) for i, n in enumerate(sizes)}

    def operand(sorts: str) -> list[str]:
        return rng.sample(chosen := [n for n in names if n[0] in sorts], len(chosen))

    lhs, rhs = operand("bmk"), operand("bnk")
    shared = {sort: rng.sample(c := [n for n in names if n[0] == sort], len(c)) for sort in "bk"}
    free = [[n for n in names_of if n[0] == sort] for names_of, sort in ((lhs, "m"), (rhs, "n"))]
    out = [*shared["b"], *free[0], *free[1]]
    shapes = [shape_text(kind, [names[n] for n in of], rng.sample(range(len(of)), len(of))) for of in (lhs, rhs, out)]
    numbers = [
        f"{side}_{word}_dims={{{','.join(str(of.index(n)) for n in shared[sort])}}}"
        for word, sort in (("batch", "b"), ("contracting", "k"))
        for side, of in (("lhs", lhs), ("rhs", rhs))
    ]
    return dot_text(*shapes, ", ".join(numbers))


@pytest.mark.parametrize("seed", range(30))
def test_dimension_numbers_and_layouts(seed: int) -> None:
    check_dot(random_dot(seed))


@pytest.mark.parametrize("kind", ["f64", "f16", "bf16", "s8", "u8", "u16", "s32", "u32", "s64", "u64", "c64", "c128"])
def test_element_types(kind: str) -> None:
    check_dot(random_dot(2, kind))
    check_dot(matrices(kind, 19, 35, 21))


@pytest.mark.parametrize(
    ("lhs", "rhs", "out"),
    [("bf16", "bf16", "f32"), ("bf16", "f32", "f32"), ("f16", "f16", "f32"), ("s8", "s8", "s32"), ("s16", "s16", "s32"), ("s8", "s32", "s64"), ("u8", "u8", "u32"), ("f32", "f64", "f64"),
     ("s8", "f32", "f32"), ("u8", "s8", "s32"), ("pred", "f32", "f32"), ("f8e5m2", "f8e4m3fn", "bf16"), ("s32", "f16", "s32"), ("bf16", "s32", "s32"), ("f16", "s64", "s64"), ("bf16", "f16", "s32")],
)  # fmt: skip
@pytest.mark.parametrize("m", [3, 33])
def test_mixed_types(lhs: str, rhs: str, out: str, m: int) -> None:
    check_dot(matrices(lhs, m, 18, 20, rhs, out))


@pytest.mark.parametrize(("m", "n"), [(1, 1), (1, 70), (70, 1), (200, 3), (3, 200), (129, 131)])
@pytest.mark.parametrize("k", [0, 1, 65])
def test_sizes(m: int, n: int, k: int) -> None:
    check_dot(matrices("f32", m, n, k))


def kind_of(text: str) -> str:
    return xjit.compile(text).kernels[-1].kind


def test_many_tiny_multiplications_are_loops() -> None:
    """A call per multiplication would cost more than the multiplication."""
    numbers = "lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}"
    for size, kind in ((2, "loop"), (4, "loop"), (6, "loop"), (16, "gemm")):
        matrix = f"f32[50,{size},{size}]"
        text = dot_text(matrix, matrix, matrix, numbers)
        assert kind_of(text) == kind, f"{size}x{size}"
        check_dot(text)


def test_integers_are_multiplied_by_the_gemm() -> None:
    for kinds in (("s8", "s8", "s32"), ("s32", "s32", "s32"), ("u16", "u16", "u16"), ("u8", "s8", "s32")):
        assert kind_of(matrices(kinds[0], 33, 35, 40, *kinds[1:])) == "gemm"
    assert kind_of(matrices("u16", 33, 35, 40, "u16", "u32")) == "loop", "of unsigned numbers, only bytes are widened"


@pytest.mark.parametrize(("lhs", "rhs"), [("s8", "s8"), ("u8", "s8"), ("s16", "u8")])
def test_small_integers_that_are_converted_to_s32(lhs: str, rhs: str) -> None:
    """They are multiplied as they are."""
    text = f"""ENTRY e {{
  a = {lhs}[70,90] parameter(0)
  b = {rhs}[90,80] parameter(1)
  x = s32[70,90] convert(a)
  y = s32[90,80] convert(b)
  ROOT d = s32[70,80] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
}}"""
    exe = xjit.compile(text)
    assert [kernel.kind for kernel in exe.kernels] == ["gemm"]
    rng = np.random.default_rng(0)
    operands = [
        rng.integers(-300, 300, p.shape.dimensions).astype(p.shape.dtype)
        for p in parse_hlo(text).entry_computation.parameter_instructions
    ]
    expected = operands[0].astype(np.int32) @ operands[1].astype(np.int32)
    np.testing.assert_array_equal(exe(*operands), expected)


CONVERSIONS = [("f32", "bf16"), ("f32", "f16"), ("bf16", "f32"), ("f16", "f32"), ("s8", "f32"), ("s8", "bf16")]


@pytest.mark.parametrize(("source", "kind"), CONVERSIONS)
@pytest.mark.parametrize(("rows", "contracted"), [(1, "10"), (3, "11"), (40, "10"), (40, "01")])
def test_converted_operands_are_read_as_they_are(source: str, kind: str, rows: int, contracted: str) -> None:
    """Numbers that are halfway between two bf16 (257, 259), or next to one; NaN; all are rounded before the product."""
    lhs = f"{kind}[70,{rows}]" if contracted[0] == "0" else f"{kind}[{rows},70]"
    rhs = "90,70" if contracted[1] == "1" else "70,90"
    numbers = f"lhs_contracting_dims={{{contracted[0]}}}, rhs_contracting_dims={{{contracted[1]}}}"
    text = f"""ENTRY e {{
  x = {lhs} parameter(0)
  w = {source}[{rhs}] parameter(1)
  y = {kind}[{rhs}] convert(w)
  ROOT d = f32[{rows},90] dot(x, y), {numbers}
}}
"""
    exe = xjit.compile(text)
    assert [kernel.kind for kernel in exe.kernels] == ["gemm"], "no kernel converts"
    x, w = inputs_of(text)
    if source == "f32":
        w = w + np.random.default_rng(1).choice(np.float32([257 - 3, 259 - 3, 2.0**-12, 0]), w.shape)
        w[5, 6] = np.nan
    check(text, x, w)


def test_both_operands_converted() -> None:
    text = """ENTRY e {
  x = f32[70,90] parameter(0)
  y = bf16[70,90] convert(x)
  ROOT d = bf16[90,90] dot(y, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}
}
"""
    assert [kernel.kind for kernel in xjit.compile(text).kernels] == ["gemm"]
    check(text, *inputs_of(text))


def test_no_elements() -> None:
    check(matrices("f32", 0, 5, 7))
    check(matrices("f32", 0, 0, 0))


def test_one_array_as_both_operands() -> None:
    text = """ENTRY e {
  x = f32[40,40] parameter(0)
  ROOT d = f32[40,40]{0,1} dot(x, x), lhs_contracting_dims={0}, rhs_contracting_dims={1}
}
"""
    check_dot(text)
    check(text, *inputs_of(text))


def test_most_dots_are_one_multiplication() -> None:
    """Any order of dimensions is a multiplication if no group has more dimensions than there are loops for."""
    plans = [plan_of(parse_hlo(random_dot(seed)).entry_computation.root_instruction) for seed in range(300)]
    assert sum(plan is not None for plan in plans) > 250


def test_what_is_no_multiplication_runs_as_loops() -> None:
    """Three contracted dimensions in different orders are more than the multiplication has."""
    text = dot_text(
        "f32[3,5,7,11]{3,2,1,0}",
        "f32[7,5,3,13]{3,2,1,0}",
        "f32[11,13]{1,0}",
        "lhs_contracting_dims={0,1,2}, rhs_contracting_dims={2,1,0}",
    )
    assert plan_of(parse_hlo(text).entry_computation.root_instruction) is None
    check_dot(text)


def test_column_major_result_swaps_the_operands() -> None:
    text = matrices("f32", 40, 50, 60).replace("ROOT d = f32[40,50]", "ROOT d = f32[40,50]{0,1}")
    plan = plan_of(parse_hlo(text).entry_computation.root_instruction)
    assert plan is not None and plan.swapped and plan.shape.out_column == 1
    check_dot(text)
    check_dot(text.replace("x = f32", "x = bf16"))


def test_special_values_are_multiplied() -> None:
    """No product is skipped: 0 * inf is NaN, NaN spreads along its row or column only."""
    rng = np.random.default_rng(0)
    x, y = (rng.integers(-3, 4, (40, 40)).astype(np.float32) for _ in range(2))
    x[3, 5], x[7, 0], y[11, 2], y[5, 39] = np.nan, np.inf, -np.inf, 0
    check_units(matrices("f32", 40, 40, 40), x, y)
