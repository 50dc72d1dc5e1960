"""The structs that native code and Python share at a call: the tables of a callable, and objects of CPython and NumPy.

Native code reads and writes them by field, Python packs the tables with `StructLayout.pack`. That the objects are laid
out like this in this process is checked before any code relies on it (`xjit.runtime.native.object_layout`).
"""

from __future__ import annotations

from xjit.llvm.struct_layout import StructLayout
from xjit.llvm.types import I32, I64, PTR

CALL = StructLayout(
    "Call",
    (
        ("entry", PTR),
        ("num_parameters", I64),
        ("num_results", I64),
        ("parameters", PTR),  # a PARAMETER each
        ("results", PTR),  # a RESULT each
        ("constants", PTR),  # a pointer each
        ("arena_size", I64),
        ("release_gil", I64),
        ("returns_tuple", I64),
        ("slow", PTR),  # what takes arguments that do not fit
        ("on_error", PTR),  # what raises for a status
        ("initial_context", PTR),  # an EXECUTION_CONTEXT, copied for every call
    ),
)
"""What a callable is made of. The Python objects are borrowed references."""

PARAMETER = StructLayout(
    "Parameter", (("descriptor", PTR), ("rank", I64), ("dimensions", PTR), ("flags", I64), ("alignment_mask", I64))
)
"""What an argument must be: its dtype object, shape, the flags it must have, the address bits that must be zero."""

RESULT = StructLayout(
    "Result", (("descriptor", PTR), ("rank", I64), ("dimensions", PTR), ("nbytes", I64), ("order", I64))
)
"""How a result is made. `order` is NumPy's flag of its order: C_CONTIGUOUS or F_CONTIGUOUS."""

PY_ARRAY = StructLayout(
    "PyArrayObject",
    (
        ("ob_refcnt", I64),
        ("ob_type", PTR),
        ("data", PTR),
        ("nd", I32),
        ("dimensions", PTR),
        ("strides", PTR),
        ("base", PTR),
        ("descr", PTR),
        ("flags", I32),
        ("weakreflist", PTR),
        ("buffer_info", PTR),
        ("mem_handler", PTR),
    ),
)
"""NumPy's array object."""

PY_CAPSULE = StructLayout("PyCapsule", (("ob_refcnt", I64), ("ob_type", PTR), ("pointer", PTR)))
"""The start of CPython's capsule object."""

C_CONTIGUOUS, F_CONTIGUOUS, OWNDATA, ALIGNED, WRITEABLE = 1, 2, 4, 0x100, 0x400
"""Flags of NumPy's arrays."""
