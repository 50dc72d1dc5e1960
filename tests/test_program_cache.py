"""Whole programs in the cache: what is loaded again, and what is compiled anew."""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest

import xjit
from xjit import compiler, program_cache
from xjit.compile_options import CompileOptions
from xjit.runtime.machine_code.object_cache import ObjectCache
from xjit.runtime.program_file import program_to_bytes

TEXT = """HloModule m, input_output_alias={{0}: (0, {}, may-alias)}
ENTRY e {
  p = f32[4,30] parameter(0)
  c = f32[3] constant({1, 2, 3})
  s = f32[4,30] sine(p)
  ROOT r = (f32[4,30], f32[3]) tuple(s, c)
}"""
X = np.linspace(-1, 1, 120, dtype=np.float32).reshape(4, 30)


@pytest.fixture
def options(tmp_path: Path) -> CompileOptions:
    return CompileOptions(cache_dir=str(tmp_path / "cache"))


@pytest.fixture(autouse=True)
def _without_flags(monkeypatch: pytest.MonkeyPatch) -> None:  # pyright: ignore[reportUnusedFunction]
    monkeypatch.delenv("XJIT_FLAGS", raising=False)


def programs(options: CompileOptions) -> list[str]:
    entries = ObjectCache(options.cache_dir or "").entries()
    return [entry.label for entry in entries if entry.label.startswith("program ")]


def refuse(*_: object) -> None:
    raise AssertionError("nothing is to be compiled")


def test_a_program_is_loaded(options: CompileOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    first = xjit.compile(TEXT, options=options)
    with monkeypatch.context() as patch:
        patch.setattr(compiler, "optimize_module", refuse)
        second = xjit.compile(TEXT, options=options)
        assert program_to_bytes(second.program) == program_to_bytes(first.program)
        for found, expected in zip(second(X), first(X), strict=True):
            assert np.array_equal(found, expected)
        assert set(second.compile_seconds) == {"verify", "load"}
    assert programs(options) == ["program m"]


def test_stages_of_a_loaded_program(options: CompileOptions) -> None:
    first, second = (xjit.compile(TEXT, options=options) for _ in range(2))
    for stage in ("hlo", "optimized-hlo", "buffer-assignment", "thunks", "schedule", "llvm"):
        assert second.as_text(stage) == first.as_text(stage)
    assert second.cost_analysis() == first.cost_analysis()
    assert second.memory_analysis() == first.memory_analysis()
    assert second.kernel_sources == first.kernel_sources
    steps: list[object] = []
    for found, expected in zip(second.run_thunks(X, on_thunk=steps.append), first(X), strict=True):
        assert np.array_equal(found, expected)
    assert steps


def test_the_text_of_a_loaded_program_takes_no_compilation(
    options: CompileOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = xjit.compile(TEXT, options=options)
    monkeypatch.setattr(compiler, "optimize_module", refuse)
    second = xjit.compile(TEXT, options=options)
    assert second.as_text("hlo") == first.as_text("hlo")
    with pytest.raises(xjit.InvalidArgument, match="unknown stage 'llvm-ir'"):
        second.as_text("llvm-ir")


def test_stages_of_a_module_that_changed(options: CompileOptions) -> None:
    text = TEXT.replace("  ROOT", "  unused = f32[4,30] cosine(p)\n  ROOT")
    first = xjit.compile(text, options=options)
    module = xjit.parse_hlo(text)
    loaded = xjit.compile(module, options=options)
    assert xjit.run_passes(module, ["dce"])
    assert loaded.as_text("hlo") == first.as_text("hlo") != str(module)
    assert loaded.as_text("llvm") == first.as_text("llvm")


def test_what_decides_a_program_is_in_its_key(options: CompileOptions, monkeypatch: pytest.MonkeyPatch) -> None:
    fields = {name: getattr(options, name) for name in ("cache_dir",)}
    xjit.compile(TEXT, options=options)
    xjit.compile(TEXT.replace("sine", "cosine"), options=options)
    xjit.compile(TEXT.replace("2, 3", "2, 4"), options=options)
    xjit.compile(TEXT.replace(", may-alias", ", must-alias"), options=options)
    for changed in ({"opt_level": 1}, {"fusion": False}, {"cpu_level": "sse2"}, {"disabled_passes": ("cse",)}):
        xjit.compile(TEXT, options=CompileOptions(**fields, **changed))  # pyright: ignore[reportArgumentType]
    assert len(programs(options)) == 8
    monkeypatch.setattr(program_cache, "source_fingerprint", lambda: "other files")
    xjit.compile(TEXT, options=options)
    assert len(programs(options)) == 9


def test_who_looks_into_a_compilation_gets_one(
    options: CompileOptions, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    xjit.compile(TEXT, options=options)
    monkeypatch.setenv("XJIT_FLAGS", f"--xjit_dump_to={tmp_path / 'dump'}")
    assert "optimize" in xjit.compile(TEXT, options=options).compile_seconds
    assert list((tmp_path / "dump").iterdir())


def test_a_damaged_program_is_compiled_again(options: CompileOptions) -> None:
    xjit.compile(TEXT, options=options)
    for path in Path(options.cache_dir or "").iterdir():
        path.write_bytes(path.read_bytes()[:-1])
    again = xjit.compile(TEXT, options=options)
    assert "optimize" in again.compile_seconds
    assert np.array_equal(again(X)[1], np.array([1, 2, 3], np.float32))
    assert "optimize" not in xjit.compile(TEXT, options=options).compile_seconds


def test_programs_that_call_this_process_are_not_kept(options: CompileOptions) -> None:
    kind = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
    xjit.register_custom_call_target("test_program_cache.nothing", kind(lambda _result, _operands: None))
    text = """HloModule m
ENTRY e {
  p = f32[4] parameter(0)
  ROOT r = f32[4] custom-call(p), custom_call_target="test_program_cache.nothing"
}"""
    for _ in range(2):
        assert "optimize" in xjit.compile(text, options=options).compile_seconds
    assert programs(options) == []
