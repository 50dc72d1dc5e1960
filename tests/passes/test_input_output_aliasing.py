"""Which results may, or must, lie in the buffers of parameters."""

from __future__ import annotations

import numpy as np
import pytest

import xjit
from xjit.hlo import FailedPrecondition, HloModule, HloVerifyError
from xjit.ops.verifier import verify_module
from xjit.passes.framework.driver import PassDriver
from xjit.passes.pipelines import cpu_pipeline
from xjit.passes.schedule_and_memory.buffer_assignment import BufferAssignment, assign_buffers
from xjit.text.parser import parse_hlo

STEP = """  w = f32[64,64] parameter(0)
  x = f32[64,64] parameter(1)
  g = f32[64,64] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT u = f32[64,64] subtract(w, g)"""


def assigned(body: str, header: str, more: str = "") -> BufferAssignment:
    module = parse_hlo(f"HloModule m, {header}\n{more}\nENTRY e {{\n{body}\n}}")
    PassDriver().run(cpu_pipeline(), module)
    return assign_buffers(module)


def pairs(assignment: BufferAssignment) -> set[tuple[int, int]]:
    return {(a.parameter, a.result) for a in assignment.aliases}


def copies(module: HloModule) -> int:
    return sum(i.opcode == "copy" for i in module.entry_computation.instructions)


@pytest.mark.parametrize("kind", ["may-alias", "must-alias"])
def test_a_parameter_that_is_read_for_the_last_time_where_it_is_overwritten(kind: str) -> None:
    assignment = assigned(STEP, f"input_output_alias={{ {{}}: (0, {{}}, {kind}) }}")
    assert pairs(assignment) == {(0, 0)} and copies(assignment.module) == 0
    assert assignment.alias_bytes == 64 * 64 * 4


OVERWRITTEN = """  w = f32[64,64] parameter(0)
  x = f32[64,64] parameter(1)
  n = f32[64,64] transpose(w), dimensions={1,0}
  g = f32[64,64] dot(w, n), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = (f32[64,64], f32[64,64]) tuple(n, g)"""


def test_what_is_read_after_the_result_was_written_is_no_alias() -> None:
    assignment = assigned(OVERWRITTEN, "input_output_alias={ {0}: (0, {}, may-alias), {1}: (1, {}, may-alias) }")
    assert pairs(assignment) == {(1, 1)}


def test_a_must_alias_copies_the_parameter_first() -> None:
    assignment = assigned(OVERWRITTEN, "input_output_alias={ {0}: (0, {}, must-alias) }")
    assert pairs(assignment) == {(0, 0)} and copies(assignment.module) == 1
    entry = assignment.module.entry_computation
    copy = next(i for i in entry.instructions if i.opcode == "copy")
    assert all(user is copy for user in entry.parameter_instruction(0).users)


def test_a_result_of_another_shape_is_no_array_of_the_caller() -> None:
    body = "x = f32[64,64] parameter(0) n = f32[64,64] negate(x) b = s32[64,64] bitcast-convert(n) "
    body += "ROOT r = s32[4096] reshape(b)"
    text = f"HloModule m, input_output_alias={{ {{}}: (0, {{}}, may-alias) }} ENTRY e {{ {body} }}"
    x = np.arange(4096, dtype=np.float32).reshape(64, 64)
    expected = (-x).view(np.int32).reshape(-1)
    executable = xjit.compile(text)
    assert np.array_equal(executable(x), expected)
    assert executable.memory_analysis().alias_size_in_bytes == 0
    with pytest.raises(xjit.InvalidArgument, match="no result of 'm' can take its buffer"):
        executable(x, donate=[0])


@pytest.mark.parametrize(("shape", "kind"), [("f32[4095]", "may"), ("s32[4096]", "must")])
def test_other_sizes_and_what_must_alias_are_refused(shape: str, kind: str) -> None:
    body = f"x = f32[64,64] parameter(0) z = {shape[:3]}[] constant(0) ROOT r = {shape} broadcast(z), dimensions={{}}"
    with pytest.raises(HloVerifyError, match="the parameter has shape"):
        verify_module(
            parse_hlo(f"HloModule m, input_output_alias={{ {{}}: (0, {{}}, {kind}-alias) }} ENTRY e {{ {body} }}")
        )


def test_tuples_of_parameters() -> None:
    body = """  p = (f32[8], f32[8]) parameter(0)
  a = f32[8] get-tuple-element(p), index=0
  b = f32[8] get-tuple-element(p), index=1
  r = f32[8] reverse(b), dimensions={0}
  s = f32[8] add(a, r)
  ROOT t = (f32[8], f32[8]) tuple(r, s)"""
    must = "input_output_alias={ {0}: (0, {1}, must-alias), {1}: (0, {0}, must-alias) }"
    assert pairs(assigned(body, must)) == {(1, 0), (0, 1)}


def test_donors_take_results_of_their_shape() -> None:
    body = """  a = f32[8] parameter(0)
  b = s32[8] parameter(1)
  c = f32[8] parameter(2)
  x = f32[8] add(a, c)
  y = s32[8] negate(b)
  ROOT t = (f32[8], s32[8]) tuple(x, y)"""
    assert pairs(assigned(body, "buffer_donor={ (0, {}), (1, {}), (2, {}) }")) == {(0, 0), (1, 1)}


LOOP = """body {
  p = (s32[], f32[32]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[32] get-tuple-element(p), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  d = f32[32] multiply(x, x)
  ROOT t = (s32[], f32[32]) tuple(j, d)
}
condition {
  p = (s32[], f32[32]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(100)
  ROOT c = pred[] compare(i, n), direction=LT
}"""


def test_the_state_of_a_loop() -> None:
    """The copy into the loop's buffer is one onto itself where the parameter is donated: only its reads count."""
    body = """  x = f32[32] parameter(0)
  z = s32[] constant(0)
  s = (s32[], f32[32]) tuple(z, x)
  w = (s32[], f32[32]) while(s), condition=condition, body=body
  ROOT r = f32[32] get-tuple-element(w), index=1"""
    assert pairs(assigned(body, "buffer_donor={ (0, {}) }", LOOP)) == {(0, 0)}


def test_a_parameter_that_is_passed_on() -> None:
    body = """  x = f32[32] parameter(0)
  y = f32[32] negate(x)
  ROOT t = (f32[32], f32[32]) tuple(x, y)"""
    assert pairs(assigned(body, "input_output_alias={ {0}: (0, {}, must-alias) }")) == {(0, 0)}


def test_buffers_are_not_assigned_before_copies_are_inserted() -> None:
    module = parse_hlo(
        f"HloModule m, input_output_alias={{ {{0}}: (0, {{}}, must-alias) }}\nENTRY e {{\n{OVERWRITTEN}\n}}"
    )
    PassDriver().run([p for p in cpu_pipeline() if p.name != "copy-insertion"], module)
    with pytest.raises(
        FailedPrecondition, match="cannot be in the buffer of parameter leaf 0: run copy-insertion first"
    ):
        assign_buffers(module)
