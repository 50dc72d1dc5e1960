"""The verifier takes linear time, and no deep stack."""

from __future__ import annotations

import time

from tests.ops.rejection import rejects
from xjit.hlo import HloComputation, HloInstruction, HloModule, Shape
from xjit.ops.build import make
from xjit.ops.verifier import verify_module
from xjit.text.parser import parse_hlo

F32 = Shape.array("f32", (4,))


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
    rejects(module, "the graph has a cycle through")


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
