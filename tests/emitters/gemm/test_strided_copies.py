"""Copies of operands and results: every size and pair of directions, with conversions, and nothing else is written."""

from __future__ import annotations

import functools
import itertools

import ml_dtypes
import numpy as np
import pytest

from tests.emitters.gemm.harness import Compiled, compile_module
from xjit.emitters.gemm.packing.strided_copies import COPY_PARAMS, emit_copy
from xjit.llvm import LLVMType, Module, Target
from xjit.llvm.types import BFLOAT, DOUBLE, FLOAT
from xjit.runtime.machine_code.jit import missing_features

LEVELS = [level for level in ("sse2", "avx2", "avx512") if not missing_features(Target.for_features(level).features)]
DTYPES = {FLOAT: np.float32, DOUBLE: np.float64, BFLOAT: ml_dtypes.bfloat16}
SIZES = (1, 2, 3, 5, 8, 15, 16, 17, 33, 40)


@functools.cache
def strided_copy(level: str, source: LLVMType, destination: LLVMType, compute: LLVMType) -> Compiled:
    module = Module("copies", Target.for_features(level))
    copy = emit_copy(module, "copy", (source, destination, compute), transposes=True)
    copy.linkage = ""
    return compile_module(module, ["copy"], len(COPY_PARAMS))["copy"]


def strided(rows: int, columns: int, way: str, dtype: type) -> np.ndarray:
    """An array of such strides: along rows, along columns, every second element, rows that are a power of two apart."""
    match way:
        case "columns":
            return np.zeros((columns + 1, rows + 1), dtype).T
        case "apart":
            return np.zeros((rows + 1, 2 * columns + 2), dtype)[:, ::2]
        case "power":
            return np.zeros((rows + 1, 1024), dtype)[:, : columns + 1]
        case _:
            return np.zeros((rows + 1, columns + 1), dtype)


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(
    "types", [(FLOAT, FLOAT, FLOAT), (BFLOAT, FLOAT, FLOAT), (FLOAT, BFLOAT, FLOAT), (FLOAT, DOUBLE, DOUBLE)]
)
def test_copies_of_all_sizes(level: str, types: tuple[LLVMType, LLVMType, LLVMType]) -> None:
    function = strided_copy(level, *types)
    rng = np.random.default_rng(0)
    ways = ("rows", "columns", "apart", "power")
    for rows, columns, read, write in itertools.product(SIZES, SIZES, ways, ways):
        source = strided(rows, columns, read, DTYPES[types[0]])
        target = strided(rows, columns, write, DTYPES[types[1]])
        source[...] = rng.integers(-128, 128, source.shape)
        target[...] = 1000
        expected = target.copy()
        expected[:rows, :columns] = source[:rows, :columns]
        function.call(target.ctypes.data, *target.strides, source.ctypes.data, *source.strides, rows, columns)
        np.testing.assert_array_equal(target, expected, err_msg=f"{rows} x {columns}, {read} to {write}")
