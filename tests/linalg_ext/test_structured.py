"""Rows of structured ops: loops, sizes, bodies, and what the verifier refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from xjit.linalg_ext.evaluation import evaluate
from xjit.linalg_ext.ir import (
    Block,
    DenseAttr,
    FloatType,
    IntegerAttr,
    IntegerType,
    Operation,
    StringAttr,
    TensorType,
)
from xjit.linalg_ext.ir.attributes import DenseArrayAttr
from xjit.linalg_ext.ir.errors import LinalgVerifyError
from xjit.linalg_ext.structured import STRUCTURED_ROWS, structured, verify_structured
from xjit.linalg_ext.structured.contractions import CONTRACTION_ROWS
from xjit.linalg_ext.structured.elementwise import ELEMENTWISE_ROWS
from xjit.linalg_ext.structured.view import bounds_of
from xjit.linalg_ext.text.parser import parse_module
from xjit.linalg_ext.transforms.single_ops.generalize import generalize_all
from xjit.linalg_ext.verify import verify

F32 = FloatType("f32")


def tensor_op(name, *shapes, num_results=1, element=F32, **attributes) -> Operation:
    values = Block([TensorType(tuple(s), element) for s in shapes]).arguments
    return Operation(name, values, [v.type for v in values[len(values) - num_results :]], attributes)


def dense(*values: int) -> DenseAttr:
    return DenseAttr(values, TensorType((len(values),), IntegerType(64)))


def test_matmul() -> None:
    op = structured(tensor_op("linalg.matmul", (4, 8), (8, 16), (4, 16)))
    verify_structured(op)
    assert op.loop_ranges == (4, 16, 8)
    assert op.iterator_types == ("parallel", "parallel", "reduction")
    assert [str(m) for m in op.indexing_maps] == [
        "(d0, d1, d2) -> (d0, d2)",
        "(d0, d1, d2) -> (d2, d1)",
        "(d0, d1, d2) -> (d0, d1)",
    ]
    assert [o.name for o in op.body.operations] == ["arith.mulf", "arith.addf", "linalg.yield"]
    assert op.reads_init(0) and not op.is_elementwise


def test_sizes_that_are_known_at_run_time_only() -> None:
    op = structured(tensor_op("linalg.matmul", (None, 8), (None, 16), (None, 16)))
    verify_structured(op)
    assert op.loop_ranges == (None, 16, 8)
    assert op.loop_sources == ((0, 0), (1, 1), (0, 1))


def test_convolution_with_strides_and_dilations() -> None:
    attributes = {"strides": dense(2, 1), "dilations": dense(1, 3)}
    op = structured(tensor_op("linalg.conv_2d_nhwc_fhwc", (1, 9, 10, 3), (5, 3, 2, 3), (1, 4, 7, 5), **attributes))
    verify_structured(op)
    assert op.loop_ranges == (1, 4, 7, 5, 3, 2, 3)
    assert str(op.indexing_maps[0]).endswith("-> (d0, d1 * 2 + d4, d2 + d5 * 3, d6)")


def test_extension_ops() -> None:
    rows = {"dimension": IntegerAttr(1, IntegerType(64))}
    softmax = structured(tensor_op("linalg_ext.softmax", (4, 8), (4, 8), (4,), (4,), (4,), num_results=4, **rows))
    verify_structured(softmax)
    assert softmax.iterator_types == ("parallel", "reduction")
    assert [softmax.reads_init(i) for i in range(4)] == [False, True, True, False]
    product = tensor_op("linalg_ext.batch_matmul", (2, 8, 4), (2, 16, 8), (2, 4, 16), layout=StringAttr("tt"))
    verify_structured(structured(product))
    assert structured(product).loop_ranges == (2, 4, 16, 8)


WITHOUT_MAPS = [row for row in CONTRACTION_ROWS if row.name != "linalg.contract"]


@pytest.mark.parametrize("row", WITHOUT_MAPS, ids=lambda row: row.name)
def test_contraction_rows_verify_on_shapes_of_their_loops(row) -> None:
    scalars = structured(tensor_op(row.name, *[()] * (row.num_inputs + 1)))
    sizes = [2 + loop % 3 for loop in range(scalars.num_loops)]
    shapes = [[bounds_of(e, sizes).upper + 1 for e in access] for access in scalars.accesses]
    op = structured(tensor_op(row.name, *shapes))
    verify_structured(op)
    assert op.loop_ranges == tuple(sizes)
    assert len(op.body.arguments) == row.num_inputs + 1 and op.reads_init(0)


@pytest.mark.parametrize("name", [row.name for row in ELEMENTWISE_ROWS if row.body and row.num_inputs in (1, 2)])
def test_elementwise_rows_verify(name: str) -> None:
    row = STRUCTURED_ROWS[name]
    permutation: dict[str, Any] = {"permutation": DenseArrayAttr.i64([0, 1]), "dimensions": DenseArrayAttr.i64([])}
    op = structured(tensor_op(name, *[(2, 3)] * (1 + row.num_inputs), **permutation))
    if name == "linalg.fill":
        op = structured(tensor_op(name, (), (2, 3)))
    verify_structured(op)
    assert op.is_elementwise and not op.reads_init(0)


@pytest.mark.parametrize(
    ("op", "message"),
    [
        (tensor_op("linalg.matmul", (4, 8), (7, 16), (4, 16)), "dimension #0 to be 8, but found 7"),
        (
            tensor_op("linalg.matmul", (4, 8), (8,), (4, 16)),
            r"operand rank \(1\) to match the result rank of indexing_map #1",
        ),
        (tensor_op("linalg.matmul", (4, 8), (4, 16)), "expected two input operands"),
        (tensor_op("linalg.conv_1d", (4,), (3,), (3,)), "dimension #0 to be greater than or equal to 5, but found 4"),
        (
            tensor_op("linalg.transpose", (4, 8), (8, 4), permutation=DenseArrayAttr.i64([1, 1])),
            "permutation is not valid",
        ),
        (tensor_op("linalg_ext.diag", (4,), (4, 5)), "square"),
        (tensor_op("linalg_ext.batch_matmul", (2, 2, 2), (2, 2, 2), (2, 2, 2), layout=StringAttr("xx")), "layout"),
    ],
)
def test_refused(op: Operation, message: str) -> None:
    with pytest.raises(LinalgVerifyError, match=message):
        verify_structured(structured(op))


NAMED = """
#m = affine_map<(i, j, k) -> (k, i)>
#n = affine_map<(i, j, k) -> (k, j)>
#o = affine_map<(i, j, k) -> (i, j)>
func.func @main(%a: tensor<8x4xf32>, %b: tensor<8x5xf32>, %c: tensor<4x5xf32>, %v: tensor<5xf32>)
    -> (tensor<4x5xf32>, tensor<4x5xf32>, tensor<4x5xf32>, tensor<4x5xf32>) {
  %0 = linalg.contract indexing_maps = [#m, #n, #o] ins(%a, %b : tensor<8x4xf32>, tensor<8x5xf32>)
    outs(%c : tensor<4x5xf32>) -> tensor<4x5xf32>
  %1 = linalg.matmul indexing_maps = [#m, #n, #o] ins(%a, %b : tensor<8x4xf32>, tensor<8x5xf32>)
    outs(%c : tensor<4x5xf32>) -> tensor<4x5xf32>
  %2 = linalg.elementwise kind=#linalg.elementwise_kind<mul>
    indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i, j)>]
    ins(%c, %v : tensor<4x5xf32>, tensor<5xf32>) outs(%c : tensor<4x5xf32>) -> tensor<4x5xf32>
  %3 = linalg.elementwise kind=#linalg.elementwise_kind<exp> ins(%c : tensor<4x5xf32>)
    outs(%c : tensor<4x5xf32>) -> tensor<4x5xf32>
  return %0, %1, %2, %3 : tensor<4x5xf32>, tensor<4x5xf32>, tensor<4x5xf32>, tensor<4x5xf32>
}
"""


def test_ops_that_are_written_with_their_maps() -> None:
    rng = np.random.default_rng(0)
    a, b, c, v = (rng.normal(size=n).astype(np.float32) for n in ((8, 4), (8, 5), (4, 5), (5,)))
    module = parse_module(NAMED)
    for again in (module, parse_module(str(module)), generalized(module)):
        sums, same, product, exponential = evaluate(again, "main", a, b, c, v)
        np.testing.assert_allclose(sums, a.T @ b + c, rtol=1e-5, atol=1e-5)
        np.testing.assert_array_equal(sums, same)
        np.testing.assert_allclose(product, c * v, rtol=1e-6)
        np.testing.assert_allclose(exponential, np.exp(c), rtol=1e-5)


def generalized(module: Operation) -> Operation:
    copy = module.clone()
    generalize_all(copy)
    return copy


def test_quantized_and_unsigned_products() -> None:
    text = """
    func.func @main(%a: tensor<2x3xi8>, %b: tensor<3x2xi8>, %x: i32, %y: i32, %c: tensor<2x2xi32>)
        -> (tensor<2x2xi32>, tensor<2x2xi32>) {
      %0 = linalg.quantized_matmul ins(%a, %b, %x, %y : tensor<2x3xi8>, tensor<3x2xi8>, i32, i32)
        outs(%c : tensor<2x2xi32>) -> tensor<2x2xi32>
      %1 = linalg.matmul {cast = #linalg.type_fn<cast_unsigned>} ins(%a, %b : tensor<2x3xi8>, tensor<3x2xi8>)
        outs(%c : tensor<2x2xi32>) -> tensor<2x2xi32>
      return %0, %1 : tensor<2x2xi32>, tensor<2x2xi32>
    }"""
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-128, 128, n).astype(np.int8) for n in ((2, 3), (3, 2)))
    c = rng.integers(-9, 9, (2, 2)).astype(np.int32)
    wide = [x.astype(np.int32) for x in (a, b)]
    quantized, unsigned = evaluate(parse_module(text), "main", a, b, np.int32(3), np.int32(-5), c)
    np.testing.assert_array_equal(quantized, (wide[0] - 3) @ (wide[1] + 5) + c)
    np.testing.assert_array_equal(unsigned, (wide[0] & 255) @ (wide[1] & 255) + c)


@pytest.mark.parametrize(
    "old, new, error",
    [
        ("(i, j, k) -> (k, i)", "(i, j, k) -> (k + 1, i)", "expects projected permutations"),
        ("(i, j, k) -> (k, i)", "(i, j) -> (j, i)", "expects projected permutations"),
        ("elementwise_kind<mul>", "elementwise_kind<exp>", "no function 'exp' of 2 inputs"),
        ("elementwise_kind<exp>", "elementwise_kind<exponent>", "no function 'exponent' of 1 inputs"),
        ("(i, j) -> (j)>", "(i, j) -> (i)>", "operand #1 has shape's dimension #0 to be 4"),
    ],
)
def test_maps_that_are_refused(old: str, new: str, error: str) -> None:
    assert old in NAMED
    with pytest.raises(LinalgVerifyError, match=error):
        verify(parse_module(NAMED.replace(old, new, 1)))
