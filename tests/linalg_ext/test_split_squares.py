"""Variances in parts of their rows: values, whatever the squares are distances from, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from xjit import linalg_ext
from xjit.linalg_ext.ir import LinalgError, Operation
from xjit.linalg_ext.transforms import split_squares


def sums(sizes: list[int], axis: int, squared: str = "%d, %d", started: str = "0.0") -> Operation:
    """A function of a tensor and of a number per row: the rows' sums, and those of squared distances from the number."""
    whole = f"tensor<{'x'.join(map(str, sizes))}xf32>"
    rows = f"tensor<{''.join(f'{n}x' for i, n in enumerate(sizes) if i != axis)}f32>"
    loops = [f"d{i}" for i in range(len(sizes))]
    kept = ", ".join(d for i, d in enumerate(loops) if i != axis)
    kinds = ", ".join(['"parallel"'] * len(sizes))
    identity = f"affine_map<({', '.join(loops)}) -> ({', '.join(loops)})>"
    projection = f"affine_map<({', '.join(loops)}) -> ({kept})>"

    def binary(name: str, operands: str) -> str:
        return f"""linalg.generic {{indexing_maps = [{identity}, {identity}, {identity}], iterator_types = [{kinds}]}}
    ins({operands} : {whole}, {whole}) outs(%0 : {whole}) {{
  ^bb0(%a: f32, %b: f32, %out: f32):
    %r = {name} %a, %b : f32
    linalg.yield %r : f32
  }} -> {whole}"""

    return linalg_ext.parse(f"""
func.func @main(%x: {whole}, %c: {rows}) -> ({rows}, {rows}) {{
  %zero = arith.constant {started} : f32
  %0 = tensor.empty() : {whole}
  %1 = tensor.empty() : {rows}
  %2 = linalg.fill ins(%zero : f32) outs(%1 : {rows}) -> {rows}
  %3 = linalg.reduce {{ arith.addf }} ins(%x : {whole}) outs(%2 : {rows}) dimensions = [{axis}]
  %4 = linalg.generic {{indexing_maps = [{projection}, {identity}], iterator_types = [{kinds}]}}
    ins(%c : {rows}) outs(%0 : {whole}) {{
  ^bb0(%a: f32, %out: f32):
    linalg.yield %a : f32
  }} -> {whole}
  %d = {binary("arith.subf", "%x, %4")}
  %5 = {binary("arith.mulf", squared)}
  %6 = linalg.reduce {{ arith.addf }} ins(%5 : {whole}) outs(%2 : {rows}) dimensions = [{axis}]
  return %3, %6 : {rows}, {rows}
}}""")


def split(module: Operation, parts: int) -> Operation:
    split_squares([op for op in module.walk() if op.name == "linalg.reduce"][-1], parts)
    return linalg_ext.run_passes(module, ["canonicalize", "cse", "trivial-dce"])


@pytest.mark.parametrize("seed", range(8))
def test_values(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = [int(n) for n in rng.integers(1, 5, rng.integers(1, 4))]
    axis, parts = int(rng.integers(len(sizes))), int(rng.integers(1, 5))
    sizes[axis] *= parts
    x = rng.normal(loc=3, size=sizes).astype(np.float32)
    centers = np.asarray(rng.normal(loc=3, size=sizes[:axis] + sizes[axis + 1 :]), np.float32)
    before = linalg_ext.evaluate(sums(sizes, axis), "main", x, centers)
    module = split(sums(sizes, axis), parts)
    for run in (linalg_ext.evaluate(module, "main", x, centers), linalg_ext.compile(module, "main")(x, centers)):
        for found, wanted in zip(run, before):
            np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    assert "linalg.reduce" not in str(module)


@pytest.mark.parametrize(
    ("module", "parts", "message"),
    [
        (sums([4, 10], 1), 3, "3 does not divide"),
        (sums([4, 10], 1, squared="%d, %x"), 2, "no sum of squares"),
        (sums([4, 10], 1, started="1.0"), 2, "no sum of squares"),
    ],
)
def test_what_is_refused(module: Operation, parts: int, message: str) -> None:
    before = str(module)
    with pytest.raises(LinalgError, match=message):
        split(module, parts)
    assert str(module) == before
