"""Functions on GPUs have the bits that they have on CPUs: they are the same code, without contraction."""

from __future__ import annotations

import numpy as np
import pytest

import xjit
from xjit.hlo.types.primitive_type import PrimitiveType

UNARY = (
    *("exponential", "exponential-minus-one", "log", "log-plus-one", "tanh", "logistic", "sine", "cosine", "tan"),
    *("sqrt", "rsqrt", "cbrt", "erf", "floor", "round-nearest-even", "sign"),
)
BINARY = ("power", "atan2", "remainder", "divide")
SPECIAL = (0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-3, 88.0, -104.0, 1e4)


@pytest.mark.parametrize(
    "kind", ["f32", "bf16", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("f64", "f16"))]
)
def test_bits_of_functions(kind: str) -> None:
    dtype = PrimitiveType.from_text(kind).dtype
    rng = np.random.default_rng(0)
    x = np.concatenate([np.array(SPECIAL), rng.normal(0, 10, 500), rng.uniform(-1, 1, 490)]).astype(dtype)
    y = rng.permutation(x)
    lines = [f" r{n} = {kind}[{x.size}] {opcode}(x)" for n, opcode in enumerate(UNARY)]
    lines += [f" s{n} = {kind}[{x.size}] {opcode}(x, y)" for n, opcode in enumerate(BINARY)]
    names = [*(f"r{n}" for n in range(len(UNARY))), *(f"s{n}" for n in range(len(BINARY)))]
    text = (
        f"HloModule m\nENTRY e {{ x = {kind}[{x.size}] parameter(0)\n y = {kind}[{x.size}] parameter(1)\n"
        + "\n".join(lines)
        + f"\n ROOT t = ({', '.join([f'{kind}[{x.size}]'] * len(names))}) tuple({', '.join(names)}) }}"
    )
    for opcode, a, b in zip(
        (*UNARY, *BINARY), xjit.compile(text, "cuda-sim")(x, y), xjit.compile(text)(x, y), strict=True
    ):
        same = (a.view(f"u{a.itemsize}") == b.view(f"u{b.itemsize}")) | (a != a) & (b != b)
        where = np.flatnonzero(~same)
        assert not where.size, f"{opcode}({x[where[0]]}): {a[where[0]]} on a GPU, {b[where[0]]} on a CPU"
