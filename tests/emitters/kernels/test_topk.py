"""topk against the evaluator: types, sizes of k, layouts, ties, NaNs and both zeros."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import xjit
from tests.support.kernels import LAYOUTS, check, check_units
from xjit.compiler import libraries_of


def topk_text(kind: str, rows: int, size: int, k: int, largest: str = "true", layout: str = "{1,0}") -> str:
    return f"""HloModule m
ENTRY e {{
  x = {kind}[{rows},{size}]{layout} parameter(0)
  ROOT t = ({kind}[{rows},{k}]{layout}, s32[{rows},{k}]{layout}) topk(x), k={k}, largest={largest}
}}
"""


@pytest.mark.parametrize("kind", ["f32", "f64", "bf16", "s8", "u8", "s32", "u64", "pred"])
@pytest.mark.parametrize("largest", ["true", "false"])
def test_types(kind: str, largest: str) -> None:
    check(topk_text(kind, 3, 75, 6, largest))


@pytest.mark.parametrize(("size", "k"), [(1, 1), (5, 5), (16, 1), (300, 64), (300, 65), (1000, 900), (7, 0)])
def test_sizes(size: int, k: int) -> None:
    check(topk_text("f32", 2, size, k))


@pytest.mark.parametrize(("kind", "size", "k"), [("f32", 4097, 70), ("u8", 5000, 200), ("f64", 9000, 300)])
@pytest.mark.parametrize("largest", ["true", "false"])
def test_long_lines_of_which_many_are_wanted(kind: str, size: int, k: int, largest: str) -> None:
    """The best so far are sorted again now and then; the u8 have many equals."""
    check(topk_text(kind, 2, size, k, largest))


@pytest.mark.parametrize("pattern", ["rising", "falling", "equal"])
def test_orders_that_fill_the_candidates(pattern: str) -> None:
    numbers = {"rising": np.arange(6000), "falling": -np.arange(6000), "equal": np.zeros(6000)}[pattern]
    for layout in ("{1,0}", "{0,1}"):
        check(
            topk_text("f32", 2, 6000, 100, layout=layout), np.stack([numbers] * 2).astype(np.float32), options=LAYOUTS
        )


@pytest.mark.parametrize("level", ["sse2", "avx2"])
@pytest.mark.parametrize("kind", ["f32", "f64", "bf16", "s8", "u64"])
def test_long_lines_are_calls_of_a_library(kind: str, level: str) -> None:
    options = dataclasses.replace(LAYOUTS, cpu_level=level)
    for size, k, largest in ((256, 64, "true"), (271, 7, "false"), (272, 1, "true")):
        text = topk_text(kind, 3, size, k, largest)
        check(text, options=options)
    functions = [line for line in xjit.compile(text, options=options).as_text("llvm").splitlines() if "define" in line]
    assert len(functions) == 2 and all("optnone" in line for line in functions)
    short = xjit.compile(topk_text(kind, 3, 255, 7), options=options).as_text("llvm")
    assert "declare void @xjit_topk" not in short


def test_programs_share_the_library() -> None:
    names = set()
    for size, k in ((256, 3), (1000, 9)):
        module = xjit.parse_hlo(topk_text("f32", 2, size, k))
        names |= {library.identity for library in libraries_of(module, LAYOUTS)}
    assert len(names) == 1


def test_layouts_and_units() -> None:
    check(topk_text("f32", 9, 70, 5, layout="{0,1}"), options=LAYOUTS)
    assert check_units(topk_text("f32", 9, 70, 5, layout="{0,1}")) == 9


def test_total_order() -> None:
    pattern = np.array([0.0, -0.0, np.nan, 1.0, -np.nan, np.inf, -np.inf, -0.0, 0.0], np.float32)
    x = np.tile(pattern, 8).reshape(2, 36)
    for k in (3, 20, 36):
        check(topk_text("f32", 2, 36, k), x)
        check(topk_text("f32", 2, 36, k, "false"), x)


def test_custom_call() -> None:
    text = """HloModule m
ENTRY e {
  x = f32[4,33] parameter(0)
  ROOT t = (f32[4,3], s32[4,3]) custom-call(x), custom_call_target="TopK"
}
"""
    check(text)
