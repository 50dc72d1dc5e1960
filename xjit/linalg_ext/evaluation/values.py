"""Arrays of the evaluator: elements, and which of them nothing has written yet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from xjit.dataclass import dataclass
from xjit.linalg_ext.ir.errors import LinalgError
from xjit.linalg_ext.ir.float_text import FLOAT_DTYPES
from xjit.linalg_ext.ir.types import FloatType, IndexType, IntegerType, Type

__all__ = ["Array", "Runtime", "Shape", "apply", "dtype_of", "empty", "plain", "undefined_mask"]

Shape: TypeAlias = tuple[int, ...]
Bools: TypeAlias = npt.NDArray[np.bool_]

_INTEGERS: dict[int, Any] = {1: np.bool_, 8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}
_COMPLEX: dict[str, Any] = {"complex<f32>": np.complex64, "complex<f64>": np.complex128}


@dataclass(slots=True)
class Array:
    """A tensor, or a memref: then views share `data` and `undefined`, and stores are seen by all of them.

    `undefined` marks elements whose value means nothing, as nothing was stored there; None if there are none. What is
    computed from an undefined element is undefined.
    """

    data: npt.NDArray[Any]
    undefined: Bools | None = None

    @property
    def shape(self) -> Shape:
        return self.data.shape

    def copy(self) -> Array:
        return Array(self.data.copy(), None if self.undefined is None else self.undefined.copy())

    def view(self, of: Callable[[npt.NDArray[Any]], npt.NDArray[Any]]) -> Array:
        """Returns an array that shows the elements through `of`, which indexes, reshapes or transposes."""
        return Array(of(self.data), None if self.undefined is None else of(self.undefined))

    def store(self, index: Any, value: Any) -> None:
        """Writes elements in place."""
        mask = value.undefined if isinstance(value, Array) else None
        self.data[index] = value.data if isinstance(value, Array) else value
        if mask is not None and self.undefined is None:
            self.undefined = np.zeros(self.data.shape, np.bool_)
        if self.undefined is not None:
            self.undefined[index] = False if mask is None else mask


Runtime: TypeAlias = Any
"""A value at run time: an Array, or for scalars a Python or NumPy number, or a 0-d Array that may be undefined."""


def dtype_of(t: Type) -> np.dtype[Any]:
    """Returns the NumPy type of an element type; index is int64. LinalgError for types that it has not."""
    if isinstance(t, IndexType):
        return np.dtype(np.int64)
    if isinstance(t, IntegerType) and t.width in _INTEGERS:
        dtype = np.dtype(_INTEGERS[t.width])
        return np.dtype(f"u{dtype.name}") if t.signedness == "u" and t.width > 1 else dtype
    if isinstance(t, FloatType) and t.name in FLOAT_DTYPES:
        return np.dtype(FLOAT_DTYPES[t.name])
    if str(t) in _COMPLEX:
        return np.dtype(_COMPLEX[str(t)])
    raise LinalgError(f"cannot evaluate elements of type {t}")


def empty(shape: Shape, t: Type) -> Array:
    """Returns an array whose elements are all undefined: NaNs, or the least integers."""
    dtype = dtype_of(t)
    poison = np.iinfo(dtype).min if dtype.kind in "iu" else (False if dtype.kind == "b" else np.nan)
    return Array(np.full(shape, poison, dtype), np.ones(shape, np.bool_))


def plain(value: Runtime) -> Any:
    """Returns the elements without the mask."""
    return value.data if isinstance(value, Array) else value


def undefined_mask(value: Runtime) -> Bools | None:
    return value.undefined if isinstance(value, Array) else None


def apply(function: Callable[..., Any], *values: Runtime) -> Runtime:
    """Calls a NumPy function on the elements; the result is undefined where an argument is."""
    result = function(*map(plain, values))
    masks = [mask for mask in map(undefined_mask, values) if mask is not None]
    if not masks:
        return result
    undefined = np.logical_or.reduce(np.broadcast_arrays(*masks))
    return Array(np.asarray(result), np.broadcast_to(undefined, np.shape(result)))
