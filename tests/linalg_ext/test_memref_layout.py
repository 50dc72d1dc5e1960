"""Bases, offsets and strides of memrefs, and other memrefs of the same elements."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from xjit import linalg_ext
from xjit.linalg_ext.ir.errors import LinalgError

VIEW = "memref<2x3xKIND, strided<[12, 2], offset: ?>>"
TEXT = f"""
func.func @f(%m: memref<4x6xKIND>, %i: index) -> (index, index, index, index, index, KIND, KIND) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %v = memref.subview %m[%i, 1] [2, 3] [2, 2] : memref<4x6xKIND> to {VIEW}
  %base, %offset, %sizes:2, %strides:2 = memref.extract_strided_metadata %v : {VIEW}
      -> memref<KIND>, index, index, index, index, index
  %again = memref.reinterpret_cast %base to offset: [%offset], sizes: [%sizes#0, %sizes#1],
      strides: [%strides#0, %strides#1] : memref<KIND> to memref<?x?xKIND, strided<[?, ?], offset: ?>>
  %x = memref.load %again[%c1, %c0] : memref<?x?xKIND, strided<[?, ?], offset: ?>>
  %first = memref.load %base[] : memref<KIND>
  memref.store %first, %again[%c0, %c1] : memref<?x?xKIND, strided<[?, ?], offset: ?>>
  return %offset, %sizes#0, %sizes#1, %strides#0, %strides#1, %x, %first : index, index, index, index, index, KIND, KIND
}}
"""


@pytest.mark.parametrize(("kind", "dtype"), [("f32", np.float32), ("i64", np.int64), ("bf16", ml_dtypes.bfloat16)])
def test_metadata_of_a_view(kind: str, dtype: type) -> None:
    """What is made of base, offset, sizes and strides is the view again: stores are seen."""
    m = np.arange(24).reshape(4, 6).astype(dtype)
    *numbers, x, first = linalg_ext.evaluate(linalg_ext.parse(TEXT.replace("KIND", kind)), "f", m, 1)
    assert [int(n) for n in numbers] == [7, 2, 3, 12, 2]
    assert (int(x), int(first)) == (19, 0)


def cast(offset: int, size: int, stride: int, source: str = "memref<24xf32>") -> str:
    return f"""func.func @f(%m: {source}) -> f32 {{
  %c1 = arith.constant 1 : index
  %v = memref.reinterpret_cast %m to offset: [{offset}], sizes: [{size}], strides: [{stride}]
      : {source} to memref<{size}xf32, strided<[{stride}], offset: {offset}>>
  %x = memref.load %v[%c1] : memref<{size}xf32, strided<[{stride}], offset: {offset}>>
  return %x : f32
}}"""


def test_other_strides() -> None:
    m = np.arange(24, dtype=np.float32)
    assert linalg_ext.evaluate(linalg_ext.parse(cast(3, 4, 5)), "f", m) == 8


@pytest.mark.parametrize(("offset", "size", "stride"), [(0, 25, 1), (20, 2, 4), (24, 1, 1), (3, 2, 24)])
def test_elements_that_are_not_there(offset: int, size: int, stride: int) -> None:
    with pytest.raises(LinalgError, match=r"3:8: .*'memref.reinterpret_cast' takes elements"):
        linalg_ext.evaluate(linalg_ext.parse(cast(offset, size, stride)), "f", np.zeros(24, np.float32))


def test_offsets_that_a_type_promises() -> None:
    source = "memref<4xf32, strided<[1], offset: 9>>"
    with pytest.raises(LinalgError, match="nothing is known of 9 elements before"):
        linalg_ext.evaluate(linalg_ext.parse(cast(0, 2, 1, source)), "f", np.zeros(4, np.float32))
