"""`NameUniquer`: makes names unique with a numeric suffix, and valid in HLO text."""

from __future__ import annotations

import functools
import re

from xjit.hlo.types.primitive_type import BY_TEXT

_TYPE_NAMES = frozenset(BY_TEXT) - {"tuple", "buffer"}  # these are not written as types
_INVALID = re.compile(r"[^A-Za-z0-9_.-]")


class NameUniquer:
    """Hands out `x`, `x.1`, `x.2`, ...; names that spell an element type get an underscore."""

    def __init__(self, separator: str = ".") -> None:
        self._separator = separator
        self._used: set[str] = set()
        self._next: dict[str, int] = {}

    @staticmethod
    @functools.lru_cache(maxsize=1 << 16)
    def sanitize(name: str) -> str:
        """Returns the nearest name that HLO text accepts."""
        name = _INVALID.sub("_", name) or "name"
        if not (name[0].isalpha() or name[0] == "_"):
            name = "_" + name
        return name + "_" if name in _TYPE_NAMES else name

    def reserve(self, name: str) -> None:
        """Never hands out a name that something was given otherwise."""
        self._used.add(name)

    def get_unique_name(self, name: str) -> str:
        """Returns `name`, sanitized, or its first free numbered variant, and reserves it."""
        name = self.sanitize(name)
        if name not in self._used:
            self._used.add(name)
            return name
        root, dot, number_text = name.rpartition(".")
        if not dot or not number_text.isdecimal():
            root = name
        number = self._next.get(root, 1)
        while (candidate := f"{root}{self._separator}{number}") in self._used:
            number += 1
        self._next[root] = number + 1
        self._used.add(candidate)
        return candidate
