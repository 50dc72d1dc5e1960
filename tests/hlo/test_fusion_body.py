"""Bodies of fusions: what leaves its computation is moved, what stays is cloned, and fusions bring their bodies."""

from __future__ import annotations

import pytest

from xjit import parse_hlo
from xjit.hlo import HloComputation, HloInstruction, HloModule
from xjit.hlo.diagnostics import InvalidArgument
from xjit.hlo.edit.fusion_body import FusionBody

TEXT = """
HloModule m
sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }
inner { p = f32[4] parameter(0) q = f32[4] parameter(1) z = f32[] parameter(2) n = f32[4] add(q, p)
  ROOT r = f32[] reduce(n, z), dimensions={0}, to_apply=sum }
ENTRY main {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  zero = f32[] parameter(2)
  m = f32[4] multiply(x, y)
  f = f32[] fusion(m, x, zero), kind=kInput, calls=inner
  ROOT e = f32[] exponential(f)
}
"""


def start() -> tuple[HloModule, dict[str, HloInstruction], FusionBody]:
    module = parse_hlo(TEXT)
    named = {i.name: i for c in module.computations() for i in c.instructions if c.name != "sum"}
    return module, named, FusionBody(module.add_embedded_computation(HloComputation("body")))


def test_what_leaves_is_moved_with_its_name_and_edges() -> None:
    module, named, body = start()
    for unit in ("m", "f"):
        value = body.take(named[unit], stays=False)
    assert value is named["r"]
    assert [i.name for i in body.computation.instructions] == ["param_0", "param_1", "m", "param_2", "n", "r"]
    assert list(body.parameters) == [named["x"], named["y"], named["zero"]]
    assert named["n"].operands == (body.parameters[named["x"]], named["m"])
    assert named["m"].users == (named["f"], named["n"])  # the call is left, for whoever asked
    assert [c.name for c in body.computation.callees()] == ["sum"]
    inner = module.get_computation_with_name("inner")
    assert inner is not None and not inner.callees()


def test_what_stays_is_cloned() -> None:
    _, named, body = start()
    multiplied = body.take(named["m"], stays=True)
    reduced = body.take(named["f"], stays=True)
    assert multiplied is not named["m"] and reduced is not named["r"]
    assert reduced.operand(0).operands == (body.parameters[named["x"]], multiplied)
    assert named["m"].parent is named["x"].parent and named["r"].operand(0) is named["n"]


@pytest.mark.parametrize("name", ["x", "zero"])
def test_parameters_do_not_move(name: str) -> None:
    _, named, body = start()
    with pytest.raises(InvalidArgument, match=f"{name} cannot move into body"):
        body.computation.take_instruction(named[name], [])


def test_what_is_free_or_of_another_module_does_not_move() -> None:
    _, named, body = start()
    free = HloInstruction.create("negate", named["x"].shape, [named["x"]])
    with pytest.raises(InvalidArgument, match="no part of another computation"):
        body.computation.take_instruction(free, [])
    free.detach_from_operands()
    with pytest.raises(InvalidArgument, match="no part of another computation"):
        body.computation.take_instruction(start()[1]["m"], [])
