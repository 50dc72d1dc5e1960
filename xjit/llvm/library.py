"""Modules that programs share: xjit's own code, such as multiplications."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ParamSpec

P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class Library:
    """A module that defines a function `name`, or is a part of that name, for others. Its text is made when asked for.

    `identity` says all that decides the text, besides the files of xjit: code that is kept under it needs no text.
    """

    name: str
    identity: str
    make_text: Callable[[], str] = field(compare=False, repr=False)

    @classmethod
    def of(cls, name: str, make_text: Callable[P, str], *arguments: P.args, **named: P.kwargs) -> Library:
        """Returns the library whose text is `make_text(...)`; `repr` must tell arguments apart."""
        identity = f"{make_text.__module__}.{make_text.__qualname__}{arguments!r}{named!r}"
        return cls(name, identity, lambda: make_text(*arguments, **named))

    @classmethod
    def of_text(cls, name: str, text: str) -> Library:
        """Returns the library with that text."""
        return cls(name, text, lambda: text)
