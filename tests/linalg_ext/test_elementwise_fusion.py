"""Elementwise fusion: the documented examples, what it must not fuse, random programs."""

from __future__ import annotations

import pytest

from tests.linalg_ext.equivalence import check_same, check_transformation, count, function_of, results_of
from tests.linalg_ext.random_programs import random_program
from xjit.linalg_ext.ir import Operation
from xjit.linalg_ext.structured import as_structured, verify_structured
from xjit.linalg_ext.text.parser import parse_module
from xjit.linalg_ext.text.printer import print_module
from xjit.linalg_ext.transforms.elementwise_fusion import fuse_elementwise
from xjit.linalg_ext.transforms.single_ops.collapse_dims import collapse_loops
from xjit.linalg_ext.transforms.single_ops.fold_unit_dims import fold_unit_extent_dims
from xjit.linalg_ext.transforms.single_ops.generalize import generalize_all

INPUT_SHARING = """
#map = affine_map<(d0, d1) -> (d0, d1)>
func.func @input_sharing(%arg0: tensor<?x?xf32>, %arg1: tensor<?x?xf32>, %arg2: tensor<?x?xf32>) -> (tensor<?x?xf32>, tensor<?x?xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %dim = tensor.dim %arg0, %c0 : tensor<?x?xf32>
  %dim_0 = tensor.dim %arg0, %c1 : tensor<?x?xf32>
  %0 = tensor.empty(%dim, %dim_0) : tensor<?x?xf32>
  %1 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0, %arg1 : tensor<?x?xf32>, tensor<?x?xf32>) outs(%0 : tensor<?x?xf32>) {
  ^bb0(%in: f32, %in_1: f32, %out: f32):
    %3 = arith.addf %in, %in_1 : f32
    linalg.yield %3 : f32
  } -> tensor<?x?xf32>
  %2 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0, %arg2 : tensor<?x?xf32>, tensor<?x?xf32>) outs(%0 : tensor<?x?xf32>) {
  ^bb0(%in: f32, %in_1: f32, %out: f32):
    %3 = arith.mulf %in, %in_1 : f32
    linalg.yield %3 : f32
  } -> tensor<?x?xf32>
  return %1, %2 : tensor<?x?xf32>, tensor<?x?xf32>
}
"""

INPUT_SHARING_FUSED = """
#map = affine_map<(d0, d1) -> (d0, d1)>
func.func @input_sharing(%arg0: tensor<?x?xf32>, %arg1: tensor<?x?xf32>, %arg2: tensor<?x?xf32>) -> (tensor<?x?xf32>, tensor<?x?xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %dim = tensor.dim %arg0, %c0 : tensor<?x?xf32>
  %dim_0 = tensor.dim %arg0, %c1 : tensor<?x?xf32>
  %0 = tensor.empty(%dim, %dim_0) : tensor<?x?xf32>
  %1:2 = linalg.generic {indexing_maps = [#map, #map, #map, #map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0, %arg1, %arg2 : tensor<?x?xf32>, tensor<?x?xf32>, tensor<?x?xf32>) outs(%0, %0 : tensor<?x?xf32>, tensor<?x?xf32>) {
  ^bb0(%in: f32, %in_1: f32, %in_2: f32, %out: f32, %out_3: f32):
    %2 = arith.addf %in, %in_1 : f32
    %3 = arith.mulf %in, %in_2 : f32
    linalg.yield %2, %3 : f32, f32
  } -> (tensor<?x?xf32>, tensor<?x?xf32>)
  return %1#0, %1#1 : tensor<?x?xf32>, tensor<?x?xf32>
}
"""

MAY_MORE_BREAK_OUTS_DEPENDENCY = """
#map = affine_map<(d0, d1) -> (d0, d1)>
func.func @may_more_break_outs_dependency(%arg0: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %0 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0 : tensor<?x?xf32>) outs(%arg0 : tensor<?x?xf32>) {
  ^bb0(%in: f32, %out: f32):
    %2 = arith.addf %in, %in : f32
    linalg.yield %2 : f32
  } -> tensor<?x?xf32>
  %1 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%0 : tensor<?x?xf32>) outs(%0 : tensor<?x?xf32>) {
  ^bb0(%in: f32, %out: f32):
    %2 = arith.mulf %in, %in : f32
    linalg.yield %2 : f32
  } -> tensor<?x?xf32>
  return %1 : tensor<?x?xf32>
}
"""

MAY_MORE_BREAK_OUTS_DEPENDENCY_FUSED = """
#map = affine_map<(d0, d1) -> (d0, d1)>
func.func @may_more_break_outs_dependency(%arg0: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %c1 = arith.constant 1 : index
  %c0 = arith.constant 0 : index
  %dim = tensor.dim %arg0, %c0 : tensor<?x?xf32>
  %dim_0 = tensor.dim %arg0, %c1 : tensor<?x?xf32>
  %0 = tensor.empty(%dim, %dim_0) : tensor<?x?xf32>
  %1 = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel", "parallel"]} ins(%arg0 : tensor<?x?xf32>) outs(%0 : tensor<?x?xf32>) {
  ^bb0(%in: f32, %out: f32):
    %2 = arith.addf %in, %in : f32
    %3 = arith.mulf %2, %2 : f32
    linalg.yield %3 : f32
  } -> tensor<?x?xf32>
  return %1 : tensor<?x?xf32>
}
"""

CONSTANT_IN_AFFINE_MAP_WITH_COLLAPSE_SHAPE = """
#map = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#map1 = affine_map<(d0, d1) -> (d0, 0)>
#map2 = affine_map<(d0, d1) -> (d0, d1)>

func.func @constant_in_affine_map_with_collapse_shape(%arg0: tensor<1x256x1024xf32>, %arg1: tensor<256x1024xf16>, %arg2: tensor<256x1xf32>, %arg3: tensor<256x1xf32>) -> tensor<256x1024xf32> {
  %expanded = tensor.expand_shape %arg1 [[0, 1], [2]] : tensor<256x1024xf16> into tensor<1x256x1024xf16>
  %0 = tensor.empty() : tensor<1x256x1024xf32>
  %1 = tensor.empty() : tensor<256x1024xf32>
  %2 = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%expanded, %arg0 : tensor<1x256x1024xf16>, tensor<1x256x1024xf32>) outs(%0 : tensor<1x256x1024xf32>) {
  ^bb0(%in: f16, %in_0: f32, %out: f32):
    %4 = arith.extf %in : f16 to f32
    %5 = arith.addf %in_0, %4 : f32
    linalg.yield %5 : f32
  } -> tensor<1x256x1024xf32>
  %collapsed = tensor.collapse_shape %2 [[0, 1], [2]] : tensor<1x256x1024xf32> into tensor<256x1024xf32>
  %3 = linalg.generic {indexing_maps = [#map1, #map1, #map2, #map2], iterator_types = ["parallel", "parallel"]} ins(%arg3, %arg2, %collapsed : tensor<256x1xf32>, tensor<256x1xf32>, tensor<256x1024xf32>) outs(%1 : tensor<256x1024xf32>) {
  ^bb0(%in: f32, %in_0: f32, %in_1: f32, %out: f32):
    %4 = arith.subf %in_1, %in_0 : f32
    %5 = arith.mulf %4, %in : f32
    linalg.yield %5 : f32
  } -> tensor<256x1024xf32>
  return %3 : tensor<256x1024xf32>
}
"""

CONSTANT_IN_AFFINE_MAP_WITH_COLLAPSE_SHAPE_FUSED = """
#map = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#map1 = affine_map<(d0, d1, d2) -> (d0, d1, 0)>
#map2 = affine_map<(d0, d1) -> (d0, d1)>
func.func @constant_in_affine_map_with_collapse_shape(%arg0: tensor<1x256x1024xf32>, %arg1: tensor<256x1024xf16>, %arg2: tensor<256x1xf32>, %arg3: tensor<256x1xf32>) -> tensor<256x1024xf32> {
  %expanded = tensor.expand_shape %arg1 [[0, 1], [2]] : tensor<256x1024xf16> into tensor<1x256x1024xf16>
  %expanded_0 = tensor.expand_shape %arg3 [[0, 1], [2]] : tensor<256x1xf32> into tensor<1x256x1xf32>
  %expanded_1 = tensor.expand_shape %arg2 [[0, 1], [2]] : tensor<256x1xf32> into tensor<1x256x1xf32>
  %0 = tensor.empty() : tensor<1x256x1024xf32>
  %1 = linalg.generic {indexing_maps = [#map, #map, #map1, #map1, #map], iterator_types = ["parallel", "parallel", "parallel"]} ins(%expanded, %arg0, %expanded_0, %expanded_1 : tensor<1x256x1024xf16>, tensor<1x256x1024xf32>, tensor<1x256x1xf32>, tensor<1x256x1xf32>) outs(%0 : tensor<1x256x1024xf32>) {
  ^bb0(%in: f16, %in_2: f32, %in_3: f32, %in_4: f32, %out: f32):
    %2 = arith.extf %in : f16 to f32
    %3 = arith.addf %in_2, %2 : f32
    %4 = arith.subf %3, %in_4 : f32
    %5 = arith.mulf %4, %in_3 : f32
    linalg.yield %5 : f32
  } -> tensor<1x256x1024xf32>
  %collapsed = tensor.collapse_shape %1 [[0, 1], [2]] : tensor<1x256x1024xf32> into tensor<256x1024xf32>
  return %collapsed : tensor<256x1024xf32>
}
"""


def lines(module: Operation) -> list[str]:
    """The lines of a module without the constants, which may stand anywhere."""
    return [line for line in print_module(module).splitlines() if "arith.constant" not in line]


def generics(module: Operation) -> int:
    return count(module, "linalg.generic")


@pytest.mark.parametrize(
    ("before", "expected"),
    [
        (INPUT_SHARING, INPUT_SHARING_FUSED),
        (MAY_MORE_BREAK_OUTS_DEPENDENCY, MAY_MORE_BREAK_OUTS_DEPENDENCY_FUSED),
        (CONSTANT_IN_AFFINE_MAP_WITH_COLLAPSE_SHAPE, CONSTANT_IN_AFFINE_MAP_WITH_COLLAPSE_SHAPE_FUSED),
    ],
    ids=["input_sharing", "break_outs_dependency", "constant_in_affine_map"],
)
def test_documented_examples(before: str, expected: str) -> None:
    small = before.replace("256", "4").replace("1024", "3")
    check_transformation(small, lambda m: fuse_elementwise(m, shared_input=True))
    module = parse_module(before)
    assert fuse_elementwise(module, shared_input=True)
    assert lines(module) == lines(parse_module(expected))


def test_ops_that_share_an_input_stay_apart_without_the_option() -> None:
    module = parse_module(INPUT_SHARING)
    assert not fuse_elementwise(module)
    assert generics(module) == 2


TRANSPOSED = """
#map = affine_map<(d0, d1) -> (d0, d1)>
#transposed = affine_map<(d0, d1) -> (d1, d0)>
func.func @f(%x: tensor<3x4xf32>, %y: tensor<4x3xf32>) -> (tensor<4x3xf32>, tensor<3x4xf32>) {
  %e = tensor.empty() : tensor<4x3xf32>
  %e1 = tensor.empty() : tensor<3x4xf32>
  %a = linalg.generic {indexing_maps = [#transposed, #map, #map], iterator_types = ["parallel", "parallel"]}
    ins(%x, %y : tensor<3x4xf32>, tensor<4x3xf32>) outs(%e : tensor<4x3xf32>) {
  ^bb0(%in: f32, %in_0: f32, %out: f32):
    %i = linalg.index 0 : index
    %j = arith.index_cast %i : index to i32
    %k = arith.sitofp %j : i32 to f32
    %s = arith.subf %in, %k : f32
    %t = arith.mulf %s, %in_0 : f32
    linalg.yield %t : f32
  } -> tensor<4x3xf32>
  %b = linalg.generic {indexing_maps = [#map, #transposed, #map], iterator_types = ["parallel", "parallel"]}
    ins(%x, %a : tensor<3x4xf32>, tensor<4x3xf32>) outs(%e1 : tensor<3x4xf32>) {
  ^bb0(%in: f32, %in_0: f32, %out: f32):
    %s = arith.divf %in, %in_0 : f32
    linalg.yield %s : f32
  } -> tensor<3x4xf32>
  return %a, %b : tensor<4x3xf32>, tensor<3x4xf32>
}"""


def test_loop_variables_and_transposes_between_producer_and_consumer() -> None:
    assert generics(check_transformation(TRANSPOSED, fuse_elementwise)) == 1


def test_users_of_an_intermediate_are_moved_behind_the_fused_op() -> None:
    text = """
#map = affine_map<(d0) -> (d0)>
func.func @f(%x: tensor<6xf32>) -> (tensor<6xf32>, tensor<2x3xf32>) {
  %e = tensor.empty() : tensor<6xf32>
  %a = linalg.generic {indexing_maps = [#map, #map], iterator_types = ["parallel"]}
    ins(%x : tensor<6xf32>) outs(%e : tensor<6xf32>) {
  ^bb0(%in: f32, %out: f32):
    %s = math.exp %in : f32
    linalg.yield %s : f32
  } -> tensor<6xf32>
  %c = tensor.cast %a : tensor<6xf32> to tensor<?xf32>
  %d = tensor.cast %c : tensor<?xf32> to tensor<6xf32>
  %w = tensor.expand_shape %d [[0, 1]] output_shape [2, 3] : tensor<6xf32> into tensor<2x3xf32>
  %b = linalg.generic {indexing_maps = [#map, #map, #map], iterator_types = ["parallel"]}
    ins(%a, %x : tensor<6xf32>, tensor<6xf32>) outs(%e : tensor<6xf32>) {
  ^bb0(%in: f32, %in_0: f32, %out: f32):
    %s = arith.addf %in, %in_0 : f32
    linalg.yield %s : f32
  } -> tensor<6xf32>
  return %b, %w : tensor<6xf32>, tensor<2x3xf32>
}"""
    assert generics(check_transformation(text, fuse_elementwise)) == 1


SOFTMAX = """
#map = affine_map<(d0, d1) -> (d0, d1)>
#row = affine_map<(d0, d1) -> (d0)>
func.func @f(%x: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<3x4xf32>
  %a = linalg.exp ins(%x : tensor<3x4xf32>) outs(%e : tensor<3x4xf32>) -> tensor<3x4xf32>
  %r = tensor.empty() : tensor<3xf32>
  %z = linalg.fill ins(%zero : f32) outs(%r : tensor<3xf32>) -> tensor<3xf32>
  %s = linalg.reduce { arith.addf } ins(%a : tensor<3x4xf32>) outs(%z : tensor<3xf32>) dimensions = [1]
  %d = linalg.generic {indexing_maps = [#map, #row, #map], iterator_types = ["parallel", "parallel"]}
    ins(%a, %s : tensor<3x4xf32>, tensor<3xf32>) outs(%e : tensor<3x4xf32>) {
  ^bb0(%in: f32, %in_0: f32, %out: f32):
    %q = arith.divf %in, %in_0 : f32
    linalg.yield %q : f32
  } -> tensor<3x4xf32>
  return %d : tensor<3x4xf32>
}"""


def test_a_reduction_takes_its_producer_and_keeps_it_as_a_result() -> None:
    after = check_transformation(SOFTMAX, lambda m: (generalize_all(m), fuse_elementwise(m)))
    assert count(after, "math.exp") == 1 and count(after, "arith.divf") == 1


def test_a_chain_becomes_one_op() -> None:
    chain = "\n".join(
        f"  %v{i} = linalg.tanh ins(%v{i - 1} : tensor<4xf32>) outs(%v0 : tensor<4xf32>) -> tensor<4xf32>"
        for i in range(1, 60)
    )
    module = parse_module(
        f"func.func @f(%v0: tensor<4xf32>) -> tensor<4xf32> {{\n{chain}\n  return %v59 : tensor<4xf32>\n}}"
    )
    generalize_all(module)
    fuse_elementwise(module)
    assert generics(module) == 1 and count(module, "math.tanh") == 59


def fold_all(module: Operation) -> None:
    for op in list(module.walk()):
        if op.name == "linalg.generic":
            fold_unit_extent_dims(op, fold_loops=True)


TRANSFORMATIONS = {
    "generalize": generalize_all,
    "fuse": fuse_elementwise,
    "fuse_shared": lambda m: fuse_elementwise(m, shared_input=True),
    "fuse_any_shape": lambda m: (generalize_all(m), fuse_elementwise(m, shared_input=True, diff_shapes=True)),
    "collapse": collapse_loops,
    "unit_dims": fold_all,
    "all": lambda m: (generalize_all(m), fold_all(m), fuse_elementwise(m, shared_input=True), collapse_loops(m)),
}


def check_random(seed: int) -> None:
    before = parse_module(random_program(seed, 4 + seed % 12))
    function = function_of(before)
    expected = results_of(function, before, seed)
    for transformation in TRANSFORMATIONS.values():
        after = before.clone()
        transformation(after)
        check_same(expected, results_of(function, after, seed))
        for op in after.walk():
            view = as_structured(op)
            if view is not None:
                verify_structured(view)


@pytest.mark.parametrize("seed", [*range(4), 6094])  # the last one expanded two ops in turns, without end
def test_random_programs(seed: int) -> None:
    check_random(seed)


@pytest.mark.slow
@pytest.mark.parametrize("start", range(1000, 6000, 250))
def test_many_random_programs(start: int) -> None:
    for seed in range(start, start + 250):
        check_random(seed)
