"""Accesses of every form: masked, copied, through chosen pointers, to constants, to the stack, outside of all."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.gpu_kernels import aligned, findings, kernel, kernel_of, run
from xjit.hlo.diagnostics import CompileError, InvalidArgument
from xjit.runtime.gpu_sim import FindingKind, MemoryRange, simulate
from xjit.thunks import LaunchDimensions

OUT_OF_BOUNDS = FindingKind.OUT_OF_BOUNDS
HEAD = """
  %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
"""


def text(lines: str, data: str = "") -> str:
    """A kernel of two buffers %x and %y."""
    return f"""{data}
    define ptx_kernel void @k(ptr addrspace(1) %x, ptr addrspace(1) %y) {{
    entry:
      %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
      {lines}
      ret void
    }}
    """


def kinds(lines: str, x: np.ndarray, y: np.ndarray, threads: int = 1, data: str = "") -> set[FindingKind]:
    """What is found in a kernel of some lines."""
    return {finding.kind for finding in findings(kernel_of(text(lines, data), "k", 1, threads), x, y)}


@pytest.mark.parametrize("sanitize", [False, True])
def test_masked_accesses(sanitize: bool) -> None:
    lines = """%m = icmp slt <4 x i32> <i32 0, i32 1, i32 2, i32 3>, splat (i32 3)
      %v = call <4 x i32> @llvm.masked.load.v4i32.p1(ptr addrspace(1) align 4 %x, <4 x i1> %m, <4 x i32> splat (i32 7))
      call void @llvm.masked.store.v4i32.p1(<4 x i32> %v, ptr addrspace(1) align 4 %y, <4 x i1> %m)"""
    x, y = aligned(np.array([1, 2, 3], np.int32)), aligned(np.zeros(3, np.int32))
    run(kernel_of(text(lines), "k", 1, 1), x, y, sanitize=sanitize)
    assert (y == x).all()
    wrong = lines.replace("splat (i32 3)\n", "splat (i32 4)\n")
    assert kinds(wrong, x, y) == {OUT_OF_BOUNDS}


@pytest.mark.parametrize("sanitize", [False, True])
def test_gather_and_scatter(sanitize: bool) -> None:
    lines = """%ps = getelementptr i32, ptr addrspace(1) %x, <4 x i32> <i32 3, i32 2, i32 1, i32 INDEX>
      %v = call <4 x i32> @llvm.masked.gather.v4i32.v4p1(<4 x ptr addrspace(1)> align 4 %ps, <4 x i1> splat (i1 true), <4 x i32> zeroinitializer)
      %qs = getelementptr i32, ptr addrspace(1) %y, <4 x i32> <i32 0, i32 1, i32 2, i32 3>
      call void @llvm.masked.scatter.v4i32.v4p1(<4 x i32> %v, <4 x ptr addrspace(1)> align 4 %qs, <4 x i1> splat (i1 true))"""
    x, y = aligned(np.arange(4, dtype=np.int32)), aligned(np.zeros(4, np.int32))
    run(kernel_of(text(lines.replace("INDEX", "0")), "k", 1, 1), x, y, sanitize=sanitize)
    assert (y == x[::-1]).all()
    assert kinds(lines.replace("INDEX", "4"), x, y) == {OUT_OF_BOUNDS}


@pytest.mark.parametrize("sanitize", [False, True])
def test_copies(sanitize: bool) -> None:
    data = "@line = internal addrspace(3) global [4 x i32] undef, align 16"
    lines = """call void @llvm.memcpy.p3.p1.i64(ptr addrspace(3) align 16 @line, ptr addrspace(1) align 4 %x, i64 16, i1 false)
      call void @llvm.memset.p1.i64(ptr addrspace(1) align 4 %y, i8 0, i64 32, i1 false)
      %q = getelementptr i8, ptr addrspace(1) %y, i64 16
      call void @llvm.memcpy.p1.p3.i64(ptr addrspace(1) align 4 %q, ptr addrspace(3) align 16 @line, i64 16, i1 false)"""
    x, y = aligned(np.arange(4, dtype=np.int32)), aligned(np.full(8, 9, np.int32))
    run(kernel_of(text(lines, data), "k", 1, 1), x, y, sanitize=sanitize)
    assert (y == [0, 0, 0, 0, 0, 1, 2, 3]).all()
    assert kinds(lines.replace("i64 32", "i64 33"), x, y, data=data) == {OUT_OF_BOUNDS}
    assert kinds(lines.replace("%x, i64 16", "%x, i64 12"), x, y, data=data) == {FindingKind.UNINITIALIZED}


def test_object_of_a_chosen_pointer() -> None:
    """A pointer from a phi or a select must stay inside the buffer that was chosen, though another lies behind it."""
    memory = aligned(np.zeros(8, np.int32))
    x, y = memory[:4], memory[4:]
    select = """%c = icmp eq i32 %t, 0
      %p = select i1 %c, ptr addrspace(1) %x, ptr addrspace(1) %y
      %q = getelementptr i32, ptr addrspace(1) %p, i64 INDEX
      store i32 1, ptr addrspace(1) %q, align 4"""
    assert kinds(select.replace("INDEX", "3"), x, y) == set()
    assert memory[3] == 1
    assert kinds(select.replace("INDEX", "4"), x, y) == {OUT_OF_BOUNDS}
    assert memory[4] == 0
    loop = """br label %loop
    loop:
      %p = phi ptr addrspace(1) [ %x, %entry ], [ %next, %loop ]
      store i32 2, ptr addrspace(1) %p, align 4
      %next = getelementptr i32, ptr addrspace(1) %p, i64 1
      %last = getelementptr i32, ptr addrspace(1) %x, i64 COUNT
      %more = icmp ne ptr addrspace(1) %next, %last
      br i1 %more, label %loop, label %end
    end:"""
    assert kinds(loop.replace("COUNT", "4"), x, y) == set()
    assert kinds(loop.replace("COUNT", "5"), x, y) == {OUT_OF_BOUNDS}
    assert (memory == [2, 2, 2, 2, 0, 0, 0, 0]).all()


def test_generic_pointers() -> None:
    lines = """%g = addrspacecast ptr addrspace(1) %x to ptr
      %p = getelementptr i32, ptr %g, i32 %t
      %v = load i32, ptr %p, align 4
      store i32 %v, ptr addrspacecast (ptr addrspace(3) @word to ptr), align 4
      %w = load i32, ptr addrspacecast (ptr addrspace(3) @word to ptr), align 4
      %q = getelementptr i32, ptr addrspace(1) %y, i32 %t
      store i32 %w, ptr addrspace(1) %q, align 4"""
    data = "@word = internal addrspace(3) global i32 undef, align 4"
    x, y = aligned(np.full(2, 5, np.int32)), aligned(np.zeros(2, np.int32))
    assert kinds(lines, x, y, data=data) == set() and y[0] == 5
    assert kinds(lines, x, y, threads=2, data=data) == {FindingKind.RACE}
    assert kinds(lines, x, y[:1], threads=2, data=data) == {FindingKind.RACE, OUT_OF_BOUNDS}


def test_pointers_of_unknown_origin() -> None:
    """One that was made of a number may point into any buffer, but not beside all of them."""
    lines = """%n = ptrtoint ptr addrspace(1) %x to i64
      %m = add i64 %n, OFFSET
      %p = inttoptr i64 %m to ptr addrspace(1)
      store i32 3, ptr addrspace(1) %p, align 4"""
    x, y = aligned(np.zeros(4, np.int32)), aligned(np.zeros(4, np.int32))
    assert kinds(lines.replace("OFFSET", "12"), x, y) == set() and x[3] == 3
    assert kinds(lines.replace("OFFSET", "16"), x, y) == {OUT_OF_BOUNDS}


@pytest.mark.parametrize("sanitize", [False, True])
def test_tables_and_the_stack(sanitize: bool) -> None:
    data = "@table = internal addrspace(4) constant [4 x i32] [i32 2, i32 3, i32 5, i32 7], align 16"
    lines = """%local = alloca [4 x i32], align 4
      %p = getelementptr i32, ptr addrspace(4) @table, i32 %t
      %v = load i32, ptr addrspace(4) %p, align 4
      %slot = getelementptr i32, ptr %local, i32 %t
      store i32 %v, ptr %slot, align 4
      call void @llvm.nvvm.barrier.cta.sync.aligned.all(i32 0)
      %w = load i32, ptr %slot, align 4
      %q = getelementptr i32, ptr addrspace(1) %y, i32 %t
      store i32 %w, ptr addrspace(1) %q, align 4"""
    x, y = aligned(np.zeros(1, np.int32)), aligned(np.zeros(8, np.int32))
    run(kernel_of(text(lines, data), "k", 1, 4), x, y, sanitize=sanitize)
    assert (y[:4] == [2, 3, 5, 7]).all()


def test_tables_are_not_written_and_end() -> None:
    data = "@table = internal addrspace(4) constant [2 x i32] [i32 2, i32 3], align 16"
    x = aligned(np.zeros(1, np.int32))
    assert kinds("store i32 1, ptr addrspace(4) @table, align 4", x, x, data=data) == {FindingKind.READ_ONLY}
    over = "%v = load i32, ptr addrspace(4) getelementptr inbounds (i8, ptr addrspace(4) @table, i64 8), align 4"
    assert kinds(over, x, x, data=data) == {OUT_OF_BOUNDS}


def test_accesses_that_are_not_known_are_refused() -> None:
    lines = "%v = call <4 x i32> @llvm.masked.expandload.v4i32(ptr %g, <4 x i1> splat (i1 true), <4 x i32> poison)"
    what = kernel_of(text("%g = addrspacecast ptr addrspace(1) %x to ptr\n" + lines), "k", 1, 1)
    with pytest.raises(CompileError, match=r"does not know what llvm\.masked\.expandload"):
        findings(what, aligned(np.zeros(4, np.int32)), aligned(np.zeros(4, np.int32)))


def test_arguments_that_do_not_fit() -> None:
    x = aligned(np.zeros(64, np.float32))
    add, ranges = kernel("add4", 1, 16, 64), [MemoryRange.of(x)] * 3
    with pytest.raises(InvalidArgument, match="2 buffers and 1 scalars do not fit"):
        simulate(add, ranges[:2])
    with pytest.raises(InvalidArgument, match="3 buffers and 0 scalars do not fit"):
        simulate(kernel("add4", 1, 16), ranges)
    with pytest.raises(InvalidArgument, match="wants argument 1 aligned to 16 bytes"):
        simulate(add, [ranges[0], MemoryRange(x.ctypes.data + 4, 128), ranges[2]])
    for blocks, threads in ((1, 1025), (1, (32, 64)), (0, 32), ((1, 65536), 32), (1, (1, 1, 65))):
        with pytest.raises(InvalidArgument, match="a block has 1 to 1024 threads"):
            simulate(kernel("add4", blocks, threads, 64), ranges)
    with pytest.raises(InvalidArgument, match="contiguous"):
        MemoryRange.of(x[::2])


def test_overlapping_operands_of_any_order() -> None:
    """The shadow of ranges that overlap is one, also of three that hang together by the middle one."""
    memory = aligned(np.ones(160, np.float32))
    x, y, z = memory[:64], memory[96:160], memory[48:112]
    found = {f.kind for f in findings(kernel("add", 1, 64, 64), x, y, z)}
    assert found == {FindingKind.RACE}
    assert findings(kernel("add", 1, 64, 64), memory[:64], memory[64:128], memory[:64]) == ()


def test_too_much_static_shared_memory() -> None:
    data = "@line = internal addrspace(3) global [12289 x i32] undef, align 16"
    lines = "store i32 1, ptr addrspace(3) @line, align 4"
    x = aligned(np.zeros(1, np.int32))
    with pytest.raises(CompileError, match="49156 bytes of static shared memory, GPUs have 49152"):
        run(kernel_of(text(lines, data), "k", 1, 1), x, x)


def test_a_launch_of_other_dimensions() -> None:
    """It also says how much dynamic shared memory there is."""
    what = kernel("dynamic_reverse", 1, 1)
    x, y = aligned(np.arange(64, dtype=np.int16)), aligned(np.zeros(64, np.int16))
    launch = LaunchDimensions((2, 1, 1), (32, 1, 1), 64)
    simulate(what, [MemoryRange.of(x), MemoryRange.of(y)], launch=launch, sanitize=True)
    assert (y.reshape(2, 32) == x.reshape(2, 32)[:, ::-1]).all()
