"""LLVM's front door: bad code is an error with LLVM's words, never a crash; good code compiles the same each way."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from xjit.hlo.diagnostics import CompileError
from xjit.llvm.builder import IRBuilder
from xjit.llvm.library import Library
from xjit.llvm.module import Module
from xjit.llvm.types import VOID
from xjit.runtime.machine_code import jit, library_cache, linker
from xjit.runtime.machine_code.codegen_switches import FOR_CPUS, FOR_GPUS, generating_code
from xjit.runtime.machine_code.elf import undefined_symbols
from xjit.runtime.machine_code.ir_check import check_ir_text, external_symbols

_SQUARE = "define i64 @square{n}(i64 %x) {{\n  %y = mul i64 %x, %x\n  %z = add i64 %y, {n}\n  ret i64 %z\n}}\n"


def _call(address: int, value: int) -> int:
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(address)(value)


def test_compile_and_load() -> None:
    loaded = linker.load_object(jit.compile_ir_to_object(_SQUARE.format(n=1)), ["square1"], {})
    assert _call(loaded.address("square1"), 7) == 50
    with pytest.raises(KeyError):
        loaded.address("other")


def test_several_objects_are_linked_together() -> None:
    caller = "declare i64 @helper(i64)\ndefine i64 @main(i64 %x) {\n  %y = call i64 @helper(i64 %x)\n  ret i64 %y\n}\n"
    helper = "define i64 @helper(i64 %x) {\n  %y = sub i64 0, %x\n  ret i64 %y\n}\n"
    objects = [jit.compile_ir_to_object(caller, trusted=True), jit.compile_ir_to_object(helper)]
    assert undefined_symbols(objects) == set() and undefined_symbols(objects[:1]) == {"helper"}
    assert _call(linker.load_object(objects, ["main"], {}).address("main"), 5) == -5


@pytest.mark.parametrize(
    ("ir_text", "message"),
    [
        ("define i32 @f() {\n  ret i64 0\n}", r"value doesn't match function result type(.|\n)*ret i64 0"),
        ("define i32 @f( {", "expected type"),
        (
            "define i32 @f() {\na:\n  br label %b\nb:\n  %x = phi i32 [ 0, %c ]\n  ret i32 %x\nc:\n  ret i32 1\n}",
            "LLVM rejected",
        ),
        ("define i32 @f() {\n  %y = add i32 %x, 1\n  %x = add i32 1, 1\n  ret i32 %y\n}", "does not dominate all uses"),
        ("declare float @llvm.frobnicate.f32(float)", "unknown LLVM intrinsic llvm.frobnicate.f32"),
        (
            "define float @f(float %x) {\n  %y = call float @llvm.made.up(float %x)\n  ret float %y\n}",
            "unknown LLVM intrinsic llvm.made.up",
        ),
        ("declare void @llvm.x86.frobnicate()", "unknown LLVM intrinsic llvm.x86.frobnicate"),
        (
            "declare <8 x half> @llvm.canonicalize.v8f16(<8 x half>)",
            "unknown LLVM intrinsic",
        ),  # aborts without AVX512FP16
        ("declare i32 @system(ptr)", "symbols that the runtime does not offer: system"),
        ("@environ = external global ptr", "symbols that the runtime does not offer: environ"),
        ('declare i32 @"exec.ve"(ptr)', "does not offer: exec.ve"),
        ('define void @f() {\n  call void asm sideeffect "nop", ""()\n  ret void\n}', "inline assembly is not allowed"),
        ('module asm "nop"', "inline assembly is not allowed"),
    ],
)
def test_bad_code_is_an_error(ir_text: str, message: str) -> None:
    with pytest.raises(CompileError, match=message):
        jit.compile_ir_to_object(ir_text)
    with pytest.raises(CompileError, match=message):
        jit.compile_modules_to_objects([_SQUARE.format(n=0), ir_text], num_threads=2)


def test_intrinsics_that_the_target_lacks_are_refused() -> None:
    text = (
        "declare <16 x float> @llvm.x86.avx512.mask.scalef.ps.512(<16 x float>, <16 x float>, <16 x float>, i16, i32)"
    )
    check_ir_text(text, "+avx512f,+sse2")
    with pytest.raises(CompileError, match=r"scalef\.ps\.512 needs one of avx512f, which the target lacks"):
        check_ir_text(text, "+avx2,-avx512f")


def test_external_symbols() -> None:
    text = (
        "declare float @expf(float)\n@g = external global i8\n@h = global i8 0\ndeclare float @llvm.sqrt.f32(float)\n"
    )
    assert external_symbols(text) == ["expf", "g"]
    assert external_symbols("@a\n= external global i32\n@b =\n  extern_weak global i32\n") == ["a", "b"]


def test_missing_symbols_are_named_before_linking(capfd: pytest.CaptureFixture[str]) -> None:
    text = (
        "declare float @expf(float)\ndefine float @f(float %x) {\n  %y = call float @expf(float %x)\n  ret float %y\n}"
    )
    with pytest.raises(CompileError, match="needs symbols that the runtime does not offer: expf"):
        linker.load_object(jit.compile_ir_to_object(text), ["f"], {})
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    "code", [b"", b"\x7fELF\x02\x01", b"MZ" + bytes(100), b"\x7fELF\x02\x01" + bytes(58), bytes(64)]
)
def test_damaged_objects_are_refused(code: bytes) -> None:
    with pytest.raises(CompileError):
        linker.load_object(code, ["f"], {})


def test_parallel_compilation_gives_the_same_objects() -> None:
    texts = [_SQUARE.format(n=n) for n in range(24)]
    lock = jit.llvm.ffi.lib._lock._lock
    serial = [jit.compile_ir_to_object(text) for text in texts]
    assert jit.compile_modules_to_objects(texts, num_threads=3) == serial
    assert jit.compile_modules_to_objects(texts[:1], num_threads=3) == serial[:1]
    assert jit.llvm.ffi.lib._lock._lock is lock


@pytest.mark.parametrize("num_threads", [1, 2])
def test_modules_are_compiled_while_others_are_written(num_threads: int) -> None:
    lock = jit.llvm.ffi.lib._lock._lock
    caller = "declare i64 @square1(i64)\ndefine i64 @f(i64 %x) {\n  %y = call i64 @square1(i64 %x)\n  ret i64 %y\n}"
    with jit.ProgramCompiler(num_threads=num_threads) as compiler:
        compiler.add(_SQUARE.format(n=1))
        compiler.add(_SQUARE.format(n=2), opt_level=0)
        compiler.add(caller, is_last=True)
        objects = compiler.objects()
    assert jit.llvm.ffi.lib._lock._lock is lock
    assert objects[1] == jit.compile_ir_to_object(_SQUARE.format(n=2), jit.CodegenOptions(opt_level=0))
    assert _call(linker.load_object(objects, ["f"], {}).address("f"), 3) == 10


@pytest.mark.parametrize("num_threads", [1, 2])
def test_a_library_of_the_runtime_is_compiled_beside_a_program(
    num_threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is kept, and compiled once; its errors are told when it is asked for."""
    monkeypatch.setattr(library_cache, "_in_memory", {})
    module = Module("beside")
    IRBuilder(module.add_function("of_the_runtime", VOID, [], linkage="").append_block("entry")).ret_void()
    broken = Module("broken")
    broken.declare("f", VOID, [])
    monkeypatch.setattr(broken, "to_text", lambda: "define void @f( {")
    good, bad = Library.of_module("good", module), Library.of_module("bad", broken)
    with jit.ProgramCompiler(num_threads=num_threads) as compiler:
        for library in (good, bad):
            compiler.prepare_library(library)
        compiler.add(_SQUARE.format(n=1), is_last=True)
        assert len(compiler.objects()) == 1
    with pytest.raises(CompileError, match="LLVM rejected"):
        jit.compile_library(bad)
    monkeypatch.setattr(jit, "_generate_object", None)
    assert b"of_the_runtime" in jit.compile_library(good)


@pytest.mark.parametrize("num_threads", [1, 2])
def test_an_error_ends_the_compilation_of_a_program(num_threads: int) -> None:
    lock = jit.llvm.ffi.lib._lock._lock
    with (
        pytest.raises(CompileError, match="does not offer: square1"),
        jit.ProgramCompiler(num_threads=num_threads) as c,
    ):
        c.add(_SQUARE.format(n=2))
        c.add("declare i64 @square1(i64)")  # defined in a later module: parts refer to earlier ones
    with pytest.raises(CompileError, match="LLVM rejected"), jit.ProgramCompiler(num_threads=num_threads) as c:
        c.add("define i64 @f( {")
        c.objects()
    assert jit.llvm.ffi.lib._lock._lock is lock
    assert jit.compile_modules_to_objects([_SQUARE.format(n=n) for n in range(3)], num_threads=2)


def test_parallel_compilation_beside_other_users_of_llvm() -> None:
    texts = [_SQUARE.format(n=n) for n in range(16)]
    expected = [jit.compile_ir_to_object(text) for text in texts]
    stop = threading.Event()
    errors: list[BaseException] = []

    def other_user() -> None:
        try:
            while not stop.is_set():
                jit.llvm.parse_assembly(_SQUARE.format(n=99)).verify()
        except BaseException as error:
            errors.append(error)

    others = [threading.Thread(target=other_user) for _ in range(2)]
    for thread in others:
        thread.start()
    try:
        for _ in range(5):
            assert jit.compile_modules_to_objects(texts, num_threads=2) == expected
    finally:
        stop.set()
        for thread in others:
            thread.join(20)
    assert not errors and not any(thread.is_alive() for thread in others)


def test_compilation_from_many_threads() -> None:
    with ThreadPoolExecutor(4) as executor:
        objects = list(executor.map(jit.compile_ir_to_object, [_SQUARE.format(n=n) for n in range(20)]))
    for n, code in enumerate(objects):
        assert _call(linker.load_object(code, [f"square{n}"], {}).address(f"square{n}"), 3) == 9 + n


def test_text_forms() -> None:
    text = (
        "define i32 @f(i32 %x) {\n  %p = alloca i32\n  store i32 %x, ptr %p\n  %y = load i32, ptr %p\n  ret i32 %y\n}"
    )
    assert "alloca" not in jit.optimize_ir(text) and "ret i32 %x" in jit.optimize_ir(text)
    assert "f:" in jit.emit_assembly(text) and "ret" in jit.emit_assembly(text)


def test_options_change_the_code() -> None:
    options = jit.CodegenOptions()
    vector = "define <16 x float> @f(<16 x float> %x) {\n  %y = fadd <16 x float> %x, %x\n  ret <16 x float> %y\n}"
    if "+avx512f" in jit.host_features():
        assert "zmm" in jit.emit_assembly(vector, options)
    plain = replace(options, cpu="x86-64", features="+sse2")
    if os.uname().machine == "x86_64":
        assert "zmm" not in jit.emit_assembly(vector, plain) and "xmm" in jit.emit_assembly(vector, plain)
    code = jit.compile_ir_to_object(_SQUARE.format(n=2), replace(options, opt_level=0))
    assert _call(linker.load_object(code, ["square2"], {}).address("square2"), 2) == 6


_LOOP = """
define KIND @f(ptr %p, i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %loop ]
  %offset = mul i64 %i, 24
  %a = getelementptr i8, ptr %p, i64 %offset
  %x = load volatile i64, ptr %a
  store i64 %i, ptr %a
  %next = add i64 %i, 1
  %more = icmp slt i64 %next, %n
  br i1 %more, label %loop, label %exit
exit:
  ret void
}
"""

_BEFORE_AND_AFTER = f"""
from xjit.llvm.target import Target
from xjit.runtime.machine_code import jit
from xjit.runtime.machine_code.nvptx import to_ptx
loop = {_LOOP!r}
def texts():
    ptx = to_ptx(loop.replace("KIND", "ptx_kernel void"), Target.for_gpu("sm_90"))
    return ptx, jit.emit_assembly(loop.replace("KIND", "void"))
assert texts() == texts()
"""


def test_code_does_not_depend_on_what_was_generated_before() -> None:
    done = subprocess.run([sys.executable, "-c", _BEFORE_AND_AFTER], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_switches_hold_for_what_is_generated_with_them() -> None:
    texts = list[str]()
    for switches in (FOR_CPUS, FOR_GPUS, FOR_CPUS):
        with generating_code(switches), jit.target_machine() as machine:
            texts.append(machine.emit_assembly(jit.parse_and_verify(_LOOP.replace("KIND", "void"))))
    assert texts[0] == texts[2] != texts[1]


def test_missing_features() -> None:
    assert jit.missing_features("") == []
    assert jit.missing_features(jit.host_features()) == []
    assert jit.missing_features("+avx2048,-sse2") == ["avx2048"]


@pytest.mark.skipif(not os.path.exists("/proc/self/maps"), reason="needs /proc")
def test_no_page_is_writable_and_executable() -> None:
    def count() -> int:
        with open("/proc/self/maps") as file:
            return sum("rwx" in line for line in file)

    before = count()
    loaded = linker.load_object(jit.compile_ir_to_object(_SQUARE.format(n=5)), ["square5"], {})
    assert _call(loaded.address("square5"), 1) == 6 and count() == before
