"""Operands packed in lanes of several elements of k: every size, direction and layout, and nothing else is written."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from tests.emitters.gemm.harness import Compiled, compile_module
from xjit.emitters.gemm.blocking.storage import UNSIGNED
from xjit.emitters.gemm.packing.lane_packing import LANE_BYTES, LaneCopy, emit_lane_copy
from xjit.llvm import LLVMType, Module, Target
from xjit.llvm.types import BFLOAT, I8, I16
from xjit.runtime.machine_code.jit import missing_features

LEVELS = [level for level in ("sse2", "avx2", "avx512") if not missing_features(Target.for_features(level).features)]
UNTOUCHED = 0x5A


@functools.cache
def lane_copy(level: str, storage: LLVMType, along_lines: bool) -> Compiled:
    module = Module("lanes", Target.for_features(level))
    packed = {I8: I8, UNSIGNED: UNSIGNED, I16: I16, BFLOAT: BFLOAT}[storage]
    copy = emit_lane_copy(module, LaneCopy(storage, packed, LANE_BYTES * 8 // packed.bits, along_lines, True))
    copy.linkage = ""
    return compile_module(module, [copy.name], 8)[copy.name]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("storage", [I8, I16, BFLOAT], ids=lambda type: type.mangled)
@pytest.mark.parametrize("is_transposed", [False, True], ids=["k_contiguous", "lines_contiguous"])
@pytest.mark.parametrize("along_lines", [False, True], ids=["right", "left"])
def test_lanes_of_all_sizes(level: str, storage: LLVMType, is_transposed: bool, along_lines: bool) -> None:
    size = storage.bits // 8
    group = LANE_BYTES // size
    rng = np.random.default_rng(0)
    for lines in (1, 5, 15, 16, 19, 37):
        for k in (1, group - 1, group, 2 * group + 1, 5 * group, 7 * group - 1, 8 * group, 19 * group + 1, 33 * group):
            values = rng.integers(0, 256, (lines, k * size), np.uint8).view(f"u{size}")
            source = np.asfortranarray(values) if is_transposed else values
            lanes = -(-k // group)
            shape = (lines + 1, lanes + 1) if along_lines else (lanes + 1, lines + 1)
            packed = np.full((*shape, LANE_BYTES), UNTOUCHED, np.uint8)
            strides, sizes = source.strides, (lines, k)
            if not along_lines:
                strides, sizes = strides[::-1], sizes[::-1]
            function = lane_copy(level, storage, along_lines)
            function.call(packed.ctypes.data, *packed.strides[:2], source.ctypes.data, *strides, *sizes)
            by_line = packed if along_lines else packed.swapaxes(0, 1)
            expected = np.zeros((lines, lanes * group), f"u{size}")
            expected[:, :k] = values
            result = np.ascontiguousarray(by_line[:lines, :lanes]).view(f"u{size}").reshape(lines, -1)
            np.testing.assert_array_equal(result, expected, err_msg=f"{lines} lines of {k}")
            assert (by_line[lines:] == UNTOUCHED).all()
            assert (by_line[:, lanes:] == UNTOUCHED).all()
