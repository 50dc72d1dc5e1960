"""Named ops as generics and as loops compute what they did; loops of extension ops; what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from tests.linalg_ext.equivalence import check_equivalent, check_transformation, count
from xjit.linalg_ext import compile
from xjit.linalg_ext.evaluation import evaluate
from xjit.linalg_ext.ir import Block, Builder, FloatType, LinalgError, MemRefType, Operation, Region, TensorType
from xjit.linalg_ext.ir.attributes import DenseArrayAttr, StringAttr, TypeAttr
from xjit.linalg_ext.ir.types import FunctionType
from xjit.linalg_ext.structured import STRUCTURED_ROWS, structured
from xjit.linalg_ext.structured.contractions import CONTRACTION_ROWS
from xjit.linalg_ext.structured.elementwise import ELEMENTWISE_ROWS
from xjit.linalg_ext.structured.view import bounds_of
from xjit.linalg_ext.text.parser import parse_module
from xjit.linalg_ext.transforms import tile
from xjit.linalg_ext.transforms.lowering import convert_linalg_ext_to_loops, convert_linalg_to_loops, lower_to_loops
from xjit.linalg_ext.transforms.single_ops.generalize import generalize_all

F32 = FloatType("f32")
SAMPLE = ("matmul", "vecmat", "dot", "batch_reduce_matmul", "conv_2d_nchw_fchw", "depthwise_conv_1d_nwc_wcm")
CONTRACT_MAPS = """
func.func @f(%a: f32) {
  "test.maps"() {indexing_maps = [affine_map<(i, j, k) -> (i, k)>, affine_map<(i, j, k) -> (k, j)>,
                                  affine_map<(i, j, k) -> (i, j)>]} : () -> ()
  return
}
"""
POOLS = ("pooling_ncw_min", "pooling_nhwc_sum")


def function_with(name: str, shapes: list, kind: type, attributes: dict | None = None) -> Operation:
    """Returns a module whose function @f applies one op to its arguments, the last of which is the output."""
    types = tuple(kind(tuple(shape), F32) if shape is not None else F32 for shape in shapes)
    block = Block(types)
    builder = Builder(block)
    results = (types[-1],) if kind is TensorType else ()
    op = builder.create(name, block.arguments, results, attributes)
    builder.create("func.return", op.results)
    function = FunctionType(types, results)
    described = {"sym_name": StringAttr("f"), "function_type": TypeAttr(function)}
    outer = Block((), [Operation("func.func", (), (), described, [Region([block])])])
    return Operation("builtin.module", regions=[Region([outer])])


def attributes_of(name: str) -> dict | None:
    """Returns the maps of the one contraction that has none of its own."""
    if name != "contract":
        return None
    return dict(parse_module(CONTRACT_MAPS).body.operations[0].body.operations[0].attributes)


def shapes_for(name: str) -> list:
    scalars = function_with(f"linalg.{name}", [(), (), ()], TensorType, attributes_of(name))
    op = structured(scalars.body.operations[0].body.operations[0])
    sizes = [2 + loop % 3 for loop in range(op.num_loops)]
    return [[bounds_of(e, sizes).upper + 1 for e in access] for access in op.accesses]


@pytest.mark.parametrize("name", [*SAMPLE, *POOLS])
@pytest.mark.parametrize("kind", [TensorType, MemRefType])
def test_contractions(name: str, kind: type) -> None:
    before, after = (function_with(f"linalg.{name}", shapes_for(name), kind, attributes_of(name)) for _ in range(2))
    generalize_all(after) if kind is TensorType else convert_linalg_to_loops(after)
    assert count(after, f"linalg.{name}") == 0
    check_equivalent(before, after)


@pytest.mark.slow
@pytest.mark.parametrize("row", CONTRACTION_ROWS, ids=lambda row: row.name)
def test_every_contraction(row) -> None:
    test_contractions(row.name.removeprefix("linalg."), TensorType)
    test_contractions(row.name.removeprefix("linalg."), MemRefType)


@pytest.mark.parametrize("name", [row.name for row in ELEMENTWISE_ROWS if row.body and row.num_inputs in (1, 2)])
def test_elementwise(name: str) -> None:
    inputs = STRUCTURED_ROWS[name].num_inputs
    attributes = {"permutation": DenseArrayAttr.i64([1, 0])} if name == "linalg.transpose" else {}
    shapes: list = [(3, 2) if attributes else (2, 3)] * inputs + [(2, 3)]
    if name == "linalg.broadcast":
        attributes, shapes = {"dimensions": DenseArrayAttr.i64([0])}, [(3,), (2, 3)]
    if name == "linalg.fill":
        shapes = [None, (2, 3)]
    for kind, change in ((TensorType, generalize_all), (MemRefType, convert_linalg_to_loops)):
        before, after = (function_with(name, shapes, kind, attributes) for _ in range(2))
        assert change(after)
        check_equivalent(before, after)


EXTENSION = {
    "softmax": ("%x: memref<3x4xf32>, %o: memref<3x4xf32>, %m: memref<3xf32>, %a: memref<3xf32>, %s: memref<3xf32>", """
  linalg_ext.softmax dimension(1) ins(%x : memref<3x4xf32>)
    outs(%o, %m, %a, %s : memref<3x4xf32>, memref<3xf32>, memref<3xf32>, memref<3xf32>)"""),
    "scan": ("%x: memref<3x4xf32>, %o: memref<3x4xf32>, %a: memref<4xf32>", """
  linalg_ext.scan dimension(0) inclusive(false) ins(%x : memref<3x4xf32>) outs(%o, %a : memref<3x4xf32>, memref<4xf32>) {
  ^bb0(%l: f32, %r: f32):
    %s = arith.addf %l, %r : f32
    linalg_ext.yield %s : f32
  }"""),
    "scatter": ("%i: memref<2x3x1xi32>, %u: memref<2x3x4xf32>, %s: memref<5x4xf32>", """
  linalg_ext.scatter ins(%i, %u : memref<2x3x1xi32>, memref<2x3x4xf32>) outs(%s : memref<5x4xf32>) {
  ^bb0(%l: f32, %r: f32):
    %t = arith.subf %l, %r : f32
    linalg_ext.yield %t : f32
  }"""),
    "topk": ("%x: memref<2x?x4xf32>, %v: memref<2x3x4xf32>, %i: memref<2x3x4xi32>", """
  linalg_ext.topk dimension(1) ins(%x : memref<2x?x4xf32>) outs(%v, %i : memref<2x3x4xf32>, memref<2x3x4xi32>) {
  ^bb0(%l: f32, %r: f32):
    %t = arith.cmpf ogt, %l, %r : f32
    linalg_ext.yield %t : i1
  }"""),
    "diag": ("%x: memref<2x?xf32>, %o: memref<2x?x?xf32>", """
  linalg_ext.diag ins(%x : memref<2x?xf32>) outs(%o : memref<2x?x?xf32>)"""),
    "layer_norm": ("%x: memref<2x3x4xf32>, %w: memref<3x4xf32>, %b: memref<3x4xf32>, %o: memref<2x3x4xf32>", """
  linalg_ext.layer_norm axis([1, 2]) epsilon(1.0e-3) ins(%x, %w, %b : memref<2x3x4xf32>, memref<3x4xf32>, memref<3x4xf32>)
    outs(%o : memref<2x3x4xf32>)"""),
    "batch_matmul": ("%a: memref<2x4x3xf32>, %b: memref<2x5x4xf32>, %c: memref<2x3x5xf32>", """
  linalg_ext.batch_matmul ins(%a, %b : memref<2x4x3xf32>, memref<2x5x4xf32>) outs(%c : memref<2x3x5xf32>) layout = "tt" """),
}  # fmt: skip


@pytest.mark.parametrize("name", EXTENSION)
def test_extension_ops(name: str) -> None:
    arguments, op = EXTENSION[name]
    text = f"func.func @f({arguments}) {{{op}\n  return\n}}"
    after = check_transformation(text, convert_linalg_ext_to_loops)
    assert count(after, f"linalg_ext.{name}") == 0 and count(after, "scf.for")


def test_loop_variables_and_loops_are_returned() -> None:
    text = """
#map = affine_map<(d0, d1) -> (d0, d1)>
#sum = affine_map<(d0, d1) -> (d0 + d1 * 2)>
func.func @f(%x: memref<7xf32>, %o: memref<2x3xf32>) {
  linalg.generic {indexing_maps = [#sum, #map], iterator_types = ["parallel", "parallel"]}
    ins(%x : memref<7xf32>) outs(%o : memref<2x3xf32>) {
  ^bb0(%in: f32, %out: f32):
    %i = linalg.index 1 : index
    %j = arith.index_cast %i : index to i32
    %k = arith.sitofp %j : i32 to f32
    %s = arith.addf %in, %k : f32
    linalg.yield %s : f32
  }
  return
}"""
    loops = []
    after = check_transformation(
        text, lambda m: loops.extend(lower_to_loops(next(op for op in m.walk() if op.name == "linalg.generic")))
    )
    assert [op.name for op in loops] == ["scf.for", "scf.for"] and loops[0].is_ancestor_of(loops[1])
    assert count(after, "affine.apply") == 1 and count(after, "memref.load") == 1


@pytest.mark.parametrize(
    ("op", "message"),
    [
        ("%r = tensor.empty() : tensor<2xf32>", "is not structured"),
        ("%r = linalg.exp ins(%x : tensor<2xf32>) outs(%x : tensor<2xf32>) -> tensor<2xf32>", "has tensors"),
    ],
)
def test_refused(op: str, message: str) -> None:
    module = parse_module(f"func.func @f(%x: tensor<2xf32>) {{\n  {op}\n  return\n}}")
    with pytest.raises(LinalgError, match=message) as error:
        lower_to_loops(module.body.operations[0].body.operations[0])
    assert error.value.line == 2


def test_an_empty_reduction_leaves_what_was_there() -> None:
    before, after = (function_with("linalg.matmul", [(2, 0), (0, 3), (2, 3)], TensorType) for _ in range(2))
    generalize_all(after)
    assert np.isfinite(check_equivalent(before, after)[0]).all()


def test_topk_keeps_the_order_of_equal_elements() -> None:
    text = """
func.func @f(%x: memref<9xi32>, %n: memref<9xindex>, %v: memref<4xi32>, %i: memref<4xindex>) {
  linalg_ext.topk dimension(0) ins(%x, %n : memref<9xi32>, memref<9xindex>) outs(%v, %i : memref<4xi32>, memref<4xindex>) {
  ^bb0(%l: i32, %r: i32):
    %t = arith.cmpi slt, %l, %r : i32
    linalg_ext.yield %t : i1
  }
  return
}"""
    module = parse_module(text)
    numbers = np.arange(9)
    for function in (lambda m: None, convert_linalg_ext_to_loops):
        after = module.clone()
        function(after)
        values, indices = np.array([5, 2, 5, 2], np.int32), np.array([10, 11, 12, 13])
        evaluate(after, "f", np.array([3, 2, 3, 2, 9, 3, 2, 2, 1], np.int32), numbers, values, indices)
        assert values.tolist() == [1, 2, 2, 2] and indices.tolist() == [8, 11, 13, 1]


def test_plain_softmax_is_evaluated_tiled_compiled_and_lowered() -> None:
    t = "tensor<6x8xf32>"
    text = f"""
func.func @f(%a: {t}, %b: {t}) -> {t} {{
  %0 = linalg.softmax dimension(1) ins(%a : {t}) outs(%b : {t}) -> {t}
  return %0 : {t}
}}"""
    data = np.random.default_rng(0).normal(size=(6, 8)).astype(np.float32)
    expected = np.exp(data) / np.exp(data).sum(1, keepdims=True)
    tiled = check_transformation(text, lambda m: tile(next(o for o in m.walk() if o.name == "linalg.softmax"), [4]))
    for module in (parse_module(text), tiled):
        np.testing.assert_allclose(evaluate(module, "f", data, data), expected, rtol=1e-5)
        np.testing.assert_allclose(compile(module, "f")(data, data), expected, rtol=1e-5)
    m = "memref<6x?xf32>"
    memrefs = f"""
func.func @f(%a: {m}, %b: {m}) {{
  linalg.softmax dimension(1) ins(%a : {m}) outs(%b : {m})
  return
}}"""
    assert count(check_transformation(memrefs, convert_linalg_to_loops), "linalg.softmax") == 0
