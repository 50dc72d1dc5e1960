"""Softmax in parts of its rows: values, -inf and inf, and what is refused."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

from xjit import linalg_ext
from xjit.linalg_ext.ir import LinalgError, Operation
from xjit.linalg_ext.transforms import split_softmax


def softmax(sizes: list[int], axis: int, least: str = "0xFF800000", results: str = "0, 1, 2") -> Operation:
    """A function of a tensor that returns some results of its softmax."""
    whole = f"tensor<{'x'.join(map(str, sizes))}xf32>"
    rows = f"tensor<{''.join(f'{n}x' for i, n in enumerate(sizes) if i != axis)}f32>"
    numbers = results.split(", ")
    types = ", ".join(whole if n == "0" else rows for n in numbers)
    return linalg_ext.parse(f"""
func.func @main(%x: {whole}) -> ({types}) {{
  %zero = arith.constant 0.0 : f32
  %least = arith.constant {least} : f32
  %0 = tensor.empty() : {whole}
  %1 = tensor.empty() : {rows}
  %2 = linalg.fill ins(%least : f32) outs(%1 : {rows}) -> {rows}
  %3 = linalg.fill ins(%zero : f32) outs(%1 : {rows}) -> {rows}
  %4:4 = linalg_ext.softmax dimension({axis}) ins(%x : {whole}) outs(%0, %2, %3, %1 : {whole}, {rows}, {rows}, {rows})
    : {whole}, {rows}, {rows}, {rows}
  return {", ".join(f"%4#{n}" for n in numbers)} : {types}
}}""")


def split(module: Operation, parts: int) -> Operation:
    [op] = [op for op in module.walk() if op.name == "linalg_ext.softmax"]
    split_softmax(op, parts)
    return linalg_ext.run_passes(module, ["canonicalize", "cse"])


@pytest.mark.parametrize("seed", range(12))
def test_values(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = [int(n) for n in rng.integers(1, 5, rng.integers(1, 4))]
    axis, parts = int(rng.integers(len(sizes))), int(rng.integers(1, 5))
    sizes[axis] *= parts
    x = rng.normal(scale=20, size=sizes).astype(np.float32)
    before = linalg_ext.evaluate(softmax(sizes, axis), "main", x)
    module = split(softmax(sizes, axis), parts)
    for run in (linalg_ext.evaluate(module, "main", x), linalg_ext.compile(module, "main")(x)):
        for found, wanted in zip(run, before):
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-30)
    assert "linalg_ext.softmax" not in str(module)


def test_infinities_lead_where_they_lead_without_parts() -> None:
    x = np.random.default_rng(0).normal(size=(5, 12)).astype(np.float32)
    x[0, :8], x[1], x[2, 5], x[3, 5] = -np.inf, -np.inf, np.inf, np.nan
    with np.errstate(invalid="ignore"):
        before = linalg_ext.evaluate(softmax([5, 12], 1), "main", x)
        after = linalg_ext.evaluate(split(softmax([5, 12], 1), 3), "main", x)
    for found, wanted in zip(after, before):
        np.testing.assert_allclose(found, wanted, rtol=1e-5)
    assert np.isfinite(after[2][[0, 4]]).all()


def test_only_parts_of_rows_are_reduced_at_once() -> None:
    module = split(softmax([4, prod((8, 16))], 1, results="1, 2"), 8)
    generics = [op for op in module.walk() if op.name == "linalg.generic"]
    types = [str(op.result.type) for op in generics]
    assert sorted(types) == ["tensor<4x8xf32>"] * 3 + ["tensor<4xf32>"] * 2
    assert "tensor<4x8x16xf32>" in str(module)


@pytest.mark.parametrize(
    ("module", "parts", "message"),
    [
        (softmax([4, 10], 1), 3, "into 3 parts along dimension 1, which has 10"),
        (softmax([4, 10], 1), 0, "into 0 parts"),
        (softmax([4, 10], 1, results="0, 3"), 2, "its scale is read"),
        (softmax([4, 10], 1, least="1.0"), 2, "does not start from -inf"),
    ],
)
def test_what_is_refused(module: Operation, parts: int, message: str) -> None:
    before = str(module)
    with pytest.raises(LinalgError, match=message):
        split(module, parts)
    assert str(module) == before
