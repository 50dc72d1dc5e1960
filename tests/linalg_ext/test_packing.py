"""Packed layouts: what pack and unpack compute, structured ops on packed operands, and packing in smaller steps."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.linalg_ext.equivalence import check_transformation, count
from xjit.hlo.diagnostics import HloError
from xjit.linalg_ext import evaluate, parse, run_passes
from xjit.linalg_ext.ir import LinalgError, Operation
from xjit.linalg_ext.structured import shape_of
from xjit.linalg_ext.transforms.packing.lower_packing import lower_pack, lower_unpack
from xjit.linalg_ext.transforms.packing.pack import pack
from xjit.linalg_ext.transforms.packing.pack_greedily import pack_greedily
from xjit.linalg_ext.transforms.packing.transpose_packing import pack_transpose
from xjit.linalg_ext.transforms.tiling.tile import tile

MATMUL = """
func.func @f(%a: tensor<{m}x{k}xf32>, %b: tensor<{k}x{n}xf32>, %c: tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32> {{
  %0 = linalg.matmul ins(%a, %b : tensor<{m}x{k}xf32>, tensor<{k}x{n}xf32>)
    outs(%c : tensor<{m}x{n}xf32>) -> tensor<{m}x{n}xf32>
  return %0 : tensor<{m}x{n}xf32>
}}"""


def find(module: Operation, *names: str) -> list[Operation]:
    return [op for op in module.walk() if op.name in names]


def packing(outer: Sequence[int], inner: Sequence[int], tiles: Sequence[int], shape: Sequence[int]) -> tuple[str, str]:
    """Returns how a tensor is packed, as text, and the type of the packed one."""
    counts = [-(-shape[d] // (tiles[list(inner).index(d)] if d in inner else 1)) for d in outer]
    how = f"outer_dims_perm = {list(outer)} inner_dims_pos = {list(inner)} inner_tiles = {list(tiles)}"
    return how, f"tensor<{'x'.join(map(str, [*counts, *tiles]))}xf32>"


def there_and_back(outer: Sequence[int], inner: Sequence[int], tiles: Sequence[int], shape: Sequence[int]) -> str:
    how, packed = packing(outer, inner, tiles, shape)
    plain = f"tensor<{'x'.join(map(str, shape))}xf32>"
    return f"""
    func.func @f(%a: {plain}, %p: f32) -> ({packed}, {plain}) {{
      %0 = tensor.empty() : {packed}
      %1 = tensor.pack %a padding_value(%p : f32) {how} into %0 : {plain} -> {packed}
      %2 = tensor.empty() : {plain}
      %3 = tensor.unpack %1 {how} into %2 : {packed} -> {plain}
      return %1, %3 : {packed}, {plain}
    }}"""


CASES = [
    ((0, 1), (0, 1), (2, 3), (4, 6)),
    ((1, 0), (1,), (4,), (3, 10)),
    ((2, 0, 1), (2, 0), (3, 2), (5, 2, 7)),
    ((0,), (0,), (8,), (5,)),
]


@pytest.mark.parametrize(("outer", "inner", "tiles", "shape"), CASES)
def test_pack_and_unpack_against_numpy(outer: Any, inner: Any, tiles: Any, shape: Any) -> None:
    a = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    packed, back = evaluate(parse(there_and_back(outer, inner, tiles, shape)), "f", a, np.float32(-1))
    assert np.array_equal(back, a)
    for place in np.ndindex(packed.shape):
        at = dict(zip(outer, place))
        for d, n, i in zip(inner, tiles, place[len(shape) :]):
            at[d] = at[d] * n + i
        element = tuple(at[d] for d in range(len(shape)))
        inside = all(i < n for i, n in zip(element, shape))
        assert packed[place] == (a[element] if inside else -1)


def test_tiles_that_are_not_full_need_padding() -> None:
    text = """
    func.func @f(%a: tensor<?xf32>, %b: tensor<?x4xf32>) -> tensor<?x4xf32> {
      %0 = tensor.pack %a inner_dims_pos = [0] inner_tiles = [4] into %b : tensor<?xf32> -> tensor<?x4xf32>
      return %0 : tensor<?x4xf32>
    }"""
    found = evaluate(parse(text), "f", np.arange(8, dtype=np.float32), np.zeros((2, 4), np.float32))
    assert np.array_equal(found, np.arange(8).reshape(2, 4))
    with pytest.raises(HloError, match=r"of shape \(7,\) into tiles of \(8,\) elements"):
        evaluate(parse(text), "f", np.arange(7, dtype=np.float32), np.zeros((2, 4), np.float32))


@pytest.mark.parametrize(("outer", "inner", "tiles", "shape"), CASES)
def test_lowering(outer: Any, inner: Any, tiles: Any, shape: Any) -> None:
    def lower(module: Operation) -> None:
        for op in find(module, "tensor.pack"):
            lower_pack(op)
        for op in find(module, "tensor.unpack"):
            lower_unpack(op)

    after = check_transformation(there_and_back(outer, inner, tiles, shape), lower)
    assert count(after, "tensor.pack") == count(after, "tensor.unpack") == 0
    assert count(after, "tensor.pad") == 1
    assert count(after, "linalg.copy") == 1


def test_a_pack_into_one_tile_is_a_pad() -> None:
    after = check_transformation(
        there_and_back((0, 1), (0, 1), (4, 8), (3, 7)), lambda m: lower_pack(find(m, "tensor.pack")[0])
    )
    assert count(after, "linalg.transpose") == count(after, "tensor.expand_shape") == 0
    assert count(after, "tensor.insert_slice") == 1


@pytest.mark.parametrize(("outer", "inner", "tiles", "shape"), CASES)
def test_tiling(outer: Any, inner: Any, tiles: Any, shape: Any) -> None:
    text = there_and_back(outer, inner, tiles, shape)
    check_transformation(text, lambda m: tile(find(m, "tensor.pack")[0], [2] * len(shape)))
    elements = [2 * tiles[inner.index(d)] if d in inner else 1 for d in range(len(shape))]
    after = check_transformation(text, lambda m: tile(find(m, "tensor.unpack")[0], elements))
    assert count(after, "scf.for") == len(shape)


def test_an_unpack_is_cut_between_its_tiles_only() -> None:
    module = parse(there_and_back((0,), (0,), (4,), (10,)))
    with pytest.raises(LinalgError, match="only at multiples of its inner tiles"):
        tile(find(module, "tensor.unpack")[0], [6])


@pytest.mark.parametrize("sizes", [(2, 3, 4), (0, 5, 0), (3, 0, 5), (0, 0, 0), (16, 16, 16)])
@pytest.mark.parametrize("shape", [{"m": 6, "n": 9, "k": 8}, {"m": 7, "n": 5, "k": 3}, dict.fromkeys("mnk", "?")])
def test_packed_products(sizes: Any, shape: Any) -> None:
    after = check_transformation(MATMUL.format(**shape), lambda m: pack(find(m, "linalg.matmul")[0], sizes))
    [generic] = find(after, "linalg.generic")
    assert len(generic.body.arguments) == 3
    assert count(after, "tensor.unpack") == (1 if sizes[0] or sizes[1] else 0)


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 2, 0), (2, 0, 1)])
def test_packed_greedily(order: Any) -> None:
    text = """
    func.func @f(%a: tensor<2x7x3x6xf32>, %b: tensor<3x5x6xf32>, %c: tensor<5x2x7xf32>) -> tensor<5x2x7xf32> {
      %0 = linalg.contract indexing_maps = [affine_map<(b, m, n, j, k) -> (b, m, j, k)>,
        affine_map<(b, m, n, j, k) -> (j, n, k)>, affine_map<(b, m, n, j, k) -> (n, b, m)>]
        ins(%a, %b : tensor<2x7x3x6xf32>, tensor<3x5x6xf32>) outs(%c : tensor<5x2x7xf32>) -> tensor<5x2x7xf32>
      return %0 : tensor<5x2x7xf32>
    }"""

    def packed(module: Operation) -> None:
        op = pack_greedily(find(module, "linalg.contract")[0], [4, 2, 0], order, [0, 0, 4]).op
        types = [str(e.value) for e in op.attributes["iterator_types"].elements[-3:]]  # type: ignore[attr-defined]
        assert types.index("reduction") == order[2]

    after = check_transformation(text, packed)
    # k is 6, and its tile 8, the next multiple of 4
    assert all(8 in shape_of(op.result) for op in find(after, "tensor.pack")[:2])


@pytest.mark.parametrize("number", [0, 1, 2])
def test_transposed_packing(number: int) -> None:
    def transposed(module: Operation) -> None:
        packed = pack(find(module, "linalg.matmul")[0], [2, 3, 4])
        target = packed.unpacks[0] if number == 2 else packed.packs[number]
        assert target is not None
        found = pack_transpose(target, packed.op, [1, 0], [1, 0])
        assert (found.unpack is not None) == (number == 2)
        assert found.op.operands[number] is found.pack.result

    after = check_transformation(MATMUL.format(m=5, n=7, k=6), transposed)
    for op in find(after, "tensor.pack")[number : number + 1]:
        assert "outer_dims_perm = [1, 0]" in str(op)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("linalg.reduce { arith.maximumf } ins(%a : tensor<7x5xf32>) outs(%b : tensor<7xf32>) dimensions = [1]", "its reduction would count"),
        ("linalg.reduce { arith.mulf } ins(%a : tensor<7x5xf32>) outs(%b : tensor<7xf32>) dimensions = [1]", "its reduction would count"),
        ("linalg.matvec ins(%a, %c : tensor<7x5xf32>, tensor<5xf32>) outs(%b : tensor<7xf32>) -> tensor<7xf32>", None),
        ("linalg.reduce { arith.addf } ins(%a : tensor<7x5xf32>) outs(%b : tensor<7xf32>) dimensions = [1]", None),
    ],
)  # fmt: skip
def test_zeros_are_no_neighbours_of_all_reductions(text: str, message: str | None) -> None:
    program = f"""
    func.func @f(%a: tensor<7x5xf32>, %b: tensor<7xf32>, %c: tensor<5xf32>) -> tensor<7xf32> {{
      %0 = {text}
      return %0 : tensor<7xf32>
    }}"""

    def packed(module: Operation) -> None:
        [op] = find(module, "linalg.reduce", "linalg.matvec")
        pack(op, [2, 2])

    if message is None:
        check_transformation(program, packed)
    else:
        with pytest.raises(LinalgError, match=message):
            packed(parse(program))


def test_convolutions_are_packed_along_plain_loops_only() -> None:
    text = """
    func.func @f(%x: tensor<1x6x6x3xf32>, %k: tensor<3x3x3x5xf32>, %o: tensor<1x4x4x5xf32>) -> tensor<1x4x4x5xf32> {
      %0 = linalg.conv_2d_nhwc_hwcf ins(%x, %k : tensor<1x6x6x3xf32>, tensor<3x3x3x5xf32>)
        outs(%o : tensor<1x4x4x5xf32>) -> tensor<1x4x4x5xf32>
      return %0 : tensor<1x4x4x5xf32>
    }"""
    check_transformation(text, lambda m: pack(find(m, "linalg.conv_2d_nhwc_hwcf")[0], [0, 0, 0, 4, 0, 0, 2]))
    with pytest.raises(LinalgError, match="operand 0 is read at"):
        pack(find(parse(text), "linalg.conv_2d_nhwc_hwcf")[0], [0, 2])


def test_what_is_packed_and_unpacked_is_what_it_was() -> None:
    how, packed = packing((1, 0), (0,), (2,), (4, 6))
    module = parse(
        f"""
        func.func @f(%a: tensor<4x6xf32>, %b: {packed}, %p: f32) -> (tensor<4x6xf32>, {packed}) {{
          %0 = tensor.pack %a padding_value(%p : f32) {how} into %b : tensor<4x6xf32> -> {packed}
          %1 = tensor.unpack %0 {how} into %a : {packed} -> tensor<4x6xf32>
          %2 = tensor.unpack %b {how} into %a : {packed} -> tensor<4x6xf32>
          %3 = tensor.pack %2 {how} into %b : tensor<4x6xf32> -> {packed}
          return %1, %3 : tensor<4x6xf32>, {packed}
        }}"""
    )
    run_passes(module, ["canonicalize"])
    assert [op.name for op in find(module, "func.func")[0].body.operations] == ["func.return"]
