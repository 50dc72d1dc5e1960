"""Arrays of other libraries as NumPy arrays, and NumPy arrays for them: through DLPack, without a copy.

NumPy's own `__dlpack__` and `from_dlpack` know neither bfloat16 nor floats of 8 bits; these do.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xjit.hlo.diagnostics import InvalidArgument
from xjit.runtime.arrays.dlpack import CPU, Imported, export_capsule, import_array
from xjit.runtime.arrays.physical_layout import Array


def read_array(value: Any) -> Array:
    """Returns an array-like value as a NumPy array of the same memory where possible. Raises what reading it raises."""
    if hasattr(value, "__dlpack__") and not hasattr(value, "__array__"):
        return from_dlpack(value)
    try:
        return np.asarray(value)
    except (TypeError, ValueError):  # PyTorch has no NumPy form of bfloat16
        if not hasattr(value, "__dlpack__"):
            raise
        return from_dlpack(value)


def from_dlpack(value: Any) -> Array:
    """Returns an array in host memory as a NumPy array of the same memory.

    Errors: InvalidArgument if it is elsewhere, or its elements have no NumPy type.
    """
    found = import_array(value, 0, CPU)
    if not all(found.shape):
        return np.empty(found.shape, found.dtype)
    return np.asarray(_Interface(found)).view(found.dtype)


class _Interface:
    """Memory in the form that NumPy reads; the array that it makes keeps this object, and so the memory."""

    def __init__(self, found: Imported) -> None:
        self._owner = found.owner
        unsigned = f"|u{found.dtype.itemsize}" if found.dtype.itemsize == 1 else f"<u{found.dtype.itemsize}"
        typestr = unsigned if found.dtype.itemsize in (1, 2, 4, 8) else found.dtype.str
        self.__array_interface__ = {
            "version": 3,
            "shape": found.shape,
            "typestr": typestr,
            "data": (found.address, False),
            "strides": found.strides,
        }


class DlpackArray:
    """A NumPy array of any element type that DLPack has, for the `from_dlpack` of other libraries: the same memory."""

    __slots__ = ("array",)

    def __init__(self, array: Array) -> None:
        """Errors: InvalidArgument for what is no NumPy array."""
        if not isinstance(array, np.ndarray):
            raise InvalidArgument(f"expected a NumPy array, found {type(array).__name__}")
        self.array = array

    @property
    def address(self) -> int:
        """Of the first element."""
        return self.array.__array_interface__["data"][0]

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the array."""
        return self.array.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of the array."""
        return self.array.dtype

    @property
    def strides(self) -> tuple[int, ...]:
        """In bytes."""
        return self.array.strides

    def __dlpack_device__(self) -> tuple[int, int]:
        return (CPU, 0)

    def __dlpack__(self, **_: object) -> object:
        return export_capsule(self, CPU)
