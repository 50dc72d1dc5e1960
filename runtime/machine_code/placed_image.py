"""Object code put into memory without a linker: what xjit's code generator makes for x86-64 needs five relocations.

LLVM's linker takes several times as long, which is most of the time that a small program is loaded in. All of
what is not known here - another machine, sections, symbols, relocations, distances - is `Unplaceable`: LLVM links that.

An image is one mapping: code, constants, and per global name a slot with its address and a jump there; then, from a new
page on, what may be written. The first part is executable and read-only once it is there.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import platform
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from xjit.dataclass import dataclass
from xjit.hlo.diagnostics import CompileError
from xjit.runtime.machine_code.elf import LOCAL, NO_BITS, NULL, SYMBOL_TABLE, UNDEFINED, ElfObject, Section, Symbol

_RELOCATABLE: Final = 1  # kinds of files
_X86_64: Final = 62
_PROGBITS, _STRINGS, _RELOCATIONS = 1, 3, 4  # kinds of sections
_WRITE, _ALLOCATED, _EXECUTABLE = 1, 2, 4  # flags of sections
_KNOWN_FLAGS: Final = _WRITE | _ALLOCATED | _EXECUTABLE | 0x10 | 0x20  # constants that a linker may merge
_GLOBAL: Final = 1
_KNOWN_SYMBOLS: Final = frozenset({0, 1, 2, 3})  # without a type, objects, functions, sections
_FILE: Final = 4
_SPECIAL_SECTIONS: Final = 0xFF00
_ABSOLUTE64, _RELATIVE32, _CALL32 = 1, 2, 4  # R_X86_64_64, _PC32, _PLT32
_SLOT32: Final = frozenset({9, 41, 42})  # R_X86_64_GOTPCREL, _GOTPCRELX, _REX_GOTPCRELX
_JUMP: Final = struct.Struct("<QHi2x")
"""The address, and `jmp *slot(%rip)`."""

_JUMP_OFFSET: Final = 8
_JUMP_OPCODE: Final = 0x25FF
_SLOT_DISTANCE: Final = -14  # of a slot from the end of its jump
_PAGE: Final = mmap.PAGESIZE
_U64, _I32 = struct.Struct("<Q"), struct.Struct("<i")


class Unplaceable(Exception):
    """Object code of a form that is not known here."""


class _Memory:
    """Pages, unmapped when nobody has them any more; but not at the end of Python, which threads may outlive."""

    __slots__ = ("address", "bytes")

    def __init__(self, size: int) -> None:
        try:
            self.bytes = mmap.mmap(-1, max(size, 1), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except (OSError, OverflowError) as error:
            raise CompileError(f"no memory for {size} bytes of object code: {error}") from error
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.bytes))
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self.bytes))

    def __del__(
        self, is_finalizing: Callable[[], bool] = sys.is_finalizing,
        release: Any = ctypes.pythonapi.Py_DecRef, as_object: Any = ctypes.py_object,
    ) -> None:  # fmt: skip
        if hasattr(self, "address") and not is_finalizing():
            release(as_object(self.bytes))


@dataclass(frozen=True, slots=True)
class PlacedImage:
    """Code in memory, for as long as this lives; addresses by exported name."""

    memory: _Memory
    addresses: Mapping[str, int]

    @classmethod
    def of(cls, objects: Sequence[ElfObject], exports: Sequence[str], symbols: Mapping[str, int]) -> PlacedImage:
        """Places objects; `symbols` has the addresses of what none of them defines. Errors: Unplaceable."""
        if platform.machine() != "x86_64":
            raise Unplaceable("another machine")
        return _Placement(objects, symbols).image(exports)


class _Placement:
    """Where everything of an image lies: offsets of sections, by object and number, and of slots, by name."""

    def __init__(self, objects: Sequence[ElfObject], symbols: Mapping[str, int]) -> None:
        self._objects = objects
        self._offsets: dict[tuple[int, int], int] = {}
        self._size = 0
        placed = [(i, j, section) for i, item in enumerate(objects) for j, section in _allocated(item)]
        for i, j, section in placed:
            if not section.flags & _WRITE:
                self._put(i, j, section)
        names = dict.fromkeys(symbol.name for item in objects for symbol in item.symbols if symbol.binding != LOCAL)
        slots = -(-self._size // 16) * 16
        self._slots = {name: slots + i * _JUMP.size for i, name in enumerate(names)}
        self._fixed_size = self._size = -(-(slots + len(names) * _JUMP.size) // _PAGE) * _PAGE
        for i, j, section in placed:
            if section.flags & _WRITE:
                self._put(i, j, section)
        self._memory = _Memory(self._size)
        self._base = self._memory.address
        self._addresses = dict(symbols)
        for i, item in enumerate(objects):
            self._define(i, item, symbols)

    def _put(self, i: int, j: int, section: Section) -> None:
        start = -(-self._size // max(section.alignment, 1)) * max(section.alignment, 1)
        self._offsets[i, j] = start
        self._size = start + section.size

    def _define(self, i: int, item: ElfObject, symbols: Mapping[str, int]) -> None:
        for symbol in item.symbols:
            if symbol.kind == _FILE or symbol.section == UNDEFINED:
                continue
            is_known = symbol.kind in _KNOWN_SYMBOLS
            if not is_known or (i, symbol.section) not in self._offsets:
                if is_known and symbol.binding == LOCAL and symbol.section < _SPECIAL_SECTIONS:
                    continue  # of a section that is not loaded: nothing that is may use it
                raise Unplaceable(f"symbol {symbol}")
            if symbol.binding != LOCAL:
                if symbol.binding != _GLOBAL or symbol.name in self._addresses:
                    raise Unplaceable(f"symbol {symbol}")
                self._addresses[symbol.name] = self._address(i, symbol)

    def _address(self, i: int, symbol: Symbol) -> int:
        return self._base + self._offsets[i, symbol.section] + symbol.value

    def image(self, exports: Sequence[str]) -> PlacedImage:
        """Fills the memory."""
        memory = self._memory.bytes
        for name, slot in self._slots.items():
            if name in self._addresses:
                _JUMP.pack_into(memory, slot, self._addresses[name], _JUMP_OPCODE, _SLOT_DISTANCE)
        for i, item in enumerate(self._objects):
            for j, section in enumerate(item.sections):
                start = self._offsets.get((i, j))
                if start is not None and section.kind == _PROGBITS:
                    memory[start : start + section.size] = item.contents(section)
            for section in item.sections:
                if section.kind == _RELOCATIONS and (i, section.info) in self._offsets:
                    self._relocate(i, item, section)
        _make_executable(self._base, self._fixed_size)
        if not all(name in self._addresses for name in exports):
            raise Unplaceable("an export that nobody defines")
        return PlacedImage(self._memory, {name: self._addresses[name] for name in exports})

    def _relocate(self, i: int, item: ElfObject, section: Section) -> None:
        start, memory = self._offsets[i, section.info], self._memory.bytes
        size = item.sections[section.info].size
        for offset, form, number, addend in item.relocations(section):
            symbol = item.symbols[number]
            place = start + offset
            target = self._target(i, symbol, form)
            if target is None:
                raise Unplaceable(f"a relocation of form {form} for {symbol}")
            if offset + (8 if form == _ABSOLUTE64 else 4) > size:
                raise CompileError(f"the object code is not a well-formed ELF object: {symbol.name} is used outside")
            if form == _ABSOLUTE64:
                _U64.pack_into(memory, place, (target + addend) % (1 << 64))
                continue
            distance = target + addend - self._base - place
            if not _is_near(distance) and form == _CALL32 and symbol.binding != LOCAL:
                distance = self._slots[symbol.name] + _JUMP_OFFSET + addend - place
            if not _is_near(distance):
                raise Unplaceable(f"{symbol.name} is too far away")
            _I32.pack_into(memory, place, distance)

    def _target(self, i: int, symbol: Symbol, form: int) -> int | None:
        """The address that a relocation is for; None of what is not known here."""
        if form in _SLOT32:
            is_global = symbol.binding != LOCAL and symbol.name in self._addresses
            return self._base + self._slots[symbol.name] if is_global else None
        if form not in (_ABSOLUTE64, _RELATIVE32, _CALL32):
            return None
        if symbol.binding != LOCAL:
            return self._addresses.get(symbol.name)
        return self._address(i, symbol) if (i, symbol.section) in self._offsets else None


def _is_near(distance: int) -> bool:
    return -(1 << 31) <= distance < 1 << 31


def _allocated(item: ElfObject) -> list[tuple[int, Section]]:
    """The sections that are loaded, by number. Errors: Unplaceable for what a linker would have to look at."""
    if item.kind != _RELOCATABLE or item.machine != _X86_64 or not item.is_little_endian:
        raise Unplaceable("an object of another kind or for another machine")
    found: list[tuple[int, Section]] = []
    for i, section in enumerate(item.sections):
        if section.flags & _ALLOCATED:
            if section.kind not in (_PROGBITS, NO_BITS) or section.flags & ~_KNOWN_FLAGS or section.alignment > _PAGE:
                raise Unplaceable(f"section {section}")
            if section.flags & _WRITE and section.flags & _EXECUTABLE:
                raise Unplaceable(f"section {section}")
            found.append((i, section))
        elif section.kind not in (NULL, _PROGBITS, _STRINGS, _RELOCATIONS, SYMBOL_TABLE):
            raise Unplaceable(f"section {section}")
    return found


def _make_executable(address: int, size: int) -> None:
    """Errors: Unplaceable where the system does not let code be made so."""
    if size and _mprotect()(address, size, mmap.PROT_READ | mmap.PROT_EXEC):
        raise Unplaceable("memory that must not become executable")


@functools.cache
def _mprotect() -> Any:
    function = ctypes.CDLL(None).mprotect
    function.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
    return function
