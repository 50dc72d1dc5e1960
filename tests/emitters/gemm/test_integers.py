"""Multiplications of integers: sums wrap to the result's type, whatever they are summed in, at the extremes too."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emitters.gemm.harness import compiled_gemm
from xjit.emitters.gemm.method import GemmTypes
from xjit.emitters.gemm.plan import plan_gemm
from xjit.emitters.gemm.shapes import row_major
from xjit.llvm import LLVMType, Target
from xjit.llvm.types import FLOAT, I8, I16, I32, I64
from xjit.runtime.jit import missing_features

DTYPES: dict[LLVMType, type[np.signedinteger]] = {I8: np.int8, I16: np.int16, I32: np.int32, I64: np.int64}
TYPES = [
    (I8, I8, I32), (I8, I8, I8), (I8, I8, I64), (I16, I16, I16), (I16, I16, I32), (I8, I16, I32), (I8, I32, I32),
    (I32, I32, I16), (I32, I32, I32), (I64, I64, I64),
]  # fmt: skip
SIZES = [(1, 1, 1), (5, 7, 3), (17, 49, 33), (33, 65, 1100), (1, 90, 40), (90, 1, 40), (3, 20, 5000)]


def extremes(elem: LLVMType, shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    """Mostly the smallest number, whose products have the largest magnitude."""
    info = np.iinfo(DTYPES[elem])
    values = rng.integers(info.min, info.max, shape, DTYPES[elem], endpoint=True)
    return np.where(rng.random(shape) < 0.9, DTYPES[elem](info.min), values)


@pytest.mark.parametrize("types", TYPES, ids=lambda t: f"{t[0]}-{t[1]}-{t[2]}")
@pytest.mark.parametrize("level", ["host", "avx2", "sse4.2"])
def test_sums_wrap(types: tuple[LLVMType, LLVMType, LLVMType], level: str) -> None:
    if level != "host" and missing_features(Target.for_features(level).features):
        pytest.skip(f"this host lacks {level}")
    target, compiled = compiled_gemm(level, GemmTypes(*types))
    rng = np.random.default_rng(0)
    for case, (m, n, k) in enumerate(SIZES):
        transposed = bool(case & 1), bool(case & 2)
        lhs, rhs = extremes(types[0], (m, k), rng), extremes(types[1], (k, n), rng)
        stored = [np.ascontiguousarray(x.T if flip else x) for x, flip in zip((lhs, rhs), transposed)]
        out = np.full((m, n), 77, DTYPES[types[2]])
        shape = row_major(m, n, k, transpose_lhs=transposed[0], transpose_rhs=transposed[1])
        record = plan_gemm(shape, GemmTypes(*types), target).to_array()
        compiled.call(out.ctypes.data, *(x.ctypes.data for x in stored), 0, record.ctypes.data)
        expected = (lhs.astype(np.int64) @ rhs.astype(np.int64)).astype(DTYPES[types[2]])
        np.testing.assert_array_equal(out, expected, err_msg=f"{m}x{n}x{k}")


def test_products_of_bytes_are_summed_as_floats() -> None:
    types = GemmTypes(I8, I8, I32)
    assert types.compute is FLOAT
    assert types.exact_terms == 1024, "1024 products of -128 and -128 are 2**24, the last integer before a gap in f32"
    assert GemmTypes(I16, I16, I32).exact_terms is None
