"""The little of ELF that is needed to load objects: sections, symbols and relocations. 64-bit ELF only."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final, NamedTuple

from xjit.hlo.diagnostics import CompileError

SYMBOL_TABLE: Final = 2
NULL, NO_BITS = 0, 8
UNDEFINED: Final = 0
LOCAL: Final = 0
_MADE_BY_LINKERS: Final = frozenset({"_GLOBAL_OFFSET_TABLE_"})


class Section(NamedTuple):
    """A row of the table of sections, in ELF's order."""

    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    alignment: int
    entry_size: int


class Symbol(NamedTuple):
    """A row of the table of symbols; `section` is where it is defined, or a special number."""

    name: str
    binding: int
    kind: int
    section: int
    value: int


class Relocation(NamedTuple):
    """What is to be written at an offset of a section: a form, for a symbol's number, and what to add."""

    offset: int
    form: int
    symbol: int
    addend: int


class ElfObject:
    """An object's tables. Errors: CompileError for what is not ELF."""

    __slots__ = ("_order", "code", "kind", "machine", "sections", "symbols")

    def __init__(self, code: bytes) -> None:
        self.code = code
        try:
            self._read()
        except (struct.error, IndexError, ValueError, OverflowError) as error:
            raise CompileError(f"the object code is not a well-formed ELF object: {error}") from error

    @property
    def is_little_endian(self) -> bool:
        """The order of bytes."""
        return self._order == "<"

    def contents(self, section: Section) -> bytes:
        """The bytes of a section that has some."""
        return self.code[section.offset : section.offset + section.size]

    def relocations(self, section: Section) -> list[Relocation]:
        """The rows of a section of relocations with addends. Errors: CompileError for what is not well-formed."""
        try:
            rows = [Relocation(*row) for row in struct.iter_unpack(f"{self._order}QIIq", self.contents(section))]
        except struct.error as error:
            raise CompileError(f"the object code is not a well-formed ELF object: {error}") from error
        if any(row.symbol >= len(self.symbols) for row in rows):
            raise CompileError("the object code is not a well-formed ELF object: a relocation has no symbol")
        return rows

    def global_names(self) -> tuple[set[str], set[str]]:
        """The names of its global symbols: those it defines, and those it does not."""
        found = [symbol for symbol in self.symbols if symbol.binding != LOCAL]
        defined = {symbol.name for symbol in found if symbol.section != UNDEFINED}
        return defined, {symbol.name for symbol in found} - defined

    def _read(self) -> None:
        code = self.code
        if code[:5] != b"\x7fELF\x02":
            raise ValueError(f"it starts with {code[:5]!r}")
        self._order = order = "<" if code[5] == 1 else ">"
        self.kind, self.machine = struct.unpack_from(f"{order}HH", code, 16)
        (start,) = struct.unpack_from(f"{order}Q", code, 40)
        entry_size, count = struct.unpack_from(f"{order}HH", code, 58)
        header = struct.Struct(f"{order}IIQQQQIIQQ")
        self.sections = [Section(*header.unpack_from(code, start + i * entry_size)) for i in range(count)]
        if any(s.kind not in (NULL, NO_BITS) and s.offset + s.size > len(code) for s in self.sections):
            raise ValueError("a section ends after the file")
        self.symbols: list[Symbol] = []
        for section in self.sections:
            if section.kind == SYMBOL_TABLE:
                strings = self.contents(self.sections[section.link])
                for name, info, _, place, value, _ in struct.iter_unpack(f"{order}IBBHQQ", self.contents(section)):
                    text = strings[name : strings.index(b"\0", name)].decode()
                    self.symbols.append(Symbol(text, info >> 4, info & 15, place, value))


def undefined_names(objects: Iterable[ElfObject]) -> set[str]:
    """The global symbols that objects together use, but do not define."""
    undefined: set[str] = set()
    defined: set[str] = set()
    for item in objects:
        own, others = item.global_names()
        defined |= own
        undefined |= others
    return undefined - defined - _MADE_BY_LINKERS


def undefined_symbols(objects: Iterable[bytes]) -> set[str]:
    """As `undefined_names`, of code. Errors: CompileError for what is not ELF."""
    return undefined_names(ElfObject(code) for code in objects)


def defined_symbols(code: bytes) -> set[str]:
    """The global symbols that an object defines. Errors: CompileError for what is not ELF."""
    return ElfObject(code).global_names()[0]
