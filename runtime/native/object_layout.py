"""Are CPython's and NumPy's objects laid out as `records` says? Asked once, before that code is compiled.

Role: the gate of the native call path. A `no` costs speed only: executables then call through ctypes.
"""

from __future__ import annotations

import ctypes
import functools
import sys

import numpy as np

from xjit.runtime.capsules import new_capsule
from xjit.runtime.native.numpy_api import numpy_api_address
from xjit.runtime.native.records import (
    ALIGNED,
    C_CONTIGUOUS,
    F_CONTIGUOUS,
    OWNDATA,
    PY_ARRAY,
    PY_CAPSULE,
    WRITEABLE,
)

_SUPPORTED_VERSIONS = ((3, 11), (3, 14))  # from, below: the object header and the capsule are checked for these


@functools.cache
def fast_call_obstacle() -> str:
    """Why the native call path cannot be used in this process; "" if it can."""
    if (
        sys.implementation.name != "cpython"
        or not _SUPPORTED_VERSIONS[0] <= sys.version_info[:2] < _SUPPORTED_VERSIONS[1]
    ):
        return f"{sys.implementation.name} {sys.version_info[0]}.{sys.version_info[1]} is not a checked version"
    if "t" in getattr(sys, "abiflags", ""):
        return "free-threaded Python"
    if hasattr(sys, "getobjects") or ctypes.sizeof(ctypes.c_void_p) != 8 or sys.byteorder != "little":
        return "a debug, 32-bit or big-endian build"
    if int(np.__version__.split(".")[0]) < 2:
        return f"NumPy {np.__version__}"
    if numpy_api_address("PyArray_Type") != id(np.ndarray):
        return "NumPy's API table is not as expected"
    return _check_arrays() or _check_capsule()


def _check_arrays() -> str:
    samples = (
        (np.zeros((2, 3, 5), np.float32), C_CONTIGUOUS | OWNDATA),
        (np.zeros((4, 7), np.int16, order="F"), F_CONTIGUOUS | OWNDATA),
        (np.zeros(16, np.float64)[3:9:2], 0),
        (np.zeros((), np.bool_), C_CONTIGUOUS | F_CONTIGUOUS | OWNDATA),
    )
    offsets = PY_ARRAY.offsets
    for array, contiguity in samples:
        address = id(array)
        dims = ctypes.c_void_p.from_address(address + offsets["dimensions"]).value
        found = (
            ctypes.c_void_p.from_address(address + offsets["ob_type"]).value,
            ctypes.c_void_p.from_address(address + offsets["data"]).value,
            ctypes.c_int32.from_address(address + offsets["nd"]).value,
            tuple(ctypes.c_int64.from_address((dims or 0) + 8 * i).value for i in range(array.ndim)),
            ctypes.c_void_p.from_address(address + offsets["descr"]).value,
            ctypes.c_int32.from_address(address + offsets["flags"]).value,
            bool(ctypes.c_void_p.from_address(address + offsets["mem_handler"]).value),
        )
        flags = contiguity | ALIGNED | WRITEABLE
        expected = (
            id(np.ndarray),
            array.ctypes.data,
            array.ndim,
            array.shape,
            id(array.dtype),
            flags,
            bool(contiguity & OWNDATA),
        )
        if found != expected:
            return f"NumPy arrays are laid out differently: {found} instead of {expected}"
    return ""


def _check_capsule() -> str:
    name = ctypes.create_string_buffer(b"xjit.layout_check")
    capsule = new_capsule(0x123456789, ctypes.addressof(name), None)
    pointer = ctypes.c_void_p.from_address(id(capsule) + PY_CAPSULE.offsets["pointer"]).value
    del capsule  # before its name
    return "" if pointer == 0x123456789 else "capsules are laid out differently"
