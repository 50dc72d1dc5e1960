"""The verifier of buffer assignments: what it sees where buffers are moved onto each other."""

from __future__ import annotations

import pytest

from xjit.hlo.diagnostics import HloVerifyError
from xjit.passes.schedule_and_memory.buffer_assignment import assign_buffers
from xjit.passes.schedule_and_memory.buffer_verifier import verify_buffer_assignment
from xjit.passes.schedule_and_memory.copy_insertion import CopyInsertion
from xjit.text.parser import parse_hlo
from xjit.thunks.buffer_slice import BufferSlice


def test_the_verifier_sees_an_overwritten_value() -> None:
    module = parse_hlo(
        "HloModule m ENTRY e { x = f32[64] parameter(0) a = f32[64] exponential(x) b = f32[64] negate(x) "
        "r = f32[64] reverse(a), dimensions={0} ROOT s = f32[64] add(r, b) }"
    )
    CopyInsertion().run(module)
    assignment = assign_buffers(module)
    verify_buffer_assignment(assignment)
    entry = module.entry_computation
    a, b = (next(i for i in entry.instructions if i.opcode == o) for o in ("exponential", "negate"))
    assignment._slices[a] = assignment._slices[b]
    with pytest.raises(HloVerifyError, match=r"buffers: \w+ reads"):
        verify_buffer_assignment(assignment)


SORT = """HloModule m
lt { a = f32[] parameter(0) b = f32[] parameter(1) c = f32[] parameter(2) d = f32[] parameter(3)
  ROOT r = pred[] compare(a, b), direction=LT }
ENTRY e { x = f32[64] parameter(0) y = f32[64] parameter(1) n = f32[64] negate(x) m = f32[64] negate(y)
  s = (f32[64], f32[64]) sort(n, m), dimensions={0}, to_apply=lt
  u = f32[64] get-tuple-element(s), index=0 v = f32[64] get-tuple-element(s), index=1 ROOT z = f32[64] add(u, v) }"""


@pytest.mark.parametrize(
    ("places", "message"),
    [
        ([0, 256, 512, 768], ""),
        ([512, 768, 0, 256], ""),
        ([0, 256, 768, 512], ""),
        ([512, 768, 0, 0], "two results of s lie"),
        ([512, 768, 0, 255], "two results of s lie"),
        ([512, 768, 64, 0], "two results of s lie"),
        ([0, 256, 512, 256], "s overwrites its operand m"),
        ([0, 320, 512, 64], "s overwrites its operand n"),
        ([0, 256, 511, 768], "s overwrites its operand m"),
    ],
)
def test_the_verifier_sees_results_that_overlap(places: list[int], message: str) -> None:
    """`places` are the offsets of the operands n and m and of the two results of a sort, 256 bytes each."""
    module = parse_hlo(SORT)
    CopyInsertion().run(module)
    assignment = assign_buffers(module)
    assignment.arena_size = 1024
    named = {i.name: i for i in module.entry_computation.instructions}
    n, m, *results = [BufferSlice("arena", 0, place, 256) for place in places]
    slices = {"n": (n,), "m": (m,), "s": tuple(results), "u": (results[0],), "v": (results[1],)}
    assignment._slices.update({named[name]: found for name, found in slices.items()})
    if not message:
        verify_buffer_assignment(assignment)
        return
    with pytest.raises(HloVerifyError, match=f"buffers: {message}"):
        verify_buffer_assignment(assignment)
