"""No program writes outside of its buffers, or lets what lies around them into its results, at any `cpu_level`.

Every executable of every test runs between canaries once (tests/conftest.py); here the sample programs do at each
level that this machine has, with guards between the buffers of the arena as well.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator

import numpy as np
import pytest

import xjit
from tests.ops.shape_cases import VALID, module_text
from tests.runtime.programs import array, elementwise, program
from tests.support.guarded_call import ARENA_GUARD_BYTES, CTYPES, NATIVE, CanaryError, GuardedBuffer, spread
from tests.support.hlo_cases import Case, graph, single_instruction
from tests.support.hlo_rules import RULES
from tests.support.hlo_samples import sample_modules
from tests.support.kernels import random_inputs
from xjit.compile_options import CompileOptions
from xjit.llvm.target import LEVELS, Target
from xjit.passes.schedule_and_memory import buffer_assignment
from xjit.passes.schedule_and_memory.buffer_packing import Block
from xjit.runtime.executable import CpuExecutable
from xjit.runtime.machine_code.jit import missing_features

SEEDS = range(2)
GRAPHS = range(9000, 9006)
SIZES = (1, 9, 15, 17, 33, 65)  # around multiples of vectors
NARROW_PROGRAMS = {
    "iota": "ROOT r = {kind}[{n}] iota(), iota_dimension=0",
    "add": "x = {kind}[{n}] parameter(0)\ni = {kind}[{n}] iota(), iota_dimension=0\nROOT r = {kind}[{n}] add(i, x)",
    "pad": "x = {kind}[{n}] parameter(0)\nz = {kind}[] parameter(1)\nROOT r = {kind}[3,{n}] broadcast(p), dimensions={{1}}\n"
    "p = {kind}[{n}] pad(x, z), padding=-1_1",
    "map": "x = {kind}[2,{n}] parameter(0)\nROOT r = {kind}[2,{n}] map(x), dimensions={{0,1}}, to_apply=twice",
    "convert": "x = f32[2,{n}] parameter(0)\nROOT r = {kind}[2,{n}] convert(x)",
    "outer product": "x = {kind}[3] parameter(0)\ny = {kind}[{n}] parameter(1)\nROOT r = {kind}[3,{n}] dot(x, y)",
}


@pytest.fixture(params=LEVELS)
def level(request: pytest.FixtureRequest, _spread_arena: None) -> CompileOptions:
    """Options for one level; skips those whose instructions this machine lacks."""
    if missing := missing_features(Target.for_features(request.param).features):
        pytest.skip(f"this CPU lacks {', '.join(missing)}")
    return CompileOptions(cpu_level=request.param)


@pytest.fixture
def _spread_arena(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Gives every buffer of the arena a place of its own, between guards."""
    monkeypatch.setattr(buffer_assignment, "pack", spread)
    yield
    NATIVE.arena_gaps = CTYPES.arena_gaps = ()


def run(text: str, options: CompileOptions) -> None:
    """Compiles and calls a module; the call is guarded. What is refused is none of this test's business."""
    try:
        module = xjit.parse_hlo(text)
        executable = xjit.compile(module, options=options)
    except (xjit.HloError, NotImplementedError):
        return
    executable(*random_inputs(module))


@pytest.mark.parametrize("kind", ["pred", "s8", "u16", "s32", "bf16", "f16", "f8e4m3fn", "f8e5m2", "f32", "c64"])
@pytest.mark.parametrize("program", NARROW_PROGRAMS)
def test_tails_of_vectors(program: str, kind: str, level: CompileOptions) -> None:
    """LLVM made a masked store of one narrow lane into a store as wide as the lane was before it was truncated."""
    twice = f"twice {{ a = {kind}[] parameter(0)\nROOT r = {kind}[] add(a, a) }}\n"
    entries = [f"HloModule m\n{twice}ENTRY e {{\n{NARROW_PROGRAMS[program].format(kind=kind, n=n)}\n}}" for n in SIZES]
    for text in entries:
        run(text, level)


@pytest.mark.parametrize("opcode", RULES)
def test_single_instructions(opcode: str, level: CompileOptions) -> None:
    for seed in SEEDS:
        _run_case(single_instruction(opcode, seed), level)


@pytest.mark.parametrize("seed", GRAPHS)
def test_graphs(seed: int, level: CompileOptions) -> None:
    _run_case(graph(seed), level)


def _run_case(case: Case, options: CompileOptions) -> None:
    xjit.compile(case.text, options=options)(*case.inputs)


@pytest.mark.parametrize("part", range(8))
def test_shape_cases(part: int, level: CompileOptions) -> None:
    for instruction, shape in VALID[part::8]:
        run(module_text(instruction, shape), level)


@pytest.mark.parametrize("name", sample_modules())
def test_samples(name: str, level: CompileOptions) -> None:
    run(sample_modules()[name], level)


@pytest.mark.parametrize(("size", "alignment"), [(0, 16), (5, 16), (64, 64)])
def test_the_guards_see_both_sides(size: int, alignment: int) -> None:
    for offset in (-1, size):
        buffer = GuardedBuffer(size, alignment)
        assert buffer.address % alignment == 0
        buffer.contents[:] = 7
        assert not buffer.touched()
        ctypes.memset(buffer.address + offset, 7, 1)
        assert f"byte {offset} of" in buffer.touched()


def test_programs_that_leave_their_buffers_are_found() -> None:
    """The code adds nine numbers, whatever the signature says."""
    x, y = np.ones(8, np.float32), np.ones(9, np.float32)
    code, wide, narrow = elementwise("fadd", "float", 9), array(np.float32, 9), array(np.float32, 8)
    with pytest.raises(CanaryError, match="result 0: byte 32 of a buffer of 32 bytes"):
        CpuExecutable(program(code, [wide, wide], [narrow]))(y, y)
    with pytest.raises(CanaryError, match="result 0 depends on what lies around"):
        CpuExecutable(program(code, [narrow, wide], [wide]))(x, y)
    with pytest.raises(CanaryError, match="result 0 depends on what lies around"):
        CpuExecutable(program(elementwise("fadd", "float", 8), [wide, wide], [wide]))(y, y)


@pytest.mark.padded
def test_padding_may_be_left_but_nothing_else_touched() -> None:
    y = np.ones(9, np.float32)
    wide, narrow = array(np.float32, 9), array(np.float32, 8)
    CpuExecutable(program(elementwise("fadd", "float", 8), [wide, wide], [wide]))(y, y)
    code = elementwise("fadd", "float", 9)
    with pytest.raises(CanaryError, match="result 0: byte 32 of a buffer of 32 bytes"):
        CpuExecutable(program(code, [wide, wide], [narrow]))(y, y)


def test_spread_buffers_do_not_touch() -> None:
    try:
        offsets, size = spread([Block(5, 0, 1), Block(0, 0, 1), Block(200, 0, 3)])
        gaps = NATIVE.arena_gaps
        assert [o % 64 for o in offsets] == [0, 0, 0]
        covered = np.zeros(size, np.int64)
        for piece in (*gaps, slice(offsets[0], offsets[0] + 5), slice(offsets[2], offsets[2] + 200)):
            covered[piece] += 1
        assert (covered == 1).all()
        assert all(g.stop - g.start >= ARENA_GUARD_BYTES for g in gaps)
    finally:
        NATIVE.arena_gaps = CTYPES.arena_gaps = ()


WRITES_BEHIND_A_BUFFER = """
define i32 @entry(ptr %context, ptr %parameters, ptr %results, ptr %arena, ptr %constants) {
  %out = load ptr, ptr %results
  %behind = getelementptr i8, ptr %arena, i64 OFFSET
  store i32 7, ptr %behind
  store i32 7, ptr %out
  ret i32 0
}
"""


@pytest.mark.parametrize(("offset", "is_seen"), [(128, False), (132, True), (160, True)])
def test_what_is_written_between_two_buffers_of_the_arena_is_found(offset: int, is_seen: bool) -> None:
    try:
        _, size = spread([Block(4, 0, 1), Block(64, 0, 1)])  # the first is at 128, the second at 320
        code = program(WRITES_BEHIND_A_BUFFER.replace("OFFSET", str(offset)), [], [array(np.int32, 1)], arena_size=size)
        executable = CpuExecutable(code)
        if is_seen:
            with pytest.raises(CanaryError, match="the arena between two buffers, bytes 132 to"):
                executable()
        else:
            executable()
    finally:
        NATIVE.arena_gaps = CTYPES.arena_gaps = ()
