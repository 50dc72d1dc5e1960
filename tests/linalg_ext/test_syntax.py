"""Operations of many dialects in their custom form: what is printed, in either form, reads as the same program."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from xjit import linalg_ext
from xjit.linalg_ext import parse, print_module

PARTS = (Path(__file__).resolve().parent / "syntax.mlir").read_text().split("// -----\n")


@pytest.mark.parametrize("number", range(len(PARTS)))
def test_printed_text_reads_the_same(number: int) -> None:
    module = parse(PARTS[number])
    printed = str(module)
    assert str(parse(printed)) == printed
    assert str(parse(print_module(module, generic=True))) == printed


def test_branches_are_evaluated() -> None:
    module = parse("""
        func.func @sum(%n: i32) -> i32 {
          %c0 = arith.constant 0 : i32
          %c1 = arith.constant 1 : i32
          cf.br ^loop(%c0, %c0 : i32, i32)
        ^loop(%i: i32, %s: i32):
          %more = arith.cmpi slt, %i, %n : i32
          cf.cond_br %more, ^body, ^end(%s : i32)
        ^body:
          %j = arith.addi %i, %c1 : i32
          %t = arith.addi %s, %j : i32
          cf.br ^loop(%j, %t : i32, i32)
        ^end(%r: i32):
          return %r : i32
        }
        func.func @pick(%f: i32) -> i32 {
          cf.switch %f : i32, [
            default: ^other(%f : i32),
            4: ^four
          ]
        ^four:
          %r = arith.constant 40 : i32
          return %r : i32
        ^other(%x: i32):
          return %x : i32
        }""")
    assert linalg_ext.evaluate(module, "sum", np.int32(5)) == 15
    assert [int(linalg_ext.evaluate(module, "pick", np.int32(n))) for n in (3, 4)] == [3, 40]


def test_affine_loops_and_globals_are_evaluated() -> None:
    module = parse("""
        memref.global "private" constant @start : memref<2xf32> = dense<[1.0, 2.0]>
        func.func @sum(%m: memref<4x6xf32>, %n: index) -> f32 {
          %g = memref.get_global @start : memref<2xf32>
          %zero = arith.constant 0.0 : f32
          %x = affine.load %g[1] : memref<2xf32>
          %s = affine.for %i = 0 to 4 iter_args(%a = %x) -> (f32) {
            %t = affine.for %j = 0 to min affine_map<()[s0] -> (s0, 6)>()[%n] step 2 iter_args(%b = %a) -> (f32) {
              %v = affine.load %m[%i, %j] : memref<4x6xf32>
              %w = arith.addf %b, %v : f32
              affine.store %zero, %m[%i, %j] : memref<4x6xf32>
              affine.yield %w : f32
            }
            affine.yield %t : f32
          }
          return %s : f32
        }""")
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    expected = 2 + x[:, [0, 2, 4]].sum()
    assert linalg_ext.evaluate(module, "sum", x, 5) == expected
    assert not x[:, [0, 2, 4]].any()


def test_semi_affine_maps_are_evaluated_and_compiled() -> None:
    module = parse("""
        func.func @main(%i: index, %n: index) -> (index, index) {
          %0 = affine.min affine_map<(d0)[s0] -> (s0 + 2, 90 - d0 * s0, 90 ceildiv s0)>(%i)[%n]
          %1 = affine.apply affine_map<(d0)[s0] -> ((d0 floordiv s0) * 100 + d0 mod s0)>(%i)[%n]
          return %0, %1 : index, index
        }""")
    executable = linalg_ext.compile(module, "main")
    for i, n, expected in ((9, 8, (10, 101)), (25, 7, (-85, 304)), (-5, 4, (6, -197)), (3, 29, (3, 3))):
        assert linalg_ext.evaluate(module, "main", i, n) == expected
        assert tuple(map(int, executable(np.int64(i), np.int64(n)))) == expected
