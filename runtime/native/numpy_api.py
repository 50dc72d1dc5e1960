"""Addresses from NumPy's C API table, by the name of the entry."""

from __future__ import annotations

import ctypes
import functools
import importlib

import numpy as np

from xjit.runtime.capsules import capsule_pointer

_SLOTS = {"PyArray_Type": 2, "PyArray_NewFromDescr": 94, "PyDataType_GetArrFuncs": 365}
"""Positions in `_ARRAY_API`; part of NumPy's ABI since 1.x (the last one since 2.0)."""

_SORT_POINTER_INDEX = 33
"""`sort[0]` (quicksort) in PyArray_ArrFuncs, counted in pointers."""


@functools.cache
def _table_address() -> int:
    multiarray = importlib.import_module("numpy._core._multiarray_umath")  # private: elsewhere there is no fast path
    return capsule_pointer(multiarray._ARRAY_API, None) or 0


def numpy_api_address(name: str) -> int:
    """The address of an entry of the table; 0 if NumPy does not have the table where it is expected."""
    try:
        table = _table_address()
    except (ImportError, AttributeError, ValueError):
        return 0
    return ctypes.c_void_p.from_address(table + 8 * _SLOTS[name]).value or 0


def numpy_sort_address(dtype_name: str) -> int:
    """NumPy's in-place sort of a built-in dtype, `int (void *data, npy_intp n, void *array)`; 0 if not available."""
    get_functions = numpy_api_address("PyDataType_GetArrFuncs")
    if not get_functions:
        return 0
    functions = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object)(get_functions)(np.dtype(dtype_name))
    return ctypes.c_void_p.from_address(functions + 8 * _SORT_POINTER_INDEX).value or 0
