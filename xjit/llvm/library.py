"""Modules that programs share: xjit's own code, such as multiplications."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING, ParamSpec

from xjit.dataclass import dataclass

if TYPE_CHECKING:
    from xjit.llvm.module import Module

P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class Library:
    """A module that defines a function `name`, or is a part of that name, for others. It is made when asked for.

    `identity` says all that decides the module, besides the files of xjit: code that is kept under it needs none.
    """

    name: str
    identity: str
    make_module: Callable[[], Module] = field(compare=False, repr=False)

    @classmethod
    def of(cls, name: str, make_module: Callable[P, Module], *arguments: P.args, **named: P.kwargs) -> Library:
        """Returns the library whose module is `make_module(...)`; `repr` must tell arguments apart."""
        identity = f"{make_module.__module__}.{make_module.__qualname__}{arguments!r}{named!r}"
        return cls(name, identity, lambda: make_module(*arguments, **named))

    @classmethod
    def of_module(cls, name: str, module: Module) -> Library:
        """Returns the library with that module."""
        return cls(name, module.to_text(), lambda: module)

    def make_text(self) -> str:
        """The module in one piece."""
        return self.make_module().to_text()
