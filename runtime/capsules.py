"""Capsules: how extensions of CPython hand pointers to each other, each with a name that says what it points to.

The functions of `ctypes.pythonapi` are the whole process's: types that one package gives them hold for all others. So
these are of our own. Names are addresses, of bytes that stay for as long as their capsule, or `bytes` to compare with.
"""

from __future__ import annotations

import ctypes
from typing import Any


def _function(name: str, result: Any, *arguments: Any) -> Any:
    return ctypes.PYFUNCTYPE(result, *arguments)((name, ctypes.pythonapi))


new_capsule = _function("PyCapsule_New", ctypes.py_object, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
"""(pointer, name, destructor or None) -> a capsule."""

capsule_pointer = _function("PyCapsule_GetPointer", ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
"""(capsule, name) -> the pointer. Errors: ValueError for another name."""

capsule_name = _function("PyCapsule_GetName", ctypes.c_void_p, ctypes.py_object)
"""(capsule) -> the address of its name, or None."""

rename_capsule = _function("PyCapsule_SetName", ctypes.c_int, ctypes.py_object, ctypes.c_void_p)
"""(capsule, name)."""
