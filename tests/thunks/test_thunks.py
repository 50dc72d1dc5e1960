"""Thunks are plain data: their text, and what a program says about itself."""

from __future__ import annotations

import pickle

import pytest

import xjit
from xjit.thunks import (
    BufferSlice,
    CallThunk,
    ConditionalThunk,
    CopyThunk,
    ShapedSlice,
    Thunk,
    ThunkProgram,
    ThunkSequence,
    WhileThunk,
    program_to_string,
)

LOOP = """HloModule loop
condition {
  p = (s32[], f32[100]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(1000)
  ROOT c = pred[] compare(i, n), direction=LT
}
body {
  p = (s32[], f32[100]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  one = s32[] constant(1)
  j = s32[] add(i, one)
  v = f32[100] get-tuple-element(p), index=1
  w = f32[100] sine(v)
  ROOT t = (s32[], f32[100]) tuple(j, w)
}
ENTRY main {
  x = f32[100] parameter(0)
  z = s32[] constant(0)
  t = (s32[], f32[100]) tuple(z, x)
  ROOT loop = (s32[], f32[100]) while(t), condition=condition, body=body
}
"""


def test_text_of_a_loop() -> None:
    """One line per thunk, what it runs below it, indented; slices with shapes; scalars are code in line."""
    lines = xjit.compile(LOOP).as_text("thunks").splitlines()
    assert lines[0] == "ThunkProgram loop, entry main:"
    at = next(n for n, line in enumerate(lines) if line.startswith("  WhileThunk loop: while arena+"))
    assert lines[at].endswith(", trip_count=1000")
    inside = [line.split(":")[0] for line in lines[at + 1 :]]
    assert inside[:3] == ["    condition condition", "      InlineThunk c", "    body body"]
    assert sorted(inside[3:]) == ["      InlineThunk j", "      KernelThunk w"]
    (kernel,) = (line for line in lines if "KernelThunk w:" in line)
    assert "loop @w.1(f32[100]{0} result 1) -> (f32[100]{0} result 1), call=0, units=" in kernel


def test_programs_are_data() -> None:
    program = xjit.compile(LOOP)._emitted.thunks
    assert pickle.loads(pickle.dumps(program)) == program
    assert list(program.sequences)[-1] == program.entry == "main"
    assert [kernel.number for kernel in program.kernel_thunks] == list(range(len(program.kernel_thunks)))


def nested(depth: int) -> ThunkProgram:
    """A call of a call of ... a copy."""
    here, there = BufferSlice("parameter", 0, 0, 8), BufferSlice("result", 1, 0, 8)
    copy: Thunk = CopyThunk(instruction="copy", source=here, destination=there)
    sequences = {"s0": ThunkSequence("s0", (copy,))}
    for i in range(1, depth + 1):
        sequences[f"s{i}"] = ThunkSequence(f"s{i}", (CallThunk(instruction=f"c{i}", callee=f"s{i - 1}"),))
    return ThunkProgram("deep", f"s{depth}", sequences)


def test_depth_is_no_problem() -> None:
    program = nested(5000)
    assert pickle.loads(pickle.dumps(program)) == program
    lines = program_to_string(program).splitlines()
    assert len(lines) == 1 + 2 * 5000 + 1
    assert lines[-1].strip() == "CopyThunk copy: parameter 0 -> result 1 (8 bytes)"


def test_text_of_control_flow() -> None:
    flag = BufferSlice("arena", 0, 64, 4)
    copy = CopyThunk(instruction="k", source=flag, destination=BufferSlice("result", 0, 0, 4))
    choice = ConditionalThunk(
        instruction="if", selector=ShapedSlice(xjit.Shape.array("s32"), flag), branches=("a", "b")
    )
    loop = WhileThunk(instruction="w", condition="a", predicate=flag, body="c")
    sequences = {"a": ThunkSequence("a", ()), "b": ThunkSequence("b", (copy,)), "c": ThunkSequence("c", (choice,))}
    program = ThunkProgram("m", "e", {**sequences, "e": ThunkSequence("e", (loop,))})
    assert program_to_string(program) == (
        "ThunkProgram m, entry e:\n"
        "  WhileThunk w: while arena+64\n"
        "    condition a:\n"
        "    body c:\n"
        "      ConditionalThunk if: on s32[] arena+64\n"
        "        branch 0 a:\n"
        "        branch 1 b:\n"
        "          CopyThunk k: arena+64 -> result 0 (4 bytes)\n"
    )
    assert sequences["a"].is_straight and not sequences["c"].is_straight


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "x = f32[64,64] parameter(0)\n ROOT d = f32[64,64] dot(x, x), lhs_contracting_dims={1}, "
            "rhs_contracting_dims={0}",
            ("GemmThunk d: gemm @", "lhs_contracting_dims={1}"),
        ),
        ("x = c64[64] parameter(0)\n ROOT f = c64[64] fft(x), fft_type=FFT, fft_length={64}", ("FftThunk f:", "FFT")),
        (
            'x = f32[64] parameter(0)\n ROOT t = (f32[3], s32[3]) custom-call(x), custom_call_target="TopK", '
            'called_computations={gt}, backend_config="{k = 3 : i64, largest = true}"',
            ("CustomCallThunk t: topk @", 'target="TopK"'),
        ),
    ],
)
def test_classes_of_kernel_thunks(text: str, words: tuple[str, ...]) -> None:
    """Operations that other targets hand to libraries have classes of their own, with their attributes."""
    gt = (
        "gt { a = f32[] parameter(0)\n b = f32[] parameter(1)\n c = s32[] parameter(2)\n d = s32[] parameter(3)\n "
        "ROOT r = pred[] compare(a, b), direction=GT }\n"
    )
    printed = xjit.compile(f"HloModule m\n{gt if 'gt' in text else ''}ENTRY e {{\n {text}\n}}").as_text("thunks")
    for word in words:
        assert word in printed
