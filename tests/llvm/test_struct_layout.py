"""Structs have C's layout, as ctypes computes it."""

from __future__ import annotations

import ctypes

import pytest

from xjit.llvm.execution_context import EXECUTION_CONTEXT, INITIAL_RNG_STATE, initial_context
from xjit.llvm.struct_layout import StructLayout
from xjit.llvm.types import I8, I32, I64, PTR

_CTYPES = {I8: ctypes.c_int8, I32: ctypes.c_int32, I64: ctypes.c_int64, PTR: ctypes.c_void_p}
MIXED = StructLayout("Mixed", (("a", I8), ("b", I64), ("c", I32), ("d", I8), ("e", PTR), ("f", I8)))


@pytest.mark.parametrize("layout", [MIXED, EXECUTION_CONTEXT], ids=lambda layout: layout.name)
def test_offsets_are_those_of_c(layout: StructLayout) -> None:
    fields = [(name, _CTYPES[kind]) for name, kind in layout.fields]
    struct = type(layout.name, (ctypes.Structure,), {"_fields_": fields})
    assert layout.offsets == {name: getattr(struct, name).offset for name, _ in layout.fields}
    assert layout.size == ctypes.sizeof(struct)


def test_alignment() -> None:
    fields = (("a", I64), ("b", I8))
    assert (StructLayout("S", fields).size, StructLayout("S", fields, align=64).size) == (16, 64)


def test_pack() -> None:
    data = MIXED.pack(b=-2, d=5)
    assert len(data) == MIXED.size
    assert data[8:16] == (-2).to_bytes(8, "little", signed=True) and data[20] == 5 and sum(data) == sum(data[8:16]) + 5
    with pytest.raises(KeyError):
        MIXED.pack(nothing=1)


def test_the_context_starts_with_the_random_state() -> None:
    assert initial_context(64) == EXECUTION_CONTEXT.pack(
        failed_instruction=-1, rng_state_low=INITIAL_RNG_STATE, profile_counters=64
    )
