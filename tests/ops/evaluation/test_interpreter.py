"""The interpreter itself: order, calls, control flow, memory, errors - and that every opcode is accounted for."""

import gc
import warnings
import weakref

import numpy as np
import pytest

from tests.ops.evaluation import oracle
from xjit.hlo import OPCODES, HloComputation, HloInstruction, HloModule, InvalidArgument, Shape, Unsupported
from xjit.hlo.diagnostics import ExecutionError
from xjit.ops.evaluation import EVALUATORS, UNSUPPORTED, Interpreter, evaluate
from xjit.text.parser import parse_hlo


def test_every_opcode_has_a_rule_or_a_reason() -> None:
    assert set(EVALUATORS) | set(UNSUPPORTED) == set(OPCODES)
    assert not set(EVALUATORS) & set(UNSUPPORTED)
    assert all(UNSUPPORTED.values())


@pytest.mark.parametrize("opcode", sorted(UNSUPPORTED))
def test_unsupported_opcodes_say_their_name(opcode: str) -> None:
    builder = HloComputation.Builder("e")
    token = builder.add_instruction(HloInstruction.create("after-all", Shape.token()))
    builder.add_instruction(HloInstruction.create(opcode, Shape.token(), [token]))
    module = HloModule("m")
    module.add_entry_computation(builder.build())
    with pytest.raises(Unsupported, match=f"does not support {opcode}: "):
        evaluate(module)


def chain(length: int) -> HloModule:
    """Returns a module that adds one `length` times."""
    builder = HloComputation.Builder("e")
    shape = Shape.array("s32", [3])
    value = builder.add_instruction(HloInstruction.create_parameter(0, shape))
    one = builder.add_instruction(HloInstruction.create_parameter(1, shape))
    for _ in range(length):
        value = builder.add_instruction(HloInstruction.create("add", shape, [value, one]))
    module = HloModule("m")
    module.add_entry_computation(builder.build())
    return module


def test_deep_chains_do_not_recurse() -> None:
    result = evaluate(chain(30_000), np.arange(3, dtype=np.int32), np.ones(3, np.int32))
    assert result.tolist() == [30_000, 30_001, 30_002]


def test_values_die_after_their_last_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    alive: list[weakref.ref] = []
    most = 0
    original = Interpreter._evaluate

    def counting(self: Interpreter, instruction: HloInstruction, operands: list) -> object:
        nonlocal most
        value = original(self, instruction, operands)
        if instruction.opcode == "add":
            alive.append(weakref.ref(value))
            most = max(most, sum(r() is not None for r in alive))
        return value

    monkeypatch.setattr(Interpreter, "_evaluate", counting)
    gc.disable()
    try:
        evaluate(chain(50), np.arange(3, dtype=np.int32), np.ones(3, np.int32))
    finally:
        gc.enable()
    assert most <= 2


def test_arguments_are_checked_and_results_are_the_callers_own() -> None:
    text = """HloModule m
ENTRY e {
  p = (f32[2], (s32[], f32[2])) parameter(0)
  ROOT r = (f32[2], (s32[], f32[2])) copy(p)
}"""
    module = parse_hlo(text)
    x = np.ones(2, np.float32)
    result = evaluate(module, (x, (np.array(3, np.int32), x)))
    assert result[1][0] == 3 and result[0] is not x and result[0].flags.writeable
    result[0][0] = 7
    assert x[0] == 1 and result[1][1][0] == 1
    with pytest.raises(InvalidArgument, match=r"argument 0 'p'\[1\]\[0\] is float32\[\], expected s32\[\]"):
        evaluate(module, (x, (np.array(3, np.float32), x)))
    with pytest.raises(InvalidArgument, match="takes 1 arguments, got 2"):
        evaluate(module, x, x)
    with pytest.raises(InvalidArgument, match="must be a tuple of 2 values"):
        evaluate(module, x)


def test_while_conditional_and_call() -> None:
    text = """HloModule m
cond { s = (s32[], s32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(5)
  ROOT r = pred[] compare(i, n), direction=LT }
body { s = (s32[], s32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  a = s32[] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  b = s32[] multiply(a, j)
  ROOT r = (s32[], s32[]) tuple(j, b) }
plus { a = s32[] parameter(0)
  one = s32[] constant(1)
  ROOT r = s32[] add(a, one) }
minus { a = s32[] parameter(0)
  ROOT r = s32[] negate(a) }
ENTRY e {
  k = s32[] parameter(0)
  zero = s32[] constant(0)
  one = s32[] constant(1)
  t = (s32[], s32[]) tuple(zero, one)
  w = (s32[], s32[]) while(t), condition=cond, body=body
  f = s32[] get-tuple-element(w), index=1
  c = s32[] conditional(k, f, f), branch_computations={plus, minus}
  p = pred[] compare(k, zero), direction=EQ
  d = s32[] conditional(p, f, f), true_computation=plus, false_computation=minus
  g = s32[] call(f), to_apply=plus
  ROOT r = (s32[], s32[], s32[]) tuple(c, d, g)
}"""
    for k, (c, d) in {0: (121, 121), 1: (-120, -120), 7: (-120, -120), -1: (-120, -120)}.items():
        assert [int(x) for x in oracle.run(text, np.array(k, np.int32))] == [c, d, 121]


def test_single_device_collectives_and_async() -> None:
    text = """HloModule m
add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = f32[] add(a, b) }
ENTRY e {
  p = f32[4] parameter(0)
  a = f32[4] all-reduce(p), replica_groups={{0}}, to_apply=add
  g = f32[4] all-gather(a), replica_groups={{0}}, dimensions={0}
  s = f32[4] reduce-scatter(g), replica_groups={{0}}, dimensions={0}, to_apply=add
  c = f32[4] collective-permute(s), source_target_pairs={{0,0}}
  z = f32[4] collective-permute(s), source_target_pairs={}
  start = (f32[4], f32[4], u32[]) copy-start(c)
  done = f32[4] copy-done(start)
  i = u32[] partition-id()
  k = f32[4] custom-call(done), custom_call_target="Sharding"
  ROOT r = (f32[4], f32[4], u32[]) tuple(k, z, i)
}"""
    x = np.arange(4, dtype=np.float32)
    same, zero, number = oracle.run(text, x)
    assert same.tolist() == x.tolist() and zero.tolist() == [0] * 4 and int(number) == 0
    with pytest.raises(Unsupported, match="all-gather over several devices"):
        evaluate(
            parse_hlo(
                "HloModule m\nENTRY e { p = f32[4] parameter(0)\n ROOT g = f32[8] all-gather(p), dimensions={0} }"
            ),
            x,
        )
    with pytest.raises(Unsupported, match="custom-call to 'no'"):
        text = (
            'HloModule m\nENTRY e { p = f32[4] parameter(0)\n ROOT g = f32[4] custom-call(p), custom_call_target="no" }'
        )
        evaluate(parse_hlo(text), x)


def test_deep_nesting_is_an_error_not_a_crash() -> None:
    regions = ["f0 {\n  a = s32[2] parameter(0)\n  ROOT r = s32[2] add(a, a)\n}"]
    regions += [
        f"f{i} {{\n  a = s32[2] parameter(0)\n  ROOT r = s32[2] call(a), to_apply=f{i - 1}\n}}" for i in range(1, 400)
    ]
    entry = "ENTRY e {\n  a = s32[2] parameter(0)\n  ROOT r = s32[2] call(a), to_apply=f%d\n}"
    x = np.ones(2, np.int32)
    ok = "\n\n".join(["HloModule m", *regions, entry % 100])
    assert oracle.run(ok, x)[0].tolist() == [2, 2]
    with pytest.raises(Unsupported, match="nested"):
        oracle.run("\n\n".join(["HloModule m", *regions, entry % 399]), x)


def test_subnormals_are_flushed_unless_asked_not_to() -> None:
    text = "HloModule m\nENTRY e { p = f32[3] parameter(0)\n ROOT r = f32[3] add(p, p) }"
    module, x = parse_hlo(text), np.array([1e-39, -1e-39, 1.0], np.float32)
    flushed = evaluate(module, x)
    assert flushed.tolist() == [0, 0, 2] and np.signbit(flushed).tolist() == [False, True, False]
    np.testing.assert_array_equal(evaluate(module, x, ftz=False), x + x)


def test_numpy_warnings_do_not_leak() -> None:
    text = """HloModule m
ENTRY e {
  p = f32[4] parameter(0)
  l = f32[4] log(p)
  d = f32[4] divide(l, p)
  c = s8[4] convert(d)
  z = s8[4] constant({0, 0, 0, 0})
  ROOT q = s8[4] divide(c, z)
}"""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        evaluate(parse_hlo(text), np.array([0, -1, np.nan, np.inf], np.float32))


LOOP = """HloModule m
cond { p = (s32[], s32[]) parameter(0)  i = s32[] get-tuple-element(p), index=0  n = s32[] constant(5)
  ROOT c = pred[] compare(i, n), direction=LT }
body { p = (s32[], s32[]) parameter(0)  i = s32[] get-tuple-element(p), index=0  one = s32[] constant(1)
  j = s32[] add(i, one)  k = s32[] get-tuple-element(p), index=1  l = s32[] add(k, j)
  ROOT t = (s32[], s32[]) tuple(j, l) }
ENTRY e { z = s32[] constant(0)  t = (s32[], s32[]) tuple(z, z)  ROOT w = (s32[], s32[]) while(t), condition=cond, body=body }"""


def test_loops_may_be_limited() -> None:
    entry = parse_hlo(LOOP).entry_computation
    assert Interpreter(max_loop_iterations=5).call(entry) == (5, 15)
    with pytest.raises(ExecutionError, match="loop w runs more than 4 times"):
        Interpreter(max_loop_iterations=4).call(entry)


def test_values_may_stand_for_instructions() -> None:
    body = parse_hlo(LOOP).get_computation_with_name("body")
    assert body is not None
    reads = {i: np.asarray(number) for number, i in enumerate(body.parameter_instructions[0].users, 7)}
    values = Interpreter().evaluate_with_substitutions(body.root_instruction.operands, reads)
    assert [int(v) for v in values] == [8, 16]
    with pytest.raises(InvalidArgument, match=r"parameter p\S* has no value"):
        Interpreter().evaluate_with_substitutions([body.root_instruction], {})
