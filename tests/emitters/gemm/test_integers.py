"""Multiplications of integers: sums wrap to the result's type, whatever they are summed in, at the extremes too."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emitters.gemm.harness import DTYPES, compiled_gemm, target_of
from xjit.emitters.gemm.blocking.method import GemmTypes, with_unit
from xjit.emitters.gemm.blocking.plan import plan_gemm
from xjit.emitters.gemm.blocking.shapes import row_major
from xjit.emitters.gemm.blocking.storage import UNSIGNED
from xjit.emitters.gemm.blocking.units import Unit
from xjit.llvm import LLVMType, Target
from xjit.llvm.types import I8, I16, I32, I64
from xjit.runtime.machine_code.jit import missing_features

TYPES = [
    (I8, I8, I32), (I8, I8, I8), (I8, I8, I64), (I16, I16, I16), (I16, I16, I32), (I8, I16, I32), (I8, I32, I32),
    (I32, I32, I16), (I32, I32, I32), (I64, I64, I64), (UNSIGNED, I8, I32), (I8, UNSIGNED, I32),
    (UNSIGNED, UNSIGNED, I32), (UNSIGNED, UNSIGNED, UNSIGNED), (UNSIGNED, I16, I32), (UNSIGNED, UNSIGNED, I64),
]  # fmt: skip
SIZES = [(1, 1, 1), (5, 7, 3), (17, 49, 33), (33, 65, 1100), (1, 90, 40), (90, 1, 40), (3, 20, 5000)]


def extremes(elem: LLVMType, shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    """Mostly the number whose products have the largest magnitude."""
    info = np.iinfo(DTYPES[elem])
    values = rng.integers(info.min, info.max, shape, DTYPES[elem], endpoint=True)
    return np.where(rng.random(shape) < 0.9, DTYPES[elem].type(info.min or info.max), values)


SMALL = [types for types in TYPES if types[2] is I32 and types[0].bits == 8]
LEVELS = [*(("host", types) for types in TYPES), *((level, types) for level in ("avx512", "avx2") for types in SMALL)]


@pytest.mark.parametrize(
    ("level", "types"),
    [*LEVELS, ("sse2", SMALL[0])],
    ids=lambda t: t if isinstance(t, str) else "-".join(x.mangled for x in t),
)
def test_sums_wrap(level: str, types: tuple[LLVMType, LLVMType, LLVMType]) -> None:
    if level != "host" and missing_features(Target.for_features(level).features):
        pytest.skip(f"this host lacks {level}")
    unit_types = with_unit(GemmTypes(*types), target_of(level))
    target, compiled = compiled_gemm(level, unit_types)
    rng = np.random.default_rng(0)
    for case, (m, n, k) in enumerate(SIZES):
        transposed = bool(case & 1), bool(case & 2)
        lhs, rhs = extremes(types[0], (m, k), rng), extremes(types[1], (k, n), rng)
        stored = [np.ascontiguousarray(x.T if flip else x) for x, flip in zip((lhs, rhs), transposed)]
        out = np.full((m, n), 77, DTYPES[types[2]])
        shape = row_major(m, n, k, transpose_lhs=transposed[0], transpose_rhs=transposed[1])
        record = plan_gemm(shape, unit_types, target).to_array()
        compiled.call(out.ctypes.data, *(x.ctypes.data for x in stored), 0, record.ctypes.data)
        expected = (lhs.astype(np.int64) @ rhs.astype(np.int64)).astype(DTYPES[types[2]])
        np.testing.assert_array_equal(out, expected, err_msg=f"{m}x{n}x{k}")


def test_units() -> None:
    avx2 = Target.for_features("avx2")
    assert with_unit(GemmTypes(I8, I8, I32), avx2).unit is Unit.PAIRS
    assert with_unit(GemmTypes(I8, I8, I64), avx2).unit is Unit.FMA, "sums that must not wrap to 32 bits"
    assert with_unit(GemmTypes(I32, I8, I32), avx2).unit is Unit.FMA
