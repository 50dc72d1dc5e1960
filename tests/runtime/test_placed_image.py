"""Object code is placed in memory as LLVM's linker does it, and what is not known is left to that."""

from __future__ import annotations

import ctypes
import platform
import random
import struct
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

import xjit
from xjit.hlo.diagnostics import CompileError
from xjit.runtime.machine_code import jit, linker
from xjit.runtime.machine_code.elf import ElfObject
from xjit.runtime.machine_code.placed_image import PlacedImage, Unplaceable
from xjit.runtime.thread_pool import running_pool

_INT = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
_FLOAT = ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)

_SQUARE = "define i64 @square(i64 %x) nounwind {\n  %y = mul i64 %x, %x\n  ret i64 %y\n}\n"

_TEXTS = {
    "a call of another object": [
        _SQUARE,
        "declare i64 @square(i64)\ndefine i64 @f(i64 %x) nounwind {\n  %y = call i64 @square(i64 %x)\n  %z = add i64 %y, 1\n"
        "  ret i64 %z\n}\n",
    ],
    "a call in the object": [
        "define internal i64 @g(i64 %x) nounwind noinline {\n  %y = mul i64 %x, 3\n  ret i64 %y\n}\n"
        "define i64 @f(i64 %x) nounwind {\n  %y = call i64 @g(i64 %x)\n  ret i64 %y\n}\n",
    ],
    "a variable that counts": [
        "@n = internal global i64 40\n@m = internal global i64 0\n"
        "define i64 @f(i64 %x) nounwind {\n  %a = load i64, ptr @n\n  %b = add i64 %a, %x\n  store i64 %b, ptr @n\n"
        "  %c = load i64, ptr @m\n  %d = add i64 %b, %c\n  store i64 %x, ptr @m\n  ret i64 %d\n}\n",
    ],
    "a variable of another object": [
        "@v = global i64 5\n",
        "@v = external global i64\ndefine i64 @f(i64 %x) nounwind {\n  %a = load i64, ptr @v\n  %b = add i64 %a, %x\n"
        "  store i64 %b, ptr @v\n  ret i64 %b\n}\n",
    ],
    "a table of numbers": [
        "@t = internal constant [4 x i64] [i64 7, i64 11, i64 13, i64 17]\n"
        "define i64 @f(i64 %x) nounwind {\n  %i = and i64 %x, 3\n  %p = getelementptr i64, ptr @t, i64 %i\n"
        "  %y = load i64, ptr %p\n  ret i64 %y\n}\n",
    ],
    "the address of a function": [
        _SQUARE,
        "declare i64 @square(i64)\n@p = internal global ptr @square\n"
        "define i64 @f(i64 %x) nounwind {\n  %p = load volatile ptr, ptr @p\n  %y = call i64 %p(i64 %x)\n  ret i64 %y\n}\n",
    ],
    "a table of jumps": [
        "define i64 @f(i64 %x) nounwind {\n  switch i64 %x, label %d [i64 0, label %a\n i64 1, label %b\n i64 2, label %c\n"
        " i64 3, label %e\n i64 4, label %g]\na:\n ret i64 31\nb:\n ret i64 -7\nc:\n ret i64 9\ne:\n ret i64 1001\n"
        "g:\n %y = call i64 @h(i64 %x)\n ret i64 %y\nd:\n ret i64 5\n}\n"
        "define internal i64 @h(i64 %x) nounwind noinline {\n  %y = sub i64 %x, 9\n  ret i64 %y\n}\n",
    ],
}  # fmt: skip


def _objects(texts: Sequence[str]) -> list[ElfObject]:
    return [ElfObject(jit.compile_ir_to_object(text, trusted=True)) for text in texts]


def _place(objects: Sequence[ElfObject], symbols: Mapping[str, int] = {}) -> PlacedImage:
    return PlacedImage.of(objects, ["f"], symbols)


def _maps(address: int) -> str:
    """The permissions of the pages at an address; "" if there are none."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        first, last = (int(part, 16) for part in line.split()[0].split("-"))
        if first <= address < last:
            return line.split()[1]
    return ""


x86_64 = pytest.mark.skipif(platform.machine() != "x86_64", reason="images are placed on x86-64 alone")


@x86_64
@pytest.mark.parametrize("name", _TEXTS)
def test_placed_code_does_what_linked_code_does(name: str) -> None:
    objects = _objects(_TEXTS[name])
    placed, linked = _place(objects), linker.link_object([item.code for item in objects], ["f"], {})
    first, second = _INT(placed.addresses["f"]), _INT(linked.address("f"))
    assert [first(n) for n in (0, 1, 2, 3, 4, 5)] == [second(n) for n in (0, 1, 2, 3, 4, 5)]


@x86_64
def test_functions_far_away_and_constants() -> None:
    text = (
        "declare double @far(double)\ndefine double @f(double %x) nounwind {\n  %y = call double @far(double %x)\n"
        "  %z = fmul double %y, 0x3FF3AE147AE147AE\n  ret double %z\n}\n"
    )
    far = _FLOAT(lambda x: x * x + 0.5)
    address = ctypes.cast(far, ctypes.c_void_p).value
    assert address
    placed = _place(_objects([text]), {"far": address})
    assert _FLOAT(placed.addresses["f"])(3.0) == 9.5 * float.fromhex("0x1.3ae147ae147aep+0")


@x86_64
def test_external_variables() -> None:
    text = "@v = external global i64\ndefine i64 @f(i64 %x) nounwind {\n  %a = load i64, ptr @v\n  ret i64 %a\n}\n"
    variable = ctypes.c_int64(123)
    placed = _place(_objects([text]), {"v": ctypes.addressof(variable)})
    assert _INT(placed.addresses["f"])(0) == 123
    variable.value = -5
    assert _INT(placed.addresses["f"])(0) == -5


@x86_64
def test_pages_are_executable_or_writable_and_go_with_the_image() -> None:
    placed = _place(_objects(_TEXTS["a variable that counts"]))
    address = placed.addresses["f"]
    assert _maps(address) == "r-xp"
    assert _maps((address | 4095) + 1) == "rw-p"
    del placed
    assert _maps(address) != "r-xp"


@x86_64
@pytest.mark.parametrize(
    "text",
    [
        "define i64 @f(i64 %x) uwtable {\n  %y = mul i64 %x, 3\n  ret i64 %y\n}\n",
        "define weak i64 @f(i64 %x) nounwind {\n  %y = mul i64 %x, 3\n  ret i64 %y\n}\n",
        "$f = comdat any\ndefine linkonce_odr i64 @f(i64 %x) nounwind comdat {\n  %y = mul i64 %x, 3\n  ret i64 %y\n}\n"
        "@p = global ptr @f\n",
    ],
)  # fmt: skip
def test_other_sections_and_symbols_are_left_to_llvm(text: str) -> None:
    objects = _objects([text])
    with pytest.raises(Unplaceable):
        _place(objects)
    loaded = linker.load_object([item.code for item in objects], ["f"], {})
    assert _INT(loaded.address("f"))(5) == 15


@x86_64
def test_other_files_relocations_and_names_are_unplaceable() -> None:
    code = jit.compile_ir_to_object(_TEXTS["a call in the object"][0])
    placed = _place([ElfObject(code)])
    assert _INT(placed.addresses["f"])(5) == 15
    other_machine = bytearray(code)
    other_machine[18:20] = struct.pack("<H", 183)
    shared = bytearray(code)
    shared[16:18] = struct.pack("<H", 3)
    relocated = bytearray(jit.compile_ir_to_object(_TEXTS["a table of numbers"][0]))
    item = ElfObject(bytes(relocated))
    section = next(s for s in item.sections if s.kind == 4)
    relocated[section.offset + 8 : section.offset + 12] = struct.pack("<I", 24)
    for changed in (other_machine, shared, relocated):
        with pytest.raises(Unplaceable):
            _place([ElfObject(bytes(changed))])
    with pytest.raises(Unplaceable, match="symbol"):
        _place([ElfObject(code), ElfObject(code)])
    with pytest.raises(Unplaceable, match="export"):
        PlacedImage.of([ElfObject(code)], ["g2"], {})


_DAMAGED_ROWS = {
    "an offset outside": ((1 << 40, 2, 1, 0), CompileError, "outside"),
    "an offset at the last byte": ((-1, 2, 1, 0), CompileError, "outside"),
    "a symbol that is not there": ((0, 2, 1 << 20, 0), CompileError, "no symbol"),
    "a distance of more than 32 bits": ((0, 2, 1, 1 << 40), Unplaceable, "far"),
    "a call of more than 32 bits": ((0, 4, 1, 1 << 40), Unplaceable, "far"),
}  # fmt: skip


@x86_64
@pytest.mark.parametrize("name", _DAMAGED_ROWS)
def test_damaged_relocations(name: str) -> None:
    row, kind, message = _DAMAGED_ROWS[name]
    code = bytearray(jit.compile_ir_to_object(_TEXTS["a table of numbers"][0]))
    item = ElfObject(bytes(code))
    section = next(s for s in item.sections if s.kind == 4)
    (first, *_) = item.relocations(section)
    offset, form, symbol, addend = row
    offset = item.sections[section.info].size - 1 if offset < 0 else offset
    symbol = symbol if symbol > 1 else first.symbol
    code[section.offset : section.offset + 24] = struct.pack("<QIIq", offset, form, symbol, addend)
    with pytest.raises(kind, match=message):
        _place([ElfObject(bytes(code))])


@x86_64
@pytest.mark.parametrize("name", _TEXTS)
def test_damaged_objects_end_in_errors(name: str) -> None:
    source = random.Random(5)
    (*others, whole) = (jit.compile_ir_to_object(text, trusted=True) for text in _TEXTS[name])
    refused = 0
    for _ in range(200):
        code = bytearray(whole)
        for _ in range(2):
            code[source.randrange(len(code))] = source.randrange(256)
        cut = source.choice([len(code), source.randrange(len(code))])
        try:
            _place([ElfObject(code) for code in (*others, bytes(code[:cut]))])
        except (CompileError, Unplaceable):
            refused += 1
    assert 90 < refused < 200  # what only changes an instruction or a number is placed


@x86_64
def test_a_local_function_that_chooses_another_is_left_to_llvm() -> None:
    code = bytearray(jit.compile_ir_to_object(_TEXTS["a variable that counts"][0]))
    item = ElfObject(bytes(code))
    table = next(s for s in item.sections if s.kind == 2)
    number = next(i for i, symbol in enumerate(item.symbols) if symbol.binding == 0 and symbol.kind == 1)
    code[table.offset + 24 * number + 4] = 10  # STT_GNU_IFUNC
    with pytest.raises(Unplaceable, match="symbol"):
        _place([ElfObject(bytes(code))])


@x86_64
def test_programs_and_the_runtime_are_placed() -> None:
    exe = xjit.compile("HloModule m\nENTRY e {\n  x = f32[8,8] parameter(0)\n  d = f32[8,8] dot(x, x), "
                       "lhs_contracting_dims={1}, rhs_contracting_dims={0}\n  ROOT r = f32[8,8] exponential(d)\n}")  # fmt: skip
    loaded = exe.entry.keep_alive[0]
    assert isinstance(loaded._code, PlacedImage)  # pyright: ignore
    assert isinstance(running_pool()._loaded._code, PlacedImage)  # pyright: ignore
    x = np.eye(8, dtype=np.float32)
    assert np.allclose(exe(x), np.exp(x))


def test_threads_outlive_the_end_of_python() -> None:
    """They wait in code of the runtime, which is not unmapped below them."""
    script = (
        "import numpy as np, xjit, sys\n"
        "exe = xjit.compile('HloModule m\\nENTRY e {\\n  x = f32[2048,2048] parameter(0)\\n  ROOT r = f32[2048,2048] sine(x)\\n}')\n"
        "exe(np.ones((2048, 2048), np.float32)); print('done')"
    )
    for _ in range(3):
        found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120)
        assert (found.returncode, found.stdout) == (0, "done\n"), found.stderr
