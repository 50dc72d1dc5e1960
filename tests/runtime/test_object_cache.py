"""The cache of object code: what it gives back, what it refuses, how large it gets, who may use it."""

from __future__ import annotations

import importlib
import itertools
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import xjit
from tests.runtime.test_cuda_images import FakeLinker
from xjit import compiler, program_cache
from xjit.compile_options import CompileOptions
from xjit.compiler import libraries_of
from xjit.emitters.gemm import library as gemm_library
from xjit.gpu_compiler import compile_for_gpu
from xjit.hlo.diagnostics import InvalidArgument
from xjit.llvm.library import Library
from xjit.llvm.module import Module
from xjit.runtime.cuda import images
from xjit.runtime.machine_code import jit, library_cache, nvptx, object_cache, toolchain
from xjit.runtime.machine_code.jit import ProgramCompiler
from xjit.runtime.machine_code.object_cache import ObjectCache, cache_key
from xjit.runtime.native.loader import native_modules
from xjit.runtime.native.object_layout import fast_call_obstacle
from xjit.text.parser import parse_hlo
from xjit.tools import cache as cache_command
from xjit.tools.library_programs import library_programs
from xjit.tools.main import BAD_INPUT, MISMATCH, main

kernels = importlib.import_module("xjit.runtime.gpu_sim.simulated_kernel")  # the package has a function of that name
SQUARE = "; ModuleID = 'square'\ndefine i64 @f(i64 %x) {{\n  %y = mul i64 %x, {n}\n  ret i64 %y\n}}\n"
KEY, OTHER = cache_key("a"), cache_key("b")


@pytest.fixture
def cache(tmp_path: Path) -> ObjectCache:
    return ObjectCache(tmp_path / "cache")


def file_of(cache: ObjectCache, key: str = KEY) -> Path:
    return cache.directory / f"{key}.xjo"


def options(cache: ObjectCache, **fields: object) -> jit.CodegenOptions:
    return jit.CodegenOptions(cache_dir=str(cache.directory), **fields)  # pyright: ignore[reportArgumentType]


def test_objects_come_back(cache: ObjectCache) -> None:
    assert cache.get(KEY) is None
    for code in (b"code", b"", bytes(range(256)) * 1000):
        cache.put(KEY, code, "a label é\ud800")
        assert cache.get(KEY) == code
    assert [(e.key, e.label, e.is_intact) for e in cache.entries()] == [(KEY, "a label é?", True)]
    assert cache.get(OTHER) is None
    assert [path.name for path in cache.directory.iterdir()] == [f"{KEY}.xjo"]  # no temporary file is left


def test_keys_tell_parts_apart() -> None:
    keys = {cache_key("ab", "c"), cache_key("a", "bc"), cache_key("abc"), cache_key("abc", ""), cache_key(b"ab", "cd")}
    assert len(keys) == 5


@pytest.mark.parametrize("damage", ["cut", "empty", "longer", "bit", "magic", "link", "folder", "pipe", "writable"])
def test_damaged_files_are_never_used(cache: ObjectCache, damage: str, tmp_path: Path) -> None:
    cache.put(KEY, b"code" * 100)
    path = file_of(cache)
    data = path.read_bytes()
    changed = {"cut": data[:-1], "empty": b"", "longer": data + b"x", "magic": b"Y" + data[1:]}
    changed["bit"] = data[:-1] + bytes([data[-1] ^ 1])
    if damage in changed:
        path.write_bytes(changed[damage])
    elif damage == "writable":
        path.chmod(0o666)
    else:
        path.unlink()
        (tmp_path / "elsewhere").write_bytes(data)
        {
            "link": lambda: path.symlink_to(tmp_path / "elsewhere"),
            "folder": path.mkdir,
            "pipe": lambda: os.mkfifo(path),
        }[damage]()
    assert cache.get(KEY) is None
    assert not cache.entries()[0].is_intact
    if damage != "folder":
        cache.put(KEY, b"new")
        assert cache.get(KEY) == b"new"


def test_every_cut_is_noticed(cache: ObjectCache) -> None:
    cache.put(KEY, b"code", "label")
    data = file_of(cache).read_bytes()
    for length in range(len(data)):
        file_of(cache).write_bytes(data[:length])
        assert cache.get(KEY) is None


def test_the_file_of_another_key_is_not_used(cache: ObjectCache) -> None:
    cache.put(KEY, b"code")
    file_of(cache).rename(file_of(cache, OTHER))
    assert cache.get(OTHER) is None


def test_the_directory_is_private(cache: ObjectCache, tmp_path: Path) -> None:
    assert cache.directory.stat().st_mode & 0o777 == 0o700
    cache.put(KEY, b"code")
    assert file_of(cache).stat().st_mode & 0o777 == 0o600
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    with pytest.raises(InvalidArgument, match="other users may write to it"):
        ObjectCache(shared)
    (tmp_path / "file").touch()
    with pytest.raises(InvalidArgument, match="cannot be a cache of object code"):
        ObjectCache(tmp_path / "file")


def test_what_cannot_be_written_is_said_once(cache: ObjectCache, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(object_cache.os, "replace", full)
    with pytest.warns(RuntimeWarning, match="No space left"):
        cache.put(KEY, b"code")
    cache.put(KEY, b"code")
    assert list(cache.directory.iterdir()) == []


def test_the_least_recently_used_go_first(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path / "cache", max_bytes=16_000)
    keys = [cache_key(str(n)) for n in range(18)]
    for n, key in enumerate(keys[:10]):
        cache.put(key, bytes(1000))
        os.utime(file_of(cache, key), (1e9 + n, 1e9 + n))
    assert cache.get(keys[0]) is not None  # from now on the last one used
    for key in keys[10:]:
        cache.put(key, bytes(1000))
        assert cache.num_bytes <= 16_000
    assert cache.get(keys[0]) is not None
    assert [cache.get(key) for key in keys[1:5]] == [None] * 4
    assert all(cache.get(key) is not None for key in keys[10:])
    cache.put(KEY, bytes(20_000))  # larger than the cache
    assert cache.get(KEY) is None
    assert cache.get(keys[17]) is not None


def test_abandoned_temporary_files_go(cache: ObjectCache) -> None:
    old, new, foreign = (cache.directory / name for name in (f"{KEY}.xjo.aa.tmp", f"{KEY}.xjo.bb.tmp", "notes.txt"))
    for path in (old, new, foreign):
        path.write_text("x")
    os.utime(old, (1e9, 1e9))
    cache.put(OTHER, b"code")
    assert not old.exists()
    assert new.exists()
    assert cache.clear() == 2
    assert [path.name for path in cache.directory.iterdir()] == ["notes.txt"]


def test_code_is_generated_once(cache: ObjectCache, monkeypatch: pytest.MonkeyPatch) -> None:
    def count() -> int:
        return len(cache.entries())

    text = SQUARE.format(n=3)
    code = jit.compile_ir_to_object(text, options(cache))
    assert [entry.label for entry in cache.entries()] == ["square"]
    with monkeypatch.context() as patch:
        patch.setattr(jit, "_generate_object", None)
        assert jit.compile_ir_to_object(text, options(cache)) == code
    # What decides the code is part of the key.
    jit.compile_ir_to_object(text, options(cache, opt_level=0))
    jit.compile_ir_to_object(text, options(cache, cpu="x86-64", features="+sse2"))
    jit.compile_ir_to_object(SQUARE.format(n=4), options(cache))
    assert count() == 4
    monkeypatch.setattr(toolchain, "__version__", "0.0.0")
    jit.compile_ir_to_object(text, options(cache))
    assert count() == 5
    monkeypatch.setattr(toolchain.llvm, "llvm_version_info", (0, 0, 0))
    jit.compile_ir_to_object(text, options(cache))
    assert count() == 6


def test_a_wrong_text_is_refused_with_a_cache(cache: ObjectCache) -> None:
    with pytest.raises(xjit.HloError, match="LLVM rejected"):
        jit.compile_ir_to_object("define i64 @f() {\n  ret i32 0\n}\n", options(cache))
    assert cache.entries() == []


def test_many_writers_and_readers(cache: ObjectCache) -> None:
    code = {cache_key(str(n)): str(n).encode() * 5000 for n in range(8)}
    small = ObjectCache(cache.directory, max_bytes=100_000)

    def work(number: int) -> bool:
        key = list(code)[number % len(code)]
        small.put(key, code[key])
        return all(small.get(k) in (None, code[k]) for k in code)

    with ThreadPoolExecutor(4) as executor:
        assert all(executor.map(work, range(80)))


def test_the_environment_names_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XJIT_CACHE_DIR", raising=False)
    assert object_cache.object_cache() is None
    monkeypatch.setenv("XJIT_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("XJIT_CACHE_MAX_BYTES", "1000")
    cache = object_cache.object_cache()
    assert cache is not None
    assert (cache.directory, cache.max_bytes) == (tmp_path / "cache", 1000)
    assert object_cache.object_cache("") is None
    monkeypatch.setenv("XJIT_CACHE_MAX_BYTES", "1G")
    with pytest.raises(InvalidArgument, match="expected a number of bytes"):
        object_cache.object_cache()


@pytest.mark.parametrize("named", [None, "", "cache"])
def test_libraries_have_a_place_of_their_own(
    named: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user's directory for caches, unless another one is named, or none."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("XJIT_CACHE_DIR", raising=False)
    if named is not None:
        monkeypatch.setenv("XJIT_CACHE_DIR", named and str(tmp_path / named))
    monkeypatch.setattr(library_cache, "_in_memory", {})
    xjit.compile(_TEXT)
    assert [path.name for path in tmp_path.iterdir()] == {None: ["xjit"], "": [], "cache": ["cache"]}[named]
    cache = library_cache.library_cache()
    labels = [] if cache is None else [entry.label for entry in cache.entries()]
    assert sum(label.startswith("library xjit_gemm") for label in labels) == (named != "")
    assert any(not label.startswith("library") for label in labels) == bool(named)  # the user's code
    if named is None:
        monkeypatch.setattr(library_cache, "_in_memory", {})
        monkeypatch.setattr(gemm_library, "emit_gemm", None)
        xjit.compile(_TEXT)


def test_libraries_of_several_objects_are_kept_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one file: none of them can be missing."""
    monkeypatch.setattr(library_cache, "_in_memory", {})
    objects, key, folder = (b"first", b"", b"the third"), "ab" * 32, str(tmp_path)
    library_cache.keep_library(key, folder, Library.of_module("f", Module("f")), objects)
    library_cache.forget_libraries()
    assert library_cache.kept_library(key, folder) == objects
    library_cache.forget_libraries()
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-1])
    assert library_cache.kept_library(key, folder) is None


def test_the_fingerprint_is_that_of_all_files_of_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What follows a link counts, what Python compiles to does not."""

    def fingerprint() -> str:
        library_cache.source_fingerprint.cache_clear()
        return library_cache.source_fingerprint()

    def written(name: str, text: str) -> str:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
        return fingerprint()

    package = tmp_path / "xjit"
    package.mkdir()
    monkeypatch.setattr(library_cache, "_PACKAGE", str(package))
    (tmp_path / "emitters").mkdir()
    (package / "emitters").symlink_to(tmp_path / "emitters")
    steps = [
        fingerprint(),
        written("emitters/a.py", "1"),
        written("xjit/passes.py", "1"),
        written("emitters/__pycache__/a.py", "1"),
        written("emitters/b.txt", "1"),
        written("emitters/a.py", "12"),
    ]
    changes = [before != after for before, after in itertools.pairwise(steps)]
    assert changes == [True, True, False, False, True]
    (package / "lost.py").symlink_to(tmp_path / "nowhere")
    assert fingerprint() == steps[-1]
    monkeypatch.setattr(library_cache, "_PACKAGE", str(tmp_path / "archive.zip" / "xjit"))
    assert fingerprint()  # no file to look at is no error
    library_cache.source_fingerprint.cache_clear()


def test_where_nothing_can_be_kept_nothing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XJIT_CACHE_DIR", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert library_cache.library_cache() is None
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "xjit").touch()
    assert library_cache.library_cache() is None
    (tmp_path / "xjit").unlink()
    cache = library_cache.library_cache()
    assert cache is not None
    (tmp_path / "xjit").rmdir()
    cache.put(KEY, b"code")
    assert cache.get(KEY) is None


_TEXT = """HloModule m
ENTRY e {
  p = f32[40,30] parameter(0)
  d = f32[40,40] dot(p, p), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  ROOT r = f32[40,40] sine(d)
}"""
_PROGRAM = f"""
import numpy as np
import xjit
print(float(xjit.compile({_TEXT!r})(np.ones((40, 30), np.float32))[0, 0]))
"""


def test_a_second_process_generates_no_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two at once fill the cache; this one then finds all it needs: programs, libraries, the runtime."""
    monkeypatch.delenv("XJIT_FLAGS", raising=False)
    environment = {**os.environ, "XJIT_CACHE_DIR": str(tmp_path / "cache")}

    def start(seed: str) -> subprocess.Popen[str]:
        process_environment = {**environment, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", _PROGRAM]
        return subprocess.Popen(command, stdout=subprocess.PIPE, env=process_environment, text=True)

    printed = [process.communicate()[0] for process in [start("1"), start("2")]]
    assert printed == [f"{float(np.sin(np.float32(30)))}\n"] * 2
    cache = ObjectCache(tmp_path / "cache")
    assert all(entry.is_intact for entry in cache.entries())
    xjit.compile(_TEXT)  # this process has the runtime now, whichever test was first
    monkeypatch.setattr(jit, "_generate_object", None)
    monkeypatch.setattr(library_cache, "_in_memory", {})
    for module in native_modules(not fast_call_obstacle()):
        assert jit.compile_library(Library.of_module("runtime", module), options(cache))
    with monkeypatch.context() as patch:
        patch.setattr(program_cache, "source_fingerprint", lambda: "other files: emits anew")
        xjit.compile(_TEXT, options=xjit.CompileOptions(cache_dir=str(cache.directory)))
    monkeypatch.setattr(compiler, "optimize_module", None)
    xjit.compile(_TEXT, options=xjit.CompileOptions(cache_dir=str(cache.directory)))


def test_fill_compiles_libraries_ahead(cache: ObjectCache, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_command, "library_programs", lambda: [_TEXT])
    where = str(cache.directory)
    assert main(["cache", "fill", "--dir", where]) == 0
    labels = [entry.label for entry in cache.entries()]
    assert labels.count("library runtime") == 2 and all(label.startswith("library ") for label in labels)
    library_cache.forget_libraries()
    monkeypatch.setattr(ProgramCompiler, "_generate_library", None)
    x = np.ones((40, 30), np.float32)
    assert xjit.compile(_TEXT, options=xjit.CompileOptions(cache_dir=where))(x)[0, 0] == np.sin(np.float32(30))


@pytest.mark.parametrize("type", ["f32", pytest.param("", marks=pytest.mark.slow)])
def test_fill_has_what_products_of_any_size_need(type: str) -> None:
    options = xjit.CompileOptions()
    texts = [text for text in library_programs() if f"= {type}" in text and "dot(" in text]
    filled = {library.name for text in texts for library in libraries_of(parse_hlo(text), options)}
    for m, k, n in ((3, 5, 7), (40, 40, 40), (65, 1000, 130), (1, 50, 900), (8, 900, 12), (33, 500, 64), (10, 400, 16)):
        text = f"""HloModule m
        ENTRY e {{
          x = f32[{m},{k}] parameter(0)
          y = f32[{k},{n}] parameter(1)
          ROOT r = f32[{m},{n}] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
        }}"""
        assert {library.name for library in libraries_of(parse_hlo(text), options)} <= filled


def test_fill_has_what_transforms_and_first_elements_need() -> None:
    options = xjit.CompileOptions()
    texts = [text for text in library_programs() if "fft(" in text or "topk(" in text]
    filled = {library.name for text in texts for library in libraries_of(parse_hlo(text), options)}
    for type, rows, size, k in (("f32", "3,", 257, 64), ("bf16", "", 1000, 1), ("s32", "2,2,", 500, 10)):
        text = f"""HloModule m
        ENTRY e {{
          x = {type}[{rows}{size}] parameter(0)
          ROOT r = ({type}[{rows}{k}], s32[{rows}{k}]) topk(x), k={k}, largest=true
        }}"""
        assert {library.name for library in libraries_of(parse_hlo(text), options)} <= filled
    for shape, lengths in (
        ("c64[256]", "256"),
        ("c64[9,1024]", "1024"),
        ("c64[64,128]", "64,128"),
        ("c64[32,32]", "32,32"),
    ):
        text = f"""HloModule m
        ENTRY e {{
          x = {shape} parameter(0)
          ROOT r = {shape} fft(x), fft_type=FFT, fft_length={{{lengths}}}
        }}"""
        assert {library.name for library in libraries_of(parse_hlo(text), options)} <= filled, shape
    for type, complex_type in (("f32", "c64"), ("f64", "c128")):
        for fft_type, operand, result in (
            ("RFFT", f"{type}[5,256]", f"{complex_type}[5,129]"),
            ("IRFFT", f"{complex_type}[1025]", f"{type}[2048]"),
        ):
            length = 256 if fft_type == "RFFT" else 2048
            text = f"""HloModule m
            ENTRY e {{
              x = {operand} parameter(0)
              ROOT r = {result} fft(x), fft_type={fft_type}, fft_length={{{length}}}
            }}"""
            assert {library.name for library in libraries_of(parse_hlo(text), options)} <= filled, (type, fft_type)
        assert f"xjit_fft_roots_{type}" in filled


def test_the_command(cache: ObjectCache, capsys: pytest.CaptureFixture[str]) -> None:
    where = ["--dir", str(cache.directory)]
    cache.put(KEY, b"code", "a program")
    cache.put(OTHER, b"code")
    assert main(["cache", "ls", *where]) == 0
    assert "a program" in capsys.readouterr().out
    assert main(["cache", "verify", *where]) == 0
    file_of(cache, OTHER).write_bytes(b"")
    assert main(["cache", "stat", "--json", *where]) == 0
    assert '"files": 2' in capsys.readouterr().out
    assert main(["cache", "verify", *where]) == MISMATCH
    assert f"{OTHER[:16]} (damaged), removed\n1 files are whole" in capsys.readouterr().out
    assert main(["cache", "clear", *where]) == 0
    assert cache.entries() == []


def test_the_command_needs_a_cache(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("XJIT_CACHE_DIR", "")
    assert main(["cache", "ls"]) == BAD_INPUT
    assert "set XJIT_CACHE_DIR" in capsys.readouterr().err


GPU_MODULE = """HloModule doubled
ENTRY main {
  x = f32[300] parameter(0)
  ROOT r = f32[300] add(x, x)
}
"""


def test_code_of_gpus_comes_back(cache: ObjectCache, monkeypatch: pytest.MonkeyPatch) -> None:
    """PTX, and the machine code that simulates a kernel: made once, with a sanitizer and without."""
    chosen = CompileOptions(cache_dir=str(cache.directory))
    x = np.arange(300, dtype=np.float32)

    def compiled() -> tuple[str, np.ndarray, np.ndarray]:
        kernels._compiled.cache_clear()
        executable = compile_for_gpu(parse_hlo(GPU_MODULE), "sm_90", chosen)
        return executable.as_text("ptx"), executable(x), executable.run(x, sanitize=True)

    first = compiled()
    kept = len(cache.entries())
    assert kept >= 3 and {"PTX for sm_90"} < {entry.label for entry in cache.entries()}

    def never(*_: object, **__: object) -> None:
        raise AssertionError("compiled again")

    monkeypatch.setattr(nvptx, "_optimized", never)
    monkeypatch.setattr(jit, "optimize_ir", never)
    second = compiled()
    assert second[0] == first[0] and ".entry " in first[0]
    assert all((y == 2 * x).all() for y in (*first[1:], *second[1:]))
    assert len(cache.entries()) == kept


def test_cubins_come_back(cache: ObjectCache, monkeypatch: pytest.MonkeyPatch) -> None:
    """With what the assembler said of them; another version of the assembler makes its own."""
    linker = FakeLinker()
    monkeypatch.setattr(images.importlib, "import_module", lambda name: linker)
    found = [images.assemble_kernel("text", "sm_90", str(cache.directory)) for _ in range(2)]
    assert found[0] == found[1] and found[0].resources.registers == 64
    assert len(linker.log) == 3  # create, add, destroy
    monkeypatch.setattr(FakeLinker, "version", lambda self: (13, 1))
    assert images.kernel_image("text", "sm_90", str(cache.directory)) == found[0].cubin
    assert len(linker.log) == 6
