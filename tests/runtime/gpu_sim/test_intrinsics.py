"""What lanes and threads do together, and facts of a thread: each intrinsic against its definition."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.gpu_kernels import aligned, kernel_of, run
from xjit.hlo.diagnostics import CompileError

THREADS = 96


def per_thread(lines: str, threads: int = THREADS, blocks: int = 1) -> str:
    """A kernel of one thread's code from %v (its element of the first buffer) to %r (that of the second), both i32."""
    return f"""
    define ptx_kernel void @k(ptr addrspace(1) %x, ptr addrspace(1) %y) {{
    entry:
      %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
      %b = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
      %o = mul i32 %b, {threads}
      %i = add i32 %o, %t
      %p = getelementptr i32, ptr addrspace(1) %x, i32 %i
      %v = load i32, ptr addrspace(1) %p, align 4
      {lines}
      %q = getelementptr i32, ptr addrspace(1) %y, i32 %i
      store i32 %r, ptr addrspace(1) %q, align 4
      ret void
    }}
    """


def results(lines: str, x: np.ndarray, *, sanitize: bool = False) -> np.ndarray:
    """What the threads of one block make of their elements of x (i32)."""
    y = aligned(np.zeros_like(x))
    run(kernel_of(per_thread(lines, len(x)), "k", 1, len(x)), aligned(x), y, sanitize=sanitize)
    return y


def warps(x: np.ndarray) -> np.ndarray:
    """One row for each warp."""
    return x.reshape(-1, 32)


X = np.random.default_rng(5).integers(-1000, 1000, THREADS).astype(np.int32)
LANES = np.arange(32)


@pytest.mark.parametrize(
    "mode, distance, clamp, source",
    [
        ("bfly", 5, 31, LANES ^ 5),
        ("down", 3, 31, np.where(LANES + 3 < 32, LANES + 3, LANES)),
        ("up", 3, 0, np.where(LANES - 3 >= 0, LANES - 3, LANES)),
        ("idx", 7, 31, np.full(32, 7)),
        ("down", 1, 0x181F, np.where(LANES % 8 < 7, LANES + 1, LANES)),
        ("up", 1, 0x1800, np.where(LANES % 8 > 0, LANES - 1, LANES)),
        ("idx", 2, 0x181F, LANES // 8 * 8 + 2),
        ("bfly", 16, 0x101F, np.where(LANES < 16, LANES, LANES - 16)),
    ],
)
def test_shuffles(mode: str, distance: int, clamp: int, source: np.ndarray) -> None:
    """Also in segments of 8 and 16 lanes; a lane without a source in its segment keeps its value."""
    lines = f"%r = call i32 @llvm.nvvm.shfl.sync.{mode}.i32(i32 -1, i32 %v, i32 {distance}, i32 {clamp})"
    assert (warps(results(lines, X)) == warps(X)[:, source]).all()


def test_shuffle_tells_if_its_source_is_in_range() -> None:
    lines = """%pair = call {float, i1} @llvm.nvvm.shfl.sync.down.f32p(i32 -1, float 1.5, i32 4, i32 31)
      %first = extractvalue {float, i1} %pair, 0
      %second = extractvalue {float, i1} %pair, 1
      %n = fptosi float %first to i32
      %r = select i1 %second, i32 %n, i32 -1"""
    assert (warps(results(lines, X)) == np.where(LANES < 28, 1, -1)).all()


@pytest.mark.parametrize(
    "name, reduce",
    [
        ("add", np.add.reduce),
        ("min", np.min),
        ("max", np.max),
        ("and", np.bitwise_and.reduce),
        ("or", np.bitwise_or.reduce),
        ("xor", np.bitwise_xor.reduce),
        ("umin", lambda row: row.view(np.uint32).min()),
        ("umax", lambda row: row.view(np.uint32).max().view(np.int32)),
    ],
)
def test_reductions(name: str, reduce: object) -> None:
    lines = f"%r = call i32 @llvm.nvvm.redux.sync.{name}(i32 %v, i32 -1)"
    expected = [reduce(row) for row in warps(X)]  # type: ignore[operator]
    assert (warps(results(lines, X)) == np.array(expected, np.int32)[:, None]).all()


@pytest.mark.parametrize("limit", [-2000, 0, 2000])
def test_votes(limit: int) -> None:
    true = warps(X) < limit
    expected = {"all": true.all(1), "any": true.any(1), "uni": true.all(1) | ~true.any(1)}
    for name, votes in expected.items():
        lines = f"""%c = icmp slt i32 %v, {limit}
          %w = call i1 @llvm.nvvm.vote.{name}.sync(i32 -1, i1 %c)
          %r = zext i1 %w to i32"""
        assert (warps(results(lines, X)) == votes[:, None]).all(), name
    lines = f"%c = icmp slt i32 %v, {limit}\n  %r = call i32 @llvm.nvvm.vote.ballot.sync(i32 -1, i1 %c)"
    masks = (true.astype(np.uint32) << LANES.astype(np.uint32)).sum(1).astype(np.uint32).view(np.int32)
    assert (warps(results(lines, X)) == masks[:, None]).all()


def test_match_any() -> None:
    lines = "%w = and i32 %v, 3\n  %r = call i32 @llvm.nvvm.match.any.sync.i32(i32 -1, i32 %w)"
    groups = warps(X) & 3
    same = groups[:, :, None] == groups[:, None, :]
    masks = (same.astype(np.uint32) << LANES.astype(np.uint32)).sum(2).astype(np.uint32).view(np.int32)
    assert (warps(results(lines, X)) == masks).all()


def test_exchanges_of_some_lanes() -> None:
    """Two halves of a warp meet in different places, each with its own mask."""
    lines = """%lane = call i32 @llvm.nvvm.read.ptx.sreg.laneid()
      %low = icmp ult i32 %lane, 16
      br i1 %low, label %left, label %right
    left:
      %a = call i32 @llvm.nvvm.redux.sync.add(i32 %v, i32 65535)
      br label %after
    right:
      %m = call i32 @llvm.nvvm.redux.sync.max(i32 %v, i32 -65536)
      br label %after
    after:
      %r = phi i32 [ %a, %left ], [ %m, %right ]"""
    rows = warps(X)
    expected = np.concatenate(
        [rows[:, :16].sum(1)[:, None].repeat(16, 1), rows[:, 16:].max(1)[:, None].repeat(16, 1)], 1
    )
    assert (warps(results(lines, X, sanitize=True)) == expected).all()


@pytest.mark.parametrize("limit", [-2000, 0, 2000])
def test_barriers_that_count(limit: int) -> None:
    true = limit > X
    for name, expected in {"popc": true.sum(), "and": true.all(), "or": true.any()}.items():
        kind = "i32" if name == "popc" else "i1"
        lines = f"""%c = icmp slt i32 %v, {limit}
          %w = call {kind} @llvm.nvvm.barrier.cta.red.{name}.aligned.all(i32 0, i1 %c)
          %r = {"add i32 %w, 0" if name == "popc" else "zext i1 %w to i32"}"""
        assert (results(lines, X) == expected).all(), name


@pytest.mark.parametrize(
    "name, value",
    [
        ("laneid", LANES),
        ("warpsize", 32),
        ("lanemask.eq", 1 << LANES),
        ("lanemask.lt", (1 << LANES) - 1),
        ("lanemask.le", (2 << LANES) - 1),
        ("lanemask.gt", ~((2 << LANES) - 1)),
        ("lanemask.ge", ~((1 << LANES) - 1)),
    ],
)
def test_facts_of_a_lane(name: str, value: object) -> None:
    found = warps(results(f"%r = call i32 @llvm.nvvm.read.ptx.sreg.{name}()", X))
    assert (found == np.asarray(value).astype(np.int64).astype(np.int32)).all()


def test_warp_number() -> None:
    assert (warps(results("%r = call i32 @llvm.nvvm.read.ptx.sreg.warpid()", X)) == np.arange(3)[:, None]).all()


def test_a_meeting_of_a_warp_orders_its_accesses() -> None:
    """What one lane writes, another reads behind `bar.warp.sync`, without a barrier of the block."""
    text = """
    @line = internal addrspace(3) global [64 x i32] undef, align 4
    """ + per_thread(
        """%slot = getelementptr i32, ptr addrspace(3) @line, i32 %t
      store i32 %v, ptr addrspace(3) %slot, align 4
      call void @llvm.nvvm.bar.warp.sync(i32 -1)
      %u = xor i32 %t, 31
      %from = getelementptr i32, ptr addrspace(3) @line, i32 %u
      %r = load i32, ptr addrspace(3) %from, align 4""",
        64,
    )
    x, y = aligned(X[:64].copy()), aligned(np.zeros(64, np.int32))
    run(kernel_of(text, "k", 1, 64), x, y, sanitize=True)
    assert (warps(y) == warps(x)[:, ::-1]).all()
    with pytest.raises(Exception, match="race on byte"):
        run(kernel_of(text.replace("call void @llvm.nvvm.bar.warp.sync(i32 -1)", ""), "k", 1, 64), x, y, sanitize=True)


def test_compare_and_swap() -> None:
    """A lock-free maximum over all threads of all blocks."""
    text = """
    define ptx_kernel void @k(ptr addrspace(1) %x, ptr addrspace(1) %y) {
    entry:
      %t = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
      %b = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
      %o = mul i32 %b, 32
      %i = add i32 %o, %t
      %p = getelementptr i32, ptr addrspace(1) %x, i32 %i
      %v = load i32, ptr addrspace(1) %p, align 4
      br label %try
    try:
      %old = load atomic i32, ptr addrspace(1) %y syncscope("device") monotonic, align 4
      %done = icmp sge i32 %old, %v
      br i1 %done, label %end, label %swap
    swap:
      %pair = cmpxchg ptr addrspace(1) %y, i32 %old, i32 %v syncscope("device") monotonic monotonic
      %ok = extractvalue {i32, i1} %pair, 1
      br i1 %ok, label %end, label %try
    end:
      ret void
    }
    """
    for sanitize in (False, True):
        y = aligned(np.full(1, -(2**31), np.int32))
        run(kernel_of(text, "k", 3, 32), aligned(X), y, sanitize=sanitize)
        assert y[0] == X.max()


def test_approximations() -> None:
    lines = """%f = sitofp i32 %v to float
      %s = fmul float %f, 0x3F80000000000000
      %e = call float @llvm.nvvm.ex2.approx.f(float %s)
      %l = call float @llvm.nvvm.lg2.approx.f(float %e)
      %back = fmul float %l, 1.280000e+02
      %rounded = call float @llvm.roundeven.f32(float %back)
      %r = fptosi float %rounded to i32"""
    assert (results(lines, X) == X).all()


@pytest.mark.parametrize(
    "lines, message",
    [
        ("%r = call i32 @llvm.nvvm.read.ptx.sreg.clock()", "asks for 'clock'"),
        (
            "call void @llvm.nvvm.nanosleep(i32 %v)\n  %r = add i32 0, 0",
            "uses the intrinsic llvm.nvvm.nanosleep",
        ),
        ("%r = call i32 @elsewhere(i32 %v)", "calls @elsewhere, which the host does not have"),
        ("%r = add i32 %v, %nothing", "LLVM rejected"),
    ],
)
def test_what_the_host_has_not_is_refused(lines: str, message: str) -> None:
    text = per_thread(lines) + "declare i32 @elsewhere(i32)\n"
    with pytest.raises(CompileError, match=message) as error:
        run(kernel_of(text, "k", 1, 32), aligned(X), aligned(X.copy()))
    assert "kernel 'k' of instruction 'k.1'" in str(error.value)


def test_recursion_is_refused() -> None:
    text = (
        per_thread("%r = call i32 @f(i32 %v)")
        + """
    define internal i32 @f(i32 %n) {
      %m = sub i32 %n, 1
      %c = icmp slt i32 %m, 0
      br i1 %c, label %end, label %again
    again:
      %r = call i32 @f(i32 %m)
      ret i32 %r
    end:
      ret i32 %n
    }
    """
    )
    with pytest.raises(CompileError, match="calls functions that cannot be inlined: @f"):
        run(kernel_of(text, "k", 1, 32), aligned(X), aligned(X.copy()))
