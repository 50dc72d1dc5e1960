"""Tiling and fusing keep the values: executed before and after, on uneven sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.linalg_ext.equivalence import check_equivalent, check_transformation
from tests.linalg_ext.tiling_programs import random_program
from tests.linalg_ext.tiling_sequences import random_transformations
from tests.linalg_ext.tiling_support import ATTENTION, MATMUL, named, residual_blocks, resnet_block, root_of
from xjit import linalg_ext
from xjit.linalg_ext.ir import LinalgError, Operation
from xjit.linalg_ext.transforms import (
    Keep,
    fuse_ext,
    fuse_into_containing_op,
    fuse_operands,
    tile,
    tile_reduction_using_for,
    tile_reduction_using_forall,
    tile_to_forall,
)


def _checked(text: str, transformation: Callable[[Operation], Any]) -> Operation:
    """Also through the printed text."""

    def through_text(module: Operation) -> None:
        transformation(module)
        check_equivalent(linalg_ext.parse(text), linalg_ext.parse(linalg_ext.print_module(module)))

    return check_transformation(text, through_text)


@pytest.mark.parametrize("sizes", [[5, 4, 3], [0, 0, 3], [12, 2, 0]], ids=str)
@pytest.mark.parametrize("order", [[], [2, 1, 0]], ids=str)
def test_matmul(sizes: list[int], order: list[int]) -> None:
    _checked(MATMUL, lambda module: tile(root_of(module), sizes, order))
    _checked(MATMUL, lambda module: fuse_ext(root_of(module), sizes, order))


@pytest.mark.parametrize("sizes", [[7, 0, 7], [16, 8, 5], [8, 4, 5]], ids=str)
@pytest.mark.parametrize("order", [[], [2, 1, 0]], ids=str)
def test_attention(sizes: list[int], order: list[int]) -> None:
    _checked(ATTENTION, lambda module: fuse_ext(root_of(module), sizes, order))


@pytest.mark.parametrize("axis", ["nn", "nt"])
def test_batched_attention(axis: str) -> None:
    values = "2x11x3" if axis == "nn" else "2x3x11"
    text = f"""
func.func @main(%s: tensor<2x5x11xf32>, %v: tensor<{values}xf32>) -> (tensor<2x5x3xf32>, tensor<2x5xf32>) {{
  %zero = arith.constant 0.0 : f32
  %least = arith.constant 0xFF800000 : f32
  %0 = tensor.empty() : tensor<2x5x11xf32>
  %1 = tensor.empty() : tensor<2x5xf32>
  %2 = linalg.fill ins(%least : f32) outs(%1 : tensor<2x5xf32>) -> tensor<2x5xf32>
  %3 = linalg.fill ins(%zero : f32) outs(%1 : tensor<2x5xf32>) -> tensor<2x5xf32>
  %p:4 = linalg_ext.softmax dimension(2) ins(%s : tensor<2x5x11xf32>)
    outs(%0, %2, %3, %1 : tensor<2x5x11xf32>, tensor<2x5xf32>, tensor<2x5xf32>, tensor<2x5xf32>)
    : tensor<2x5x11xf32>, tensor<2x5xf32>, tensor<2x5xf32>, tensor<2x5xf32>
  %5 = tensor.empty() : tensor<2x5x3xf32>
  %6 = linalg.fill ins(%zero : f32) outs(%5 : tensor<2x5x3xf32>) -> tensor<2x5x3xf32>
  %7 = linalg_ext.batch_matmul ins(%p#0, %v : tensor<2x5x11xf32>, tensor<{values}xf32>)
    outs(%6 : tensor<2x5x3xf32>) layout = "{axis}" {{__root__}}
  return %7, %p#2 : tensor<2x5x3xf32>, tensor<2x5xf32>
}}"""
    module = _checked(text, lambda module: fuse_ext(root_of(module), [1, 2, 0, 4]))
    assert len(named(module, "linalg_ext.softmax")) == 1 and len(named(module, "linalg_ext.diag")) == 1


@pytest.mark.parametrize("sizes", [[0, 4, 0, 3], [0, 3, 2, 4]], ids=str)
def test_resnet_block(sizes: list[int]) -> None:
    _checked(resnet_block(7, 5, 4, 2), lambda module: fuse_ext(root_of(module), sizes))


def test_chain_of_residual_blocks() -> None:
    _checked(residual_blocks(5), lambda module: fuse_ext(root_of(module), [0, 3]))


def test_long_chain_of_inits() -> None:
    """Each operation writes into what the one before gives: longer than Python's stack is deep."""
    lines = [
        f"%v{i + 1} = linalg.add ins(%b, %b : tensor<4xf32>, tensor<4xf32>)"
        f" outs(%v{i} : tensor<4xf32>) -> tensor<4xf32>"
        for i in range(1100)
    ]
    text = "func.func @main(%v0: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {\n" + "\n".join(lines)
    module = linalg_ext.parse(text + "\nreturn %v1100 : tensor<4xf32>\n}")
    root = named(module, "linalg.add")[-1]
    assert len(fuse_ext(root, [2]).fused) == 1099


_RESHAPES = {
    "expand": ("12x16", "expand_shape %a [[0], [1, 2]] output_shape [12, 2, 8] {__root__}", "12x2x8"),
    "collapse": ("12x1x8x2", "collapse_shape %a [[0], [1, 2, 3]] {__root__}", "12x16"),
}


@pytest.mark.parametrize(
    ("kind", "sizes", "is_box"),
    [
        ("expand", [5, 1], True),
        ("expand", [0, 1, 4], True),
        ("expand", [0, 0, 3], False),
        ("collapse", [5, 4], True),
        ("collapse", [0, 2], True),
        ("collapse", [0, 3], False),
    ],
)
def test_reshapes(kind: str, sizes: list[int], is_box: bool) -> None:
    source, op, result = _RESHAPES[kind]
    text = f"""
func.func @main(%a: tensor<{source}xf32>) -> tensor<{result}xf32> {{
  %0 = tensor.{op} : tensor<{source}xf32> into tensor<{result}xf32>
  return %0 : tensor<{result}xf32>
}}"""
    if is_box:
        _checked(text, lambda module: tile(root_of(module), sizes))
    else:
        with pytest.raises(LinalgError, match="no box"):
            tile(root_of(linalg_ext.parse(text)), sizes)


@pytest.mark.parametrize(("index", "size"), [("d1 * 2", 8), ("d1 * 2", 7), ("0", 5), ("d1 + 2", 9), ("d1 + 2", 6)])
@pytest.mark.parametrize("keep", [Keep.USED, Keep.UNALIGNED, Keep.ALL])
def test_an_intermediate_is_a_result_of_the_loops_only_as_a_whole(index: str, size: int, keep: Keep) -> None:
    """Of what `elemwise_unary` gives, the root reads a part, in every iteration the same columns; what follows reads all of it."""
    wide = f"tensor<4x{size}xf32>"
    text = f"""
func.func @main(%a: {wide}) -> (tensor<4x4xf32>, {wide}) {{
  %0 = tensor.empty() : {wide}
  %1 = linalg.elemwise_unary ins(%a : {wide}) outs(%0 : {wide}) -> {wide}
  %2 = tensor.empty() : tensor<4x4xf32>
  %3 = linalg.generic {{
    indexing_maps = [affine_map<(d0, d1) -> (d0, {index})>, affine_map<(d0, d1) -> (d0, d1)>],
    iterator_types = ["parallel", "parallel"]
  }} ins(%1 : {wide}) outs(%2 : tensor<4x4xf32>) attrs = {{__root__}} {{
  ^bb0(%x: f32, %y: f32):
    linalg.yield %x : f32
  }} -> tensor<4x4xf32>
  return %3, %1 : tensor<4x4xf32>, {wide}
}}"""
    _checked(text, lambda module: fuse_ext(root_of(module), [3, 0], keep=keep))


def test_a_tile_in_the_padding_has_no_window() -> None:
    """The producer of a padded tensor is a convolution: a tile of padding only must not read beyond its image."""
    text = """
func.func @main(%a: tensor<1x9x2xf32>, %k: tensor<3x2x2xf32>) -> tensor<1x16x2xf32> {
  %zero = arith.constant 0.0 : f32
  %0 = tensor.empty() : tensor<1x7x2xf32>
  %1 = linalg.fill ins(%zero : f32) outs(%0 : tensor<1x7x2xf32>) -> tensor<1x7x2xf32>
  %2 = linalg.conv_1d_nwc_wcf {dilations = dense<1> : tensor<1xi64>, strides = dense<1> : tensor<1xi64>}
    ins(%a, %k : tensor<1x9x2xf32>, tensor<3x2x2xf32>) outs(%1 : tensor<1x7x2xf32>) -> tensor<1x7x2xf32>
  %3 = tensor.pad %2 low[0, 3, 0] high[0, 6, 0] {
  ^bb0(%i: index, %j: index, %k0: index):
    tensor.yield %zero : f32
  } : tensor<1x7x2xf32> to tensor<1x16x2xf32>
  %4 = linalg.elemwise_unary {__root__} ins(%3 : tensor<1x16x2xf32>) outs(%3 : tensor<1x16x2xf32>)
    -> tensor<1x16x2xf32>
  return %4 : tensor<1x16x2xf32>
}"""
    for size in (2, 3, 8):
        module = _checked(text, lambda module, size=size: fuse_ext(root_of(module), [0, size]))
        [convolution] = named(module, "linalg.conv_1d_nwc_wcf")
        assert (convolution.parent_op is not None and convolution.parent_op.name == "scf.for") == (size > 6)


_TOPK = """
func.func @main(%s: tensor<5x20xf32>, %v: tensor<5x3xf32>, %i: tensor<5x3xi32>) -> (tensor<5x3xf32>, tensor<5x3xi32>) {
  %0:2 = linalg_ext.topk dimension(1) ins(%s: tensor<5x20xf32>) outs(%v, %i : tensor<5x3xf32>, tensor<5x3xi32>) {
  ^bb0(%a: f32, %b: f32):
    %1 = arith.cmpf ogt, %a, %b : f32
    linalg_ext.yield %1 : i1
  } -> tensor<5x3xf32>, tensor<5x3xi32>
  return %0#0, %0#1 : tensor<5x3xf32>, tensor<5x3xi32>
}"""

_SCATTER = """
func.func @main(%src: tensor<2x3x4xf32>, %at: tensor<6x2xi64>, %update: tensor<6x4xf32>) -> tensor<2x3x4xf32> {
  %0 = linalg_ext.scatter ins(%at, %update: tensor<6x2xi64>, tensor<6x4xf32>) outs(%src: tensor<2x3x4xf32>) {
  ^bb0(%a: f32, %b: f32):
    %1 = arith.addf %a, %b : f32
    linalg_ext.yield %1 : f32
  } -> tensor<2x3x4xf32>
  return %0 : tensor<2x3x4xf32>
}"""

_LAYER_NORM = """
func.func @main(%x: tensor<5x4x6xf32>, %w: tensor<6xf32>, %b: tensor<6xf32>) -> tensor<5x4x6xf32> {
  %0 = tensor.empty() : tensor<5x4x6xf32>
  %1 = linalg_ext.layer_norm axis([2]) epsilon(1.0e-6) ins(%x, %w, %b: tensor<5x4x6xf32>, tensor<6xf32>, tensor<6xf32>)
    outs(%0: tensor<5x4x6xf32>) : tensor<5x4x6xf32>
  return %1 : tensor<5x4x6xf32>
}"""


@pytest.mark.parametrize(
    ("name", "text", "sizes"),
    [
        ("topk", _TOPK, [2, 0]),
        ("topk", _TOPK, [2, 7]),
        ("scatter", _SCATTER, [4, 3]),
        ("layer_norm", _LAYER_NORM, [2, 3]),
    ],
)
@pytest.mark.parametrize("order", [[], [1, 0]], ids=str)
def test_extension_ops(name: str, text: str, sizes: list[int], order: list[int]) -> None:
    _checked(text, lambda module: tile(named(module, f"linalg_ext.{name}")[0], sizes, order))


_PRODUCER = """
func.func @main(%a: tensor<12x20xf32>, %b: tensor<12x20xf32>, %c: tensor<12xf32>) -> (tensor<12xf32>, tensor<12x20xf32>) {
  %0 = linalg.elemwise_unary ins(%a : tensor<12x20xf32>) outs(%b : tensor<12x20xf32>) -> tensor<12x20xf32>
  %1 = linalg.reduce { arith.addf } ins(%0 : tensor<12x20xf32>) outs(%c : tensor<12xf32>) dimensions = [1]
  return %1, %0 : tensor<12xf32>, tensor<12x20xf32>
}
"""


def _reduce(module: Operation) -> Operation:
    return named(module, "linalg.reduce")[0]


@pytest.mark.parametrize("count", [3, 5, 7, 30])
def test_split_reductions(count: int) -> None:
    _checked(_PRODUCER, lambda module: tile_reduction_using_for(_reduce(module), [0, count]))
    _checked(_PRODUCER, lambda module: tile_reduction_using_forall(_reduce(module), [0, count]))
    _checked(_PRODUCER, lambda module: tile_reduction_using_forall(_reduce(module), [0, count], [0, 2]))


@pytest.mark.parametrize("count", [5, 8, 12])
def test_forall(count: int) -> None:
    _checked(_PRODUCER, lambda module: tile_to_forall(_reduce(module), tile_sizes=[count]))
    _checked(_PRODUCER, lambda module: tile_to_forall(_reduce(module), num_threads=[count]))


def test_fuse_into_containing_op() -> None:
    def fused(module: Operation) -> None:
        producer = named(module, "linalg.elemwise_unary")[0]
        [loop] = tile_to_forall(_reduce(module), tile_sizes=[5]).loops
        [tiled] = fuse_into_containing_op(producer, loop)
        assert tiled.parent_op is loop

    _checked(_PRODUCER, fused)


@pytest.mark.parametrize(("count", "is_whole"), [(3, True), (2, False)])
def test_a_loop_that_writes_a_part_keeps_what_the_producer_wrote(count: int, is_whole: bool) -> None:
    text = f"""
#map = affine_map<(d0) -> (d0 * 4)>
func.func @main(%a: tensor<12xf32>) -> tensor<12xf32> {{
  %half = arith.constant 0.5 : f32
  %0 = tensor.empty() : tensor<12xf32>
  %1 = linalg.fill ins(%half : f32) outs(%0 : tensor<12xf32>) -> tensor<12xf32>
  %2 = scf.forall (%i) in ({count}) shared_outs(%out = %1) -> (tensor<12xf32>) {{
    %3 = affine.apply #map(%i)
    %4 = tensor.extract_slice %a[%3] [4] [1] : tensor<12xf32> to tensor<4xf32>
    %5 = tensor.extract_slice %out[%3] [4] [1] : tensor<12xf32> to tensor<4xf32>
    %6 = linalg.add ins(%4, %5 : tensor<4xf32>, tensor<4xf32>) outs(%5 : tensor<4xf32>) -> tensor<4xf32>
    scf.forall.in_parallel {{
      tensor.parallel_insert_slice %6 into %out[%3] [4] [1] : tensor<4xf32> into tensor<12xf32>
    }}
  }}
  return %2 : tensor<12xf32>
}}"""

    def fused(module: Operation) -> None:
        [fill], [loop] = named(module, "linalg.fill"), named(module, "scf.forall")
        if is_whole:
            [tiled] = fuse_into_containing_op(fill, loop)
            assert tiled.parent_op is loop
        else:
            with pytest.raises(LinalgError, match="not used inside"):
                fuse_into_containing_op(fill, loop)

    _checked(text, fused)


@pytest.mark.parametrize(("count", "is_whole"), [("12 ceildiv s0", True), ("s0 - s0 + 2", False)])
def test_a_loop_gives_later_users_what_it_computed_of_a_producer(count: str, is_whole: bool) -> None:
    text = f"""
#count = affine_map<()[s0] -> ({count})>
#start = affine_map<(d0)[s0] -> (d0 * s0)>
#size = affine_map<(d0)[s0] -> (12 - d0 * s0, s0)>
func.func @main(%a: tensor<12xf32>, %b: tensor<12xf32>) -> (tensor<12xf32>, tensor<12xf32>) {{
  %n = arith.constant 5 : index
  %0 = linalg.exp ins(%a : tensor<12xf32>) outs(%b : tensor<12xf32>) -> tensor<12xf32>
  %1 = affine.apply #count()[%n]
  %2 = scf.forall (%i) in (%1) shared_outs(%out = %b) -> (tensor<12xf32>) {{
    %3 = affine.apply #start(%i)[%n]
    %4 = affine.min #size(%i)[%n]
    %5 = tensor.extract_slice %0[%3] [%4] [1] : tensor<12xf32> to tensor<?xf32>
    %6 = tensor.extract_slice %out[%3] [%4] [1] : tensor<12xf32> to tensor<?xf32>
    %7 = linalg.negf ins(%5 : tensor<?xf32>) outs(%6 : tensor<?xf32>) -> tensor<?xf32>
    scf.forall.in_parallel {{
      tensor.parallel_insert_slice %7 into %out[%3] [%4] [1] : tensor<?xf32> into tensor<12xf32>
    }}
  }}
  return %2, %0 : tensor<12xf32>, tensor<12xf32>
}}"""

    def fused(module: Operation) -> None:
        [producer], [loop] = named(module, "linalg.exp"), named(module, "scf.forall")
        fuse_into_containing_op(producer, loop)
        assert len(loop.results) == (2 if is_whole else 1)
        assert len(named(module, "linalg.exp")) == (1 if is_whole else 2)

    _checked(text, fused)


@pytest.mark.parametrize("numbers", [[4], [5], [7], [5, 6]], ids=str)
def test_fuse_operands(numbers: list[int]) -> None:
    text = _PRODUCER.replace("return %1, %0 : tensor<12xf32>", "return %0, %0 : tensor<12x20xf32>")
    text = text.replace("-> (tensor<12xf32>", "-> (tensor<12x20xf32>")
    _checked(text, lambda module: fuse_operands(named(module, "func.return")[0], numbers))


def _check_random(seed: int) -> None:
    text = random_program(seed)
    before = linalg_ext.parse(text)
    module = before.clone()
    done = random_transformations(module, seed)
    try:
        after = linalg_ext.parse(linalg_ext.print_module(module))
        check_equivalent(before, after, seed, tolerance=1e-7)
    except Exception as error:
        raise AssertionError(f"seed {seed}: {done}") from error


@pytest.mark.parametrize("seed", [*range(30), 2154, 910643, 2001694, 2004304])  # in the last ones tiles may be empty
def test_random_sequences_of_transformations_keep_the_value(seed: int) -> None:
    _check_random(seed)


@pytest.mark.slow
@pytest.mark.parametrize("block", range(50))
def test_many_random_sequences_of_transformations_keep_the_value(block: int) -> None:
    """5,000 programs."""
    for seed in range(1000 + 100 * block, 1000 + 100 * (block + 1)):
        _check_random(seed)
