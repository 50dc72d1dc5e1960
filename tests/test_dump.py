"""XJIT_FLAGS and the dumps that it asks for."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

import xjit
from xjit.flags import Flags, flags_from_environment, parse_flags

TEXT = """HloModule two.words
ENTRY e {
  x = f32[4] parameter(0)
  a = f32[4] negate(x)
  b = f32[4] negate(x)
  ROOT r = f32[4] add(a, b)
}
"""
X = np.arange(4, dtype=np.float32)


def files(directory: Path) -> dict[str, str]:
    """The dumped texts by the name without the number of the module."""
    return {path.name.split(".", 1)[1]: path.read_text() for path in directory.iterdir()}


def test_stages_are_dumped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XJIT_FLAGS", f"--xjit_dump_to={tmp_path / 'new' / 'dumps'}")
    executable = xjit.compile(TEXT)
    dumped = files(tmp_path / "new" / "dumps")
    assert dumped == {
        "two.words.before_optimizations.txt": executable.as_text("hlo"),
        "two.words.after_optimizations.txt": executable.as_text("optimized-hlo"),
        "two.words.buffer-assignment.txt": executable.as_text("buffer-assignment"),
        "two.words.thunks.txt": executable.as_text("thunks"),
        "two.words.schedule.txt": executable.as_text("schedule"),
        "two.words.ll": executable.as_text("llvm"),
        "two.words.s": executable.as_text("asm"),
    }
    again = xjit.compile(dumped["two.words.after_optimizations.txt"])
    np.testing.assert_array_equal(again(X), executable(X))


def test_one_compilation_is_dumped(tmp_path: Path) -> None:
    options = xjit.CompileOptions(
        dump_to=str(tmp_path / "dumps"), dump_hlo_pass_re="hlo-cse", cache_dir=str(tmp_path / "c")
    )
    for _ in range(2):  # what is dumped does not come from a cache
        xjit.compile(TEXT.replace("negate", "sine"), options=options)
    xjit.compile(TEXT, options=xjit.CompileOptions())
    names = [path.name.split(".", 1)[1] for path in (tmp_path / "dumps").iterdir()]
    assert sorted(names) == sorted([*files(tmp_path / "dumps")] * 2)
    assert {"two.words.0001.after_hlo-cse.txt", "two.words.after_optimizations.txt"} <= set(names)
    with pytest.raises(xjit.InvalidArgument, match="is not a regular expression"):
        xjit.CompileOptions(dump_hlo_pass_re="(")


def test_passes_that_changed_something_are_dumped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XJIT_FLAGS", f"--xjit_dump_to={tmp_path} --xjit_dump_hlo_pass_re='cse|tuple-simplifier'")
    xjit.compile(TEXT.replace("negate", "sine"))
    after = {name: text for name, text in files(tmp_path).items() if ".after_" in name and "optimizations" not in name}
    assert list(after) == ["two.words.0001.after_hlo-cse.txt"]
    assert xjit.parse_hlo(after["two.words.0001.after_hlo-cse.txt"]).entry_computation.instruction_count == 3


def test_passes_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "fusion(" in xjit.compile(TEXT).as_text("optimized-hlo")
    monkeypatch.setenv("XJIT_FLAGS", "--xjit_disable_hlo_passes=fusion")
    executable = xjit.compile(TEXT)
    assert "fusion(" not in executable.as_text("optimized-hlo")
    np.testing.assert_array_equal(executable(X), -2 * X)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("--xjit_dump_too=x", "unknown flag '--xjit_dump_too'"),
        ("dump_to=x", "unknown flag 'dump_to'"),
        ("--xjit_dump_to", "--xjit_dump_to needs a value"),
        ("--xjit_dump_hlo_pass_re=(", "is not a regular expression"),
        ("--xjit_disable_hlo_passes=dec", "unknown pass 'dec'"),
        ("--xjit_dump_to='x", "No closing quotation"),
        ("--xjit_dump_to=/dev/null/x", "cannot write the dump"),
    ],
)
def test_mistakes(text: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XJIT_FLAGS", text)
    with pytest.raises(xjit.InvalidArgument) as caught:
        xjit.compile(TEXT)
    assert message in caught.value.message


def test_values() -> None:
    assert flags_from_environment({}) == Flags() == parse_flags("  ")
    assert parse_flags("--xjit_dump_to='a b' --xjit_disable_hlo_passes=a,,b") == Flags("a b", "", ("a", "b"))


def test_every_flag_is_in_the_readme() -> None:
    readme = (Path(__file__).parents[1] / "README.md").read_text()
    assert all(f"`--xjit_{field.name}=" in readme for field in dataclasses.fields(Flags))
