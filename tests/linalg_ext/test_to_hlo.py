"""Functions as machine code compute what the evaluator computes, before and after transformations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.linalg_ext.equivalence import function_of, random_array
from tests.linalg_ext.random_programs import random_program as random_elementwise_program
from tests.linalg_ext.tiling_programs import random_program as random_tiling_program
from tests.linalg_ext.tiling_sequences import random_transformations
from tests.linalg_ext.tiling_support import ATTENTION, MATMUL, residual_blocks, resnet_block, root_of
from xjit import linalg_ext
from xjit.linalg_ext.evaluation import evaluate_with_undefined
from xjit.linalg_ext.ir import LinalgError, Operation
from xjit.linalg_ext.transforms import fuse_ext, tile, tile_to_forall

Transformation = Callable[[Operation], Any]


def check_compiled(module: Operation, seed: int = 0, tolerance: float = 1e-4) -> None:
    """Compares machine code with the evaluator, where elements are defined."""
    function = function_of(module)
    name = function.attributes["sym_name"].value
    rng = np.random.default_rng(seed)
    arguments = [random_array(argument.type, rng) for argument in function.body.arguments]
    found = linalg_ext.compile(module, name)(*arguments)
    results = list(found) if isinstance(found, tuple) else [found]
    expected = evaluate_with_undefined(module, name, *arguments)
    assert len(results) == len(expected)
    for result, (value, undefined) in zip(results, expected):
        assert result.dtype == value.dtype and result.shape == value.shape
        a, b = (x[~undefined].astype(np.float64) for x in (result, value))
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def check_before_and_after(text: str, transformation: Transformation) -> Operation:
    check_compiled(linalg_ext.parse(text))
    module = linalg_ext.parse(text)
    transformation(module)
    check_compiled(module)
    return module


@pytest.mark.parametrize("sizes", [[4, 3, 5], [5, 0, 3]], ids=str)
def test_tiled_matmul(sizes: list[int]) -> None:
    """Even tiles, uneven tiles, tiles of the reduction."""
    check_before_and_after(MATMUL, lambda module: tile(root_of(module), sizes))


@pytest.mark.parametrize("sizes", [[8, 4, 5]], ids=str)
def test_fused_attention(sizes: list[int]) -> None:
    check_before_and_after(ATTENTION, lambda module: fuse_ext(root_of(module), sizes))


def test_fused_resnet_block() -> None:
    """Tiles at the border of the image differ: the loop is unrolled."""
    check_before_and_after(resnet_block(6, 3, 3, 2), lambda module: fuse_ext(root_of(module), [0, 3, 0, 0]))


def test_fused_residual_blocks() -> None:
    check_before_and_after(residual_blocks(2), lambda module: fuse_ext(root_of(module), [0, 2]))


def test_even_tiles_are_one_loop() -> None:
    module = linalg_ext.parse(MATMUL)
    tile(root_of(module), [4, 3, 5])
    text = str(linalg_ext.to_hlo(module, "main"))
    assert text.count(" while(") == 3 and text.count(" dot(") == 1


def test_a_smaller_last_tile_stands_behind_the_loop() -> None:
    module = linalg_ext.parse(MATMUL)
    tile(root_of(module), [5, 0, 0])
    text = str(linalg_ext.to_hlo(module, "main"))
    assert text.count(" while(") == 1 and text.count(" dot(") == 2


@pytest.mark.parametrize("seed", range(3))
def test_random_programs(seed: int) -> None:
    """Before and after elementwise fusion."""
    check_before_and_after(
        random_elementwise_program(seed),
        lambda module: linalg_ext.run_passes(module, ["linalg-fuse-elementwise-ext", "canonicalize-ext", "cse"]),
    )


@pytest.mark.parametrize("sizes", [[4, 3, 0], [5, 0, 0]], ids=str)
def test_parallel_tiles(sizes: list[int]) -> None:
    """As a loop, and unrolled."""
    check_before_and_after(MATMUL, lambda module: tile_to_forall(root_of(module), sizes))


def test_scalar_operations() -> None:
    """On integers of both signs, and on NaN."""
    names = ["floordivsi", "ceildivsi", "divsi", "remsi", "divui", "remui", "maxui", "minui", "shrui", "shrsi"]
    floats = ["maxnumf", "minnumf", "maximumf", "remf"]
    unary = ["exp2", "log2", "log10", "atan", "round", "roundeven"]
    compared = ["ult", "uge", "one", "ueq", "ord", "uno", "une", "oge"]
    lines = [f"%{name} = arith.{name} %a, %b : i32" for name in names]
    lines += [f"%{name} = arith.{name} %x, %y : f32" for name in floats]
    lines += [f"%{name} = math.{name} %y : f32" for name in unary]
    lines += [f"%c{name} = arith.cmpf {name}, %x, %y : f32" for name in compared]
    lines += ["%u = arith.cmpi ult, %a, %b : i32", "%e = arith.extui %u : i1 to i32", "%s = arith.extsi %u : i1 to i32"]
    kinds = [("i32", n) for n in [*names, "e", "s"]] + [("f32", n) for n in (*floats, *unary)]
    kinds += [("i1", f"c{n}") for n in compared]
    results, types = ", ".join(f"%{n}" for _, n in kinds), ", ".join(t for t, _ in kinds)
    operations = "\n".join(lines)
    module = linalg_ext.parse(
        f"func.func @main(%a: i32, %b: i32, %x: f32, %y: f32) -> ({types}) {{\n{operations}\n"
        f"return {results} : {types}\n}}"
    )
    compiled = linalg_ext.compile(module, "main")
    for a, b, x, y in [(7, -2, 1.5, 2.5), (-7, 2, np.nan, 0.5), (-6, -3, -3.0, np.nan), (0, 5, 2.0, 2.0)]:
        arguments = np.int32(a), np.int32(b), np.float32(x), np.float32(y)
        for (_, name), found, expected in zip(
            kinds, compiled(*arguments), linalg_ext.evaluate(module, "main", *arguments)
        ):
            if not (name in ("shrui", "shrsi") and b < 0):  # by more than the bits there are: anything
                np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6, err_msg=f"{name} of {arguments}")


def test_extension_ops() -> None:
    check_compiled(
        linalg_ext.parse("""
func.func @main(%x: tensor<2x5xf32>, %s: tensor<3x5xf32>, %w: tensor<5xf32>, %p: tensor<2x1xi32>)
  -> (tensor<2x3xf32>, tensor<2x3xi32>, tensor<3x5xf32>, tensor<2x5xf32>, tensor<2xf32>, tensor<2x5x5xf32>,
      tensor<2x5xf32>) {
  %v = tensor.empty() : tensor<2x3xf32>
  %i = tensor.empty() : tensor<2x3xi32>
  %t:2 = linalg_ext.topk dimension(1) ins(%x : tensor<2x5xf32>) outs(%v, %i : tensor<2x3xf32>, tensor<2x3xi32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.cmpf ugt, %a, %b : f32
    linalg_ext.yield %c : i1
  } -> tensor<2x3xf32>, tensor<2x3xi32>
  %u = linalg_ext.scatter ins(%p, %x : tensor<2x1xi32>, tensor<2x5xf32>) outs(%s : tensor<3x5xf32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.subf %a, %b : f32
    linalg_ext.yield %c : f32
  } -> tensor<3x5xf32>
  %e = tensor.empty() : tensor<2x5xf32>
  %f = tensor.empty() : tensor<2xf32>
  %c:2 = linalg_ext.scan dimension(1) inclusive(true) ins(%x : tensor<2x5xf32>)
    outs(%e, %f : tensor<2x5xf32>, tensor<2xf32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.mulf %a, %b : f32
    linalg_ext.yield %c : f32
  } -> tensor<2x5xf32>, tensor<2xf32>
  %o = tensor.empty() : tensor<2x5x5xf32>
  %d = linalg_ext.diag ins(%x : tensor<2x5xf32>) outs(%o : tensor<2x5x5xf32>) : tensor<2x5x5xf32>
  %n = linalg_ext.layer_norm axis([1]) epsilon(1.0e-5) ins(%x, %w, %w : tensor<2x5xf32>, tensor<5xf32>, tensor<5xf32>)
    outs(%e : tensor<2x5xf32>) : tensor<2x5xf32>
  return %t#0, %t#1, %u, %c#0, %c#1, %d, %n : tensor<2x3xf32>, tensor<2x3xi32>, tensor<3x5xf32>, tensor<2x5xf32>,
    tensor<2xf32>, tensor<2x5x5xf32>, tensor<2x5xf32>
}""")
    )


def test_any_body_is_reduced_in_order() -> None:
    """Horner's rule is no sum of terms; what overwrites its output leaves the last one."""
    module = linalg_ext.parse("""
func.func @main(%x: tensor<3x4x2xf32>, %z: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>) {
  %half = arith.constant 0.5 : f32
  %0:2 = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (k, i)>,
      affine_map<(i, j, k) -> (k, i)>], iterator_types = ["parallel", "reduction", "parallel"]}
    ins(%x : tensor<3x4x2xf32>) outs(%z, %z : tensor<2x3xf32>, tensor<2x3xf32>) {
  ^bb0(%a: f32, %t: f32, %l: f32):
    %1 = arith.mulf %t, %half : f32
    %2 = arith.addf %1, %a : f32
    %n = linalg.index 1 : index
    %m = arith.index_cast %n : index to i32
    %f = arith.sitofp %m : i32 to f32
    %g = arith.addf %f, %a : f32
    linalg.yield %2, %g : f32, f32
  } -> (tensor<2x3xf32>, tensor<2x3xf32>)
  return %0#0, %0#1 : tensor<2x3xf32>, tensor<2x3xf32>
}""")
    check_compiled(module)


def test_windows_are_gathered() -> None:
    module = linalg_ext.parse("""
func.func @main(%x: tensor<1x7x3xf32>, %k: tensor<3x3xf32>, %w: tensor<2xf32>, %z: tensor<1x3x3xf32>)
    -> (tensor<1x3x3xf32>, tensor<1x3x3xf32>) {
  %0 = linalg.depthwise_conv_1d_nwc_wc {strides = dense<2> : tensor<1xi64>, dilations = dense<1> : tensor<1xi64>}
    ins(%x, %k : tensor<1x7x3xf32>, tensor<3x3xf32>) outs(%z : tensor<1x3x3xf32>) -> tensor<1x3x3xf32>
  %1 = linalg.pooling_nwc_max {strides = dense<2> : tensor<1xi64>, dilations = dense<2> : tensor<1xi64>}
    ins(%x, %w : tensor<1x7x3xf32>, tensor<2xf32>) outs(%z : tensor<1x3x3xf32>) -> tensor<1x3x3xf32>
  return %0, %1 : tensor<1x3x3xf32>, tensor<1x3x3xf32>
}""")
    check_compiled(module)


@pytest.mark.parametrize("name,image,kernel,result", [
    ("conv_2d_nhwc_fhwc", "2x10x8x3", "4x3x2x3", "2x4x6x4"),
    ("conv_2d_nchw_fchw", "2x3x10x8", "4x3x3x2", "2x4x4x6"),
])  # fmt: skip
def test_convolutions(name: str, image: str, kernel: str, result: str) -> None:
    """With steps, holes, and an image that is larger than what windows touch."""
    image, kernel, result = (f"tensor<{shape}xf32>" for shape in (image, kernel, result))
    attributes = "{strides = dense<[2, 1]> : tensor<2xi64>, dilations = dense<[1, 2]> : tensor<2xi64>}"
    module = linalg_ext.parse(f"""
func.func @main(%x: {image}, %k: {kernel}, %z: {result}) -> {result} {{
  %0 = linalg.{name} {attributes} ins(%x, %k : {image}, {kernel}) outs(%z : {result}) -> {result}
  return %0 : {result}
}}""")
    assert str(linalg_ext.to_hlo(module, "main")).count(" convolution(") == 1
    check_compiled(module)


def test_branches_calls_and_loops_of_unknown_length() -> None:
    module = linalg_ext.parse("""
func.func @twice(%x: tensor<4xf32>) -> tensor<4xf32> {
  %e = tensor.empty() : tensor<4xf32>
  %0 = linalg.add ins(%x, %x : tensor<4xf32>, tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @main(%x: tensor<4xf32>, %n: index, %c: i1) -> (tensor<4xf32>, index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%t = %x, %s = %c0) -> (tensor<4xf32>, index) {
    %m = affine.apply affine_map<(d0) -> (d0 mod 4)>(%i)
    %y = tensor.extract_slice %t[%m] [1] [1] : tensor<4xf32> to tensor<1xf32>
    %u = tensor.insert_slice %y into %t[0] [1] [2] : tensor<1xf32> into tensor<4xf32>
    %v = func.call @twice(%u) : (tensor<4xf32>) -> tensor<4xf32>
    %w = affine.min affine_map<(d0, d1) -> (d0 * 3, d1 + 2)>(%i, %s)
    scf.yield %v, %w : tensor<4xf32>, index
  }
  %q = scf.if %c -> (tensor<4xf32>) {
    scf.yield %r#0 : tensor<4xf32>
  } else {
    %e = tensor.empty() : tensor<4xf32>
    %z = linalg.exp ins(%r#0 : tensor<4xf32>) outs(%e : tensor<4xf32>) -> tensor<4xf32>
    scf.yield %z : tensor<4xf32>
  }
  return %q, %r#1 : tensor<4xf32>, index
}""")
    compiled = linalg_ext.compile(module, "main")
    x = np.array([3, 1, -2, 0.5], np.float32)
    for count, condition in ((3, True), (0, False), (2, False)):
        expected = linalg_ext.evaluate(module, "main", x, count, condition)
        found = compiled(x, np.int64(count), np.bool_(condition))
        np.testing.assert_allclose(found[0], expected[0], rtol=1e-5)
        assert int(found[1]) == int(expected[1])


def test_empty_tensors_are_followed_into_calls() -> None:
    """The inits of a softmax: a maximum of 0 would be greater than all of its elements."""
    check_compiled(
        linalg_ext.parse("""
func.func @main(%x: tensor<2x5xf32>) -> (tensor<2x5xf32>, tensor<2xf32>) {
  %c = arith.constant dense<-200.0> : tensor<2x5xf32>
  %e = tensor.empty() : tensor<2x5xf32>
  %y = linalg.add ins(%x, %c : tensor<2x5xf32>, tensor<2x5xf32>) outs(%e : tensor<2x5xf32>) -> tensor<2x5xf32>
  %m = tensor.empty() : tensor<2xf32>
  %s = tensor.empty() : tensor<2xf32>
  %r:2 = func.call @rows(%y, %m, %s)
    : (tensor<2x5xf32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<2x5xf32>, tensor<2xf32>)
  return %r#0, %r#1 : tensor<2x5xf32>, tensor<2xf32>
}
func.func @rows(%x: tensor<2x5xf32>, %m: tensor<2xf32>, %s: tensor<2xf32>) -> (tensor<2x5xf32>, tensor<2xf32>) {
  %e = tensor.empty() : tensor<2x5xf32>
  %f = tensor.empty() : tensor<2xf32>
  %t:4 = linalg_ext.softmax dimension(1) ins(%x : tensor<2x5xf32>)
    outs(%e, %m, %s, %f : tensor<2x5xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>)
    : tensor<2x5xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
  return %t#0, %t#1 : tensor<2x5xf32>, tensor<2xf32>
}""")
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(300))
def test_many_random_programs(seed: int) -> None:
    """Before and after random tiling and fusing."""
    check_compiled(linalg_ext.parse(random_elementwise_program(seed)), seed)
    module = linalg_ext.parse(random_tiling_program(seed))
    check_compiled(module, seed)
    random_transformations(module, seed)
    check_compiled(module, seed)


def compile_error(text: str) -> LinalgError:
    with pytest.raises(LinalgError) as caught:
        linalg_ext.compile(linalg_ext.parse(text), "main")
    return caught.value


def test_memrefs_are_refused() -> None:
    error = compile_error("func.func @main(%a: memref<4xf32>) {\n  return\n}")
    assert "cannot compile argument 0 of type memref<4xf32>" in error.message and error.span is not None


def test_dynamic_shapes_are_refused() -> None:
    error = compile_error("func.func @main(%a: tensor<?xf32>) -> tensor<?xf32> {\n  return %a : tensor<?xf32>\n}")
    assert "argument 0 of type tensor<?xf32>" in error.message and error.span is not None


def test_sizes_of_the_run_time_are_refused() -> None:
    error = compile_error("""
func.func @main(%n: index) -> tensor<?xf32> {
  %0 = tensor.empty(%n) : tensor<?xf32>
  return %0 : tensor<?xf32>
}""")
    assert "'tensor.empty': a size is known at run time only" in error.message and error.span is not None
    assert error.span.line == 3


def test_parts_of_empty_tensors_are_no_elements_of_topk() -> None:
    error = compile_error("""
func.func @main(%x: tensor<2x5xf32>, %i: tensor<2x3xi32>) -> tensor<2x3xf32> {
  %e = tensor.empty() : tensor<4x3xf32>
  %v = tensor.extract_slice %e[0, 0] [2, 3] [1, 1] : tensor<4x3xf32> to tensor<2x3xf32>
  %t:2 = linalg_ext.topk dimension(1) ins(%x : tensor<2x5xf32>) outs(%v, %i : tensor<2x3xf32>, tensor<2x3xi32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.cmpf ogt, %a, %b : f32
    linalg_ext.yield %c : i1
  } -> tensor<2x3xf32>, tensor<2x3xi32>
  return %t#0 : tensor<2x3xf32>
}""")
    assert "parts of an empty tensor" in error.message and error.span is not None
