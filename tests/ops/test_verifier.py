"""The verifier: structure, limits, layouts, aliasing. (Shapes: test_shape_inference.py.)"""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.ops.refused_modules import PRELUDE, REFUSED
from xjit.hlo import HloComputation, HloInstruction, HloModule, HloParseError, HloVerifyError, Layout, Shape
from xjit.hlo import attributes as at
from xjit.hlo.annotations.alias_config import Alias, BufferDonor, parse_aliases, parse_buffer_donors
from xjit.hlo.ir.schedule import HloSchedule
from xjit.ops.build import make
from xjit.ops.verifier import verify_module
from xjit.ops.verifier_options import VerifierOptions
from xjit.text.parser import parse_hlo

F32 = Shape.array("f32", (4,))
PIN = 'b = b(f32[4]) custom-call(x), custom_call_target="Pin", output_to_operand_aliasing={{}:(0, {})} '


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


def _rejects(module: HloModule, message: str, **options: Any) -> HloVerifyError:
    with pytest.raises(HloVerifyError) as caught:
        verify_module(module, VerifierOptions(**options))
    assert message in caught.value.message
    return caught.value


def test_a_valid_module_passes():
    verify_module(_module())
    verify_module(_module(), VerifierOptions(layout_sensitive=True, allow_mixed_precision=False))


def test_the_error_names_instruction_computation_and_place():
    error = _rejects(
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
    _rejects(HloModule("empty"), "module empty has no entry computation")


def test_operand_of_another_computation():
    module = _module()
    _named(module, "s").replace_operand_with_different_shape(0, _named(module, "x"))
    _rejects(module, "operand x of s belongs to computation main")


def test_operand_without_a_computation():
    module = _module()
    _named(module, "n").replace_operand_with_different_shape(0, HloInstruction.create_parameter(7, F32, "free"))
    _rejects(module, "operand free of n belongs to no computation")


def test_free_user_is_stale():
    module = _module()
    make("negate", _named(module, "x"), name="forgotten")
    _rejects(module, "user forgotten of x is not in the computation")


def test_missing_user():
    module = _module()
    x, n = _named(module, "x"), _named(module, "n")
    del x._users[n]
    _rejects(module, "n is not a user of its operand x")


def test_wrong_user():
    module = _module()
    _named(module, "x")._users[_named(module, "m")] = None
    _rejects(module, "m is a user of x, but does not read it")


def test_wrong_parent():
    module = _module()
    _named(module, "n").parent = module.get_computation_with_name("add")
    _rejects(module, "instruction n does not know its computation")


def test_root_of_another_computation():
    module = _module()
    module.entry_computation._root = _named(module, "s")
    _rejects(module, "the root s is not in the computation")


def test_cycle():
    module = _module()
    _named(module, "n").replace_operand_with(0, _named(module, "m"))
    _rejects(module, "the graph has a cycle through")


def test_cycle_through_a_control_edge():
    module = _module()
    _named(module, "m").add_control_dependency_to(_named(module, "n"))
    _rejects(module, "the graph has a cycle through")


def test_control_edge_across_computations():
    module = _module()
    a, n = _named(module, "a"), _named(module, "n")
    a.control_successors.append(n)
    n.control_predecessors.append(a)
    _rejects(module, "leaves the computation")


def test_control_edge_known_to_one_side_only():
    module = _module()
    _named(module, "x").control_successors.append(_named(module, "n"))
    _rejects(module, "n lacks its control predecessor x")


def test_parameters_have_dense_numbers():
    module = _module()
    _named(module, "y").attributes = at.ParameterAttributes(2)
    _rejects(module, "parameter 1 is missing among 2 parameters")
    _named(module, "y").attributes = at.ParameterAttributes(0)
    _rejects(module, "two parameters have the number 0")


def test_names_and_ids_are_unique():
    module = _module()
    _named(module, "n").name = "m"
    _rejects(module, "two instructions are named m")
    module = _module()
    _named(module, "n").unique_id = _named(module, "m").unique_id
    _rejects(module, "share the id")
    module = _module()
    module.get_computation_with_name("add").name = "main"
    _rejects(module, "two computations of module m are named main")


def test_called_computation_belongs_to_the_module():
    module, other = _module(), _module()
    reduce = _named(module, "r")
    reduce.set_called_computation(0, other.get_computation_with_name("add"))
    _rejects(module, "r calls add, which is not in the module")


def test_callers_are_known():
    module = _module()
    module.get_computation_with_name("add").remove_caller(_named(module, "r"))
    _rejects(module, "computation add does not know its caller r")
    module = _module()
    module.get_computation_with_name("add").add_caller(_named(module, "n"))
    _rejects(module, "computation add has the stale caller n")


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
    _rejects(module, "again calls f recursively")


def test_entry_is_not_called():
    module = _module()
    module._entry = module.get_computation_with_name("add")
    _rejects(module, "the entry computation add is called by r")


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
    _rejects(module, "fused computation fused must have one caller, but has 2")


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
    _rejects(module, "the schedule runs r before m, which it needs")


# -- operand and call counts


def test_operand_count():
    module = HloModule("m")
    builder = HloComputation.Builder("main")
    x = builder.add_instruction(HloInstruction.create_parameter(0, F32))
    builder.add_instruction(HloInstruction.create("add", F32, [x]))
    module.add_entry_computation(builder.build())
    _rejects(module, "add: takes 2 operands, got 1")


def test_called_computation_count():
    module = HloModule("m")
    builder = HloComputation.Builder("main")
    x = builder.add_instruction(HloInstruction.create_parameter(0, F32))
    builder.add_instruction(HloInstruction.create("call", F32, [x]))
    module.add_entry_computation(builder.build())
    _rejects(module, "call: calls 1 computation(s) (to_apply), got 0")


# -- shapes, layouts, limits


def _with_parameter(shape: Shape) -> HloModule:
    module = HloModule("m")
    builder = HloComputation.Builder("main")
    builder.add_instruction(HloInstruction.create_parameter(0, shape))
    module.add_entry_computation(builder.build())
    return module


def test_array_size_is_limited():
    verify_module(_with_parameter(Shape.array("f32", (2**46,))))
    error = _rejects(_with_parameter(Shape.array("f32", (2**46 + 1,))), "more than this implementation addresses")
    assert "281474976710656 bytes" in error.notes[0]
    nested = Shape.tuple_of([F32, Shape.tuple_of([Shape.array("s8", (10**12, 10**12))])])
    _rejects(_with_parameter(nested), "has about 10^24 elements, more than")


def test_negative_dimension():
    _rejects(_with_parameter(Shape(F32.element_type, (2, -1))), "has a negative dimension")


def test_layouts_are_valid():
    _rejects(
        _with_parameter(Shape.array("f32", (2, 3)).with_layout(Layout((0, 0)))),
        "is not a permutation of the 2 dimensions",
    )
    _rejects(_with_parameter(Shape.array("f32", (2, 3)).with_layout(Layout((0,)))), "is not a permutation")


def test_layout_sensitive():
    text = """HloModule m, entry_computation_layout={{((f32[2,3]{{1,0}}))->f32[2,3]{{1,0}}}}
ENTRY main {{
  t = (f32[2,3]{{1,0}}) parameter(0)
  g = f32[2,3]{{{0}}} get-tuple-element(t), index=0
  ROOT c = f32[2,3]{{{1}}} copy(g)
}}"""
    verify_module(parse_hlo(text.format("1,0", "1,0")), VerifierOptions(layout_sensitive=True))
    verify_module(parse_hlo(text.format("0,1", "1,0")))
    _rejects(
        parse_hlo(text.format("0,1", "1,0")), "get-tuple-element: result and what the operands", layout_sensitive=True
    )
    _rejects(parse_hlo(text.format("1,0", "0,1")), "entry_computation_layout: the result and c", layout_sensitive=True)


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
    _rejects(parse_hlo(text.format("0,1", "1,0")), "call: operand x and parameter of f", layout_sensitive=True)
    _rejects(parse_hlo(text.format("1,0", "0,1")), "call: result and", layout_sensitive=True)


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
    _rejects(mixed, "add: the operands mix the precisions bf16 and f32", allow_mixed_precision=False)
    narrowed = parse_hlo(text.format("bf16", "add(x, x)"))
    _rejects(narrowed, "the declared shape is bf16[4], but", allow_mixed_precision=False)
    _rejects(parse_hlo(text.format("bf16", "bitcast(x)")), "bitcast: the operand f32[4] has 16 bytes")


def test_replica_groups_fit_the_module():
    text = """HloModule m, replica_count=4
ENTRY main {
  x = f32[4] parameter(0)
  ROOT g = f32[8] all-gather(x), dimensions={0}, replica_groups={{0,1}}
}"""
    _rejects(parse_hlo(text), "all-gather: replica_groups name 2 ids, but the module has 4")
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
        _rejects(parse_hlo(outside), "parameter: sharding names device 2, but num_partitions=2")


def test_entry_computation_layout_has_the_entry_shapes():
    text = """HloModule m, entry_computation_layout={{({0})->{1}}}
ENTRY main {{
  x = f32[4] parameter(0)
  ROOT n = f32[4] negate(x)
}}"""
    verify_module(parse_hlo(text.format("f32[4]", "f32[4]")))
    _rejects(
        parse_hlo(text.format("f32[5]", "f32[4]")), "entry_computation_layout: parameter 0 has shape f32[5], but x"
    )
    _rejects(parse_hlo(text.format("f32[4]", "f64[4]")), "entry_computation_layout: the result has shape f64[4], but n")
    module = parse_hlo(text.format("f32[4]", "f32[4]"))
    module.config.entry_computation_layout.parameter_shapes.append(F32)
    _rejects(module, "entry_computation_layout has 2 parameters")


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
        _rejects(module, message)
    else:
        verify_module(module)


def test_operand_aliasing():
    text = """HloModule m
ENTRY main {{
  x = f32[4] parameter(0)
  ROOT c = (f32[4], s32[]) custom-call(x), custom_call_target="f", output_to_operand_aliasing={{{{{0}}}: ({1}, {{}})}}
}}"""
    verify_module(parse_hlo(text.format(0, 0)))
    error = _rejects(parse_hlo(text.format(1, 0)), "custom-call: output_to_operand_aliasing {1}: (0, {}, may-alias)")
    assert error.line == 4
    _rejects(parse_hlo(text.format(0, 1)), "there are only 1 operands")


# -- size


def test_a_chain_of_100_000_instructions_is_checked_in_linear_time():
    def chain(length: int) -> HloModule:
        builder = HloComputation.Builder("main")
        x = value = builder.add_instruction(HloInstruction.create_parameter(0, F32))
        for _ in range(length):
            value = builder.add_instruction(HloInstruction.create("add", F32, [value, x]))
        module = HloModule("chain")
        module.add_entry_computation(builder.build())
        return module

    module = chain(100_000)
    start = time.process_time()
    verify_module(module)
    assert time.process_time() - start < 5
    value = module.entry_computation.root_instruction
    value.replace_operand_with(1, value.operand(0))  # still valid; now make it cyclic
    first = next(iter(value.operand(0).users))
    assert first is value
    module.entry_computation.instructions[1].replace_operand_with(0, value)
    _rejects(module, "the graph has a cycle through")


def test_a_tuple_of_100_000_elements_is_checked_in_linear_time():
    builder = HloComputation.Builder("main")
    x = builder.add_instruction(HloInstruction.create_parameter(0, F32))
    values = [builder.add_instruction(HloInstruction.create("negate", F32, [x])) for _ in range(100_000)]
    builder.add_instruction(HloInstruction.create_tuple(values))
    module = HloModule("wide")
    module.add_entry_computation(builder.build())
    start = time.process_time()
    verify_module(module)
    assert time.process_time() - start < 8


def test_transfers_below_many_calls_are_followed_once():
    transfer = """
  x = f32[4] parameter(0)
  t = token[] after-all()
  s = (f32[4], u32[], token[]) send(x, t), channel_id=1, frontend_attributes={PAIRS}
  d = token[] send-done(s), channel_id=1
  r = (f32[4], u32[], token[]) recv(t), channel_id=1, frontend_attributes={PAIRS}
  e = (f32[4], token[]) recv-done(r), channel_id=1
  ROOT y = f32[4] get-tuple-element(e), index=0
}
""".replace("PAIRS", '_xla_send_recv_source_target_pairs="{{0,1}}"')
    text = f"HloModule m, is_scheduled=true\nc0 {{{transfer}"
    for i in range(1, 400):
        text += f"c{i} {{ x = f32[4] parameter(0) a = f32[4] call(x), to_apply=c{i - 1} "
        text += f"ROOT b = f32[4] call(a), to_apply=c{i - 1} }}\n"
    text += "ENTRY e { x = f32[4] parameter(0) ROOT r = f32[4] call(x), to_apply=c399 }\n"
    verify_module(parse_hlo(text))


def test_deep_calls():
    module = HloModule("m")
    called = None
    for i in range(3_000):
        builder = HloComputation.Builder(f"f{i}")
        x = builder.add_instruction(HloInstruction.create_parameter(0, F32))
        builder.add_instruction(make("negate", x) if called is None else make("call", x, called=[called]))
        add = module.add_entry_computation if i == 2_999 else module.add_embedded_computation
        called = add(builder.build())
    verify_module(module)


def test_an_async_computation_has_one_start():
    text = """
f { x = f32[4] parameter(0) ROOT n = f32[4] negate(x) }
ENTRY e {
  p = f32[4] parameter(0)
  a = ((f32[4]), f32[4], s32[]) async-start(p), calls=f
  b = ((f32[4]), f32[4], s32[]) async-start(p), calls=f
  c = f32[4] async-done(a)
  d = f32[4] async-done(b)
  ROOT t = (f32[4], f32[4]) tuple(c, d)
}
"""
    error = _rejects(parse_hlo(text), "computation f is started by a, too")
    assert error.line == 6
    mixed = """
ENTRY e {
  p = f32[4] parameter(0)
  a = ((f32[4]), f32[4], s32[]) custom-call-start(p), custom_call_target="f"
  ROOT c = f32[4] negate-done(a)
}
"""
    with pytest.raises(HloParseError, match="the operand of this negate runs a custom-call"):
        parse_hlo(mixed)


@pytest.mark.parametrize(
    "attributes,message",
    [
        ('composite.name="foo.bar"', "needs a composite.version that is a number from 0 on"),
        ('composite.version="1"', "needs the frontend attribute composite.name"),
        ('composite.name="foo.bar",composite.version="-1"', "a number from 0 on, found '-1'"),
    ],
)
def test_composites_say_what_they_are(attributes: str, message: str):
    text = """
add_n { x = f32[] parameter(0) ROOT z = f32[] add(x, x) }
ENTRY e {
  c = f32[] constant(42)
  ROOT r = f32[] call(c), is_composite=true, to_apply=add_n, frontend_attributes={ATTRIBUTES}
}
"""
    verify_module(parse_hlo(text.replace("ATTRIBUTES", 'composite.name="foo.bar",composite.version="1"')))
    assert _rejects(parse_hlo(text.replace("ATTRIBUTES", attributes)), message).line == 5


BROKEN_PAIRS = {
    "a start with two dones": (
        "s = (f32[4], f32[4], u32[]) copy-start(x) u = f32[4] copy-done(s) v = f32[4] copy-done(s) ROOT r = f32[4] add(u, v)",
        "copy-start: s needs one copy-done, found 2: u, v",
    ),
    "a start that nobody waits for": (
        "s = f32[4] all-reduce-start(x), to_apply=f ROOT r = f32[4] negate(x)",
        "all-reduce-start: s needs one all-reduce-done, found 0",
    ),
    "another thread": ("ROOT r = f32[4] fusion(x), kind=kLoop, calls=other", "it runs on thread main, but other is for thread t"),
    "operands of the seed": (
        'ROOT r = u64[] custom-call(x), custom_call_target="GetRngSeed"', "GetRngSeed takes no operands, got 1",
    ),
    "type of the seed": ('ROOT r = u32[] custom-call(), custom_call_target="GetRngSeed"', "gives a u64[], not u32[]"),
    "types of a distribution": (
        "a = f32[] constant(0) b = f16[] constant(1) ROOT r = f32[3] rng(a, b), distribution=rng_normal",
        "operand 1 f16[] and result f32[3] have different element types",
    ),
    "one channel with the host, two ways": (
        "t = token[] after-all() first = (f32[4], u32[], token[]) send(x, t), channel_id=1, is_host_transfer=true "
        "b = token[] send-done(first), channel_id=1, is_host_transfer=true "
        'c = (f32[4], u32[], token[]) send(x, b), channel_id=1, is_host_transfer=true, frontend_attributes={'
        '_xla_host_transfer_rendezvous="r"} ROOT d = token[] send-done(c), channel_id=1, is_host_transfer=true',
        "send: first uses channel 1 with the host in another way",
    ),
    "a buffer that is lost": (
        PIN + 'ROOT r = f32[4] custom-call(b), custom_call_target="f"', "operand 0 must be one of the results",
    ),
    "a buffer twice": (
        PIN + 'r = (b(f32[4]), b(f32[4])) custom-call(b), custom_call_target="f", '
        "output_to_operand_aliasing={{0}: (0, {}), {1}: (0, {})} ROOT n = f32[4] negate(x)",
        "it is more than one result",
    ),
    "a buffer as a result": (PIN.replace("b =", "ROOT b ="), "the entry has a buffer, b(f32[4]"),
    "more tiles than dimensions": ("ROOT r = f32[4] negate(x), sharding={devices=[1,2]0,1}", "has 2 dimensions, but f32[4]"),
    "a negative device": ("ROOT r = f32[4] negate(x), sharding={maximal device=-1}", "names a negative device"),
    "no such operand to share with": (
        "s = ((f32[4]), f32[4], s32[]) async-start(x), calls=g, output_to_operand_aliasing={{0, 0}: (5, {})} "
        "ROOT d = f32[4] async-done(s)", "there are only 1 operands",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("what", "header", "body", "message"), REFUSED, ids=[row[0] for row in REFUSED])
def test_refuses(what: str, header: str, body: str, message: str):
    error = _rejects(parse_hlo(PRELUDE.replace(" HEADER", header) + body + "\n}"), message)
    assert error.span is None or error.line > 1, what


@pytest.mark.parametrize("name", BROKEN_PAIRS)
def test_what_does_not_belong_together(name: str):
    body, message = BROKEN_PAIRS[name]
    text = f"""
f {{ a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }}
g {{ x = f32[4] parameter(0) ROOT n = f32[4] negate(x) }}
other {{ y = f32[4] parameter(0) ROOT o = f32[4] negate(y) }}, execution_thread="t"
ENTRY e {{
  x = f32[4] parameter(0)
  {body}
}}"""
    error = _rejects(parse_hlo(text), message)
    assert error.line == 7
