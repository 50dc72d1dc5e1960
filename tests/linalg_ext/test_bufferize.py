"""Buffers for structured ops, and products with diagonal matrices."""

from __future__ import annotations

import pytest

from tests.linalg_ext.equivalence import check_transformation, count
from tests.linalg_ext.random_programs import random_program
from xjit.linalg_ext.text.printer import print_module
from xjit.linalg_ext.transforms.lowering import convert_linalg_ext_to_loops, convert_linalg_to_loops
from xjit.linalg_ext.transforms.single_ops.bufferize import bufferize
from xjit.linalg_ext.transforms.single_ops.diag_products import rewrite_diag_products

SOFTMAX = """
func.func @f(%x: tensor<3x?xf32>, %m: tensor<3xf32>, %a: tensor<3xf32>) -> (tensor<3x?xf32>, tensor<3xf32>) {
  %c1 = arith.constant 1 : index
  %d = tensor.dim %x, %c1 : tensor<3x?xf32>
  %o = tensor.empty(%d) : tensor<3x?xf32>
  %s = tensor.empty() : tensor<3xf32>
  %r:4 = linalg_ext.softmax dimension(1) ins(%x : tensor<3x?xf32>)
    outs(%o, %m, %a, %s : tensor<3x?xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>)
    : tensor<3x?xf32>, tensor<3xf32>, tensor<3xf32>, tensor<3xf32>
  return %r#0, %r#1 : tensor<3x?xf32>, tensor<3xf32>
}"""


def test_buffers_hold_what_is_read() -> None:
    after = check_transformation(SOFTMAX, bufferize)
    assert count(after, "memref.alloc") == 4 and count(after, "memref.copy") == 2
    assert count(after, "tensor.empty") == 0
    assert "linalg_ext.softmax dimension(1) ins(%" in print_module(after)


@pytest.mark.parametrize("seed", range(3))
def test_random_programs_as_loops_over_buffers(seed: int) -> None:
    def lower(module) -> None:
        bufferize(module)
        convert_linalg_to_loops(module)

    after = check_transformation(random_program(seed, 5), lower)
    assert not any(op.dialect == "linalg" and op.name not in ("linalg.yield",) for op in after.walk())


def test_softmax_of_tensors_as_loops() -> None:
    def lower(module) -> None:
        bufferize(module)
        convert_linalg_ext_to_loops(module)

    assert count(check_transformation(SOFTMAX, lower), "scf.for") == 4


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize("batch", ["", "2x"])
def test_products_with_diagonal_matrices(side: int, batch: str) -> None:
    sizes = ("4x4", "4x5") if side == 0 else ("3x4", "4x4")
    matrix = f"tensor<{batch}4x4xf32>"
    other = f"tensor<{batch}{sizes[1 - side]}xf32>"
    result = f"tensor<{batch}{'4x5' if side == 0 else '3x4'}xf32>"
    operands = ("%d, %x", f"{matrix}, {other}") if side == 0 else ("%x, %d", f"{other}, {matrix}")
    name, tail = ("linalg.matmul", "") if not batch else ("linalg_ext.batch_matmul", 'layout = "nn"')
    arrow = f"-> {result}" if not batch else ""
    text = f"""
func.func @f(%v: tensor<{batch}4xf32>, %x: {other}, %o: {result}) -> {result} {{
  %e = tensor.empty() : {matrix}
  %d = linalg_ext.diag ins(%v : tensor<{batch}4xf32>) outs(%e : {matrix}) : {matrix}
  %r = {name} ins({operands[0]} : {operands[1]}) outs(%o : {result}) {tail} {arrow}
  return %r : {result}
}}"""
    after = check_transformation(text, rewrite_diag_products)
    assert count(after, "linalg_ext.diag") == 0 and count(after, "linalg.generic") == 1
