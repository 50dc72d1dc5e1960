"""Planted bugs: each is one edit of a right kernel. The sanitizer finds every one, and nothing in the right kernels."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from tests.support.gpu_kernels import aligned, findings, kernel, kernel_of, run
from xjit.runtime.gpu_sim import FindingKind, SimulationError
from xjit.thunks import GpuKernel

BARRIER = "call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)"
Arrays = Callable[[], list[np.ndarray]]


def zeros(*sizes: int) -> Arrays:
    """Arrays of f32 zeros; zero bits are zero in every type."""
    return lambda: [aligned(np.zeros(size, np.float32)) for size in sizes]


@dataclass(frozen=True)
class Case:
    """A right kernel and its arguments."""

    kernel: GpuKernel
    arrays: Arrays


CASES = {
    "add": Case(kernel("add", 2, 64, 100), zeros(100, 100, 100)),
    "add4": Case(kernel("add4", 1, 32, 128), zeros(128, 128, 128)),
    "reduce": Case(kernel("reduce", 2, 256), zeros(512, 2)),
    "transpose": Case(kernel("transpose", (2, 2), (32, 8), 64), zeros(4096, 4096)),
    "histogram": Case(kernel("histogram", 2, 64, 100), zeros(100, 32)),
    "scan": Case(kernel("scan", 2, 128), zeros(256, 256)),
    "matmul": Case(kernel("matmul", (2, 2), (16, 16), 32), zeros(1024, 1024, 1024)),
    "last_block": Case(kernel("last_block", 4, 64), zeros(256, 1, 4, 1)),
    "dynamic_reverse": Case(kernel("dynamic_reverse", 2, 32, shared=64), zeros(32, 32)),
    "tail_return": Case(kernel("tail_return", 1, 64, 40), zeros(40, 40)),
}


@dataclass(frozen=True)
class Bug:
    """An edit that makes a kernel wrong: occurrence number `which` of `old` becomes `new`."""

    name: str
    kernel: str
    old: str
    new: str
    kind: FindingKind
    which: int = 0


OUT_OF_BOUNDS, MISALIGNED, UNINITIALIZED = FindingKind.OUT_OF_BOUNDS, FindingKind.MISALIGNED, FindingKind.UNINITIALIZED
RACE, RACE_OF_BLOCKS = FindingKind.RACE, FindingKind.RACE_OF_BLOCKS
DIVERGENT_BARRIER, ABSENT_LANE = FindingKind.DIVERGENT_BARRIER, FindingKind.ABSENT_LANE

BUGS = (
    Bug("the tail is not masked", "add", "icmp slt i32 %i, %n", "icmp slt i32 %i, 128", OUT_OF_BOUNDS),
    Bug("one element too many", "add", "icmp slt", "icmp sle", OUT_OF_BOUNDS),
    Bug("an index below zero", "add", "ptr addrspace(1) %x, i32 %i", "ptr addrspace(1) %x, i32 -1", OUT_OF_BOUNDS),
    Bug("a vector over the end", "add4", "getelementptr float, ptr addrspace(1) %z, i32 %i",
        "getelementptr <4 x float>, ptr addrspace(1) %z, i32 %i", OUT_OF_BOUNDS),
    Bug("a shared array too short", "reduce", "[8 x float]", "[7 x float]", OUT_OF_BOUNDS),
    Bug("a tile row too short", "transpose", "[1056 x float]", "[1024 x float]", OUT_OF_BOUNDS),
    Bug("a bin that is not there", "histogram", "i32 %v\n", "i32 33\n", OUT_OF_BOUNDS),
    Bug("dynamic shared memory overrun", "dynamic_reverse", "sub i32 %last, %t", "sub i32 %d, %t", OUT_OF_BOUNDS),
    Bug("a slice behind its operand's", "add", "ptr addrspace(1) %y, i32 %i", "ptr addrspace(1) %y, i64 20000", OUT_OF_BOUNDS),
    Bug("a vector at an odd element", "add4", "mul i32 %q, 4", "add i32 %q, 1", MISALIGNED),
    Bug("an address between elements", "add", "getelementptr float, ptr addrspace(1) %x, i32 %i",
        "getelementptr i8, ptr addrspace(1) %x, i32 %i", MISALIGNED),
    Bug("a shared vector at a row of 33", "transpose", "%w = load float, ptr addrspace(3) %pt, align 4",
        "%w4 = load <4 x float>, ptr addrspace(3) %pt, align 16\n  %w = extractelement <4 x float> %w4, i32 0", MISALIGNED),
    Bug("bins that nobody clears", "histogram", "store i32 0, ptr addrspace(3) %bin, align 4", "", UNINITIALIZED),
    Bug("a partial sum of no warp", "reduce", "icmp ult i32 %lane, 8", "icmp ult i32 %lane, 9", OUT_OF_BOUNDS),
    Bug("a warp without a partial sum", "reduce", "%first = icmp eq i32 %lane, 0", "%first = icmp eq i32 %t, 0", UNINITIALIZED),
    Bug("a tile column that is not filled", "transpose", "%s = add i32 %line.s, %tx",
        "%half = lshr i32 %tx, 1\n  %s = add i32 %line.s, %half", UNINITIALIZED),
    Bug("no barrier before partial sums are read", "reduce", BARRIER, "", RACE),
    Bug("no barrier behind a filled tile", "transpose", BARRIER, "", RACE),
    Bug("no barrier before reading a neighbour", "scan", BARRIER, "", RACE, 0),
    Bug("no barrier before overwriting it", "scan", BARRIER, "", RACE, 1),
    Bug("no barrier behind the inner loop", "matmul", BARRIER, "", RACE, 1),
    Bug("no barrier before the inner loop", "matmul", BARRIER, "", RACE, 0),
    Bug("no barrier behind clearing", "histogram", BARRIER, "", RACE, 0),
    Bug("no barrier before the flush", "histogram", BARRIER, "", RACE, 1),
    Bug("counting without atomics", "histogram", "%old = atomicrmw add ptr addrspace(3) %q, i32 1 syncscope(\"block\") monotonic",
        "%c1 = load i32, ptr addrspace(3) %q\n  %c2 = add i32 %c1, 1\n  store i32 %c2, ptr addrspace(3) %q", RACE),
    Bug("all threads write one element", "add", "ptr addrspace(1) %z, i32 %i", "ptr addrspace(1) %z, i32 0", RACE),
    Bug("two threads write one element", "add", "ptr addrspace(1) %z, i32 %i", "ptr addrspace(1) %z, i32 %t", RACE_OF_BLOCKS),
    Bug("blocks add up without atomics", "histogram", "%before = atomicrmw add ptr addrspace(1) %r, i32 %c syncscope(\"device\") monotonic",
        "%g1 = load i32, ptr addrspace(1) %r\n  %g2 = add i32 %g1, %c\n  store i32 %g2, ptr addrspace(1) %r", RACE_OF_BLOCKS),
    Bug("reading what another block writes", "scan", "%py = getelementptr float, ptr addrspace(1) %y, i32 %i",
        "%py = getelementptr float, ptr addrspace(1) %x, i32 %t", RACE_OF_BLOCKS),
    Bug("no fence before the ticket", "last_block", 'fence syncscope("device") acq_rel\n  %ticket', "%ticket", RACE_OF_BLOCKS),
    Bug("no fence behind the ticket", "last_block", 'fence syncscope("device") acq_rel\n  %last', "%last", RACE_OF_BLOCKS),
    Bug("every block adds up", "last_block", "icmp ne i32 %flag, 0", "icmp ne i32 %flag, 2", RACE_OF_BLOCKS),
    Bug("no barrier behind the ticket", "last_block", BARRIER, "", RACE, 2),
    Bug("a barrier that half of the threads reach", "histogram", "br i1 %owns, label %clear, label %cleared",
        "br i1 %owns, label %clear, label %counted", DIVERGENT_BARRIER),
    Bug("a barrier in one branch", "reduce", "note:\n", f"note:\n  {BARRIER}\n", DIVERGENT_BARRIER),
    Bug("a barrier in a loop that threads leave", "scan", "icmp ult i32 %s.next, 128\n  br i1 %more, label %step, label %done\ndone:\n",
        f"icmp ule i32 %s.next, %t\n  br i1 %more, label %step, label %done\ndone:\n  {BARRIER}\n", DIVERGENT_BARRIER),
    Bug("lanes that returned before a shuffle", "reduce", "icmp ult i32 %t, 32", "icmp ult i32 %t, 20", ABSENT_LANE),
    Bug("two shuffles in two branches", "reduce", "read:\n", "read:\n  %extra = call float @warp_sum(float 1.0)\n", ABSENT_LANE),
    Bug("a lane that is not in its mask", "reduce", "(i32 -1, float %v, i32 16", "(i32 1, float %v, i32 16", FindingKind.NOT_IN_MASK),
)  # fmt: skip


def planted(bug: Bug) -> Case:
    """The kernel with the bug."""
    case = CASES[bug.kernel]
    places = [match.start() for match in re.finditer(re.escape(bug.old), case.kernel.ir_text)]
    start = places[bug.which]
    text = case.kernel.ir_text[:start] + bug.new + case.kernel.ir_text[start + len(bug.old) :]
    launch = case.kernel.launch
    wrong = kernel_of(
        text, bug.kernel, launch.blocks, launch.threads, *case.kernel.scalars, shared=launch.dynamic_shared_bytes
    )
    return Case(wrong, case.arrays)


@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reversed"])
@pytest.mark.parametrize("name", CASES)
def test_right_kernels_are_clean(name: str, reverse: bool) -> None:
    case = CASES[name]
    assert findings(case.kernel, *case.arrays(), reverse=reverse) == ()


@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reversed"])
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_planted_bug_is_found(bug: Bug, reverse: bool) -> None:
    case = planted(bug)
    found = findings(case.kernel, *case.arrays(), reverse=reverse)
    assert bug.kind in {finding.kind for finding in found}, "\n".join(map(str, found))


def test_message() -> None:
    """It names kernel and instruction, what was accessed, thread and block, and the code."""
    case = planted(next(bug for bug in BUGS if bug.name == "one element too many"))
    with pytest.raises(SimulationError) as error:
        run(case.kernel, *case.arrays(), sanitize=True)
    first = str(error.value).splitlines()[0]
    assert first == (
        "kernel 'add' of instruction 'add.1': access of 4 bytes at byte 400 of argument 0 (400 bytes), out of bounds, "
        "by thread (36, 0, 0) of block (1, 0, 0): %a = load float, ptr addrspace(1) %px, align 4"
    )
    assert len(error.value.findings) == 3


def test_race_names_both_threads() -> None:
    case = planted(next(bug for bug in BUGS if bug.name == "two threads write one element"))
    (finding,) = findings(case.kernel, *case.arrays())
    assert str(finding) == (
        "race of blocks on byte 0 of argument 2 (400 bytes): access by thread (0, 0, 0) of block (1, 0, 0) "
        "after a write by thread (0, 0, 0) of block (0, 0, 0): store float %s, ptr addrspace(1) %pz, align 4"
    )


def test_wrong_accesses_do_no_harm() -> None:
    """What lies beside an argument is neither read nor written."""
    memory = aligned(np.zeros(300, np.float32))
    x, y, z = memory[:100], memory[100:200], memory[200:]
    memory[:] = 1
    case = planted(next(bug for bug in BUGS if bug.name == "the tail is not masked"))
    assert findings(case.kernel, x, z, y)
    assert (z == 1).all() and (y == 2).all()


def test_deadlock_is_found_without_the_sanitizer() -> None:
    case = planted(next(bug for bug in BUGS if bug.name == "a barrier in one branch"))
    with pytest.raises(SimulationError, match="barrier that not all threads of the block reach"):
        run(case.kernel, *case.arrays())


def test_operand_and_result_in_one_place() -> None:
    """Arguments that overlap are one memory: a thread may read what it overwrites, and no other thread."""
    x, y = aligned(np.ones(100, np.float32)), aligned(np.ones(100, np.float32))
    assert findings(CASES["add"].kernel, x, y, x) == ()
    assert (x == 2).all()
    shifted = aligned(np.ones(101, np.float32))
    assert {f.kind for f in findings(CASES["add"].kernel, shifted[1:], y, shifted[:100])} == {RACE, RACE_OF_BLOCKS}
