"""Random bits, and windows that pick elements, on GPUs."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.gpu_planning import ADD
from tests.support.gpu_simulation import check_simulated


@pytest.mark.parametrize("algorithm", ["rng_three_fry", "rng_philox"])
@pytest.mark.parametrize("shape", ["u32[8,5]", "u64[6]", "u16[3,4,5]", "u8[7]", "u32[1000]"])
def test_random_bits(algorithm: str, shape: str) -> None:
    text = f"""HloModule m
ENTRY e {{ s = u64[{3 if algorithm == "rng_philox" else 2}] parameter(0)
 ROOT r = (u64[{3 if algorithm == "rng_philox" else 2}], {shape}) rng-bit-generator(s), algorithm={algorithm} }}"""
    state = np.array([0x0123456789ABCDEF, 42, 7], np.uint64)
    check_simulated(text, state if algorithm == "rng_philox" else state[:2])


@pytest.mark.parametrize(
    ("operand", "source", "window"),
    [
        ("f32[2,8,8,3]", "f32[2,4,4,3]", "size=1x2x2x1 stride=1x2x2x1"),
        ("f32[1,7,7,8]", "f32[1,3,3,8]", "size=1x3x3x1 stride=1x2x2x1"),
        ("f32[10]", "f32[5]", "size=2 stride=2"),
        ("f32[5,11]", "f32[5,3]", "size=1x2 stride=1x4"),
        ("f32[3,9]", "f32[3,5]", "size=1x3 rhs_dilate=1x2"),
    ],
)
def test_gradients_of_pooling(operand: str, source: str, window: str) -> None:
    text = f"""HloModule m
{ADD}ge {{ v = f32[] parameter(0)
 w = f32[] parameter(1)
 ROOT p = pred[] compare(v, w), direction=GE }}
ENTRY e {{ x = {operand} parameter(0)
 s = {source} parameter(1)
 z = f32[] parameter(2)
 ROOT r = {operand} select-and-scatter(x, s, z), window={{{window}}}, select=ge, scatter=add }}"""
    check_simulated(text)
