"""Epilogues: what a program computes from a finished tile of sums, while the tile is still in the cache.

The functions of a library are shared by all programs, so an epilogue comes to them as a closure: a record of 64-bit
slots whose first is the address of a function with `EPILOGUE_PARAMS`; what the others hold is between that function and
whoever made the record. The null pointer means that there is no epilogue: sums are rounded and stored.

Every element of the result is handed over exactly once, after all of its k has been summed. Columns of a call begin at
a multiple of the vector width, and only the last columns of the result end at none.
"""

from __future__ import annotations

from collections.abc import Sequence

from xjit.llvm import LLVMType, Value
from xjit.llvm.structured_builder import StructuredBuilder
from xjit.llvm.types import I64, PTR, VOID
from xjit.llvm.values import zero

EPILOGUE_PARAMS: Sequence[tuple[LLVMType, str]] = (
    (PTR, "closure"),
    (PTR, "tile"),
    (I64, "tile_row"),
    (I64, "batch"),
    (I64, "first_row"),
    (I64, "rows"),
    (I64, "first_column"),
    (I64, "columns"),
)
"""`tile` holds the sums of `rows` x `columns` elements in the compute type; rows are `tile_row` bytes apart, columns
are contiguous. `batch` is the number of the multiplication (of a convolution: the group), `first_row` and
`first_column` say where in it the tile lies (of a convolution: output pixel and output feature of the group).
"""


def has_epilogue(builder: StructuredBuilder, closure: Value) -> Value:
    """Whether there is an epilogue, as i1."""
    return builder.icmp_signed("!=", closure, zero(PTR))


def call_epilogue(builder: StructuredBuilder, closure: Value, args: Sequence[Value]) -> None:
    """Calls the function of a closure that is not null; `args` are those behind the closure."""
    builder.call_pointer(builder.load_ptr(closure, 0, "epilogue"), VOID, (closure, *args))
