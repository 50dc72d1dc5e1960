"""Elementwise fusion: constants, sizes of loops, operands that are updated in place, and what stays apart for them."""

from __future__ import annotations

from tests.linalg_ext.equivalence import check_transformation, count
from xjit.linalg_ext.ir import Operation
from xjit.linalg_ext.text.printer import print_module
from xjit.linalg_ext.transforms.elementwise_fusion import fuse_elementwise


def generics(module: Operation) -> int:
    return count(module, "linalg.generic")


def elementwise(
    name: str, maps: str, kinds: str, inputs: str, outputs: str, arguments: str, body: str, result: str
) -> str:
    """One generic: operands as `%a : t, %b : u`, loops as letters p and r."""
    iterators = ", ".join({"p": '"parallel"', "r": '"reduction"'}[k] for k in kinds)
    ins = f"ins({inputs}) " if inputs else ""
    return f"""
  {name} = linalg.generic {{indexing_maps = [{maps}], iterator_types = [{iterators}]}} {ins}outs({outputs}) {{
  ^bb0({arguments}):
{body}
  }} -> {result}"""


ONE = "affine_map<(d0) -> (d0)>"
TWO = "affine_map<(d0, d1) -> (d0, d1)>"
SWAPPED = "affine_map<(d0, d1) -> (d1, d0)>"


def test_constants_and_fills_are_scalars_of_the_body() -> None:
    text = f"""
func.func @f(%x: tensor<?xf16>) -> tensor<?xf16> {{
  %c0 = arith.constant 0 : index
  %cst = arith.constant 7.0 : f32
  %two = arith.constant 2.0 : f16
  %three = arith.constant dense<3.0> : tensor<f16>
  %d = tensor.dim %x, %c0 : tensor<?xf16>
  %e = tensor.empty(%d) : tensor<?xf16>
  %fill = linalg.fill ins(%cst : f32) outs(%e : tensor<?xf16>) -> tensor<?xf16>
{
        elementwise(
            "%r",
            f"{ONE}, {ONE}, affine_map<(d0) -> ()>, affine_map<(d0) -> ()>, {ONE}",
            "p",
            "%x, %fill, %two, %three : tensor<?xf16>, tensor<?xf16>, f16, tensor<f16>",
            "%e : tensor<?xf16>",
            "%a: f16, %b: f16, %c: f16, %s: f16, %o: f16",
            '''
    %p = arith.addf %a, %b : f16
    %q = arith.mulf %p, %c : f16
    %t = arith.addf %q, %s : f16
    linalg.yield %t : f16''',
            "tensor<?xf16>",
        )
    }
  return %r : tensor<?xf16>
}}"""
    after = check_transformation(text, fuse_elementwise)
    assert count(after, "linalg.fill") == 0
    assert "ins(%arg0 : tensor<?xf16>) outs" in print_module(after)


def test_sizes_that_come_from_a_shape() -> None:
    text = f"""
func.func @f(%x: tensor<?x1xf32>) -> tensor<?x1xf32> {{
  %half = arith.constant 5.0e-01 : f32
  %c0 = arith.constant 0 : index
  %shape = shape.shape_of %x : tensor<?x1xf32> -> tensor<?xindex>
  %sizes = shape.to_extent_tensor %shape : tensor<?xindex> -> tensor<2xindex>
  %n = tensor.extract %sizes[%c0] : tensor<2xindex>
  %e = tensor.empty(%n) : tensor<?x1xf32>
{elementwise("%h", TWO, "pp", "", "%e : tensor<?x1xf32>", "%o: f32", "    linalg.yield %half : f32", "tensor<?x1xf32>")}
{
        elementwise(
            "%r",
            f"{TWO}, {TWO}, {TWO}",
            "pp",
            "%x, %h : tensor<?x1xf32>, tensor<?x1xf32>",
            "%e : tensor<?x1xf32>",
            "%a: f32, %b: f32, %o: f32",
            '''
    %s = arith.mulf %a, %b : f32
    linalg.yield %s : f32''',
            "tensor<?x1xf32>",
        )
    }
  return %r : tensor<?x1xf32>
}}"""
    assert generics(check_transformation(text, fuse_elementwise)) == 1


def test_a_constant_that_says_how_long_a_reduction_is_stays() -> None:
    text = f"""
func.func @f(%o: tensor<3xf32>) -> tensor<3xf32> {{
  %three = arith.constant dense<3.0> : tensor<3x2xf32>
{
        elementwise(
            "%r",
            f"{TWO}, affine_map<(d0, d1) -> (d0)>",
            "pr",
            "%three : tensor<3x2xf32>",
            "%o : tensor<3xf32>",
            "%a: f32, %b: f32",
            '''
    %s = arith.addf %a, %b : f32
    linalg.yield %s : f32''',
            "tensor<3xf32>",
        )
    }
  return %r : tensor<3xf32>
}}"""
    after = check_transformation(text, fuse_elementwise)
    assert " : tensor<3x2xf32>) outs" in print_module(after)


def test_a_producer_that_updates_in_place_is_a_result_of_the_fused_op() -> None:
    text = f"""
func.func @f(%x: tensor<4xf32>, %y: tensor<4xi32>) -> tensor<4xi32> {{
{
        elementwise(
            "%a",
            ONE,
            "p",
            "",
            "%x : tensor<4xf32>",
            "%o: f32",
            '''
    %s = arith.addf %o, %o : f32
    linalg.yield %s : f32''',
            "tensor<4xf32>",
        )
    }
{
        elementwise(
            "%b",
            f"{ONE}, {ONE}",
            "p",
            "%a : tensor<4xf32>",
            "%y : tensor<4xi32>",
            "%i: f32, %o: i32",
            '''
    %s = arith.fptosi %i : f32 to i32
    %t = arith.addi %s, %o : i32
    linalg.yield %t : i32''',
            "tensor<4xi32>",
        )
    }
  return %b : tensor<4xi32>
}}"""
    after = check_transformation(text, fuse_elementwise)
    assert generics(after) == 1 and "outs(%arg0, %arg1 : tensor<4xf32>, tensor<4xi32>)" in print_module(after)


def test_loop_variables_of_a_transposed_producer_come_first() -> None:
    body = """
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %k = arith.index_cast %i : index to i32
    %l = arith.index_cast %j : index to i32
    %m = arith.muli %a, %k : i32
    %n = arith.subi %m, %l : i32
    linalg.yield %n : i32"""
    t = "tensor<?x?xi32>"
    text = f"""
func.func @f(%x: {t}, %e: {t}) -> {t} {{
{elementwise("%p", f"{TWO}, {TWO}", "pp", f"%x : {t}", f"%e : {t}", "%a: i32, %o: i32", body, t)}
{elementwise("%q", f"{SWAPPED}, {SWAPPED}", "pp", f"%p : {t}", f"%e : {t}", "%a: i32, %o: i32", body, t)}
  return %q : {t}
}}"""
    after = check_transformation(text, fuse_elementwise)
    assert generics(after) == 1
    indices = [op.attributes["dim"].value for op in after.walk() if op.name == "linalg.index"]
    assert indices == [0, 1, 0, 1]


def test_results_that_say_how_long_a_loop_is_are_kept() -> None:
    text = f"""
func.func @f(%x: tensor<5xi64>, %y: tensor<5xi32>) -> tensor<5xi32> {{
{
        elementwise(
            "%a",
            ONE,
            "p",
            "",
            "%x : tensor<5xi64>",
            "%o: i64",
            '''
    %i = linalg.index 0 : index
    %j = arith.index_cast %i : index to i64
    linalg.yield %j : i64''',
            "tensor<5xi64>",
        )
    }
  %e = tensor.empty() : tensor<5xi32>
{
        elementwise(
            "%b",
            "affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d1)>",
            "pp",
            "%a : tensor<5xi64>",
            "%e : tensor<5xi32>",
            "%i: i64, %o: i32",
            '''
    %j = arith.index_cast %i : i64 to index
    %v = tensor.extract %y[%j] : tensor<5xi32>
    linalg.yield %v : i32''',
            "tensor<5xi32>",
        )
    }
  return %b : tensor<5xi32>
}}"""
    after = check_transformation(text, fuse_elementwise)
    assert generics(after) == 1 and "linalg.yield" in print_module(after)


def test_an_op_that_updates_its_producer_in_place_stays_apart() -> None:
    t = "tensor<4xf32>"
    text = f"""
func.func @f(%x: {t}, %e: {t}) -> {t} {{
{
        elementwise(
            "%a",
            f"{ONE}, {ONE}",
            "p",
            f"%x : {t}",
            f"%e : {t}",
            "%i: f32, %o: f32",
            '''
    %s = arith.addf %i, %i : f32
    linalg.yield %s : f32''',
            t,
        )
    }
{
        elementwise(
            "%b",
            f"{ONE}, {ONE}",
            "p",
            f"%a : {t}",
            f"%a : {t}",
            "%i: f32, %o: f32",
            '''
    %s = arith.mulf %i, %o : f32
    linalg.yield %s : f32''',
            t,
        )
    }
  return %b : {t}
}}"""
    assert generics(check_transformation(text, fuse_elementwise)) == 2


def test_an_op_whose_body_looks_into_its_producer_stays_apart() -> None:
    t = "tensor<4xf32>"
    text = f"""
func.func @f(%x: {t}, %e: {t}) -> {t} {{
  %c2 = arith.constant 2 : index
{
        elementwise(
            "%a",
            f"{ONE}, {ONE}",
            "p",
            f"%x : {t}",
            f"%e : {t}",
            "%i: f32, %o: f32",
            '''
    %s = arith.addf %i, %i : f32
    linalg.yield %s : f32''',
            t,
        )
    }
{
        elementwise(
            "%b",
            f"{ONE}, {ONE}",
            "p",
            f"%a : {t}",
            f"%e : {t}",
            "%i: f32, %o: f32",
            '''
    %v = tensor.extract %a[%c2] : tensor<4xf32>
    %s = arith.mulf %i, %v : f32
    linalg.yield %s : f32''',
            t,
        )
    }
  return %b : {t}
}}"""
    assert generics(check_transformation(text, lambda m: fuse_elementwise(m, shared_input=True))) == 2


def test_a_broadcast_that_says_how_long_a_reduction_is_stays_apart() -> None:
    text = f"""
func.func @f(%x: tensor<f32>, %o: tensor<3xf32>) -> tensor<3xf32> {{
  %e = tensor.empty() : tensor<2x3xf32>
{
        elementwise(
            "%a",
            f"affine_map<(d0, d1) -> ()>, {TWO}",
            "pp",
            "%x : tensor<f32>",
            "%e : tensor<2x3xf32>",
            "%i: f32, %u: f32",
            "    linalg.yield %i : f32",
            "tensor<2x3xf32>",
        )
    }
{
        elementwise(
            "%b",
            f"{SWAPPED}, affine_map<(d0, d1) -> (d0)>",
            "pr",
            "%a : tensor<2x3xf32>",
            "%o : tensor<3xf32>",
            "%i: f32, %u: f32",
            '''
    %s = arith.addf %i, %u : f32
    linalg.yield %s : f32''',
            "tensor<3xf32>",
        )
    }
  return %b : tensor<3xf32>
}}"""
    assert generics(check_transformation(text, fuse_elementwise)) == 2
