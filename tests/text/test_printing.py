"""What the print options change, and exact texts."""

from __future__ import annotations

from xjit.hlo import HloInstruction, HloModule, HloPrintOptions, Literal, Shape
from xjit.hlo.ir.computation import HloComputation
from xjit.hlo.ir.name_uniquer import NameUniquer
from xjit.text import parse_hlo

TEXT = """HloModule m, entry_computation_layout={(f32[2]{0})->f32[2]{0}}

f {
  x = f32[2]{0} parameter(0)
  ROOT n = f32[2]{0} negate(x)
}

ENTRY e {
  p.7 = f32[2]{0} parameter(0)
  c.8 = f32[2]{0} constant({1, 2.5}), metadata={op_name="k"}
  a.9 = f32[2]{0} add(p.7, c.8), control-predecessors={c.8}, sharding={replicated}, backend_config={"b":1}
  ROOT r.10 = f32[2]{0} call(a.9), to_apply=f
}
"""


def test_default() -> None:
    assert (
        str(parse_hlo(TEXT))
        == """HloModule m, entry_computation_layout={(f32[2]{0})->f32[2]{0}}

%f (x: f32[2]) -> f32[2] {
  %x = f32[2]{0} parameter(0)
  ROOT %n = f32[2]{0} negate(%x)
}

ENTRY %e (p.7: f32[2]) -> f32[2] {
  %c.8 = f32[2]{0} constant({1, 2.5}), metadata={op_name="k"}
  %p.7 = f32[2]{0} parameter(0)
  %a.9 = f32[2]{0} add(%p.7, %c.8), sharding={replicated}, control-predecessors={%c.8}, backend_config={"b":1}
  ROOT %r.10 = f32[2]{0} call(%a.9), to_apply=%f
}
"""
    )


def add_line(**options: bool) -> str:
    module = parse_hlo(TEXT)
    return module.entry_computation.instructions[2].to_string(HloPrintOptions(**options))


def test_each_option_removes_one_thing() -> None:
    full = add_line()
    assert add_line(print_percent=False) == full.replace("%", "")
    assert add_line(print_control_dependencies=False) == full.replace(", control-predecessors={%c.8}", "")
    assert add_line(print_backend_config=False) == full.replace(', backend_config={"b":1}', "")
    assert add_line(print_sharding=False) == full.replace(", sharding={replicated}", "")
    assert add_line(print_layouts=False) == full.replace("{0}", "")
    assert add_line(print_ids=False) == full.replace(".7", "").replace(".8", "").replace(".9", "")
    assert add_line(print_operand_shape=True) == full.replace("(%p.7, %c.8)", "(f32[2]{0} %p.7, f32[2]{0} %c.8)")


def test_large_constants_can_be_elided() -> None:
    constant = HloInstruction.create_constant(Literal.full(Shape.array("f32", (11,)), 1))
    assert "constant({1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1})" in str(constant)
    assert "constant({...})" in constant.to_string(HloPrintOptions(print_large_constants=False))


def test_canonical_text_does_not_depend_on_names() -> None:
    renamed = TEXT.replace("a.9", "sum").replace("call(sum), to_apply=f", "call(sum), to_apply=g").replace("f {", "g {")
    options = HloPrintOptions.canonical()
    assert parse_hlo(renamed).to_string(options) == parse_hlo(TEXT).to_string(options)
    assert "%tmp_0" in parse_hlo(TEXT).to_string(options)


def test_header_and_program_shape_are_optional() -> None:
    text = parse_hlo(TEXT).to_string(HloPrintOptions(print_header=False, print_program_shape=False, indent=1))
    assert text.startswith("  %f {\n    %x = ")


def test_operands_are_numbered_every_five() -> None:
    parameters = [HloInstruction.create_parameter(i, Shape.array("f32"), f"p{i}") for i in range(7)]
    line = str(HloInstruction.create_tuple(parameters))
    assert "tuple(%p0, %p1, %p2, %p3, %p4, /*index=5*/%p5, %p6)" in line


def test_instructions_are_printed_after_what_they_read() -> None:
    computation = HloComputation("c")
    p = computation.add_instruction(HloInstruction.create_parameter(0, Shape.array("f32"), "p"))
    late = HloInstruction.create("negate", p.shape, [p], name="late")
    user = computation.add_instruction(HloInstruction.create("abs", p.shape, [late], name="user"))
    computation.add_instruction(late)
    computation.set_root_instruction(user)
    module = HloModule("m")
    module.add_entry_computation(computation)
    assert [line.split()[-1] for line in str(computation).splitlines()[1:-1]] == [
        "parameter(0)",
        "negate(%p)",
        "abs(%late)",
    ]
    assert parse_hlo(str(module)).entry_computation.root_instruction.opcode == "abs"


def test_names_that_spell_types_are_changed() -> None:
    assert NameUniquer.sanitize("f32") == "f32_"
    assert NameUniquer.sanitize("ROOT") == "ROOT_"
    module = parse_hlo("s8 = f32[] parameter(0)\nROOT n = f32[] negate(s8)")
    assert parse_hlo(str(module)).instruction_count == 2
