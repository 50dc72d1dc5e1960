"""Elements of constants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from xjit.linalg_ext.evaluation.values import Array, Runtime, dtype_of
from xjit.linalg_ext.ir.attributes import Attribute, BoolAttr, DenseAttr, DenseResourceAttr, FloatAttr, IntegerAttr
from xjit.linalg_ext.ir.errors import LinalgError
from xjit.linalg_ext.ir.types import IndexType, TensorType, Type

__all__ = ["Resources", "constant_elements"]

Resources: TypeAlias = Callable[[str, TensorType], Any]
"""Gives the elements of `dense_resource<name> : type`, whose text does not have them."""


def constant_elements(value: Attribute, t: Type, resources: Resources | None) -> Runtime:
    """Returns a number for a scalar constant, an Array for a tensor. LinalgError for what has no elements."""
    if isinstance(value, IntegerAttr | BoolAttr | FloatAttr):
        return int(value.value) if isinstance(t, IndexType) else _numbers([value.value], t)[0]
    if isinstance(value, DenseAttr) and isinstance(t, TensorType):
        shape = tuple(0 if n is None else n for n in t.shape)
        numbers = _numbers(value.values, t.element)
        return Array(np.broadcast_to(numbers[0], shape) if value.is_splat else numbers.reshape(shape))
    if isinstance(value, DenseResourceAttr) and isinstance(t, TensorType):
        if resources is None:
            raise LinalgError(f"the text has no elements for {value}: pass `resources`")
        return Array(np.asarray(resources(value.name, t), dtype_of(t.element)))
    raise LinalgError(f"cannot evaluate the constant {value}")


def _numbers(values: Any, t: Type) -> Any:
    """Integers wrap around: 255 : i8 is -1."""
    dtype = dtype_of(t)
    if dtype.kind in "iu":
        return np.array([int(v) & (2**64 - 1) for v in values], np.uint64).astype(dtype)
    return np.array(list(values), dtype)
