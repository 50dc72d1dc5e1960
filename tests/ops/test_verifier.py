"""The verifier: structure, limits, layouts, aliasing. (Shapes: test_shape_inference.py.)"""

from __future__ import annotations

import pytest

from tests.ops.rejection import rejects
from xjit.hlo import HloComputation, HloInstruction, HloModule, HloParseError, HloVerifyError, Layout, Shape
from xjit.hlo import attributes as at
from xjit.hlo.annotations.alias_config import Alias, BufferDonor, parse_aliases, parse_buffer_donors
from xjit.hlo.ir.schedule import HloSchedule
from xjit.ops.build import make
from xjit.ops.verifier import verify_module
from xjit.ops.verifier_options import VerifierOptions
from xjit.text.parser import parse_hlo

F32 = Shape.array("f32", (4,))


def _module() -> HloModule:
    return parse_hlo("""HloModule m
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT s = f32[] add(a, b)
}
ENTRY main {
  x = f32[4] parameter(0)
  y = f32[4] parameter(1)
  zero = f32[] constant(0)
  n = f32[4] negate(x)
  m = f32[4] multiply(n, y)
  ROOT r = f32[] reduce(m, zero), dimensions={0}, to_apply=add
}""")


def _named(module: HloModule, name: str) -> HloInstruction:
    return next(i for c in module.computations() for i in c.instructions if i.name == name)


def test_a_valid_module_passes():
    verify_module(_module())
    verify_module(_module(), VerifierOptions(layout_sensitive=True, allow_mixed_precision=False))


def test_the_error_names_instruction_computation_and_place():
    error = rejects(
        parse_hlo(
            "HloModule m\nENTRY e {\n  x = f32[4,3] parameter(0)\n  ROOT t = f32[4,3] transpose(x), dimensions={1,0} }"
        ),
        "transpose: the declared shape is f32[4,3], but the operands give f32[3,4]",
    )
    assert (error.line, error.span.line_text.strip()[:10]) == (4, "ROOT t = f")
    assert error.notes[0].startswith("%t = f32[4,3]")
    assert error.notes[-1] == "in computation e"


# -- structure


def test_entry_is_needed():
    rejects(HloModule("empty"), "module empty has no entry computation")


def test_operand_of_another_computation():
    module = _module()
    _named(module, "s").replace_operand_with_different_shape(0, _named(module, "x"))
    rejects(module, "operand x of s belongs to computation main")


def test_operand_without_a_computation():
    module = _module()
    _named(module, "n").replace_operand_with_different_shape(0, HloInstruction.create_parameter(7, F32, "free"))
    rejects(module, "operand free of n belongs to no computation")


def test_free_user_is_stale():
    module = _module()
    make("negate", _named(module, "x"), name="forgotten")
    rejects(module, "user forgotten of x is not in the computation")


def test_missing_user():
    module = _module()
    x, n = _named(module, "x"), _named(module, "n")
    del x._users[n]
    rejects(module, "n is not a user of its operand x")


def test_wrong_user():
    module = _module()
    _named(module, "x")._users[_named(module, "m")] = None
    rejects(module, "m is a user of x, but does not read it")


def test_wrong_parent():
    module = _module()
    _named(module, "n").parent = module.get_computation_with_name("add")
    rejects(module, "instruction n does not know its computation")


def test_root_of_another_computation():
    module = _module()
    module.entry_computation._root = _named(module, "s")
    rejects(module, "the root s is not in the computation")


def test_cycle():
    module = _module()
    _named(module, "n").replace_operand_with(0, _named(module, "m"))
    rejects(module, "the graph has a cycle through")


def test_cycle_through_a_control_edge():
    module = _module()
    _named(module, "m").add_control_dependency_to(_named(module, "n"))
    rejects(module, "the graph has a cycle through")


def test_control_edge_across_computations():
    module = _module()
    a, n = _named(module, "a"), _named(module, "n")
    a.control_successors.append(n)
    n.control_predecessors.append(a)
    rejects(module, "leaves the computation")


def test_control_edge_known_to_one_side_only():
    module = _module()
    _named(module, "x").control_successors.append(_named(module, "n"))
    rejects(module, "n lacks its control predecessor x")


def test_parameters_have_dense_numbers():
    module = _module()
    _named(module, "y").attributes = at.ParameterAttributes(2)
    rejects(module, "parameter 1 is missing among 2 parameters")
    _named(module, "y").attributes = at.ParameterAttributes(0)
    rejects(module, "two parameters have the number 0")


def test_names_and_ids_are_unique():
    module = _module()
    _named(module, "n").name = "m"
    rejects(module, "two instructions are named m")
    module = _module()
    _named(module, "n").unique_id = _named(module, "m").unique_id
    rejects(module, "share the id")
    module = _module()
    module.get_computation_with_name("add").name = "main"
    rejects(module, "two computations of module m are named main")


def test_called_computation_belongs_to_the_module():
    module, other = _module(), _module()
    reduce = _named(module, "r")
    reduce.set_called_computation(0, other.get_computation_with_name("add"))
    rejects(module, "r calls add, which is not in the module")


def test_callers_are_known():
    module = _module()
    module.get_computation_with_name("add").remove_caller(_named(module, "r"))
    rejects(module, "computation add does not know its caller r")
    module = _module()
    module.get_computation_with_name("add").add_caller(_named(module, "n"))
    rejects(module, "computation add has the stale caller n")


def test_recursion():
    module = HloModule("m")
    builder = HloComputation.Builder("f")
    x = builder.add_instruction(HloInstruction.create_parameter(0, F32))
    f = module.add_embedded_computation(builder.build())
    call = f.add_instruction(HloInstruction.create("call", F32, [x], called_computations=[f], name="again"))
    f.set_root_instruction(call)
    entry = HloComputation.Builder("main")
    entry.add_instruction(HloInstruction.create_parameter(0, F32))
    module.add_entry_computation(entry.build())
    rejects(module, "again calls f recursively")


def test_entry_is_not_called():
    module = _module()
    module._entry = module.get_computation_with_name("add")
    rejects(module, "the entry computation add is called by r")


def test_fused_computation_has_one_caller():
    module = parse_hlo("""HloModule m
fused {
  a = f32[4] parameter(0)
  ROOT s = f32[4] negate(a)
}
ENTRY main {
  x = f32[4] parameter(0)
  f = f32[4] fusion(x), kind=kLoop, calls=fused
  ROOT g = f32[4] fusion(f), kind=kLoop, calls=fused
}""")
    rejects(module, "fused computation fused must have one caller, but has 2")


def test_schedule():
    module = _module()
    order = module.entry_computation.make_instruction_post_order()
    module.set_schedule(HloSchedule({module.entry_computation: order}))
    verify_module(module)
    module.schedule.set_sequence(module.entry_computation, order[::-1])
    with pytest.raises(HloVerifyError):
        verify_module(module)


def test_an_order_of_instructions_that_is_no_schedule():
    module = _module()
    entry = module.entry_computation
    entry.reorder_instructions(entry.instructions[::-1])
    verify_module(module)
    module.keep_schedule(HloSchedule.from_instruction_order(module))
    rejects(module, "the schedule runs r before m, which it needs")


# -- operand and call counts


def test_operand_count():
    module = HloModule("m")
    builder = HloComputation.Builder("main")
    x = builder.add_instruction(HloInstruction.create_parameter(0, F32))
    builder.add_instruction(HloInstruction.create("add", F32, [x]))
    module.add_entry_computation(builder.build())
    rejects(module, "add: takes 2 operands, got 1")


def test_called_computation_count():
    module = HloModule("m")
    builder = HloComputation.Builder("main")
    x = builder.add_instruction(HloInstruction.create_parameter(0, F32))
    builder.add_instruction(HloInstruction.create("call", F32, [x]))
    module.add_entry_computation(builder.build())
    rejects(module, "call: calls 1 computation(s) (to_apply), got 0")


# -- shapes, layouts, limits


def _with_parameter(shape: Shape) -> HloModule:
    module = HloModule("m")
    builder = HloComputation.Builder("main")
    builder.add_instruction(HloInstruction.create_parameter(0, shape))
    module.add_entry_computation(builder.build())
    return module


def test_array_size_is_limited():
    verify_module(_with_parameter(Shape.array("f32", (2**46,))))
    error = rejects(_with_parameter(Shape.array("f32", (2**46 + 1,))), "more than this implementation addresses")
    assert "281474976710656 bytes" in error.notes[0]
    nested = Shape.tuple_of([F32, Shape.tuple_of([Shape.array("s8", (10**12, 10**12))])])
    rejects(_with_parameter(nested), "has about 10^24 elements, more than")


def test_negative_dimension():
    rejects(_with_parameter(Shape(F32.element_type, (2, -1))), "has a negative dimension")


def test_layouts_are_valid():
    rejects(
        _with_parameter(Shape.array("f32", (2, 3)).with_layout(Layout((0, 0)))),
        "is not a permutation of the 2 dimensions",
    )
    rejects(_with_parameter(Shape.array("f32", (2, 3)).with_layout(Layout((0,)))), "is not a permutation")


def test_layout_sensitive():
    text = """HloModule m, entry_computation_layout={{((f32[2,3]{{1,0}}))->f32[2,3]{{1,0}}}}
ENTRY main {{
  t = (f32[2,3]{{1,0}}) parameter(0)
  g = f32[2,3]{{{0}}} get-tuple-element(t), index=0
  ROOT c = f32[2,3]{{{1}}} copy(g)
}}"""
    verify_module(parse_hlo(text.format("1,0", "1,0")), VerifierOptions(layout_sensitive=True))
    verify_module(parse_hlo(text.format("0,1", "1,0")))
    rejects(
        parse_hlo(text.format("0,1", "1,0")), "get-tuple-element: result and what the operands", layout_sensitive=True
    )
    rejects(parse_hlo(text.format("1,0", "0,1")), "entry_computation_layout: the result and c", layout_sensitive=True)


def test_layouts_at_calls():
    text = """HloModule m
f {{
  a = f32[2,3]{{{0}}} parameter(0)
  ROOT n = f32[2,3]{{{1}}} copy(a)
}}
ENTRY main {{
  x = f32[2,3]{{1,0}} parameter(0)
  ROOT c = f32[2,3]{{1,0}} call(x), to_apply=f
}}"""
    verify_module(parse_hlo(text.format("1,0", "1,0")), VerifierOptions(layout_sensitive=True))
    rejects(parse_hlo(text.format("0,1", "1,0")), "call: operand x and parameter of f", layout_sensitive=True)
    rejects(parse_hlo(text.format("1,0", "0,1")), "call: result and", layout_sensitive=True)


def test_mixed_precision():
    text = """HloModule m
ENTRY main {{
  x = f32[4] parameter(0)
  h = bf16[4] parameter(1)
  ROOT s = {0}[4] {1}
}}"""
    verify_module(parse_hlo(text.format("f32", "add(x, h)")))
    verify_module(parse_hlo(text.format("bf16", "add(x, x)")))
    mixed = parse_hlo(text.format("f32", "add(x, h)"))
    rejects(mixed, "add: the operands mix the precisions bf16 and f32", allow_mixed_precision=False)
    narrowed = parse_hlo(text.format("bf16", "add(x, x)"))
    rejects(narrowed, "the declared shape is bf16[4], but", allow_mixed_precision=False)
    rejects(parse_hlo(text.format("bf16", "bitcast(x)")), "bitcast: the operand f32[4] has 16 bytes")


def test_replica_groups_fit_the_module():
    text = """HloModule m, replica_count=4
ENTRY main {
  x = f32[4] parameter(0)
  ROOT g = f32[8] all-gather(x), dimensions={0}, replica_groups={{0,1}}
}"""
    rejects(parse_hlo(text), "all-gather: replica_groups name 2 ids, but the module has 4")
    verify_module(parse_hlo(text.replace("{{0,1}}", "{{0,3},{1,2}}")))


@pytest.mark.parametrize("sharding", ["maximal device=1", "devices=[2,1]0,1", "devices=[1,2]<=[2]", "replicated"])
def test_shardings_name_devices_of_the_module(sharding: str):
    text = f"""HloModule m, num_partitions=2
ENTRY main {{
  x = f32[4,4] parameter(0), sharding={{{sharding}}}
  ROOT n = f32[4,4] negate(x)
}}"""
    verify_module(parse_hlo(text))
    outside = text.replace("device=1", "device=2").replace("0,1}", "0,2}").replace("[1,2]<=[2]", "[1,3]<=[3]")
    if outside != text:
        rejects(parse_hlo(outside), "parameter: sharding names device 2, but num_partitions=2")


def test_entry_computation_layout_has_the_entry_shapes():
    text = """HloModule m, entry_computation_layout={{({0})->{1}}}
ENTRY main {{
  x = f32[4] parameter(0)
  ROOT n = f32[4] negate(x)
}}"""
    verify_module(parse_hlo(text.format("f32[4]", "f32[4]")))
    rejects(parse_hlo(text.format("f32[5]", "f32[4]")), "entry_computation_layout: parameter 0 has shape f32[5], but x")
    rejects(parse_hlo(text.format("f32[4]", "f64[4]")), "entry_computation_layout: the result has shape f64[4], but n")
    module = parse_hlo(text.format("f32[4]", "f32[4]"))
    module.config.entry_computation_layout.parameter_shapes.append(F32)
    rejects(module, "entry_computation_layout has 2 parameters")


# -- aliasing


def test_alias_texts():
    assert parse_aliases("{ {0}: (1, {}, must-alias), {1,2}: (0, {2}) }") == (
        Alias((0,), 1, (), "must-alias"),
        Alias((1, 2), 0, (2,), "may-alias"),
    )
    assert parse_aliases("{{}: (0, {})}") == (Alias((), 0),)
    assert parse_aliases("{}: (0, {})") == (Alias((), 0),)
    assert parse_aliases("{}") == parse_aliases("") == ()
    assert parse_buffer_donors("{ (0, {}), (3, {1}) }") == (BufferDonor(0), BufferDonor(3, (1,)))
    assert str(Alias((0,), 1, (2,))) == "{0}: (1, {2}, may-alias)"


@pytest.mark.parametrize(
    "text",
    ["{ {0}: 1 }", "{ {0}: (1, {}) {1}: (0, {}) }", "{ {x}: (1, {}) }", "{ {0}: (0, {}, could-alias) }"],
)
def test_malformed_aliasing(text: str):
    with pytest.raises(HloParseError, match="1:33: error: aliasing"):
        parse_hlo(f"HloModule m, input_output_alias={text}\nENTRY e {{ ROOT x = f32[] parameter(0) }}")


@pytest.mark.parametrize(
    ("alias", "donor", "message"),
    [
        ("{ {0}: (0, {}) }", "{ (1, {}) }", ""),
        ("{ {2}: (0, {}) }", "", "has no element at index {2}"),
        ("{ {0}: (3, {}) }", "", "there are only 2 parameters"),
        ("{ {0}: (0, {1}) }", "", "has no element at index {1}"),
        ("{ {1}: (0, {}) }", "", "the parameter has shape f32[4], the output s32[]"),
        ("{ {0}: (0, {}), {0}: (1, {}) }", "", "is aliased twice"),
        ("", "{ (2, {}) }", "buffer_donor (2, {}): there are only 2 parameters"),
        ("", "{ (0, {1}) }", "has no element at index {1}"),
        ("{ {0}: (0, {}) }", "{ (0, {}) }", "donated or aliased already"),
    ],
)
def test_module_aliasing(alias: str, donor: str, message: str):
    module = parse_hlo("""HloModule m
ENTRY main {
  x = f32[4] parameter(0)
  i = f32[4] parameter(1)
  k = s32[] constant(1)
  ROOT t = (f32[4], s32[]) tuple(x, k)
}""")
    module.config.input_output_alias, module.config.buffer_donors = parse_aliases(alias), parse_buffer_donors(donor)
    if message:
        rejects(module, message)
    else:
        verify_module(module)


def test_operand_aliasing():
    text = """HloModule m
ENTRY main {{
  x = f32[4] parameter(0)
  ROOT c = (f32[4], s32[]) custom-call(x), custom_call_target="f", output_to_operand_aliasing={{{{{0}}}: ({1}, {{}})}}
}}"""
    verify_module(parse_hlo(text.format(0, 0)))
    error = rejects(parse_hlo(text.format(1, 0)), "custom-call: output_to_operand_aliasing {1}: (0, {}, may-alias)")
    assert error.line == 4
    rejects(parse_hlo(text.format(0, 1)), "there are only 1 operands")
