"""Integers of one bit are -1 and 0 where they are signed, 1 and 0 where not: evaluated, compiled and folded."""

from __future__ import annotations

import operator
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest

from xjit import linalg_ext
from xjit.linalg_ext.ir.errors import LinalgError
from xjit.linalg_ext.passes import run_passes

SIGNED: dict[str, Callable[[int, int], int]] = {
    "addi": operator.add,
    "subi": operator.sub,
    "muli": operator.mul,
    "maxsi": max,
    "minsi": min,
    "cmpi slt,": operator.lt,
    "cmpi sle,": operator.le,
    "cmpi sgt,": operator.gt,
    "cmpi sge,": operator.ge,
}
UNSIGNED: dict[str, Callable[[int, int], int]] = {
    "maxui": max,
    "minui": min,
    "cmpi ult,": operator.lt,
    "cmpi ule,": operator.le,
    "cmpi ugt,": operator.gt,
    "cmpi uge,": operator.ge,
}
TEXT = """
func.func @f(%a: i1, %b: i1) -> i1 {
  %s = arith.OP %a, %b : i1
  return %s : i1
}
"""


@pytest.mark.parametrize("name", [*SIGNED, *UNSIGNED])
def test_operations(name: str) -> None:
    module = linalg_ext.parse(TEXT.replace("OP", name))
    compiled = linalg_ext.compile(module, "f")
    for a, b in product([False, True], repeat=2):
        expected = bool((SIGNED[name](-a, -b) if name in SIGNED else UNSIGNED[name](a, b)) & 1)
        assert linalg_ext.evaluate(module, "f", a, b) == expected
        assert compiled(a, b) == expected
        folded = linalg_ext.parse(
            f"func.func @f() -> i1 {{\n %a = arith.constant {str(a).lower()}\n %b = arith.constant {str(b).lower()}\n"
            f" %s = arith.{name} %a, %b : i1\n return %s : i1\n}}"
        )
        run_passes(folded, ["canonicalize"])
        assert "arith." + name.split()[0] not in linalg_ext.print_module(folded)
        assert linalg_ext.evaluate(folded, "f") == expected


DIVIDED = {"divsi": 1, "divui": 1, "floordivsi": 1, "ceildivsi": 1, "ceildivui": 1, "remsi": 0, "remui": 0}
SHIFTED = ("shli", "shrui", "shrsi")


@pytest.mark.parametrize("name", [*DIVIDED, *SHIFTED])
def test_divisions_and_shifts(name: str) -> None:
    """By one or minus one, and by no bits; what has no value is the same value everywhere."""
    module = linalg_ext.parse(TEXT.replace("OP", name).replace("i1", "tensor<4xi1>"))
    a, b = [False, False, True, True], [False, True, False, True]
    got = linalg_ext.evaluate(module, "f", a, b)
    assert linalg_ext.compile(module, "f")(a, b).tolist() == got.tolist()
    for x, y, result in zip(a, b, got.tolist(), strict=True):
        if name in DIVIDED and y:
            assert result == (x and bool(DIVIDED[name]))
        if name in SHIFTED and not y:
            assert result == x


def test_unsigned_divisions_round_up() -> None:
    module = linalg_ext.parse(TEXT.replace("OP", "ceildivui").replace("i1", "tensor<4xi8>"))
    a, b = np.array([7, -1, 0, -2], np.int8), np.array([2, 2, 3, -1], np.int8)
    assert linalg_ext.evaluate(module, "f", a, b).tolist() == [4, -128, 0, 1]
    assert linalg_ext.compile(module, "f")(a, b).tolist() == [4, -128, 0, 1]


@pytest.mark.parametrize("op", ["math.ctpop", "math.absi"])
def test_what_cannot_be_compiled_has_a_place(op: str) -> None:
    module = linalg_ext.parse(f"func.func @f(%a: i1) -> i1 {{\n  %s = {op} %a : i1\n  return %s : i1\n}}")
    with pytest.raises(LinalgError, match=rf"2:8: .*'{op}' op of i1 cannot be compiled"):
        linalg_ext.compile(module, "f")


@pytest.mark.parametrize("name", ["addi", "maxsi", "minsi", "muli"])
def test_reductions(name: str) -> None:
    module = linalg_ext.parse(f"""
func.func @f(%x: tensor<2x3xi1>, %s: tensor<2xi1>) -> tensor<2xi1> {{
  %r = linalg.reduce {{arith.{name}}} ins(%x : tensor<2x3xi1>) outs(%s : tensor<2xi1>) dimensions = [1]
  return %r : tensor<2xi1>
}}""")
    compiled = linalg_ext.compile(module, "f")
    for start in (False, True):
        rows = [[True, False, True], [True, True, True]]
        expected = []
        for row in rows:
            total = -start
            for x in row:
                total = -(SIGNED[name](total, -x) & 1)
            expected.append(bool(total))
        assert linalg_ext.evaluate(module, "f", rows, [start, start]).tolist() == expected
        assert compiled(rows, [start, start]).tolist() == expected


@pytest.mark.parametrize(("name", "one"), [("index_cast", -1), ("index_castui", 1)])
def test_indices(name: str, one: int) -> None:
    """From one bit, and to it: of the upper bits nothing is left."""
    text = """
func.func @from(%x: tensor<2xi1>) -> tensor<2xindex> {
  %r = arith.NAME %x : tensor<2xi1> to tensor<2xindex>
  return %r : tensor<2xindex>
}
func.func @to(%x: tensor<4xindex>) -> tensor<4xi1> {
  %r = arith.NAME %x : tensor<4xindex> to tensor<4xi1>
  return %r : tensor<4xi1>
}
func.func @folded() -> index {
  %x = arith.constant true
  %r = arith.NAME %x : i1 to index
  return %r : index
}"""
    module = linalg_ext.parse(text.replace("NAME", name))
    for f in (linalg_ext.compile(module, "from"), lambda x: linalg_ext.evaluate(module, "from", x)):
        assert f([False, True]).tolist() == [0, one]
    for f in (linalg_ext.compile(module, "to"), lambda x: linalg_ext.evaluate(module, "to", x)):
        assert f([0, 1, 2, -1]).tolist() == [False, True, False, True]
    run_passes(module, ["canonicalize"])
    assert "arith.index" not in linalg_ext.print_module(module).split("@folded")[1]
    assert linalg_ext.evaluate(module, "folded") == one
