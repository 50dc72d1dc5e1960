"""Rewrites of single operations and loops keep the value, on shapes that divide and that do not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.linalg_ext.equivalence import check_transformation, count
from tests.linalg_ext.tiling_programs import random_program
from tests.linalg_ext.tiling_support import MATMUL, named
from xjit import linalg_ext
from xjit.linalg_ext.ir import FloatAttr, FloatType, LinalgError, Operation
from xjit.linalg_ext.transforms import tile
from xjit.linalg_ext.transforms.loops.coalesce import coalesce
from xjit.linalg_ext.transforms.loops.scf_loops import move_invariants_out, peel, unroll
from xjit.linalg_ext.transforms.reductions.split_reduction import split_reduction
from xjit.linalg_ext.transforms.single_ops.decompose import decompose, decompose_window
from xjit.linalg_ext.transforms.single_ops.destination_passing import (
    insert_slice_to_copy,
    rewrite_in_destination_passing_style,
)
from xjit.linalg_ext.transforms.single_ops.detensorize import detensorize_all
from xjit.linalg_ext.transforms.single_ops.small_rewrites import decompose_concat
from xjit.linalg_ext.transforms.tiling.pad_operands import pad
from xjit.linalg_ext.transforms.tiling.split import split

DYNAMIC = MATMUL.replace("12x10", "?x10").replace("12x9", "?x9").replace("tensor.empty()", "tensor.empty(%n)")
DYNAMIC = DYNAMIC.replace("%b: tensor<10x9xf32>", "%b: tensor<10x9xf32>, %c0: index").replace(
    "%0 =", "%zero_index = arith.constant 0 : index\n  %n = tensor.dim %a, %zero_index : tensor<?x10xf32>\n  %0 ="
)
ZERO = FloatAttr(0.0, FloatType("f32"))


def on_all(name: str, rewrite: Callable[[Operation], object]) -> Callable[[Operation], None]:
    """Returns what rewrites all operations of a name that there are at the start."""

    def run(module: Operation) -> None:
        for op in named(module, name):
            rewrite(op)

    return run


@pytest.mark.parametrize("text", [MATMUL, DYNAMIC], ids=["static", "dynamic"])
@pytest.mark.parametrize("loop", range(3))
@pytest.mark.parametrize("point", [1, 5, 100])
def test_split(text: str, loop: int, point: int) -> None:
    after = check_transformation(text, on_all("linalg.matmul", lambda op: split(op, loop, point)))
    known_to_end_before = point == 100 and (text is MATMUL or loop)
    assert count(after, "linalg.matmul") == (1 if known_to_end_before else 2)


@pytest.mark.parametrize("sizes", [[5, 0, 0], [5, 4, 0], [5, 4, 3]], ids=str)
@pytest.mark.parametrize("text", [MATMUL, DYNAMIC], ids=["static", "dynamic"])
def test_pad_tiles(text: str, sizes: list[int]) -> None:
    def padded(module: Operation) -> None:
        [matmul] = named(module, "linalg.matmul")
        tiled = tile(matmul, sizes).tiled_op
        result = pad(tiled, [ZERO] * 3, [0, 1, 2], [1, 0, 0])
        assert all("?" not in str(v.type) for v in result.op.operands)

    check_transformation(text, padded)


@pytest.mark.parametrize("factor", [2, 3, 7])
@pytest.mark.parametrize("sizes", [[5, 0, 0], [5, 4, 0], [5, 4, 3]], ids=str)
@pytest.mark.parametrize("text", [MATMUL, DYNAMIC], ids=["static", "dynamic"])
def test_unroll(text: str, sizes: list[int], factor: int) -> None:
    def unrolled(module: Operation) -> None:
        [matmul] = named(module, "linalg.matmul")
        for loop in reversed(tile(matmul, sizes).loops):
            unroll(loop, factor)

    check_transformation(text, unrolled)


@pytest.mark.parametrize("sizes", [[5, 0, 0], [5, 4, 0], [5, 4, 3], [7, 5, 11]], ids=str)
@pytest.mark.parametrize("text", [MATMUL, DYNAMIC], ids=["static", "dynamic"])
def test_peel(text: str, sizes: list[int]) -> None:
    def peeled(module: Operation) -> None:
        [matmul] = named(module, "linalg.matmul")
        for loop in reversed(tile(matmul, sizes).loops):
            try:
                peel(loop)
            except LinalgError as error:
                assert "failed to peel" in error.message

    check_transformation(text, peeled)


BOUNDS = """
func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
  %low = arith.constant LOW : index
  %high = arith.constant HIGH : index
  %dim = arith.constant 4 : index
  %u = arith.addi %high, %dim : index
  %upper = arith.subi %u, %dim : index
  %step = arith.constant STEP : index
  %0 = scf.for %i = %low to %upper step %step iter_args(%y = %x) -> (tensor<4xf32>) {
    %j = arith.index_cast %i : index to i32
    %v = arith.sitofp %j : i32 to f32
    %c0 = arith.constant 0 : index
    %e = tensor.extract %y[%c0] : tensor<4xf32>
    %s = arith.addf %e, %v : f32
    %z = tensor.insert %s into %y[%c0] : tensor<4xf32>
    scf.yield %z : tensor<4xf32>
  }
  return %0 : tensor<4xf32>
}
"""


@pytest.mark.parametrize("low", [0, 5])
@pytest.mark.parametrize("high", [1, 2, 9, 12])
@pytest.mark.parametrize("step", [2, 3])
def test_loops_of_unknown_length(low: int, high: int, step: int) -> None:
    """Also of none: a loop from 5 to 2 has no iteration, and no part of it has any."""
    text = BOUNDS.replace("LOW", str(low)).replace("HIGH", str(high)).replace("STEP", str(step))
    for factor in (2, 5):
        check_transformation(text, on_all("scf.for", lambda loop, factor=factor: unroll(loop, factor)))
    check_transformation(text, on_all("scf.for", peel))
    assert count(check_transformation(text, on_all("scf.for", move_invariants_out)), "scf.for") == 1


@pytest.mark.parametrize("division", ["arith.floordivsi", "index.divs"])
def test_a_division_stays_in_a_loop_that_may_not_run(division: str) -> None:
    types = " : index" if division.startswith("arith") else ""
    text = f"""
    func.func @f(%x: index, %upper: index) -> index {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %0 = scf.for %i = %c0 to %upper step %c1 iter_args(%y = %x) -> (index) {{
        %1 = {division} %x, %upper{types}
        scf.yield %1 : index
      }}
      return %0 : index
    }}"""
    module = linalg_ext.parse(text)
    [loop] = named(module, "scf.for")
    move_invariants_out(loop)
    assert [op.name for op in loop.body.operations] == [division, "scf.yield"]


def _moved(module: Operation) -> None:
    for op in list(module.walk()):
        if op.name in ("tensor.pad", "tensor.generate", "tensor.from_elements"):
            rewrite_in_destination_passing_style(op)
        elif op.name == "tensor.insert_slice" and op.operands[0].type.rank == op.operands[1].type.rank:
            insert_slice_to_copy(op)
    detensorize_all(module)


@pytest.mark.parametrize("seed", range(8))
def test_random_programs(seed: int) -> None:
    def rewritten(module: Operation) -> None:
        for op in [op for op in module.walk() if op.dialect == "linalg" and op.results]:
            try:
                split(op, seed % 2, 1 + seed % 3)
            except LinalgError as error:
                assert "cannot be" in error.message or "loops, found" in error.message
        _moved(module)
        linalg_ext.run_passes(module, ["canonicalize", "cse"])

    check_transformation(random_program(seed), rewritten, seed)


def test_pads_that_depend_on_the_place() -> None:
    text = """
    func.func @f(%a: tensor<3x4xindex>, %n: index) -> tensor<?x9xindex> {
      %0 = tensor.pad %a low[%n, 2] high[1, 3] {
      ^bb0(%i: index, %j: index):
        %1 = arith.muli %i, %j : index
        tensor.yield %1 : index
      } : tensor<3x4xindex> to tensor<?x9xindex>
      return %0 : tensor<?x9xindex>
    }"""
    assert count(check_transformation(text, _moved), "tensor.pad") == 0


@pytest.mark.parametrize("copy_back", ["none", "linalg.copy", "bufferization.materialize_in_destination"])
@pytest.mark.parametrize("text", [MATMUL, DYNAMIC], ids=["static", "dynamic"])
def test_pad_to_multiples_and_copy_back(text: str, copy_back: str) -> None:
    def padded(module: Operation) -> None:
        [matmul] = named(module, "linalg.matmul")
        result = pad(tile(matmul, [5, 4, 3]).tiled_op, [ZERO] * 3, [0, 1, 2], multiples=[4, 2, 3], copy_back=copy_back)
        assert [str(v.type) for v in result.op.operands] == ["tensor<8x3xf32>", "tensor<3x4xf32>", "tensor<8x4xf32>"]
        assert [op.name for op in result.copies] == [copy_back] * (copy_back != "none")

    check_transformation(text, padded)


@pytest.mark.parametrize("text", [MATMUL, DYNAMIC], ids=["static", "dynamic"])
@pytest.mark.parametrize(("factor", "position"), [(2, 0), (5, 1), (10, 2), (1, 0)])
@pytest.mark.parametrize("inner_parallel", [False, True])
def test_split_reduction(text: str, factor: int, position: int, inner_parallel: bool) -> None:
    def rewrite(op: Operation) -> None:
        made = split_reduction(op, factor, position, inner_parallel)
        assert made.empty.result.type.shape[position] == factor

    after = check_transformation(text, on_all("linalg.matmul", rewrite))
    assert count(after, "linalg.generic") == 2


@pytest.mark.parametrize(
    ("factor", "position", "message"),
    [(3, 0, "3 does not divide"), (0, 0, "0 does not divide"), (2, 3, "no place 3"), (2, -1, "no place -1")],
)
def test_split_reduction_refuses(factor: int, position: int, message: str) -> None:
    module = linalg_ext.parse(MATMUL)
    before = str(module)
    with pytest.raises(LinalgError, match=message):
        split_reduction(named(module, "linalg.matmul")[0], factor, position)
    assert str(module) == before
    with pytest.raises(LinalgError, match="no reduction"):
        split_reduction(named(module, "linalg.fill")[0], 2, 0)


@pytest.mark.parametrize("sizes", [[5, 4, 3], [5, 4, 0], [12, 2, 5]], ids=str)
def test_coalesce(sizes: list[int]) -> None:
    def rewrite(module: Operation) -> None:
        loops = tile(named(module, "linalg.matmul")[0], sizes).loops
        coalesce(loops[0])

    after = check_transformation(MATMUL, rewrite)
    assert count(after, "scf.for") == 1


def test_coalesce_with_a_loop_that_has_no_trips() -> None:
    text = """func.func @main(%t: tensor<4xf32>, %x: f32) -> tensor<4xf32> {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c4 = arith.constant 4 : index
      %r = scf.for %i = %c0 to %c4 step %c1 iter_args(%a = %t) -> (tensor<4xf32>) {
        %q = scf.for %j = %c0 to %c0 step %c1 iter_args(%b = %a) -> (tensor<4xf32>) {
          %z = tensor.insert %x into %b[%i] : tensor<4xf32>
          scf.yield %z : tensor<4xf32>
        }
        scf.yield %q : tensor<4xf32>
      }
      return %r : tensor<4xf32>
    }"""
    module = linalg_ext.parse(text)
    coalesce(named(module, "scf.for")[0])
    values = np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(linalg_ext.evaluate(module, "main", values, np.float32(9)), values)


def test_coalesce_needs_known_bounds() -> None:
    module = linalg_ext.parse(DYNAMIC)
    loops = tile(named(module, "linalg.matmul")[0], [5, 4]).loops
    with pytest.raises(LinalgError, match="no perfect nest"):
        coalesce(loops[0])
    with pytest.raises(LinalgError, match="no perfect nest"):
        coalesce(loops[1])


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_decompose_softmax(axis: int) -> None:
    kind = "tensor<4x?x3xf32>"
    text = f"""func.func @main(%a: {kind}, %o: {kind}) -> {kind} {{
      %0 = linalg.softmax dimension({axis}) ins(%a : {kind}) outs(%o : {kind}) -> {kind}
      return %0 : {kind}
    }}"""
    after = check_transformation(text, on_all("linalg.softmax", decompose))
    assert count(after, "linalg.generic") == 4
    module = linalg_ext.parse(MATMUL)
    with pytest.raises(LinalgError, match="not made of other ops"):
        decompose(named(module, "linalg.matmul")[0])


WINDOWS = [
    ("conv_2d", "1x7, 1x3, 1x5", ""),
    ("conv_2d", "7x2, 3x1, 5x1", ""),
    ("conv_2d_nhwc_hwcf", "2x1x9x3, 1x3x3x4, 2x1x4x4", "{strides = dense<[1, 2]> : tensor<2xi64>}"),
    ("conv_2d_nchw_fchw", "2x3x9x2, 4x3x3x1, 2x4x5x1", "{dilations = dense<[2, 1]> : tensor<2xi64>}"),
    ("depthwise_conv_2d_nhwc_hwc", "2x3x8x3, 1x3x3, 2x1x3x3", "{strides = dense<2> : tensor<2xi64>}"),
    ("depthwise_conv_2d_nchw_chw", "2x3x1x7, 3x1x3, 2x3x1x5", ""),
    ("pooling_nhwc_max", "2x8x1x3, 3x1, 2x6x1x3", ""),
    ("pooling_nchw_sum", "2x3x1x8, 1x3, 2x3x1x6", ""),
]


@pytest.mark.parametrize(
    "name, shapes, attributes", WINDOWS, ids=[f"{name}-{i}" for i, (name, *_) in enumerate(WINDOWS)]
)
def test_decompose_window(name: str, shapes: str, attributes: str) -> None:
    image, window, result = (f"tensor<{shape}xf32>" for shape in shapes.split(", "))
    text = f"""
    func.func @main(%a: {image}, %b: {window}, %c: {result}) -> {result} {{
      %0 = linalg.{name} {attributes} ins(%a, %b : {image}, {window}) outs(%c : {result}) -> {result}
      return %0 : {result}
    }}"""
    after = check_transformation(text, on_all(f"linalg.{name}", decompose_window))
    assert count(after, f"linalg.{name}") == 0
    assert any("1d" in op.name or "nwc" in op.name or "ncw" in op.name for op in after.walk())


@pytest.mark.parametrize("shapes", ["5x7, 3x3, 3x5", "3x7, 1x3, 3x5", "3x7, 3x3, 1x5"])
def test_windows_that_stay(shapes: str) -> None:
    image, window, result = (f"tensor<{shape}xf32>" for shape in shapes.split(", "))
    module = linalg_ext.parse(f"""
    func.func @main(%a: {image}, %b: {window}, %c: {result}) -> {result} {{
      %0 = linalg.conv_2d ins(%a, %b : {image}, {window}) outs(%c : {result}) -> {result}
      return %0 : {result}
    }}""")
    with pytest.raises(LinalgError, match="not made of an op with a dimension less"):
        decompose_window(named(module, "linalg.conv_2d")[0])


@pytest.mark.parametrize("shapes", [("4x3", "4x2"), ("4x?", "4x3", "4x?"), ("4x3",)])
@pytest.mark.parametrize("axis", [0, 1])
def test_decompose_concat(shapes: tuple[str, ...], axis: int) -> None:
    shapes = tuple(s if axis else "x".join(reversed(s.split("x"))) for s in shapes)
    known = all("?" not in s for s in shapes)
    total = str(sum(int(s.split("x")[axis]) for s in shapes)) if known else "?"
    result = f"tensor<{f'4x{total}' if axis else f'{total}x4'}xf32>"
    types = [f"tensor<{s}xf32>" for s in shapes]
    arguments = ", ".join(f"%a{i}: {t}" for i, t in enumerate(types))
    names = ", ".join(f"%a{i}" for i in range(len(types)))
    text = f"""
    func.func @main({arguments}) -> {result} {{
      %0 = tensor.concat dim({axis}) {names} : ({", ".join(types)}) -> {result}
      return %0 : {result}
    }}"""
    after = check_transformation(text, lambda module: decompose_concat(named(module, "tensor.concat")[0]))
    assert count(after, "tensor.concat") == 0
