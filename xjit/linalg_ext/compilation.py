"""Structured functions as machine code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xjit.hlo.provided import compile_hlo
from xjit.linalg_ext.ir.operation import Operation
from xjit.linalg_ext.to_hlo import to_hlo

__all__ = ["compile"]


def compile(module: Operation, function: str, target: str = "cpu", options: Any = None) -> Callable[..., Any]:
    """Compiles a function of static tensors for a target of `xjit.compile`; the module is left as it is.

    `options` are `xjit.CompileOptions`. The executable takes NumPy arrays and returns an array, or a tuple for several
    results. LinalgError, with the place, for what `to_hlo` refuses.
    """
    return compile_hlo(to_hlo(module, function), target, options)
