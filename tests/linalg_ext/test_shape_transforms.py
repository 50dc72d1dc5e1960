"""collapse_dims, fold_unit_extent_dims, outline: forms, values, and what is refused."""

from __future__ import annotations

import pytest

from tests.linalg_ext.equivalence import check_transformation, count
from xjit.linalg_ext.ir import LinalgError, Operation
from xjit.linalg_ext.text.parser import parse_module
from xjit.linalg_ext.text.printer import print_module
from xjit.linalg_ext.transforms.loops.outline import inline, outline
from xjit.linalg_ext.transforms.single_ops.collapse_dims import collapse_dims, collapse_loops
from xjit.linalg_ext.transforms.single_ops.fold_unit_dims import fold_unit_extent_dims
from xjit.linalg_ext.transforms.single_ops.interchange import interchange


def first(module: Operation, name: str = "linalg.generic") -> Operation:
    return next(op for op in module.walk() if op.name == name)


COLLAPSIBLE = """
#map = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>
#part = affine_map<(d0, d1, d2, d3) -> (d1, d2)>
#out = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>
func.func @f(%x: tensor<?x3x?x2xf32>, %y: tensor<3x?xf32>, %o: tensor<?x3x?xf32>) -> tensor<?x3x?xf32> {
  %r = linalg.generic {indexing_maps = [#map, #part, #out],
                       iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
    ins(%x, %y : tensor<?x3x?x2xf32>, tensor<3x?xf32>) outs(%o : tensor<?x3x?xf32>) {
  ^bb0(%in: f32, %in_0: f32, %out: f32):
    %i = linalg.index 2 : index
    %j = linalg.index 1 : index
    %k = arith.addi %i, %j : index
    %l = arith.index_cast %k : index to i32
    %m = arith.sitofp %l : i32 to f32
    %p = arith.mulf %in, %in_0 : f32
    %q = arith.addf %p, %m : f32
    %s = arith.addf %out, %q : f32
    linalg.yield %s : f32
  } -> tensor<?x3x?xf32>
  return %r : tensor<?x3x?xf32>
}"""


def test_collapse_dims_with_loop_variables_and_unknown_sizes() -> None:
    after = check_transformation(COLLAPSIBLE, lambda m: collapse_dims(first(m), [[1, 2]]))
    text = print_module(after)
    assert "tensor.collapse_shape %arg1 [[0, 1]] : tensor<3x?xf32> into tensor<?xf32>" in text
    assert "arith.divui" in text and "arith.remui" in text


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ([[0, 1]], "no neighbours"),
        ([[2, 3]], "no neighbours|reductions"),
        ([[2, 1]], "no neighbours"),
        ([[0], [0]], "groups of its 4 loops"),
        ([[7]], "groups of its 4 loops"),
    ],
)
def test_collapse_dims_refused(groups: list[list[int]], message: str) -> None:
    with pytest.raises(LinalgError, match=message):
        collapse_dims(first(parse_module(COLLAPSIBLE)), groups)


def test_loops_of_two_unknown_lengths_stay() -> None:
    text = """
#map = affine_map<(d0, d1) -> (d0, d1)>
func.func @f(%x: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %r = linalg.generic {indexing_maps = [#map], iterator_types = ["parallel", "parallel"]} outs(%x : tensor<?x?xf32>) {
  ^bb0(%out: f32):
    %s = arith.addf %out, %out : f32
    linalg.yield %s : f32
  } -> tensor<?x?xf32>
  return %r : tensor<?x?xf32>
}"""
    assert not collapse_loops(parse_module(text))


UNIT = """
#map = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#zero = affine_map<(d0, d1, d2) -> (0, d1, 0)>
func.func @f(%x: tensor<1x4x1xf32>, %y: tensor<1x4x?xf32>, %o: tensor<1x4x?xf32>) -> tensor<1x4x?xf32> {
  %r = linalg.generic {indexing_maps = [#zero, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%x, %y : tensor<1x4x1xf32>, tensor<1x4x?xf32>) outs(%o : tensor<1x4x?xf32>) {
  ^bb0(%in: f32, %in_0: f32, %out: f32):
    %s = arith.addf %in, %in_0 : f32
    linalg.yield %s : f32
  } -> tensor<1x4x?xf32>
  return %r : tensor<1x4x?xf32>
}"""


def test_unit_dimensions_that_are_read_at_zero() -> None:
    after = check_transformation(UNIT, lambda m: fold_unit_extent_dims(first(m)))
    text = print_module(after)
    assert "tensor.collapse_shape %arg0 [[0, 1, 2]] : tensor<1x4x1xf32> into tensor<4xf32>" in text
    assert count(after, "tensor.collapse_shape") == 1 and count(after, "tensor.expand_shape") == 0


def test_unit_loops() -> None:
    after = check_transformation(UNIT, lambda m: fold_unit_extent_dims(first(m), fold_loops=True))
    assert 'iterator_types = ["parallel", "parallel"]' in print_module(after)
    assert count(after, "tensor.expand_shape") == 1


OUTLINED = """
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = linalg.exp ins(%x : tensor<4xf32>) outs(%x : tensor<4xf32>) -> tensor<4xf32>
  %b = linalg.exp ins(%a : tensor<4xf32>) outs(%x : tensor<4xf32>) -> tensor<4xf32>
  return %b : tensor<4xf32>
}"""


def exps(module: Operation) -> list[Operation]:
    return [op for op in module.walk() if op.name == "linalg.exp"]


def test_outline_gives_each_its_own_function_and_inline_takes_it_back() -> None:
    def transform(module: Operation) -> None:
        functions, calls = outline(exps(module), "kernel")
        names = [f.attributes["sym_name"].value for f in functions]
        assert names[0] == "kernel" and len(set(names)) == 2 and len(calls) == 2

    after = check_transformation(OUTLINED, transform)
    assert count(after, "func.func") == 3
    for call in [op for op in after.walk() if op.name == "func.call"]:
        inline(call)
    assert count(after, "func.func") == 1 and count(after, "linalg.exp") == 2


def test_outline_as_library_calls() -> None:
    module = parse_module(OUTLINED)
    functions, calls = outline(exps(module), "vexp", libcall=True)
    assert len(functions) == 1 and len(calls) == 2
    assert "func.func private @vexp(tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>" in print_module(module)
    with pytest.raises(LinalgError, match="@vexp is no external function of type"):
        outline([first(parse_other(), "linalg.fill")], "vexp", libcall=True)


def parse_other() -> Operation:
    return parse_module("""
func.func private @vexp(tensor<4xf32>) -> tensor<4xf32>
func.func @g(%c: f32, %x: tensor<4xf32>) -> tensor<4xf32> {
  %a = linalg.fill ins(%c : f32) outs(%x : tensor<4xf32>) -> tensor<4xf32>
  return %a : tensor<4xf32>
}""")


def test_outline_refuses_code_that_uses_values_around_it() -> None:
    text = """
func.func @f(%c: f32, %x: tensor<4xf32>) -> tensor<4xf32> {
  %a = linalg.map ins(%x : tensor<4xf32>) outs(%x : tensor<4xf32>) (%e: f32) {
    %s = arith.addf %e, %c : f32
    linalg.yield %s : f32
  }
  return %a : tensor<4xf32>
}"""
    with pytest.raises(LinalgError, match="uses a value from outside"):
        outline([first(parse_module(text), "linalg.map")], "kernel")


def test_interchange_keeps_the_value() -> None:
    text = """
func.func @main(%a: tensor<3x4x5xf32>, %b: tensor<5x3xf32>) -> tensor<5x3xf32> {
  %0 = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (k, i)>],
      iterator_types = ["parallel", "reduction", "parallel"]} ins(%a : tensor<3x4x5xf32>) outs(%b : tensor<5x3xf32>) {
  ^bb0(%x: f32, %out: f32):
    %i = linalg.index 0 : index
    %k = linalg.index 2 : index
    %d = arith.subi %i, %k : index
    %n = arith.index_cast %d : index to i32
    %f = arith.sitofp %n : i32 to f32
    %p = arith.mulf %x, %f : f32
    %s = arith.addf %p, %out : f32
    linalg.yield %s : f32
  } -> tensor<5x3xf32>
  return %0 : tensor<5x3xf32>
}"""

    def changed(module: Operation) -> None:
        [generic] = [op for op in module.walk() if op.name == "linalg.generic"]
        interchange(generic, [2, 0, 1])

    module = check_transformation(text, changed)
    assert '["parallel", "parallel", "reduction"]' in print_module(module)


@pytest.mark.parametrize(
    ("name", "order", "message"),
    [("linalg.exp", [0], "generalize it first"), ("linalg.generic", [0, 0], "expected an interchange of 1 loops")],
)
def test_interchange_refused(name: str, order: list[int], message: str) -> None:
    module = parse_module("""
func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = linalg.exp ins(%a : tensor<4xf32>) outs(%a : tensor<4xf32>) -> tensor<4xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      outs(%0 : tensor<4xf32>) {
  ^bb0(%out: f32):
    linalg.yield %out : f32
  } -> tensor<4xf32>
  return %1 : tensor<4xf32>
}""")
    [op] = [each for each in module.walk() if each.name == name]
    with pytest.raises(LinalgError, match=message):
        interchange(op, order)
