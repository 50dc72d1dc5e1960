"""What the evaluator does with operations beside the usual ones: against NumPy, or against numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from xjit.hlo.diagnostics import HloError
from xjit.linalg_ext import evaluate, parse


def run(text: str, *arrays: Any) -> Any:
    return evaluate(parse(text), "f", *arrays)


def test_affine_parallel_reduces_what_iterations_yield() -> None:
    a = np.arange(48, dtype=np.float32).reshape(6, 8)
    total, largest, nothing = run(
        """
        func.func @f(%a: memref<6x8xf32>, %n: index) -> (f32, f32, i32) {
          %0:2 = affine.parallel (%i, %j) = (1, max(%n, 0)) to (min(%n + 3, 6), 8) step (2, 3)
              reduce ("addf", "maximumf") -> (f32, f32) {
            %1 = affine.load %a[%i, %j] : memref<6x8xf32>
            affine.yield %1, %1 : f32, f32
          }
          %x = arith.constant 3 : i32
          %2 = affine.parallel (%i) = (4) to (%n) reduce ("mins") -> i32 {
            affine.yield %x : i32
          }
          return %0#0, %0#1, %2 : f32, f32, i32
        }""",
        a,
        2,
    )
    part = a[1:5:2, 2::3]
    assert (total, largest, nothing) == (part.sum(), part.max(), 2**31 - 1)


def test_affine_parallel_stores() -> None:
    a = np.zeros((4, 6), np.float32)
    run(
        """
        func.func @f(%a: memref<4x6xf32>) {
          %one = arith.constant 1.0 : f32
          affine.parallel (%i, %j) = (0, 0) to (4, 6) step (1, 2) {
            affine.store %one, %a[%i, %j] : memref<4x6xf32>
          }
          return
        }""",
        a,
    )
    assert np.array_equal(a, np.tile([1, 0], (4, 3)))


@pytest.mark.parametrize("index", [-5, 0, 17, 95, 200])
def test_coordinates_of_an_index(index: int) -> None:
    *found, back = run(
        """
        func.func @f(%i: index, %n: index) -> (index, index, index, index) {
          %0:3 = affine.delinearize_index %i into (%n, 8) : index, index, index
          %1 = affine.linearize_index [%0#0, %0#1, %0#2] by (3, %n, 8) : index
          return %0#0, %0#1, %0#2, %1 : index, index, index, index
        }""",
        index,
        4,
    )
    assert found == [index // 32, index // 8 % 4, index % 8]
    assert back == index


def test_atomic_updates_give_the_new_element() -> None:
    a = np.array([3, -2], np.int32)
    found = run(
        """
        func.func @f(%a: memref<2xi32>) -> (i32, i32, i32) {
          %c0 = arith.constant 0 : index
          %c1 = arith.constant 1 : index
          %x = arith.constant 5 : i32
          %0 = memref.atomic_rmw muli %x, %a[%c0] : (i32, memref<2xi32>) -> i32
          %1 = memref.atomic_rmw maxu %x, %a[%c1] : (i32, memref<2xi32>) -> i32
          %2 = memref.generic_atomic_rmw %a[%c0] : memref<2xi32> {
          ^bb0(%old: i32):
            %3 = arith.subi %old, %x : i32
            memref.atomic_yield %3 : i32
          }
          return %0, %1, %2 : i32, i32, i32
        }""",
        a,
    )
    assert (found, a.tolist()) == ((15, -2, 10), [10, -2])


def test_views_of_memrefs() -> None:
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    found = run(
        """
        func.func @f(%a: memref<2x3xf32>, %shape: memref<1xindex>) -> (memref<3x2xf32, strided<[1, 3]>>, memref<?xf32>) {
          %0 = memref.transpose %a (i, j) -> (j, i) : memref<2x3xf32> to memref<3x2xf32, strided<[1, 3]>>
          %1 = memref.reshape %a(%shape) : (memref<2x3xf32>, memref<1xindex>) -> memref<?xf32>
          %2 = memref.alloca_scope -> (f32) {
            %c1 = arith.constant 1 : index
            %3 = memref.load %1[%c1] : memref<?xf32>
            memref.alloca_scope.return %3 : f32
          }
          %c0 = arith.constant 0 : index
          memref.store %2, %0[%c0, %c0] : memref<3x2xf32, strided<[1, 3]>>
          %n = arith.constant 8 : index
          %4 = memref.realloc %1(%n) : memref<?xf32> to memref<?xf32>
          return %0, %4 : memref<3x2xf32, strided<[1, 3]>>, memref<?xf32>
        }""",
        a,
        np.array([6]),
    )
    assert np.array_equal(a, [[1, 1, 2], [3, 4, 5]])
    assert np.array_equal(found[0], a.T)
    assert np.array_equal(found[1][:6], a.ravel())
    assert found[1].shape == (8,)


@pytest.mark.parametrize("shape", [(2, 4), (2, 1, 4)])
def test_tensor_scatter(shape: tuple[int, ...]) -> None:
    kind = f"tensor<{'x'.join(map(str, shape))}xf32>"
    updates = np.arange(8, dtype=np.float32).reshape(shape)
    dest = np.full((3, 4), -1, np.float32)
    found = run(
        f"""
        func.func @f(%u: {kind}, %d: tensor<3x4xf32>, %i: tensor<2x1xindex>) -> tensor<3x4xf32> {{
          %0 = tensor.scatter %u into %d[%i] scatter_dims([0]) unique
            : ({kind}, tensor<3x4xf32>, tensor<2x1xindex>) -> tensor<3x4xf32>
          return %0 : tensor<3x4xf32>
        }}""",
        updates,
        dest,
        np.array([[2], [0]]),
    )
    assert np.array_equal(found, [[4, 5, 6, 7], [-1, -1, -1, -1], [0, 1, 2, 3]])
    assert (dest == -1).all()


def test_bits_and_shapes_of_tensors() -> None:
    a = np.array([[1.0, -2.0]], np.float32)
    bits, column = run(
        """
        func.func @f(%a: tensor<1x2xf32>, %shape: tensor<2xindex>) -> (tensor<1x2xi32>, tensor<?x?xf32>) {
          %0 = tensor.bitcast %a : tensor<1x2xf32> to tensor<1x2xi32>
          %1 = tensor.reshape %a(%shape) : (tensor<1x2xf32>, tensor<2xindex>) -> tensor<?x?xf32>
          return %0, %1 : tensor<1x2xi32>, tensor<?x?xf32>
        }""",
        a,
        np.array([2, 1]),
    )
    assert np.array_equal(bits, a.view(np.int32))
    assert np.array_equal(column, a.T)
    with pytest.raises(HloError, match="makes \\(3, 1\\) of \\(1, 2\\)"):
        run(
            """
            func.func @f(%a: tensor<1x2xf32>, %shape: tensor<2xindex>) -> tensor<?x?xf32> {
              %0 = tensor.reshape %a(%shape) : (tensor<1x2xf32>, tensor<2xindex>) -> tensor<?x?xf32>
              return %0 : tensor<?x?xf32>
            }""",
            a,
            np.array([3, 1]),
        )


@pytest.mark.parametrize(("width", "dtype"), [(8, np.int8), (32, np.int32), (64, np.int64)])
def test_both_words_of_products_and_sums(width: int, dtype: Any) -> None:
    a, b = dtype(-7), dtype(2 ** (width - 2) + 5)
    low, high, ulow, uhigh, total, carry = run(
        f"""
        func.func @f(%a: i{width}, %b: i{width}) -> (i{width}, i{width}, i{width}, i{width}, i{width}, i1) {{
          %0, %1 = arith.mulsi_extended %a, %b : i{width}
          %2, %3 = arith.mului_extended %a, %b : i{width}
          %4, %5 = arith.addui_extended %a, %b : i{width}, i1
          return %0, %1, %2, %3, %4, %5 : i{width}, i{width}, i{width}, i{width}, i{width}, i1
        }}""",
        a,
        b,
    )
    of, unsigned = 2**width, int(a) % 2**width
    assert int(low) % of + int(high) * of == int(a) * int(b)
    assert int(ulow) % of + int(uhigh) % of * of == unsigned * int(b)
    assert (int(total) % of, bool(carry)) == ((unsigned + int(b)) % of, unsigned + int(b) >= of)


def test_functions_as_values() -> None:
    found = run(
        """
        func.func @f(%x: f32) -> (f32, f32, f32, i1) {
          %f = constant @twice : (f32) -> f32
          %0 = call_indirect %f(%x) : (f32) -> f32
          %1, %2 = math.sincos %x : f32
          %3 = math.isnormal %x : f32
          return %0, %1, %2, %3 : f32, f32, f32, i1
        }
        func.func @twice(%x: f32) -> f32 {
          %0 = arith.addf %x, %x : f32
          return %0 : f32
        }""",
        np.float32(0.75),
    )
    assert np.allclose(found, (1.5, np.sin(0.75), np.cos(0.75), 1), rtol=1e-7)


def test_quantized_and_grouped_convolutions() -> None:
    rng = np.random.default_rng(0)
    x, k = (rng.integers(-9, 9, n, np.int8) for n in [(1, 5, 6, 2), (2, 3, 2)])
    found = run(
        """
        func.func @f(%x: tensor<1x5x6x2xi8>, %k: tensor<2x3x2xi8>, %a: i32, %b: i32, %o: tensor<1x4x4x2xi32>)
            -> tensor<1x4x4x2xi32> {
          %0 = linalg.depthwise_conv_2d_nhwc_hwc_q
            ins(%x, %k, %a, %b : tensor<1x5x6x2xi8>, tensor<2x3x2xi8>, i32, i32)
            outs(%o : tensor<1x4x4x2xi32>) -> tensor<1x4x4x2xi32>
          return %0 : tensor<1x4x4x2xi32>
        }""",
        x,
        k,
        2,
        -1,
        np.zeros((1, 4, 4, 2), np.int32),
    )
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.int32) - 2, (2, 3), (1, 2))
    assert np.array_equal(found, np.einsum("nhwcij,ijc->nhwc", windows, k.astype(np.int32) + 1))
    x, k = (rng.normal(size=n).astype(np.float32) for n in [(1, 4, 4, 2, 3), (2, 5, 3, 3, 3)])
    found = run(
        """
        func.func @f(%x: tensor<1x4x4x2x3xf32>, %k: tensor<2x5x3x3x3xf32>, %o: tensor<1x2x2x2x5xf32>)
            -> tensor<1x2x2x2x5xf32> {
          %0 = linalg.conv_2d_nhwgc_gfhwc ins(%x, %k : tensor<1x4x4x2x3xf32>, tensor<2x5x3x3x3xf32>)
            outs(%o : tensor<1x2x2x2x5xf32>) -> tensor<1x2x2x2x5xf32>
          return %0 : tensor<1x2x2x2x5xf32>
        }""",
        x,
        k,
        np.zeros((1, 2, 2, 2, 5), np.float32),
    )
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), (1, 2))
    assert np.allclose(found, np.einsum("nhwgcij,gfijc->nhwgf", windows, k), atol=1e-5)
