"""Tiling and fusing: the form of what comes out, and what must not be done."""

from __future__ import annotations

import re

import pytest

from tests.linalg_ext.tiling_support import ATTENTION, MATMUL, loops_of, named, residual_blocks, resnet_block, root_of
from xjit import linalg_ext
from xjit.linalg_ext.ir import LinalgError, Operation
from xjit.linalg_ext.transforms import (
    PARALLEL_LOOP,
    fuse,
    fuse_ext,
    fuse_operands,
    shared_output_to_distributed_style,
    tile,
    tile_loop_hint,
    tile_reduction_using_for,
    tile_reduction_using_forall,
    tile_to_forall,
)

_ELEMENTWISE = """
func.func @main(%arg0: tensor<512x128xf32>, %arg1: tensor<512x128xf32>) -> (tensor<512x128xf32>, tensor<512x128xf32>) {
  %0 = linalg.elemwise_unary ins(%arg0 : tensor<512x128xf32>) outs(%arg1: tensor<512x128xf32>) -> tensor<512x128xf32>
  %1 = linalg.elemwise_binary {__root__} ins(%0, %arg0 : tensor<512x128xf32>, tensor<512x128xf32>)
    outs(%arg1: tensor<512x128xf32>) -> tensor<512x128xf32>
  return %0, %1 : tensor<512x128xf32>, tensor<512x128xf32>
}
"""

_REDUCE = """
func.func @main(%arg0: tensor<12x20xf32>, %arg1: tensor<12xf32>) -> tensor<12xf32> {
  %0 = linalg.reduce { arith.addf } ins(%arg0 : tensor<12x20xf32>) outs(%arg1 : tensor<12xf32>) dimensions = [1]
  return %0 : tensor<12xf32>
}
"""


def _names(op: Operation) -> list[str]:
    """The operations of the innermost loop's body."""
    return [each.name for each in op.body.operations]


def test_tile_of_uneven_sizes_in_another_order() -> None:
    module = linalg_ext.parse(MATMUL)
    result = tile(root_of(module), [5, 4, 3], [2, 1, 0])
    text = str(linalg_ext.print_module(module))
    assert len(result.loops) == 3 and result.tiled_op.name == "linalg.matmul"
    assert re.findall(r"scf.for .* to (%c\d+) step (%c\d+)", text) == [("%c10", "%c3"), ("%c9", "%c4"), ("%c12", "%c5")]
    assert "affine_map<(d0) -> (3, -d0 + 10)>" in text
    names = ["affine.min"] * 3 + ["tensor.extract_slice"] * 3 + ["linalg.matmul", "tensor.insert_slice", "scf.yield"]
    assert _names(result.loops[-1]) == names


def test_sizes_that_divide_and_loops_that_are_not_cut_need_no_arithmetic() -> None:
    module = linalg_ext.parse(MATMUL)
    result = tile(root_of(module), [4])
    names = ["tensor.extract_slice"] * 2 + ["linalg.matmul", "tensor.insert_slice", "scf.yield"]
    assert _names(result.loops[0]) == names


def test_dynamic_sizes_are_asked_for_once() -> None:
    module = linalg_ext.parse("""
func.func @main(%a: tensor<?x?xf32>, %b: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %0 = linalg.add {__root__} ins(%a, %b : tensor<?x?xf32>, tensor<?x?xf32>) outs(%b : tensor<?x?xf32>)
    -> tensor<?x?xf32>
  return %0 : tensor<?x?xf32>
}""")
    tile(root_of(module), [8, 4])
    text = str(linalg_ext.print_module(module))
    assert text.count("tensor.dim") == 2
    assert "affine_map<(d0)[s0] -> (8, -d0 + s0)>" in text


def test_memrefs_are_viewed() -> None:
    module = linalg_ext.parse("""
func.func @main(%a: memref<8x6xf32>, %b: memref<8x6xf32>) {
  linalg.elemwise_unary {__root__} ins(%a : memref<8x6xf32>) outs(%b : memref<8x6xf32>)
  return
}""")
    tile(root_of(module), [4, 2])
    text = str(linalg_ext.print_module(module))
    assert text.count("memref.subview") == 2 and "memref<4x2xf32, strided<[6, 1], offset: ?>>" in text
    assert "iter_args" not in text


def test_reduction_is_initialised_once() -> None:
    module = linalg_ext.parse(MATMUL)
    result = fuse_ext(root_of(module), [0, 0, 5])
    assert "linalg.fill" not in _names(result.loops[0])
    [fill] = named(module, "linalg.fill")
    assert result.loops[0].operands[3] is fill.result
    assert _names(result.loops[0]) == ["tensor.extract_slice"] * 2 + ["linalg.matmul", "scf.yield"]


def test_init_of_what_is_not_cut_is_fused() -> None:
    module = linalg_ext.parse(MATMUL)
    result = fuse_ext(root_of(module), [4, 3])
    assert "linalg.fill" in _names(result.loops[1])
    assert [op.name for op in result.fused] == ["linalg.fill", "tensor.empty"]


def test_intermediate_with_other_users_is_a_result() -> None:
    module = linalg_ext.parse(_ELEMENTWISE)
    result = fuse_ext(root_of(module), [32, 32])
    assert len(result.loops[0].results) == 2
    [end] = named(module, "func.return")
    assert end.operands == (result.loops[0].results[1], result.loops[0].results[0])
    assert len(named(module, "linalg.elemwise_unary")) == 1


def test_fuse_computes_it_twice() -> None:
    module = linalg_ext.parse(_ELEMENTWISE)
    result = fuse(root_of(module), [32, 32])
    assert len(result.loops[0].results) == 1
    assert len(named(module, "linalg.elemwise_unary")) == 2


def test_stop_keeps_producers_outside() -> None:
    module = linalg_ext.parse(_ELEMENTWISE)
    result = fuse_ext(root_of(module), [32], stop=named(module, "linalg.elemwise_unary"))
    assert result.fused == () and _names(result.loops[0]).count("linalg.elemwise_binary") == 1


def test_residual_block_is_visited_once() -> None:
    module = linalg_ext.parse(resnet_block(56, 56, 256, 64, "f16"))
    result = fuse_ext(root_of(module), [0, 8, 0, 32])
    body = _names(result.loops[1])
    assert body.count("linalg.elemwise_unary") == 1 and body.count("linalg.conv_2d_nhwc_fhwc") == 3
    assert body.count("arith.minsi") == 2 and body.count("arith.maxsi") == 2
    text = str(linalg_ext.print_module(module))
    for expected in ("(-d0 + 1, 0)", "(0, d0 - 1)", "(56, d0)", "(56, d0 + 9)", "(-d0 - d1 + d2 + 10)"):
        assert expected in text
    assert "tensor<1x?x56x64xf16> to tensor<1x10x58x64xf16>" in text


def test_chain_of_residual_blocks_in_linear_time() -> None:
    sizes: list[int] = []
    for count in (20, 40, 200):
        module = linalg_ext.parse(residual_blocks(count))
        result = fuse_ext(root_of(module), [0, 2])
        body = _names(result.loops[0])
        assert body.count("linalg.conv_1d_nwc_wcf") == count
        sizes.append(len(body))
    assert sizes[2] - sizes[1] == 8 * (sizes[1] - sizes[0])


def test_attention_keeps_no_scores() -> None:
    module = linalg_ext.parse(ATTENTION)
    result = fuse_ext(root_of(module), [4, 0, 5])
    assert len(result.loops[0].results) == 3  # the product, the maxima, the sums
    body = _names(result.loops[1])
    assert body.count("linalg.matmul") == 3 and body.count("linalg_ext.diag") == 1
    assert [op.name for op in result.loops[0].parent_op.body.operations].count("linalg_ext.softmax") == 0  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("sizes", "text"),
    [
        ([4, 3, 5], ATTENTION),  # each column tile would see the rows again, with sums that are there already
        ([4, 0, 5], ATTENTION.replace("fill ins(%zero : f32) outs(%7", "fill ins(%least : f32) outs(%7")),
        ([4, 0, 5], ATTENTION.replace("return %9", "%s = tensor.extract_slice %6#3[0] [1] [1] : tensor<16xf32> to tensor<1xf32>\n  return %9")),
    ],
    ids=["columns", "start", "scale"],
)  # fmt: skip
def test_softmax_stays_outside_where_it_must_be_whole(sizes: list[int], text: str) -> None:
    module = linalg_ext.parse(text)
    result = fuse_ext(root_of(module), sizes)
    assert "linalg_ext.softmax" not in _names(result.loops[-1])
    assert len(named(module, "linalg_ext.softmax")) == 1


_REFUSED = {
    "softmax": (
        "%0:4 = linalg_ext.softmax dimension(1) ins(%a : tensor<4x6xf32>) outs(%a, %v, %v, %v : tensor<4x6xf32>,"
        " tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) : tensor<4x6xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>",
        [0, 2],
        "unsupported tiling dim at loop 1",
    ),
    "reversed": (
        "%0 = linalg.generic {indexing_maps = [affine_map<(d0) -> (-d0 + 3)>, affine_map<(d0) -> (d0)>],"
        ' iterator_types = ["parallel"]} ins(%v : tensor<4xf32>) outs(%v : tensor<4xf32>) {\n'
        "^bb0(%x: f32, %y: f32):\n linalg.yield %x : f32 } -> tensor<4xf32>",
        [2],
        "cannot be tiled along a loop of the index",
    ),
    "reshape": (
        "%0 = tensor.collapse_shape %a [[0, 1]] : tensor<4x6xf32> into tensor<24xf32>",
        [4],
        "no box on the other side",
    ),
    "too many": ("%0 = tensor.extract_slice %v[0] [2] [1] : tensor<4xf32> to tensor<2xf32>", [1, 1], "has 1 loops"),
    "negative": ("%0 = tensor.extract_slice %v[0] [2] [1] : tensor<4xf32> to tensor<2xf32>", [-1], "not negative"),
    "steps": ("%0 = tensor.extract_slice %v[0] [2] [2] : tensor<4xf32> to tensor<2xf32>", [1], "steps of one"),
    "unknown": ("%0 = arith.addf %v, %v : tensor<4xf32>", [1], "'arith.addf' op cannot be tiled"),
}


@pytest.mark.parametrize("name", list(_REFUSED))
def test_what_cannot_be_tiled_is_an_error_and_changes_nothing(name: str) -> None:
    line, sizes, message = _REFUSED[name]
    module = linalg_ext.parse(f"func.func @main(%a: tensor<4x6xf32>, %v: tensor<4xf32>) {{\n {line}\n return\n}}")
    before = str(linalg_ext.print_module(module))
    op = named(module, "func.func")[0].body.operations[0]
    with pytest.raises(LinalgError) as error:
        tile(op, sizes)
    assert message in error.value.message and error.value.line is not None
    assert str(linalg_ext.print_module(module)) == before


def test_interchange_must_be_a_permutation() -> None:
    module = linalg_ext.parse(MATMUL)
    with pytest.raises(LinalgError, match="interchange"):
        tile(root_of(module), [4, 4, 4], [0, 0, 1])


def test_reductions_are_not_tiled_in_parallel() -> None:
    module = linalg_ext.parse(MATMUL)
    with pytest.raises(LinalgError, match="it is a reduction"):
        tile_to_forall(root_of(module), tile_sizes=[0, 0, 4])


def test_forall_of_shares() -> None:
    module = linalg_ext.parse(MATMUL)
    result = tile_to_forall(root_of(module), num_threads=[5, 2])
    text = str(linalg_ext.print_module(module))
    assert "in (4, 2) shared_outs" in text  # shares of 3 rows: a fifth one would be empty
    assert result.tiled_op.name == "linalg.matmul" and "tensor.parallel_insert_slice" in text


def test_split_reduction_starts_from_the_neutral_element() -> None:
    module = linalg_ext.parse(_REDUCE)
    result = tile_reduction_using_for(named(module, "linalg.reduce")[0], [0, 5])
    text = str(linalg_ext.print_module(module))
    assert "tensor<12x5xf32>" in text and result.init.name == "linalg.fill" and result.merge.name == "linalg.generic"
    with pytest.raises(LinalgError, match="expected tile sizes for one loop of a reduction"):
        tile_reduction_using_for(result.merge, [3, 0])


def test_distributed_style_exchanges_parts() -> None:
    module = linalg_ext.parse(_REDUCE)
    parts = tile_reduction_using_forall(named(module, "linalg.reduce")[0], [0, 5])
    loop, init = shared_output_to_distributed_style(parts.loop, parts.init, parts.merge)
    assert _names(loop) == [
        "affine.apply", "tensor.extract_slice", "linalg.reduce", "ccl.all_reduce", "linalg.generic",
        "scf.forall.in_parallel",
    ]  # fmt: skip
    assert init.name == "linalg.fill" and str(init.result.type) == "tensor<12xf32>"


def test_fuse_operands_takes_all_roots() -> None:
    module = linalg_ext.parse(_ELEMENTWISE)
    result = fuse_operands(named(module, "func.return")[0], [32, 16], [1, 0])
    assert len(result.loops) == 2 and len(result.loops[0].results) == 2
    bounds = [loop.operands[1].defining_op for loop in result.loops]
    assert [str(op.attributes["value"]) for op in bounds if op is not None] == ["32 : index", "16 : index"]


def test_fuse_operands_tells_what_is_left() -> None:
    module = linalg_ext.parse("""
func.func @main(%arg0: tensor<64xf32>) -> tensor<64xf32> {
  %0 = arith.addf %arg0, %arg0 : tensor<64xf32>
  %1 = linalg.elemwise_unary ins(%0 : tensor<64xf32>) outs(%arg0: tensor<64xf32>) -> tensor<64xf32>
  return %1: tensor<64xf32>
}""")
    end = named(module, "func.return")[0]
    with pytest.raises(LinalgError, match="tiling and fusion fails"):
        fuse_operands(end, [8], expect_whole_graph_fusion=True)
    assert not loops_of(module)
    fuse_operands(end, [8])
    assert len(loops_of(module)) == 1


def test_loop_hint_marks_parallel_loops() -> None:
    module = linalg_ext.parse(MATMUL)
    result = tile(root_of(module), [4, 3, 5])
    tile_loop_hint(result.tiled_op)
    assert [PARALLEL_LOOP in loop.attributes for loop in result.loops] == [True, True, False]


def test_loop_hint_sees_through_no_slice_that_drops_dimensions() -> None:
    module = linalg_ext.parse("""
func.func @main(%a: tensor<1x8xf32>, %b: tensor<8xf32>) -> tensor<8xf32> {
  %0 = tensor.extract_slice %a[0, 0] [1, 8] [1, 1] : tensor<1x8xf32> to tensor<8xf32>
  %1 = linalg.elemwise_unary {__root__} ins(%0 : tensor<8xf32>) outs(%b : tensor<8xf32>) -> tensor<8xf32>
  return %1 : tensor<8xf32>
}""")
    result = fuse_ext(root_of(module), [4])
    tile_loop_hint(result.tiled_ops[0])
    assert PARALLEL_LOOP in result.loops[0].attributes
