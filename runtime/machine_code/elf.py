"""The little of ELF that the loader needs: which symbols an object defines, and which it leaves undefined.

Role: lets the loader refuse an object with a clear error, before the linker prints to stderr. 64-bit ELF only.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator

from xjit.hlo.diagnostics import CompileError

_SHT_SYMTAB = 2
_SHN_UNDEF = 0
_STB_LOCAL = 0


def undefined_symbols(objects: Iterable[bytes]) -> set[str]:
    """The global symbols that `objects` together use, but do not define. Raises CompileError for what is not ELF."""
    undefined: set[str] = set()
    defined: set[str] = set()
    for code in objects:
        for name, is_defined in _global_symbols(code):
            (defined if is_defined else undefined).add(name)
    return undefined - defined - {"_GLOBAL_OFFSET_TABLE_"}


def defined_symbols(code: bytes) -> set[str]:
    """The global symbols that an object defines. Raises CompileError for what is not ELF."""
    return {name for name, is_defined in _global_symbols(code) if is_defined}


def _global_symbols(code: bytes) -> list[tuple[str, bool]]:
    """Names, and whether the object defines them."""
    try:
        return list(_read_global_symbols(code))
    except (struct.error, IndexError, ValueError) as error:
        raise CompileError(f"the object code is not a well-formed ELF object: {error}") from error


def _read_global_symbols(code: bytes) -> Iterator[tuple[str, bool]]:
    if code[:5] != b"\x7fELF\x02":
        raise ValueError(f"it starts with {code[:5]!r}")
    order = "<" if code[5] == 1 else ">"
    (section_offset,) = struct.unpack_from(order + "Q", code, 40)
    entry_size, num_sections = struct.unpack_from(order + "HH", code, 58)
    sections = [
        struct.unpack_from(order + "IIQQQQIIQQ", code, section_offset + i * entry_size) for i in range(num_sections)
    ]
    for _, kind, _, _, offset, size, link, _, _, symbol_size in sections:
        if kind != _SHT_SYMTAB:
            continue
        _, _, _, _, string_offset, string_size, *_ = sections[link]
        strings = code[string_offset : string_offset + string_size]
        for position in range(offset + symbol_size, offset + size, symbol_size):
            name, info, _, section = struct.unpack_from(order + "IBBH", code, position)
            if info >> 4 != _STB_LOCAL:
                yield strings[name : strings.index(b"\0", name)].decode(), section != _SHN_UNDEF
