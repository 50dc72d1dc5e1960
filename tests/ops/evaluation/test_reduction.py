"""reduce, reduce-window, select-and-scatter, map and scan against XLA:CPU."""

import numpy as np
import pytest

from tests.ops.evaluation import oracle
from tests.ops.evaluation.oracle import module_of, random_array, text_of

RTOL = {"f16": 2e-3, "bf16": 1e-2, "f32": 1e-5, "f64": 1e-13, "c64": 1e-5}


@pytest.mark.parametrize("t", oracle.some("s8 bf16 f32", "u32 s64 pred f16 f64 c64"))
def test_reduce_with_simple_reducers(t: str) -> None:
    ops = ["add", "multiply", "maximum", "minimum", "and", "or", "xor"]
    if t[0] in "fbc":
        ops = ops[:4] if t[0] != "c" else ops[:2]
    if t == "pred":
        ops = ["and", "or", "maximum", "minimum"]
    x, empty = random_array(t, [4, 3, 5]), random_array(t, [0, 2])
    if t[0] in "fb":
        x[1, :, 2], x[0, 0, 0], x[2, 1] = -0.0, np.nan, 0.0
    init = random_array(t, [], 3)
    shapes = {"{0,1,2}": [], "{1}": [4, 5], "{0,2}": [3], "{2}": [4, 3]}
    lines = [
        (text_of(t, d), f"reduce(p0, p1), dimensions={axes}, to_apply={op}_{t}")
        for op in ops
        for axes, d in shapes.items()
    ]
    lines += [(text_of(t, [2]), f"reduce(p2, p1), dimensions={{0}}, to_apply={op}_{t}") for op in ops]
    oracle.check(module_of([x, init, empty], lines), x, init, empty, rtol=RTOL.get(t, 0), atol=RTOL.get(t, 0))


ARGMAX = """argmax {
  v = f32[] parameter(0)
  i = s32[] parameter(1)
  w = f32[] parameter(2)
  j = s32[] parameter(3)
  more = pred[] compare(v, w), direction=GT
  same = pred[] compare(v, w), direction=EQ
  first = pred[] compare(i, j), direction=LT
  tie = pred[] and(same, first)
  keep = pred[] or(more, tie)
  value = f32[] select(keep, v, w)
  index = s32[] select(keep, i, j)
  ROOT r = (f32[], s32[]) tuple(value, index)
}"""


def test_variadic_reduce_finds_the_maximum_and_its_place() -> None:
    x = np.round(random_array("f32", [6, 7, 3]) * 2)
    init, zero = np.array(-np.inf, np.float32), np.array(0, np.int32)
    iota = np.broadcast_to(np.arange(7, dtype=np.int32)[None, :, None], x.shape).copy()
    expression = "reduce(p0, p1, p2, p3), dimensions={1}, to_apply=argmax"
    text = module_of([x, iota, init, zero], [("(f32[6,3], s32[6,3])", expression)], ARGMAX)
    value, index = oracle.run(text, x, iota, init, zero)
    np.testing.assert_array_equal(value, x.max(axis=1))
    np.testing.assert_array_equal(index, x.argmax(axis=1))


def test_bf16_sum_is_accumulated_in_f32() -> None:
    x = np.ones(1 << 16, oracle.PrimitiveType.BF16.dtype)
    zero = np.zeros((), x.dtype)
    text = module_of([x, zero], [("bf16[]", "reduce(p0, p1), dimensions={0}, to_apply=add_bf16")])
    assert float(oracle.run(text, x, zero)[0]) == 1 << 16


WINDOWS = [
    ("size=2x3", [4, 5]),
    ("size=2x2 stride=2x3 pad=1_0x0_2", [3, 3]),
    ("size=3x2 pad=2_2x0_0 rhs_dilate=2x1", [5, 6]),
    ("size=2x3 pad=0_1x1_1 lhs_dilate=2x3", [9, 19]),
    ("size=5x1 pad=4_0x0_0", [5, 7]),
    ("size=2x2 pad=-1_0x0_-2", [3, 4]),
    ("size=6x7", [0, 1]),
]


@pytest.mark.parametrize("t", oracle.some("f32", "s32 bf16 pred"))
def test_reduce_window(t: str) -> None:
    ops = ["add", "maximum", "minimum"] if t != "pred" else ["and", "or"]
    x, init = random_array(t, [5, 7]), random_array(t, [], 1)
    lines = [
        (text_of(t, d), f"reduce-window(p0, p1), window={{{w}}}, to_apply={op}_{t}") for op in ops for w, d in WINDOWS
    ]
    oracle.check(module_of([x, init], lines), x, init, rtol=RTOL.get(t, 0), atol=RTOL.get(t, 0))


SELECT = (
    "ge_f32 {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT r = pred[] compare(a, b), direction=GE\n}"
)


@pytest.mark.parametrize(
    ("window", "counts"),
    [("size=2x3 stride=2x3", [3, 3]), ("size=3x3 stride=2x2 pad=1_1x0_1", [3, 4]), ("size=2x2", [5, 8])],
)
def test_select_and_scatter(window: str, counts: list[int]) -> None:
    x, source = np.round(random_array("f32", [6, 9])), random_array("f32", counts, 1)
    init = np.array(0, np.float32)
    expression = f"select-and-scatter(p0, p1, p2), window={{{window}}}, select=ge_f32, scatter=add_f32"
    oracle.check(module_of([x, source, init], [("f32[6,9]", expression)], SELECT), x, source, init, rtol=1e-6)


def test_map_runs_its_computation_on_every_element() -> None:
    region = """f {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  two = f32[] constant(2)
  c = f32[] multiply(a, two)
  ROOT r = f32[] subtract(c, b)
}"""
    x, y = random_array("f32", [3, 4]), random_array("f32", [3, 4], 1)
    text = module_of([x, y], [("f32[3,4]", "map(p0, p1), dimensions={0,1}, to_apply=f")], region)
    oracle.check(text, x, y)


def test_map_with_a_loop_inside_runs_per_element() -> None:
    """Doubles each element until it is at least 10: not elementwise, so every element runs by itself."""
    region = """cond { a = f32[] parameter(0)
  ten = f32[] constant(10)
  ROOT r = pred[] compare(a, ten), direction=LT }

body { a = f32[] parameter(0)
  ROOT r = f32[] add(a, a) }

f { a = f32[] parameter(0)
  ROOT w = f32[] while(a), condition=cond, body=body }"""
    x = np.array([1.0, 3.0, 12.0], np.float32)
    text = module_of([x], [("f32[3]", "map(p0), dimensions={0}, to_apply=f")], region)
    np.testing.assert_array_equal(oracle.run(text, x)[0], np.array([16, 12, 12], np.float32))


@pytest.mark.parametrize("reverse", [False, True])
def test_scan(reverse: bool) -> None:
    region = """f {
  x = s32[2] parameter(0)
  c = s32[2] parameter(1)
  s = s32[2] add(x, c)
  ROOT r = (s32[2], s32[2]) tuple(s, s)
}"""
    x, c = random_array("s32", [2, 5]), random_array("s32", [2], 1)
    expression = f"scan(p0, p1), dimensions={{1}}, num_carries=1, is_reverse={str(reverse).lower()}, to_apply=f"
    text = module_of([x, c], [("(s32[2,5], s32[2])", expression)], region)
    sums, last = oracle.run(text, x, c)
    flipped = x[:, ::-1] if reverse else x
    want = np.cumsum(flipped, axis=1, dtype=np.int32) + c[:, None]
    np.testing.assert_array_equal(sums, want[:, ::-1] if reverse else want)
    np.testing.assert_array_equal(last, want[:, -1])


def test_scan_of_one_result_that_is_no_tuple() -> None:
    x, c = random_array("s32", [3, 2]), random_array("s32", [2], 1)
    step = "f { v = s32[2] parameter(0) c = s32[2] parameter(1) ROOT r = s32[2] subtract(v, c) }"
    text = module_of([x, c], [("s32[2]", "scan(p0, p1), dimensions={0}, num_carries=1, to_apply=f")], step)
    np.testing.assert_array_equal(oracle.run(text, x, c)[0], x[2] - (x[1] - (x[0] - c)))
    stacked = "f { v = s32[2] parameter(0) ROOT r = s32[2] negate(v) }"
    text = module_of([x], [("s32[3,2]", "scan(p0), dimensions={0}, num_carries=0, to_apply=f")], stacked)
    np.testing.assert_array_equal(oracle.run(text, x)[0], -x)


def test_reducers_that_convert_are_not_mistaken_for_plain_sums() -> None:
    """A sum in a narrower type than its operands rounds them; one in a wider type does not."""
    narrow = """f { a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = bf16[] convert(a)
  d = bf16[] convert(b)
  s = bf16[] add(c, d)
  ROOT r = f32[] convert(s) }"""
    x, zero = np.array([1.0, 1.001, 1.002], np.float32), np.array(0, np.float32)
    text = module_of([x, zero], [("f32[]", "reduce(p0, p1), dimensions={0}, to_apply=f")], narrow)
    assert float(oracle.run(text, x, zero)[0]) == 3.0


def test_calls_with_tuples_inside_reducers() -> None:
    region = """pair { a = s32[] parameter(0)
  b = s32[] parameter(1)
  s = s32[] add(a, b)
  m = s32[] maximum(a, b)
  ROOT r = (s32[], s32[]) tuple(s, m) }

f { a = s32[] parameter(0)
  b = s32[] parameter(1)
  c = (s32[], s32[]) call(a, b), to_apply=pair
  ROOT r = s32[] get-tuple-element(c), index=0 }"""
    x, zero = random_array("s32", [4, 6]), np.array(0, np.int32)
    text = module_of([x, zero], [("s32[4]", "reduce(p0, p1), dimensions={1}, to_apply=f")], region)
    np.testing.assert_array_equal(oracle.run(text, x, zero)[0], x.sum(axis=1, dtype=np.int32))
