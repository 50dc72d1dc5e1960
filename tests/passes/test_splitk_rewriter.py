"""Parts of the sums of a few rows times a large matrix, by bytes."""

from __future__ import annotations

import pytest

import xjit
from xjit.hlo.attributes import DotAttributes
from xjit.passes.reductions.splitk_rewriter import SplitkRewriter


@pytest.mark.parametrize(
    ("rows", "heads", "parts"),
    [(1, 4, 8), (8, 4, 8), (9, 4, 1), (4, 64, 32), (4, 1024, 32)],
    ids=["one row", "a few rows", "more rows", "wide", "no part is shorter than 128"],
)
def test_a_few_rows_have_parts_that_fit_the_cache(rows: int, heads: int, parts: int) -> None:
    module = xjit.parse_hlo(f"""
HloModule m
ENTRY e {{
  p = f32[{heads},{rows},4096] parameter(0)
  v = f32[4096,{heads},64] parameter(1)
  ROOT d = f32[{heads},{rows},64] dot(p, v), lhs_batch_dims={{0}}, rhs_batch_dims={{1}},
    lhs_contracting_dims={{2}}, rhs_contracting_dims={{0}}
}}""")
    SplitkRewriter(1, 1024, 8).run(module)
    [dot] = [i for i in module.entry_computation.instructions if i.opcode == "dot"]
    [contracted] = dot.attributes_as(DotAttributes).rhs_contracting_dims
    assert dot.operand(1).shape.dimensions[contracted] == 4096 // parts
