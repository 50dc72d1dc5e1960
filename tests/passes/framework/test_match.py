"""Patterns: opcodes, operands in either order, one use, constants, names."""

from __future__ import annotations

import pytest

from xjit.hlo import HloInstruction
from xjit.passes.framework import match as m
from xjit.text.parser import parse_hlo

TEXT = """ENTRY e {
  x = f32[2] parameter(0)  y = f32[2] parameter(1)
  zero = f32[] constant(0)  minus = f32[] constant(-0)  nan = f32[] constant(nan)  four = s32[] constant(4)
  row = f32[2] constant({0, 0})  yes = pred[] constant(true)
  zeros = f32[2] broadcast(zero), dimensions={}
  n = f32[2] negate(x)
  a = f32[2] add(n, zeros)
  d = f32[2] subtract(n, y)
  s = f32[2] subtract(y, y)
  q = f32[2] multiply(s, s)
  ROOT t = (f32[2], f32[2], f32[2], f32[2]) tuple(a, d, q, row)
}"""


@pytest.fixture
def named() -> dict[str, HloInstruction]:
    return {i.name: i for i in parse_hlo(TEXT).entry_computation.instructions}


def test_operands_of_commutative_opcodes_match_in_either_order(named: dict[str, HloInstruction]) -> None:
    for pattern in (m.op("add", m.any("v"), m.splat(0.0, "c")), m.op("add", m.splat(0.0, "c"), m.any("v"))):
        match = pattern.match(named["a"])
        assert match is not None and match.root is named["a"]
        assert match["v"] is named["n"] and match["c"] is named["zero"]
    assert m.op("subtract", m.op("parameter"), m.op("negate")).match(named["d"]) is None
    assert m.op("subtract", m.op("negate"), m.op("parameter")).match(named["d"]) is not None


def test_a_name_stands_for_one_instruction(named: dict[str, HloInstruction]) -> None:
    same = m.op("subtract", m.any("v"), m.any("v"))
    assert same.match(named["s"]) is not None and same.match(named["d"]) is None


def test_an_order_that_failed_leaves_no_names(named: dict[str, HloInstruction]) -> None:
    match = m.op("add", m.op("broadcast|negate", name="v"), m.op("negate", name="w")).match(named["a"])
    assert match is not None and match["v"] is named["zeros"] and match["w"] is named["n"]


def test_opcodes_and_numbers_of_operands(named: dict[str, HloInstruction]) -> None:
    assert m.op("add|subtract").match(named["d"]) is not None and m.op("add|multiply").match(named["d"]) is None
    assert m.op("tuple", m.any()).match(named["t"]) is None
    assert m.any().match(named["t"]) is not None


def test_one_use(named: dict[str, HloInstruction]) -> None:
    used_once = m.any().one_use()
    assert used_once.match(named["zeros"]) is not None
    assert used_once.match(named["n"]) is None  # by two
    assert used_once.match(named["s"]) is None  # twice by one
    assert used_once.match(named["t"]) is None  # the root


def test_constants(named: dict[str, HloInstruction]) -> None:
    def values(value: float | None) -> set[str]:
        return {name for name, i in named.items() if m.constant_scalar(value).match(i) is not None}

    assert values(None) == {"zero", "minus", "nan", "four", "yes"}
    assert values(0.0) == {"zero"} and values(-0.0) == {"minus"} and values(4) == {"four"} and values(True) == {"yes"}
    assert values(float("nan")) == {"nan"}
    assert m.constant("c").match(named["row"]) is not None and m.splat(1.0).match(named["zeros"]) is None


def test_conditions(named: dict[str, HloInstruction]) -> None:
    pattern = m.op("negate").where(lambda i: i.operand(0).name == "x").named("v")
    match = pattern.match(named["n"])
    assert match is not None and match["v"] is named["n"]
    assert m.op("subtract").where(lambda i: i.operand(0).name == "x").match(named["d"]) is None


def test_conditions_of_shapes_are_told_apart_from_the_others(named: dict[str, HloInstruction]) -> None:
    asked: list[str] = []

    @m.of_shapes
    def is_row(i: HloInstruction) -> bool:
        asked.append("shape")
        return i.shape.rank == 1

    def is_named(i: HloInstruction) -> bool:
        asked.append("name")
        return i.name == "a"

    pattern = m.op("add").where(is_row).where(is_named)
    assert pattern.may_match_shapes(named["a"]) and asked == ["shape"]
    assert pattern.match_besides(named["a"]) is not None and asked == ["shape", "name"]
    assert pattern.match(named["a"]) is not None and asked == ["shape", "name", "shape", "name"]
    assert pattern.match_besides(named["s"]) is None


def test_operands_rule_patterns_out_by_their_kinds() -> None:
    splat = m.op("add", m.any("x"), m.op(f"constant|{m.SPLAT}", name="c"))
    assert splat.may_match_operands(("parameter", m.SPLAT), are_one=False)
    assert splat.may_match_operands(("constant", "parameter"), are_one=False)  # in the other order
    assert not splat.may_match_operands(("parameter", "broadcast"), are_one=False)
    any_broadcast = m.op("add", m.any("x"), m.op("broadcast"))
    assert any_broadcast.may_match_operands(("parameter", m.SPLAT), are_one=False)
    twice = m.op("add", m.any("x"), m.any("x"))
    assert twice.may_match_operands(("parameter", "parameter"), are_one=True)
    assert not twice.may_match_operands(("parameter", "parameter"), are_one=False)
    assert not m.op("select", m.any(), m.any(), m.any()).may_match_operands(("parameter",) * 2, are_one=False)


def test_a_broadcast_of_a_constant_is_of_a_kind_of_its_own(named: dict[str, HloInstruction]) -> None:
    assert m.kind_of(named["zeros"]) == m.SPLAT and m.kind_of(named["row"]) != m.SPLAT
    assert m.op(m.SPLAT).match(named["zeros"]) is not None
    assert m.op(m.SPLAT).match(named["a"]) is None
