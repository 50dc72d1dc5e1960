"""Functions that lower layers call and a layer above gives, as it knows more: imports still go one way."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from xjit.hlo.diagnostics import FailedPrecondition

if TYPE_CHECKING:
    from xjit.hlo.ir.module import HloModule

P = ParamSpec("P")
R = TypeVar("R")


class Provided(Generic[P, R]):
    """Declared where it is called, with what it takes and returns; `xjit.api` provides it.

    FailedPrecondition if it is called before.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._function: Callable[P, R] | None = None

    def provide(self, function: Callable[P, R]) -> None:
        """Makes calls go to a function from now on."""
        self._function = function

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        if self._function is None:
            raise FailedPrecondition(f"nothing provides {self._what} yet: `import xjit` does")
        return self._function(*args, **kwargs)


compile_hlo: Provided[[HloModule, str, Any], Callable[..., Any]] = Provided("a compiler")
"""`xjit.compile`: of a module, a target and options."""
