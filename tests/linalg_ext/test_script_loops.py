"""Loops as functions, parallel loops in order, two sizes of tiles, flat elementwise ops: the value is kept."""

from __future__ import annotations

import pytest

from tests.linalg_ext.equivalence import check_transformation, count
from tests.linalg_ext.tiling_support import MATMUL, named
from xjit.linalg_ext import parse, run_passes
from xjit.linalg_ext.ir import LinalgError, Operation
from xjit.linalg_ext.transforms import tile, tile_to_forall
from xjit.linalg_ext.transforms.fusion.fuse_in_forall import fuse_in_forall
from xjit.linalg_ext.transforms.loops.forall_to_for import forall_to_for
from xjit.linalg_ext.transforms.loops.fuse_sibling import fuse_sibling
from xjit.linalg_ext.transforms.loops.outline import outline_loop
from xjit.linalg_ext.transforms.loops.unroll_affine import unroll_affine
from xjit.linalg_ext.transforms.single_ops.collapse_dims import flatten_elementwise
from xjit.linalg_ext.transforms.tiling.continuous_sizes import continuous_tile_sizes
from xjit.linalg_ext.transforms.tiling.multitile import multitile_sizes
from xjit.linalg_ext.transforms.tiling.split import split


@pytest.mark.parametrize("sizes", [[5, 0, 0], [5, 4, 0], [0, 2, 0]], ids=str)
def test_forall_to_for(sizes: list[int]) -> None:
    def in_order(module: Operation) -> None:
        [matmul] = named(module, "linalg.matmul")
        [loop] = tile_to_forall(matmul, sizes).loops
        assert len(forall_to_for(loop)) == sum(map(bool, sizes))

    after = check_transformation(MATMUL, in_order)
    assert count(after, "scf.forall") == 0 and count(after, "tensor.insert_slice") == 1


READS_ANOTHER_TILE = """
func.func @main(%a: tensor<6xf32>) -> tensor<6xf32> {
  %0 = scf.forall (%i) in (5) shared_outs(%o = %a) -> (tensor<6xf32>) {
    %t = tensor.extract_slice %o[%i] [1] [1] : tensor<6xf32> to tensor<1xf32>
    %j = affine.apply affine_map<(d0) -> (d0 + 1)>(%i)
    scf.forall.in_parallel {
      tensor.parallel_insert_slice %t into %o[%j] [1] [1] : tensor<1xf32> into tensor<6xf32>
    }
  }
  return %0 : tensor<6xf32>
}
"""


def test_iterations_in_order_do_not_see_what_others_insert() -> None:
    check_transformation(READS_ANOTHER_TILE, lambda module: forall_to_for(named(module, "scf.forall")[0]))


@pytest.mark.parametrize("which", [0, 1])
def test_outline_loop(which: int) -> None:
    def outlined(module: Operation) -> None:
        [matmul] = named(module, "linalg.matmul")
        function, call = outline_loop(tile(matmul, [5, 4]).loops[which], "rows")
        assert str(function.attributes["sym_name"]) == '"rows"' and str(call.attributes["callee"]) == "@rows"

    after = check_transformation(MATMUL, outlined)
    assert count(after, "func.call") == 1 and count(after, "scf.execute_region") == 1


@pytest.mark.parametrize("target, divisor", [(5, 1), (4, 2), (12, 1), (7, 3), (1, 1), (100, 4)])
def test_multitile_sizes(target: int, divisor: int) -> None:
    def tiled(module: Operation) -> None:
        [matmul] = named(module, "linalg.matmul")
        low, high, point = multitile_sizes(matmul, 0, target, divisor)
        assert isinstance(low, int) and isinstance(high, int) and isinstance(point, int)
        assert low % divisor == high % divisor == 0 and low <= target and high == low + divisor
        assert point % low == 0 and (12 - point) % high == 0
        if 0 < point < 12:
            first, second = split(matmul, 0, point)
            tile(second, [high])
            tile(first, [low])

    check_transformation(MATMUL, tiled)


def test_multitile_sizes_of_unknown_lengths() -> None:
    text = """
    func.func @main(%a: tensor<?xf32>, %b: tensor<?xf32>) -> tensor<?xf32> {
      %0 = linalg.exp ins(%a : tensor<?xf32>) outs(%b : tensor<?xf32>) -> tensor<?xf32>
      return %0 : tensor<?xf32>
    }"""

    def tiled(module: Operation) -> None:
        [op] = named(module, "linalg.exp")
        low, high, point = multitile_sizes(op, 0, 2)
        first, second = split(op, 0, point)
        tile(second, [high])
        tile(first, [low])

    check_transformation(text, tiled)


ELEMENTWISE = """
func.func @main(%a: tensor<4x6xf32>, %b: tensor<4x6xf32>, %s: f32) -> tensor<4x6xf32> {
  %0 = linalg.add ins(%a, %b : tensor<4x6xf32>, tensor<4x6xf32>) outs(%a : tensor<4x6xf32>) -> tensor<4x6xf32>
  %1 = linalg.map { math.absf } ins(%0 : tensor<4x6xf32>) outs(%b : tensor<4x6xf32>)
  return %1 : tensor<4x6xf32>
}
"""


def test_flatten_elementwise() -> None:
    def flat(module: Operation) -> None:
        for name in ("linalg.add", "linalg.map"):
            assert len(flatten_elementwise(named(module, name)[0]).attributes["iterator_types"].elements) == 1  # type: ignore[attr-defined]

    check_transformation(ELEMENTWISE, flat)


def test_what_is_refused() -> None:
    module = parse(MATMUL)
    [matmul] = named(module, "linalg.matmul")
    for action, error in (
        (lambda: forall_to_for(matmul), "is no scf.forall"),
        (lambda: outline_loop(matmul, "f"), "is no loop"),
        (lambda: flatten_elementwise(matmul), "is not elementwise"),
        (lambda: multitile_sizes(matmul, 3, 4), "along loop 3 of 3"),
        (lambda: multitile_sizes(matmul, 0, 4, 5), "no tiles of 4 by 5"),
        (lambda: multitile_sizes(matmul, 0, 5, 5), "5 does not divide 12"),
    ):
        with pytest.raises(LinalgError, match=error):
            action()


TRANSPOSED = """
func.func @main(%a: tensor<4x3xf32>, %b: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %0 = linalg.elementwise kind=#linalg.elementwise_kind<exp>
    indexing_maps = [affine_map<(d0, d1) -> (d1, d0)>, affine_map<(d0, d1) -> (d0, d1)>]
    ins(%a : tensor<4x3xf32>) outs(%b : tensor<3x4xf32>) -> tensor<3x4xf32>
  return %0 : tensor<3x4xf32>
}
"""


def test_what_is_refused_stays_as_it_is() -> None:
    module = parse(TRANSPOSED)
    before = str(module)
    with pytest.raises(LinalgError, match="they are no neighbours"):
        flatten_elementwise(named(module, "linalg.elementwise")[0])
    assert str(module) == before
    empty = parse(TRANSPOSED.replace("3", "0").replace("f02", "f32"))
    with pytest.raises(LinalgError, match="no tiles along loop 0, which has no iterations"):
        multitile_sizes(named(empty, "linalg.elementwise")[0], 0, 4)


@pytest.mark.parametrize("rows", ["12", "?"])
@pytest.mark.parametrize("target", [1, 3, 5, 9, 100])
def test_continuous_tile_sizes(rows: str, target: int) -> None:
    """Each part of the loop is whole tiles of its size, and all parts are the loop."""

    def parts(module: Operation) -> None:
        [rest] = named(module, "linalg.matmul")
        sizes = continuous_tile_sizes(rest, 0, target)
        assert [size for size, _ in sizes] == sorted({size for size, _ in sizes}, reverse=True)
        for size, covered in sizes:
            if isinstance(covered, int):
                assert covered % size == 0
            first, *others = split(rest, 0, covered)
            if size > 1:
                tile(first, [size])
            rest = others[0] if others else first

    text = f"""
    func.func @main(%a: tensor<{rows}x10xf32>, %b: tensor<10x9xf32>, %c: tensor<{rows}x9xf32>) -> tensor<{rows}x9xf32> {{
      %0 = linalg.matmul ins(%a, %b : tensor<{rows}x10xf32>, tensor<10x9xf32>) outs(%c : tensor<{rows}x9xf32>)
        -> tensor<{rows}x9xf32>
      return %0 : tensor<{rows}x9xf32>
    }}"""
    check_transformation(text, parts)


def test_a_body_that_consumes_its_handle_runs_for_each_payload() -> None:
    module = parse(
        """
        func.func @f(%a: tensor<8xf32>) -> tensor<8xf32> {
          %0 = linalg.exp ins(%a : tensor<8xf32>) outs(%a : tensor<8xf32>) -> tensor<8xf32>
          %1 = linalg.exp ins(%0 : tensor<8xf32>) outs(%a : tensor<8xf32>) -> tensor<8xf32>
          return %1 : tensor<8xf32>
        }
        transform.sequence failures(propagate) {
        ^bb0(%arg0: !transform.any_op):
          %0 = transform.structured.match ops{["linalg.exp"]} in %arg0 : (!transform.any_op) -> !transform.any_op
          transform.foreach %0 : !transform.any_op {
          ^bb1(%each: !transform.any_op):
            %1, %2 = transform.structured.tile_using_for %each tile_sizes [4]
              : (!transform.any_op) -> (!transform.any_op, !transform.any_op)
          }
        }"""
    )
    run_passes(module, ["transform-dialect-interpreter"])
    assert count(module, "scf.for") == 2


AFFINE_LOOP = """
func.func @main(%a: memref<11xf32>, %b: f32) -> f32 {
  %0 = affine.for %i = 1 to 11 step 2 iter_args(%x = %b) -> (f32) {
    %1 = affine.load %a[%i] : memref<11xf32>
    %2 = arith.mulf %1, %x : f32
    affine.store %2, %a[%i - 1] : memref<11xf32>
    affine.yield %2 : f32
  }
  return %0 : f32
}
"""


@pytest.mark.parametrize("factor", [1, 2, 3, 5, 8])
def test_unrolled_affine_loops(factor: int) -> None:
    def unrolled(module: Operation) -> None:
        unroll_affine(named(module, "affine.for")[0], factor)

    after = check_transformation(AFFINE_LOOP, unrolled)
    assert count(after, "affine.store") == (factor if 5 % factor == 0 else factor + 1)


SIBLINGS = """
func.func @main(%a: tensor<8x6xf32>, %b: tensor<8x6xf32>) -> (tensor<8x6xf32>, tensor<8x6xf32>) {
  %0 = linalg.exp ins(%a : tensor<8x6xf32>) outs(%b : tensor<8x6xf32>) -> tensor<8x6xf32>
  %1 = linalg.square ins(%0 : tensor<8x6xf32>) outs(%b : tensor<8x6xf32>) -> tensor<8x6xf32>
  %2 = linalg.abs ins(%a : tensor<8x6xf32>) outs(%b : tensor<8x6xf32>) -> tensor<8x6xf32>
  %3 = linalg.add ins(%1, %2 : tensor<8x6xf32>, tensor<8x6xf32>) outs(%b : tensor<8x6xf32>) -> tensor<8x6xf32>
  return %3, %2 : tensor<8x6xf32>, tensor<8x6xf32>
}
"""


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("order", [("linalg.exp", "linalg.abs"), ("linalg.abs", "linalg.exp")])
def test_siblings_are_one_loop(parallel: bool, order: tuple[str, str]) -> None:
    """What stands between them and needs the first one makes way."""

    def fused(module: Operation) -> None:
        tiled = [(tile_to_forall if parallel else tile)(named(module, name)[0], [4, 3]).loops[0] for name in order]
        loop = fuse_sibling(*tiled)
        assert len(loop.results) == 2

    after = check_transformation(SIBLINGS, fused)
    assert count(after, "scf.forall" if parallel else "scf.for") == (1 if parallel else 3)


@pytest.mark.parametrize("names", [("linalg.exp", "linalg.square"), ("linalg.exp", "linalg.add")])
def test_a_loop_that_needs_another_is_no_sibling(names: tuple[str, str]) -> None:
    module = parse(SIBLINGS)
    first, second = (tile(named(module, name)[0], [4]).loops[0] for name in names)
    with pytest.raises(LinalgError, match="properly dominated by source"):
        fuse_sibling(first, second)
    other = tile(named(module, "linalg.abs")[0], [2]).loops[0]
    with pytest.raises(LinalgError, match="iteration spaces are not the same"):
        fuse_sibling(first, other)


@pytest.mark.parametrize("sizes", [[4, 2], [3], [0, 4]], ids=str)
def test_fused_in_one_parallel_loop(sizes: list[int]) -> None:
    def fused(module: Operation) -> None:
        result = fuse_in_forall(named(module, "linalg.add")[0], sizes)
        assert [op.name for op in result.loops] == ["scf.forall"]

    after = check_transformation(SIBLINGS, fused)
    [loop] = named(after, "scf.forall")
    inside = [op.name for op in loop.body.operations if op.dialect == "linalg"]
    assert inside == ["linalg.exp", "linalg.square", "linalg.abs", "linalg.add"]


def test_the_sequence_to_begin_with() -> None:
    text = """
    module attributes {transform.with_named_sequence} {
      transform.named_sequence @other(%arg0: !transform.any_op) {
        transform.annotate %arg0 "seen" : !transform.any_op
        transform.yield
      }
    }"""
    for name, seen in (("other", True), ("more", False)):
        module = parse(text)
        run_passes(module, [f"transform-interpreter=entry-point={name}"])
        assert ("seen" in module.attributes) is seen
