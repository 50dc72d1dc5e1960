"""Cumulative reduce-window against the evaluator; and which windows are recognised."""

from __future__ import annotations

import numpy as np
import pytest

import xjit
from tests.support.kernels import LAYOUTS, check
from tests.support.scans import last_set
from xjit.emitters.planners.cpu.windows import prefix_dimension
from xjit.text.parser import parse_hlo

INITS = {"add": "0", "multiply": "1", "maximum": "-inf", "minimum": "inf"}


def text(kind: str, dims: str, window: str, opcode: str = "add", init: str = "", layout: str = "") -> str:
    return f"""HloModule m
f {{
  a = {kind}[] parameter(0)
  b = {kind}[] parameter(1)
  ROOT r = {kind}[] {opcode}(a, b)
}}
ENTRY e {{
  x = {kind}[{dims}]{layout} parameter(0)
  i = {kind}[] constant({init or INITS[opcode]})
  ROOT w = {kind}[{dims}]{layout} reduce-window(x, i), window={{{window}}}, to_apply=f
}}
"""


@pytest.mark.parametrize("n", [4, 15, 16, 17, 100])
@pytest.mark.parametrize("pad", ["low", "high"])
def test_one_dimension(n: int, pad: str) -> None:
    padding = f"{n - 1}_0" if pad == "low" else f"0_{n - 1}"
    for opcode in ("add", "maximum"):
        check(text("f32", str(n), f"size={n} pad={padding}", opcode), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", ["f64", "bf16", "s32", "u8", "c64", "s64"])
def test_types(kind: str) -> None:
    tolerance = {"f64": 1e-12, "bf16": 2e-2, "c64": 1e-5}.get(kind, 0.0)
    check(text(kind, "3,21", "size=1x21 pad=0_0x20_0"), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("layout", ["{2,1,0}", "{0,1,2}", "{1,2,0}"])
def test_dimensions_and_layouts(layout: str) -> None:
    for window in ("size=5x1x1 pad=4_0x0_0x0_0", "size=1x6x1 pad=0_0x0_5x0_0", "size=1x1x19 pad=0_0x0_0x18_0"):
        module = text("f32", "5,6,19", window, layout=layout)
        check(module, rtol=1e-5, atol=1e-5, options=LAYOUTS)


@pytest.mark.parametrize(
    ("window", "init", "found"),
    [("size=8 pad=7_0", "0", True), ("size=8 pad=7_0", "1", True), ("size=8 pad=0_7", "0", True),
     ("size=8 pad=0_7", "1", False), ("size=7 pad=6_0", "0", False),
     ("size=8 pad=6_1", "0", False), ("size=8 pad=7_0 rhs_reversal=1", "0", False)],
)  # fmt: skip
def test_what_is_recognised(window: str, init: str, found: bool) -> None:
    module = text("f32", "8", window, init=init)
    root = parse_hlo(module).entry_computation.root_instruction
    assert (prefix_dimension(root) == 0) is found
    check(module, rtol=1e-5, atol=1e-5)


LOG_ADD_EXP = """HloModule m
f {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  m = f32[] maximum(a, b)
  d = f32[] subtract(a, b)
  n = f32[] abs(d)
  g = f32[] negate(n)
  e = f32[] exponential(g)
  l = f32[] log-plus-one(e)
  ROOT r = f32[] add(m, l)
}
ENTRY e {
  x = f32[5,24] parameter(0)
  i = f32[] constant(-1e30)
  ROOT w = f32[5,24] reduce-window(x, i), window=WINDOW, to_apply=f
}
"""

KEEP_LAST = """HloModule m
f {
  a = f32[] parameter(0)
  ROOT b = f32[] parameter(1)
}
ENTRY e {
  x = f32[6,9] parameter(0)
  i = f32[] parameter(1)
  ROOT w = f32[6,9] reduce-window(x, i), window={size=1x9 pad=0_0x8_0}, to_apply=f
}
"""


@pytest.mark.parametrize(
    ("window", "found"),
    [("size=1x24 pad=0_0x23_0", True), ("size=5x1 pad=4_0x0_0", True), ("size=1x24 pad=0_0x0_23", False)],
)
def test_any_reducer_is_scanned_from_the_low_end(window: str, found: bool) -> None:
    module = LOG_ADD_EXP.replace("WINDOW", f"{{{window}}}")
    root = parse_hlo(module).entry_computation.root_instruction
    assert (prefix_dimension(root) is not None) is found
    check(module, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("window", ["size=1x80 pad=0_0x0_79", "size=64x1 pad=0_63x0_0"])
def test_long_windows_of_any_reducer_are_scanned_from_the_high_end(window: str) -> None:
    module = LOG_ADD_EXP.replace("5,24", "64,80").replace("WINDOW", f"{{{window}}}").replace("-1e30", "-inf")
    assert prefix_dimension(parse_hlo(module).entry_computation.root_instruction) is not None
    check(module, rtol=1e-5, atol=1e-5)


def test_elements_are_combined_in_the_order_of_the_window() -> None:
    assert prefix_dimension(parse_hlo(KEEP_LAST).entry_computation.root_instruction) == 1
    check(KEEP_LAST)
    x = np.random.default_rng(0).integers(0, 3, (6, 70)).astype(np.int32)
    for backwards in (False, True):
        module = last_set((6, 70), backwards)
        assert prefix_dimension(parse_hlo(module).entry_computation.root_instruction) == 1
        np.testing.assert_array_equal(xjit.compile(module)(x), xjit.evaluate(module, x))


@pytest.mark.parametrize("root", ["ROOT b = f32[] parameter(1)", "b = f32[] parameter(1)  ROOT c = f32[] constant(3)"])
def test_reducers_that_do_not_read_both(root: str) -> None:
    module = KEEP_LAST.replace("ROOT b = f32[] parameter(1)", root).replace("6,9", "6,40")
    check(module.replace("1x9", "1x40").replace("0_0x8_0", "0_0x39_0"))


def test_unknown_reducers_round_at_every_step() -> None:
    module = LOG_ADD_EXP.replace("f32", "f16").replace("-1e30", "-inf").replace("WINDOW", "{size=1x24 pad=0_0x23_0}")
    x = np.random.default_rng(0).standard_normal((5, 24)).astype(np.float16)
    exact = np.logaddexp.accumulate(x.astype(np.float64), axis=1)
    stepwise = xjit.evaluate(module, x)
    assert (np.abs(stepwise - exact) > np.spacing(stepwise)).any()  # rounding in between is visible
    np.testing.assert_array_max_ulp(xjit.compile(module)(x), stepwise, maxulp=1)


def long_sums(shape: str, axis: int, is_backwards: bool = False) -> str:
    sizes = [int(n) for n in shape.split(",")]
    size = "x".join(str(n if d == axis else 1) for d, n in enumerate(sizes))
    pad = f"0_{sizes[axis] - 1}" if is_backwards else f"{sizes[axis] - 1}_0"
    pads = "x".join(pad if d == axis else "0_0" for d in range(len(sizes)))
    return f"""HloModule m
add {{ x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT r = f32[] add(x, y) }}
ENTRY e {{
  x = f32[{shape}] parameter(0)
  zero = f32[] constant(0)
  ROOT r = f32[{shape}] reduce-window(x, zero), window={{size={size} pad={pads}}}, to_apply=add
}}"""


@pytest.mark.parametrize("is_backwards", [False, True])
@pytest.mark.parametrize(("shape", "axis"), [("3,20001", 1), ("20001,5", 0), ("20001,40", 0)])
def test_long_sums_have_the_digits_of_short_ones(shape: str, axis: int, is_backwards: bool) -> None:
    sizes = [int(n) for n in shape.split(",")]
    x = (np.random.default_rng(0).normal(size=sizes) + 0.5).astype(np.float32)
    in_order = np.flip(x, axis) if is_backwards else x
    wanted = np.cumsum(in_order, axis, dtype=np.float64)
    wanted = np.flip(wanted, axis) if is_backwards else wanted
    got = xjit.compile(long_sums(shape, axis, is_backwards))(x)
    assert np.abs(got - wanted).max() <= 2.0**-23 * np.abs(wanted).max()


@pytest.mark.parametrize("window", ["size=1x20000 pad=0_0x19999_0", "size=1x20000 pad=0_0x0_19999"])
def test_any_reducer_is_regrouped_along_memory(window: str) -> None:
    """A vector is combined in a few steps: as many roundings less."""
    module = LOG_ADD_EXP.replace("5,24", "2,20000").replace("WINDOW", f"{{{window}}}").replace("-1e30", "-inf")
    x = np.random.default_rng(0).normal(size=(2, 20000)).astype(np.float32)
    in_order = x[:, ::-1] if window.endswith("_19999") else x
    wanted = np.logaddexp.accumulate(in_order.astype(np.float64), 1)
    wanted = wanted[:, ::-1] if window.endswith("_19999") else wanted
    assert np.abs(xjit.compile(module)(x) - wanted).max() <= 4e-6 * np.abs(wanted).max()


@pytest.mark.parametrize(("shape", "axis"), [("1,40", 1), ("40,1", 0), ("40,8", 0)])
def test_sums_of_infinite_numbers_are_infinite(shape: str, axis: int) -> None:
    """What was rounded off of them is no number."""
    x = np.ones([int(n) for n in shape.split(",")], np.float32)
    np.moveaxis(x, axis, 0)[10], np.moveaxis(x, axis, 0)[30] = np.inf, np.nan
    np.testing.assert_array_equal(xjit.compile(long_sums(shape, axis))(x), np.cumsum(x, axis))
