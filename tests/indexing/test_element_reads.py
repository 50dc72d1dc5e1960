"""Plain maps from a result to what is read: of instructions and of fusions, from the root or from inside."""

from __future__ import annotations

import pytest

from xjit.affine import UNKNOWN
from xjit.hlo import HloInstruction, HloModule
from xjit.indexing.element_reads import ElementReads
from xjit.text.parser import parse_hlo

TEXT = """HloModule m
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
f {
  p = f32[4,6] parameter(0)
  q = f32[6,4] parameter(1)
  z = f32[] parameter(2)
  t = f32[4,6] transpose(q), dimensions={1,0}
  s = f32[4,6] add(p, t)
  o = f32[4,6] reverse(p), dimensions={1}
  u = f32[4,6] multiply(s, o)
  ROOT r = f32[4] reduce(u, z), dimensions={1}, to_apply=add
}
ENTRY e {
  x = f32[4,6] parameter(0)
  y = f32[6,4] parameter(1)
  z = f32[] constant(0)
  i = s32[] parameter(2)
  n = f32[4,6] negate(x)
  w = f32[4,6] dynamic-slice(x, i, i), dynamic_slice_sizes={4,6}
  d = f32[8,6] pad(x, z), padding=2_2x0_0
  flat = f32[24] bitcast(x)
  ROOT g = f32[4] fusion(x, y, z), kind=kInput, calls=f
}
"""


@pytest.fixture(scope="module")
def module() -> HloModule:
    return parse_hlo(TEXT)


def named(module: HloModule, name: str) -> HloInstruction:
    return next(i for i in module.entry_computation.instructions if i.name == name)


def texts(ways: object) -> set[str]:
    return {str(m).split("\n", 1)[0] for m in ways}  # type: ignore[attr-defined]


def test_an_instruction(module: HloModule) -> None:
    reads = ElementReads()
    (ways,) = reads.of(named(module, "n"))
    assert list(ways) == [reads.identity(named(module, "n").shape)]


@pytest.mark.parametrize("name", ["w", "d"])
def test_data_and_edges_are_unknown(module: HloModule, name: str) -> None:
    assert UNKNOWN in ElementReads().of(named(module, name))[0]


def test_a_fusion_from_what_it_reduces(module: HloModule) -> None:
    fusion = named(module, "g")
    assert list(ElementReads().of(fusion)[0]) == [UNKNOWN]
    x, y, z = ElementReads().of(fusion, fusion.fused_expression_root.operand(0))
    assert texts(x) == {"(d0, d1) -> (d0, d1)", "(d0, d1) -> (d0, -d1 + 5)"}
    assert texts(y) == {"(d0, d1) -> (d1, d0)"} and not z


def test_neighbours(module: HloModule) -> None:
    reads, fusion = ElementReads(), named(module, "g")
    x, y, _ = fusion.operands
    start = fusion.fused_expression_root.operand(0)
    ways_x, ways_y, _ = reads.of(fusion, start)
    along = [reads.is_along(m, x.shape, start.shape) for m in ways_x]
    assert sorted(along) == [False, True]  # the reversed one runs the other way
    assert not any(reads.is_along(m, y.shape, start.shape) for m in ways_y)


def test_through_a_bitcast(module: HloModule) -> None:
    reads, flat = ElementReads(), named(module, "flat")
    (way,) = reads.through({reads.identity(flat.shape): None}, flat)
    assert str(way).startswith("(d0) -> (d0 floordiv 6, d0 mod 6)")
