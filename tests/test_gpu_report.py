"""The report on a GPU's kernels, and their machine code: with NVIDIA's assembler and without it."""

from __future__ import annotations

import functools
import re

import numpy as np
import pytest

from tests.emitters.gpu.test_schedules import softmax, transposed
from xjit.compile_options import CompileOptions
from xjit.gpu_compiler import SimulatedExecutable, compile_for_gpu
from xjit.gpu_report import NOT_ASSEMBLED
from xjit.hlo.diagnostics import FailedPrecondition, ResourceExhausted
from xjit.runtime.cuda import disassembly, has_assembler, images
from xjit.text.parser import parse_hlo

needs_linker = pytest.mark.skipif(not has_assembler(), reason="needs the package nvidia-nvjitlink")
needs_disassembler = pytest.mark.skipif(disassembly._find_tool() is None, reason="needs nvdisasm")


def compiled(text: str) -> SimulatedExecutable:
    return compile_for_gpu(parse_hlo(text), "sm_90", CompileOptions())


def without_linker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "_LINKER", "xjit.there_is_no_such_module")


def test_report_without_the_assembler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Traffic comes from the schedule; what only the assembler knows is said to be unknown."""
    without_linker(monkeypatch)
    executable = compiled(softmax(64, 2048))
    (report,) = executable.kernel_reports()
    assert report.resources is None and report.occupancy is None and report.remarks == ()
    assert report.traffic is not None and report.traffic.needed == 2 * 64 * 2048 * 4 + 2 * 32  # with two constants
    lines = executable.as_text("report").splitlines()
    assert len(lines) == 4 and lines[2] == NOT_ASSEMBLED
    assert re.match(r"total: 1 calls of 1 kernels, (\d+) of \1 accesses coalesced, 1024.1 KiB needed", lines[3])


def test_hand_written_kernels_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    without_linker(monkeypatch)
    text = """HloModule m
less { a = f32[] parameter(0)
 b = f32[] parameter(1)
 ROOT l = pred[] compare(a, b), direction=LT }
ENTRY e { x = f32[100] parameter(0)
 ROOT r = f32[100] sort(x), dimensions={0}, to_apply=less }"""
    executable = compiled(text)
    assert any(report.traffic is None for report in executable.kernel_reports())
    assert "written by hand" in executable.as_text("report")


@needs_linker
def test_report_with_the_assembler() -> None:
    executable = compiled(transposed("f32[256,256]", "f32[256,256]", "1,0"))
    (report,) = executable.kernel_reports()
    assert report.resources is not None and report.resources.shared_bytes >= 32 * 32 * 4
    assert 0.0 < (report.occupancy or 0.0) <= 1.0
    assert NOT_ASSEMBLED not in executable.as_text("report")


def test_sass_without_the_assembler(monkeypatch: pytest.MonkeyPatch) -> None:
    without_linker(monkeypatch)
    with pytest.raises(FailedPrecondition, match="needs NVIDIA's package nvidia-nvjitlink"):
        compiled(softmax(8, 64)).as_text("sass")


def test_sass_without_the_disassembler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disassembly.shutil, "which", lambda name: None)
    monkeypatch.setattr(disassembly, "_PATHFINDER", "xjit.there_is_no_such_module")
    with pytest.raises(FailedPrecondition, match="needs NVIDIA's tool nvdisasm"):
        disassembly.to_sass(b"")


@needs_linker
@needs_disassembler
def test_sass_has_the_wide_accesses_of_the_schedule() -> None:
    sass = compiled(softmax(64, 2048)).as_text("sass")
    assert re.search(r"LDG\.E\.128", sass) and "STG.E.128" in sass and "SHFL.BFLY" in sass


def test_what_is_not_followed_is_not_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    """No bytes are claimed for a contraction in tiles."""
    without_linker(monkeypatch)
    text = """HloModule m
ENTRY e { x = f32[64,64] parameter(0)
 y = f32[64,64] parameter(1)
 ROOT r = f32[64,64] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"""
    for report in compiled(text).kernel_reports():
        assert report.traffic is None or report.traffic.needed > 0
        assert report.traffic is not None or "written by hand" in report.remarks[0]


def test_a_module_that_is_too_large_for_this_machine_is_printed_and_not_run() -> None:
    """Only what runs it needs the memory, and says so."""
    text = (
        "HloModule m\nENTRY e {\n  x = f32[] parameter(0)\n  ROOT r = f32[900000,900000] broadcast(x), dimensions={}\n}"
    )
    executable = compile_for_gpu(parse_hlo(text), "sm_90", CompileOptions())
    assert "vector(4)" in executable.as_text("schedule") and ".entry" in executable.as_text("ptx")
    for call in (executable, functools.partial(executable.run, sanitize=True)):
        with pytest.raises(ResourceExhausted, match="a call needs 3,240,000,000,004 bytes"):
            call(np.float32(1))
