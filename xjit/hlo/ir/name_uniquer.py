"""`NameUniquer`: makes names unique with a numeric suffix, and valid in HLO text."""

from __future__ import annotations

import functools
import re

from xjit.hlo.types.primitive_type import BY_TEXT

KEYWORDS = frozenset({"HloModule", "ENTRY", "ROOT", "FileNames"})
"""What HLO text does not take for a name unless there is a sigil in front."""
_AVOIDED = KEYWORDS.union(BY_TEXT.keys() - {"tuple", "buffer"})  # these are not written as types
_INVALID = re.compile(r"[^A-Za-z0-9_.-]")


class NameUniquer:
    """Hands out `x`, `x.1`, `x.2`, ...; names that spell a keyword or a type get an underscore."""

    def __init__(self, separator: str = ".") -> None:
        self._separator = separator
        self._used: set[str] = set()
        self._next: dict[str, int] = {}

    @staticmethod
    def sanitize(name: str) -> str:
        """Returns the nearest name that HLO text accepts."""
        return _sanitized(name)[0]

    def reserve(self, name: str) -> None:
        """Never hands out a name that something was given otherwise."""
        self._used.add(name)

    def get_unique_name(self, name: str) -> str:
        """Returns `name`, sanitized, or its first free numbered variant, and reserves it."""
        name, root = _sanitized(name)
        used = self._used
        if name not in used:
            used.add(name)
            return name
        number = self._next.get(root, 1)
        while (candidate := f"{root}{self._separator}{number}") in used:
            number += 1
        self._next[root] = number + 1
        used.add(candidate)
        return candidate


@functools.lru_cache(maxsize=1 << 16)
def _sanitized(name: str) -> tuple[str, str]:
    """Returns the nearest name that HLO text accepts, and that without a number behind a dot."""
    name = _INVALID.sub("_", name) or "name"
    if not (name[0].isalpha() or name[0] == "_"):
        name = "_" + name
    if name in _AVOIDED:
        name += "_"
    root, dot, number = name.rpartition(".")
    return name, root if dot and number.isdecimal() else name
