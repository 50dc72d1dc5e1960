"""Kinds of accumulation, which `affine.parallel` and `memref.atomic_rmw` name: from what, and how, they add up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from xjit.linalg_ext.evaluation.scalar_ops import on_unsigned
from xjit.linalg_ext.evaluation.values import Runtime, apply, dtype_of, plain
from xjit.linalg_ext.ir.errors import LinalgError
from xjit.linalg_ext.ir.operation import Operation
from xjit.linalg_ext.ir.types import Type

__all__ = ["accumulate", "neutral"]

_KINDS: dict[str, tuple[Callable[..., Any], float | str]] = {
    "addf": (np.add, 0),
    "addi": (np.add, 0),
    "mulf": (np.multiply, 1),
    "muli": (np.multiply, 1),
    "maximumf": (np.maximum, -np.inf),
    "maxnumf": (np.fmax, -np.inf),
    "minimumf": (np.minimum, np.inf),
    "minnumf": (np.fmin, np.inf),
    "maxs": (np.maximum, "least"),
    "mins": (np.minimum, "greatest"),
    "maxu": (on_unsigned(np.maximum), 0),
    "minu": (on_unsigned(np.minimum), -1),
    "andi": (np.bitwise_and, -1),
    "ori": (np.bitwise_or, 0),
    "xori": (np.bitwise_xor, 0),
}
"""The function, and its neutral element, per kind; `assign` has neither."""


def accumulate(kind: str, old: Runtime, new: Runtime) -> Runtime:
    """Returns what is there after a value has been added; `assign` replaces what was there."""
    if kind == "assign":
        return new
    dtype = np.asarray(plain(old)).dtype
    return apply(lambda a, b: np.asarray(_KINDS[kind][0](a, b)).astype(dtype), old, new)


def neutral(kind: str, t: Type, op: Operation) -> Runtime:
    """Returns the element that leaves others unchanged; LinalgError if there is none."""
    if kind not in _KINDS:
        raise LinalgError(f"'{op.name}' op cannot begin a reduction of kind '{kind}'", op.location)
    value, dtype = _KINDS[kind][1], dtype_of(t)
    if isinstance(value, str):
        bounds = np.iinfo(dtype)
        value = bounds.min if value == "least" else bounds.max
    return np.asarray(value).astype(dtype)
