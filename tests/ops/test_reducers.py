"""Which reducers are known to choose an extremum with its index."""

from __future__ import annotations

import pytest

from xjit.ops.reducers import selected_extremum
from xjit.text.parser import parse_hlo

TEXT = """HloModule m
ENTRY best {{
  a = {kind}[] parameter(0)
  i = s32[] parameter(1)
  b = {kind}[] parameter(2)
  j = s32[] parameter(3)
  beats = pred[] compare(a, b), direction={beats}{total}
  nan = pred[] compare(a, a), direction=NE
  keep = pred[] {keep}
  value = {kind}[] {value}
  tie = pred[] compare(a, b), direction=EQ
  lower = pred[] compare(i, j), direction={lower}
  first = pred[] and(tie, lower)
  stay = pred[] or(keep, first)
  index = s32[] select({stay}, i, j)
  ROOT r = ({kind}[], s32[]) tuple(value, index)
}}
"""


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, "maximum"),
        ({"beats": "LT"}, "minimum"),
        ({"kind": "s32"}, "maximum"),
        ({"kind": "s32", "keep": "copy(beats)"}, "maximum"),
        ({"kind": "s32", "keep": "copy(beats)", "value": "maximum(a, b)"}, "maximum"),
        ({"beats": "LT", "value": "minimum(a, b)"}, "minimum"),
        ({"value": "minimum(a, b)"}, None),  # not the one of the index
        ({"value": "add(a, b)"}, None),
        ({"keep": "copy(beats)"}, None),  # a NaN is lost again
        ({"lower": "GT"}, None),  # the higher index
        ({"stay": "keep"}, None),  # of ties the later operand
        ({"beats": "GE"}, None),
        ({"beats": "EQ"}, None),
        ({"total": ", type=TOTALORDER"}, None),
    ],
)
def test_selected_extremum(changes: dict[str, str], expected: str | None) -> None:
    usual = {"kind": "f32", "beats": "GT", "total": "", "keep": "or(beats, nan)", "lower": "LT", "stay": "stay"}
    usual |= {"value": "select(keep, a, b)"}
    assert selected_extremum(parse_hlo(TEXT.format(**{**usual, **changes})).entry_computation) == expected
