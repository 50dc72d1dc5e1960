"""When rewritings pay on CPUs: the predicates that the CPU pipeline gives to its passes."""

from __future__ import annotations

import pytest

from xjit.passes.cpu.profitability import has_short_rows, reads_transposed
from xjit.text.parser import parse_hlo

PLAIN = "ROOT r = f32[{n}] reduce(x, z), dimensions={{1,2}}, to_apply=add"
NEGATED = f"y = f32[{{shape}}] negate(x) {PLAIN.replace('(x', '(y')}"
SHIFTED = f"""t = f32[{{m}}] parameter(1) b = f32[{{shape}}] broadcast(t), dimensions={{{{2}}}}
  y = f32[{{shape}}] add(x, b) {PLAIN.replace("(x", "(y")}"""
SCALED = f"b = f32[{{shape}}] broadcast(z), dimensions={{{{}}}} y = f32[{{shape}}] multiply(x, b) {PLAIN.replace('(x', '(y')}"
TURNED = f"y = f32[{{shape}}] reverse(x), dimensions={{{{1}}}} {PLAIN.replace('(x', '(y')}"


@pytest.mark.parametrize(
    ("body", "length", "wanted"),
    [
        (PLAIN, 7, True),
        (PLAIN, 32, False),
        (NEGATED, 28, True),
        (SCALED, 28, True),
        (SHIFTED, 7, False),  # lanes would gather the vector
        (SHIFTED, 3, True),  # there are no lanes along rows anyway
        (TURNED, 7, False),
    ],
)
def test_short_rows_are_read_as_one(body: str, length: int, wanted: bool) -> None:
    shape = f"5,100,{length}"
    module = parse_hlo(f"""HloModule m
add {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }}
ENTRY e {{
  x = f32[{shape}] parameter(0)
  z = f32[] constant(0)
  {body.format(shape=shape, n=5, m=length)}
}}
""")
    assert has_short_rows(module.entry_computation.root_instruction) == wanted


def test_reduced_columns_have_no_short_rows() -> None:
    module = parse_hlo("""HloModule m
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
ENTRY e { x = f32[100,3] parameter(0) z = f32[] constant(0) ROOT r = f32[3] reduce(x, z), dimensions={0}, to_apply=add }
""")
    assert not has_short_rows(module.entry_computation.root_instruction)


@pytest.mark.parametrize(
    ("shape", "wanted"),
    [("f32[8]", True), ("f32[1,8]", True), ("f32[4,8]", False)],  # small matrices are turned, and need no packing
)
def test_a_transposed_matrix_is_read_as_it_is_by_a_vector(shape: str, wanted: bool) -> None:
    rows = shape.removeprefix("f32[").removesuffix("8]")
    module = parse_hlo(f"""HloModule m
ENTRY e {{
  v = {shape} parameter(0)
  x = f32[6,8] parameter(1)
  t = f32[8,6] transpose(x), dimensions={{1,0}}
  ROOT d = f32[{rows}6] dot(v, t), lhs_contracting_dims={{{shape.count(",")}}}, rhs_contracting_dims={{0}}
}}
""")
    assert reads_transposed(module.entry_computation.root_instruction, 1) == wanted
