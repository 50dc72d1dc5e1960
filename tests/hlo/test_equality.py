"""Structural equality: what is ignored, what is told apart, and that the difference is named."""

from __future__ import annotations

import pytest

from xjit.hlo.compare.equality import first_difference, structural_equal
from xjit.text import parse_hlo

BASE = """HloModule m
add {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] {combiner}(a, b) }}
ENTRY e {{
  p = f32[4,2]{{1,0}} parameter(0)
  z = f32[] constant({zero})
  n = f32[4,2]{{{layout}}} {unary}(p)
  m = f32[4,2]{{1,0}} abs(p)
  r = f32[4] reduce(n, z), dimensions={{1}}, to_apply=add{annotation}
  ROOT t = (f32[4], f32[4,2]) tuple(r, m){control}
}}"""
DEFAULTS = {
    "combiner": "add", "zero": "0", "layout": "1,0", "unary": "negate", "annotation": "", "control": "",
}  # fmt: skip


def module(**changes: str):
    return parse_hlo(BASE.format(**{**DEFAULTS, **changes}))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"combiner": "maximum"}, "add and maximum"),
        ({"zero": "1"}, "literal"),
        ({"zero": "-0.0"}, "literal"),
        ({"layout": "0,1"}, "f32[4,2]{1,0} and f32[4,2]{0,1}"),
        ({"unary": "sine"}, "negate and sine"),
        ({"annotation": ", sharding={replicated}"}, "sharding None and {replicated}"),
        ({"annotation": ', backend_config="x"'}, "backend_config  and x"),
        ({"control": ", control-predecessors={n}"}, "different control predecessors"),
    ],
)
def test_differences_are_found_and_named(changes: dict[str, str], message: str) -> None:
    difference = first_difference(module(), module(**changes))
    assert difference is not None and message in difference


def test_names_order_and_ids_do_not_matter() -> None:
    text = BASE.format(**DEFAULTS)
    lines = text.splitlines()
    lines[5], lines[6] = lines[6], lines[5]
    renamed = "\n".join(lines).replace("add {", "plus {").replace("to_apply=add", "to_apply=plus").replace("n =", "q =")
    assert structural_equal(module(), parse_hlo(renamed.replace("reduce(n,", "reduce(q,")))


def test_options() -> None:
    assert structural_equal(module(), module(layout="0,1"), layouts=False)
    assert structural_equal(module(), module(annotation=", sharding={replicated}"), annotations=False)
    named = module(annotation=', metadata={op_name="x"}')
    assert structural_equal(module(), named)
    assert not structural_equal(module(), named, metadata=True)
    replicated = parse_hlo(BASE.format(**DEFAULTS).replace("HloModule m", "HloModule m, replica_count=2"))
    assert structural_equal(module(), replicated)
    assert "replica_count" in (first_difference(module(), replicated, config=True) or "")


def test_sharing_is_part_of_the_structure() -> None:
    shared = "p = f32[] parameter(0)\na = f32[] negate(p)\nb = f32[] negate(p)\nROOT t = (f32[], f32[]) tuple(a, a)"
    split = shared.replace("tuple(a, a)", "tuple(a, b)")
    assert not structural_equal(parse_hlo(shared), parse_hlo(split))
    assert not structural_equal(parse_hlo(split), parse_hlo(shared))


def test_instructions_that_the_root_does_not_reach_count() -> None:
    text = "p = f32[] parameter(0)\nd = f32[] {}(p)\nROOT n = f32[] negate(p)"
    assert not structural_equal(parse_hlo(text.format("abs")), parse_hlo(text.format("sine")))
    difference = first_difference(parse_hlo(text.format("abs")), parse_hlo(text.replace("d = f32[] {}(p)\n", "")))
    assert difference is not None and "+1 abs" in difference


def test_a_long_chain_is_no_problem() -> None:
    text = "x0 = f32[] parameter(0)\n" + "".join(f"x{i} = f32[] negate(x{i - 1})\n" for i in range(1, 20000))
    assert structural_equal(parse_hlo(text), parse_hlo(text))
