"""XLA's semantics at the edges, as stated facts: expected values are written out, not computed by the evaluator."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xjit
from xjit.compile_options import CompileOptions

Array = np.ndarray[Any, Any]
NAN, INF = float("nan"), float("inf")
F32, BF16 = np.float32, ml_dtypes.bfloat16
LEVELS = ["", "sse2", "avx2"]
NAMES = {
    "float32": "f32", "float64": "f64", "float16": "f16", "bfloat16": "bf16", "bool": "pred", "int8": "s8",
    "int16": "s16", "int32": "s32", "int64": "s64", "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
}  # fmt: skip


def shape_of(x: Array) -> str:
    return f"{NAMES[x.dtype.name]}[{','.join(map(str, x.shape))}]"


def run(result: str, instruction: str, *inputs: Array, level: str = "", computations: str = "") -> Array:
    """Runs `ROOT r = result instruction`, whose operands are called a, b, c; checks that the evaluator agrees."""
    lines = [f"{'abcdefgh'[i]} = {shape_of(x)} parameter({i})" for i, x in enumerate(inputs)]
    body = "\n".join([*lines, f"ROOT r = {result} {instruction}"])
    text = f"HloModule m\n{computations}\nENTRY e {{\n{body}\n}}\n"
    actual = xjit.compile(text, options=CompileOptions(cpu_level=level))(*inputs)
    expected = xjit.evaluate(text, *inputs)
    wide = np.float64 if actual.dtype.kind in "fV" else actual.dtype
    np.testing.assert_array_equal(actual.astype(wide), expected.astype(wide))
    return np.asarray(actual)


def same(actual: Array, expected: list[Any]) -> None:
    """Compares with a list of numbers; NaN equals NaN, zeros must have the same sign."""
    wanted = np.array(expected, actual.dtype)
    kind = np.float64 if actual.dtype.kind in "fV" else actual.dtype
    np.testing.assert_array_equal(actual.astype(kind), wanted.astype(kind))
    if kind is np.float64:
        numbers = ~np.isnan(wanted.astype(kind))
        signs = [np.signbit(x.astype(kind))[numbers] for x in (actual, wanted)]
        np.testing.assert_array_equal(*signs)


def binary(opcode: str, a: list[Any], b: list[Any], dtype: Any, level: str = "") -> Array:
    x, y = np.array(a, dtype), np.array(b, dtype)
    return run(shape_of(x), f"{opcode}(a, b)", x, y, level=level)


def unary(opcode: str, a: list[Any], dtype: Any = F32) -> Array:
    x = np.array(a, dtype)
    return run(shape_of(x), f"{opcode}(a)", x)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", [np.int8, np.int16, np.int32, np.int64])
def test_signed_division(dtype: Any, level: str) -> None:
    low = np.iinfo(dtype).min
    a, b = [7, -7, 7, -7, 5, 0, low, low], [2, 2, -2, -2, 0, 0, -1, 0]
    same(binary("divide", a, b, dtype, level), [3, -3, -3, 3, -1, -1, low, -1])
    same(binary("remainder", a, b, dtype, level), [1, -1, 1, -1, 5, 0, 0, low])


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32, np.uint64])
def test_unsigned_division(dtype: Any) -> None:
    high = np.iinfo(dtype).max
    same(binary("divide", [7, 5, 0, high], [2, 0, 0, 1], dtype), [3, high, high, high])
    same(binary("remainder", [7, 5, 0, high], [2, 0, 0, 1], dtype), [1, 5, 0, 0])


@pytest.mark.parametrize("level", LEVELS)
def test_shifts_by_too_much(level: str) -> None:
    a, b = [-8, -8, -8, -8, 8, 8], [1, 31, 32, -1, 32, 100]
    same(binary("shift-left", a, b, np.int32, level), [-16, 0, 0, 0, 0, 0])
    same(binary("shift-right-arithmetic", a, b, np.int32, level), [-4, -1, -1, -1, 0, 0])
    same(binary("shift-right-logical", a, b, np.int32, level), [2147483644, 1, 0, 0, 0, 0])
    same(binary("shift-right-arithmetic", [-128, -128, 64], [7, 8, 200 - 256], np.int8, level), [-1, -1, 0])


@pytest.mark.parametrize("level", LEVELS)
def test_floats_to_integers_saturate(level: str) -> None:
    x = np.array([NAN, INF, -INF, 1e20, -1e20, 2.9, -2.9, -0.0, 200.0, -1.0], F32)
    limits = {"s32": (-(2**31), 2**31 - 1), "u32": (0, 2**32 - 1), "s8": (-128, 127), "u8": (0, 255)}
    limits |= {"s64": (-(2**63), 2**63 - 1), "u64": (0, 2**64 - 1), "s16": (-(2**15), 2**15 - 1)}
    for name, (low, high) in limits.items():
        expected = [0, high, low, high, low, 2, max(low, -2), 0, min(200, high), max(low, -1)]
        if high >= 2**63 - 1:
            expected[3:5] = [min(high, int(F32(1e20))), max(low, -int(F32(1e20)))]
        result = run(f"{name}[10]", "convert(a)", x, level=level)
        assert [int(n) for n in result] == expected, name


def test_floats_to_pred() -> None:
    same(run("pred[5]", "convert(a)", np.array([0.0, -0.0, 0.5, NAN, INF], F32)), [False, False, True, True, True])


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("dtype", [F32, np.float64, np.float16, BF16])
def test_minimum_and_maximum(dtype: Any, level: str) -> None:
    a, b = [NAN, 1, NAN, -0.0, 0.0, -INF, 2], [1, NAN, NAN, 0.0, -0.0, INF, 3]
    same(binary("maximum", a, b, dtype, level), [NAN, NAN, NAN, 0.0, 0.0, INF, 3])
    same(binary("minimum", a, b, dtype, level), [NAN, NAN, NAN, -0.0, -0.0, -INF, 2])


def test_clamp() -> None:
    low, x, high = np.array([3, 0, 0, 0, NAN], F32), np.array([2, NAN, -1, 5, 1], F32), np.array([1, 1, 1, 1, 2], F32)
    same(run("f32[5]", "clamp(a, b, c)", low, x, high), [1, NAN, 0, 1, NAN])


def test_compare_is_quiet_and_total_order_is_total() -> None:
    a, b = np.array([NAN, 1, -0.0, 1], F32), np.array([NAN, NAN, 0.0, 2], F32)
    expected = {"EQ": [0, 0, 1, 0], "NE": [1, 1, 0, 1], "LT": [0, 0, 0, 1], "LE": [0, 0, 1, 1]}
    for direction, wanted in (expected | {"GT": [0] * 4, "GE": [0, 0, 1, 0]}).items():
        same(run("pred[4]", f"compare(a, b), direction={direction}", a, b), [bool(w) for w in wanted])
    order = np.array([-NAN, -INF, -1, -0.0, 0.0, 1, INF, NAN], F32)
    order[[0, -1]] = np.array([0xFFC00000, 0x7FC00000], np.uint32).view(F32)
    result = run("pred[7]", "compare(a, b), direction=LT, type=TOTALORDER", order[:-1].copy(), order[1:].copy())
    assert result.all()


def test_total_order_tells_signalling_nans_of_f16_apart() -> None:
    codes = np.array([0x7BFF, 0x7C00, 0x7C01, 0x7DFF, 0x7E00, 0x7FFF, 0xFC01, 0xFE01, 0xFC00, 0x8000, 0], np.uint16)
    a, b = (x.view(np.float16) for x in (np.repeat(codes, codes.size), np.tile(codes, codes.size)))
    signed = codes.astype(np.int32)
    order = np.where(signed & 0x8000, 0x7FFF - signed, signed)
    less = run(f"pred[{a.size}]", "compare(a, b), direction=LT, type=TOTALORDER", a, b)
    np.testing.assert_array_equal(less.reshape(codes.size, -1), order[:, None] < order[None, :])


@pytest.mark.parametrize("name", [n for n in dir(ml_dtypes) if n.startswith("float8")])
def test_total_order_of_all_pairs(name: str) -> None:
    """Also of types whose only NaN is where -0 would be: that is the smallest there."""
    x = np.arange(256, dtype=np.uint8).view(getattr(ml_dtypes, name))
    kind = name.replace("float8_", "f8") if name != "float8_e8m0fnu" else "f8e8m0fnu"
    text = (
        f"HloModule m ENTRY e {{ a = {kind}[65536] parameter(0) b = {kind}[65536] parameter(1) "
        "ROOT r = pred[65536] compare(a, b), direction=LT, type=TOTALORDER }"
    )
    a, b = np.repeat(x, 256), np.tile(x, 256)
    less = xjit.compile(text)(a, b)
    np.testing.assert_array_equal(less, xjit.evaluate(text, a, b))
    rank = less.reshape(256, 256).sum(0)  # of b: how many are less
    assert sorted(rank) == list(range(256)) or np.isnan(x.astype(F32)).sum() > 1
    if name.endswith("fnuz"):
        assert rank[0x80] == 0


@pytest.mark.parametrize(("dtype", "unsigned"), [(np.float16, "u16"), (F32, "u32"), (np.float64, "u64")])
def test_the_remainder_that_does_not_exist_is_the_quotient_s_nan(dtype: Any, unsigned: str) -> None:
    x, y = np.array([1, -1, INF, NAN, 1, 0], dtype), np.array([0, 0, 2, 1, NAN, 0], dtype)
    for opcode in ("remainder", "divide"):
        text = (
            f"HloModule m ENTRY e {{ x = {shape_of(x)} parameter(0) y = {shape_of(x)} parameter(1) "
            f"r = {shape_of(x)} {opcode}(x, y) ROOT b = {unsigned}[6] bitcast-convert(r) }}"
        )
        bits = xjit.compile(text)(x, y)
        np.testing.assert_array_equal(bits, xjit.evaluate(text, x, y))
        if opcode == "remainder":
            signs = np.signbit(bits.view(dtype))
            assert signs.tolist() == [True, True, True, False, False, True]


def test_rounding() -> None:
    x = [0.5, 1.5, 2.5, -0.5, -2.5, 0.49999997, 8388609.0, NAN, -INF, -0.0]
    same(unary("round-nearest-afz", x), [1, 2, 3, -1, -3, 0, 8388609, NAN, -INF, -0.0])
    same(unary("round-nearest-even", x), [0, 2, 2, -0.0, -2, 0, 8388609, NAN, -INF, -0.0])
    same(unary("sign", [NAN, -0.0, 0.0, -3, INF]), [NAN, -0.0, 0.0, -1, 1])


def test_power() -> None:
    a, b = [1, NAN, -1, 0, 0, -8, 2, INF, -0.0], [NAN, 0, INF, -1, 0, 1 / 3, -1, 0, -1]
    same(binary("power", a, b, F32), [1, 1, 1, INF, 1, NAN, 0.5, 1, -INF])
    same(binary("power", [2, -2, 0, 3], [10, 3, 0, 0], np.int32), [1024, -8, 1, 1])


@pytest.mark.parametrize(("start", "clamped"), [(4, 2), (-9, 0), (1, 1)])
def test_dynamic_slices_are_clamped(start: int, clamped: int) -> None:
    x, at = np.arange(5, dtype=F32), np.array(start, np.int32)
    same(run("f32[3]", "dynamic-slice(a, b), dynamic_slice_sizes={3}", x, at), list(range(clamped, clamped + 3)))
    updated = list(range(5))
    updated[clamped : clamped + 3] = [9, 9, 9]
    same(run("f32[5]", "dynamic-update-slice(a, c, b)", x, at, np.full(3, 9, F32)), updated)


def test_unsigned_starts_that_are_huge_clamp_high() -> None:
    x = np.arange(5, dtype=F32)
    for at in (np.array(2**32 - 1, np.uint32), np.array(2**64 - 1, np.uint64)):
        same(run("f32[3]", "dynamic-slice(a, b), dynamic_slice_sizes={3}", x, at), [2, 3, 4])


def test_gather_clamps_and_scatter_skips() -> None:
    x, at = np.arange(5, dtype=F32), np.array([-3, 1, 4, 99], np.int32)
    attributes = "offset_dims={1}, collapsed_slice_dims={}, start_index_map={0}, index_vector_dim=1, slice_sizes={2}"
    same(run("f32[4,2]", f"gather(a, b), {attributes}", x, at), [[0, 1], [1, 2], [3, 4], [3, 4]])
    add = "add { l = f32[] parameter(0)\n r = f32[] parameter(1)\n ROOT s = f32[] add(l, r) }\n"
    attributes = "update_window_dims={1}, inserted_window_dims={}, scatter_dims_to_operand_dims={0}, index_vector_dim=1"
    updates = np.full((4, 2), 10, F32)
    result = run("f32[5]", f"scatter(a, b, c), {attributes}, to_apply=add", x, at, updates, computations=add)
    same(result, [0, 11, 12, 3, 4])


@pytest.mark.parametrize("level", LEVELS)
def test_subnormals_are_flushed(level: str) -> None:
    same(binary("add", [1e-39, -1e-39], [1e-39, 0], F32, level)[:1], [0])
    assert (binary("multiply", [1.2e-38], [0.5], F32, level) == 0).all()


@pytest.mark.parametrize("dtype", [F32, np.float64, BF16])
def test_sign_of_subnormals_is_zero(dtype: Any) -> None:
    tiny = float(ml_dtypes.finfo(dtype).tiny)
    same(unary("sign", [tiny / 2, -tiny / 2, 0.0, -0.0, tiny, -NAN, -INF], dtype), [0, -0.0, 0, -0.0, 1, NAN, -1])


MOVES = {
    "copy": "copy(a)",
    "reverse": "reverse(a), dimensions={0}",
    "select": "select(p, a, a)",
    "concatenate": "concatenate(h, h), dimensions={0}",
    "pad": "pad(h, z), padding=0_2",
    "gather": "gather(a, i), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, "
    "slice_sizes={1}",
    "dynamic-update-slice": "dynamic-update-slice(a, h, n)",
    "abs of negate": "abs(m)",
}


@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("dtype", [F32, np.float64, np.float16, BF16, ml_dtypes.float8_e5m2, ml_dtypes.float8_e4m3fn])
def test_moves_keep_every_bit_of_subnormals(move: str, dtype: Any) -> None:
    unsigned = f"u{np.dtype(dtype).itemsize}"
    x = np.array([1, 2, 3, 1], unsigned).view(dtype)  # the smallest subnormals
    name = {ml_dtypes.float8_e5m2: "f8e5m2", ml_dtypes.float8_e4m3fn: "f8e4m3fn"}.get(dtype) or NAMES[
        np.dtype(dtype).name
    ]
    text = f"""HloModule m
ENTRY e {{
  a = {name}[4] parameter(0)
  p = pred[4] constant({{1,0,1,0}})
  w = {name}[1] slice(a), slice={{[2:3]}}
  z = {name}[] reshape(w)
  h = {name}[2] slice(a), slice={{[0:2]}}
  i = s32[4] constant({{3,2,1,0}})
  n = s32[] constant(2)
  m = {name}[4] negate(a)
  ROOT r = {name}[4] {MOVES[move]}
}}"""
    expected = {"reverse": [1, 3, 2, 1], "concatenate": [1, 2, 1, 2], "pad": [1, 2, 3, 3], "gather": [1, 3, 2, 1]}
    expected["dynamic-update-slice"] = [1, 2, 1, 2]
    for result in (xjit.compile(text)(x), xjit.evaluate(text, x)):
        assert result.view(unsigned).tolist() == expected.get(move, [1, 2, 3, 1])


def test_bf16_is_summed_in_f32() -> None:
    add = "add { l = bf16[] parameter(0)\n r = bf16[] parameter(1)\n ROOT s = bf16[] add(l, r) }\n"
    ones = np.ones(1 << 20, BF16)
    result = run("bf16[]", "reduce(a, b), dimensions={0}, to_apply=add", ones, np.array(0, BF16), computations=add)
    assert float(result) == 1048576


def test_round_trips_through_bf16_are_kept() -> None:
    x = np.array([1.2345678, -3.14159], F32)
    text = "HloModule m\nENTRY e {\na = f32[2] parameter(0)\nb = bf16[2] convert(a)\nROOT c = f32[2] convert(b)\n}\n"
    same(xjit.compile(text)(x), [1.234375, -3.140625])


@pytest.mark.parametrize("level", LEVELS)
def test_products_are_rounded_before_they_are_added(level: str) -> None:
    """With a fused multiply-add the result would be the rounding error of the product."""
    a = np.full(16, 1 + 2.0**-12, F32)
    text = """HloModule m
ENTRY e {
  a = f32[16] parameter(0)
  b = f32[16] parameter(1)
  p = f32[16] multiply(a, a)
  ROOT r = f32[16] add(p, b)
}"""
    rounded = F32(a[0] * a[0])
    result = xjit.compile(text, options=CompileOptions(cpu_level=level))(a, np.full(16, -rounded, F32))
    same(result, [0.0] * 16)
    assert float(a[0]) ** 2 != float(rounded)


def test_reduce_precision() -> None:
    x = np.array([1.0009765625, 3.0009766, 1e30, 1e-30, NAN, -INF], F32)
    result = run("f32[6]", "reduce-precision(a), exponent_bits=5, mantissa_bits=10", x)
    same(result, [1.0009765625, 3.0, INF, 0.0, NAN, -INF])


def test_integers_wrap_around() -> None:
    same(binary("add", [127, -128], [1, -1], np.int8), [-128, 127])
    same(binary("multiply", [2**31 - 1], [2], np.int32), [-2])
    same(unary("abs", [-(2**31)], np.int32), [-(2**31)])
    same(unary("negate", [-128, 1], np.int8), [-128, -1])
    same(binary("subtract", [0], [1], np.uint8), [255])


@pytest.mark.parametrize(("start", "trips"), [(7, 0), (3, 2)])
def test_while_with_and_without_trips(start: int, trips: int) -> None:
    computations = """c { p = (s32[], f32[3]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  five = s32[] constant(5)
  ROOT r = pred[] compare(i, five), direction=LT }
b { p = (s32[], f32[3]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[3] get-tuple-element(p), index=1
  one = s32[] constant(1)
  n = s32[] add(i, one)
  y = f32[3] add(x, x)
  ROOT r = (s32[], f32[3]) tuple(n, y) }
"""
    text = f"""HloModule m
{computations}
ENTRY e {{
  i = s32[] parameter(0)
  x = f32[3] parameter(1)
  t = (s32[], f32[3]) tuple(i, x)
  ROOT w = (s32[], f32[3]) while(t), condition=c, body=b
}}"""
    count, value = xjit.compile(text)(np.int32(start), np.array([1, 2, 3], F32))
    assert int(count) == start + trips
    same(value, [1 * 2.0**trips, 2 * 2.0**trips, 3 * 2.0**trips])


def test_branches_out_of_range_take_the_last() -> None:
    branches = "".join(f"f{i} {{ p = s32[] parameter(0)\n ROOT c = s32[] constant({i}) }}\n" for i in range(3))
    for selector, taken in [(0, 0), (1, 1), (2, 2), (3, 2), (-1, 2), (2**31 - 1, 2)]:
        result = run(
            "s32[]", "conditional(a, a, a, a), branch_computations={f0, f1, f2}", np.array(selector, np.int32),
            computations=branches,
        )  # fmt: skip
        assert int(result) == taken
