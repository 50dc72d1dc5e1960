"""outline_expression_from_computation: the example of the specification, values, errors."""

from __future__ import annotations

import numpy as np
import pytest

import xjit
from xjit.hlo import InvalidArgument
from xjit.hlo.compare.equality import structural_equal
from xjit.ops.verifier import verify_module
from xjit.text.parser import parse_hlo

BEFORE = """HloModule outline_before
ENTRY e {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  m = f32[4] multiply(x, y)
  a = f32[4] add(m, x)
  ROOT n = f32[4] negate(a)
}"""
AFTER = """HloModule outline_after
outlined {
  p0 = f32[4] parameter(0)
  p1 = f32[4] parameter(1)
  m = f32[4] multiply(p0, p1)
  ROOT a = f32[4] add(m, p0)
}
ENTRY e {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  c = f32[4] call(x, y), to_apply=outlined
  ROOT n = f32[4] negate(c)
}"""


def by_name(module, *names):
    found = {i.name: i for c in module.computations() for i in c.instructions}
    return [found[name] for name in names]


def test_golden_example() -> None:
    module = parse_hlo(BEFORE)
    entry = module.entry_computation
    call = module.outline_expression_from_computation(by_name(module, "m", "a"), "outlined", entry)
    assert call.opcode == "call" and call.to_apply.name == "outlined" and entry.instruction_count == 4
    verify_module(module)
    assert structural_equal(module, parse_hlo(AFTER))
    x, y = np.arange(4, dtype=np.float32), np.full(4, 3, np.float32)
    np.testing.assert_array_equal(xjit.evaluate(module, x, y), -(x * y + x))


def test_the_root_can_be_outlined() -> None:
    module = parse_hlo(BEFORE)
    call = module.outline_expression_from_computation(by_name(module, "a", "n"), "tail", module.entry_computation)
    assert call.is_root() and [o.name for o in call.operands] == ["m", "x"]
    verify_module(module)


def test_control_edges_move_to_the_call() -> None:
    module = parse_hlo(BEFORE.replace("ROOT n", "before = f32[4] abs(y)\n  after = f32[4] abs(x)\n  ROOT n"))
    m, a, before, after = by_name(module, "m", "a", "before", "after")
    before.add_control_dependency_to(m)
    m.add_control_dependency_to(a)
    a.add_control_dependency_to(after)
    call = module.outline_expression_from_computation([m, a], "outlined", module.entry_computation)
    assert call.control_predecessors == [before] and call.control_successors == [after]
    inner = call.to_apply.root_instruction
    assert [p.opcode for p in inner.control_predecessors] == ["multiply"]
    verify_module(module)


def test_the_call_inherits_the_annotations_of_the_root() -> None:
    marks = 'sharding={replicated}, frontend_attributes={k="v"}, metadata={op_name="o"}'
    module = parse_hlo(BEFORE.replace("add(m, x)", f"add(m, x), {marks}"))
    call = module.outline_expression_from_computation(by_name(module, "m", "a"), "outlined", module.entry_computation)
    assert (call.frontend_attributes, call.metadata.op_name, str(call.sharding)) == ({"k": "v"}, "o", "{replicated}")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ((), "nothing to outline"),
        (("m", "m"), "listed twice"),
        (("a", "m"), "m must come before its user a"),
        (("x", "m"), "parameter x cannot be outlined"),
        (("n", "m"), "n is the root of e"),
        (("m", "n"), "m is not the last to outline, but a reads it"),
    ],
)
def test_errors(names: tuple[str, ...], message: str) -> None:
    module = parse_hlo(BEFORE)
    text = module.to_string()
    with pytest.raises(InvalidArgument, match=message):
        module.outline_expression_from_computation(by_name(module, *names), "o", module.entry_computation)
    assert module.to_string() == text


def test_foreign_instructions_and_computations() -> None:
    module, other = parse_hlo(BEFORE), parse_hlo(BEFORE)
    with pytest.raises(InvalidArgument, match="is not in computation e"):
        module.outline_expression_from_computation(by_name(other, "m"), "o", module.entry_computation)
    with pytest.raises(InvalidArgument, match="is not in module"):
        module.outline_expression_from_computation(by_name(other, "m"), "o", other.entry_computation)


def test_a_way_back_through_the_outside_is_refused() -> None:
    module = parse_hlo(BEFORE.replace("ROOT n", "other = f32[4] abs(y)\n  ROOT n"))
    m, a, other = by_name(module, "m", "a", "other")
    m.add_control_dependency_to(other)
    other.add_control_dependency_to(a)
    with pytest.raises(InvalidArgument, match="other lies between the instructions to outline"):
        module.outline_expression_from_computation([m, a], "o", module.entry_computation)
