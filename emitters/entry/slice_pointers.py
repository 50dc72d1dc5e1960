"""Addresses of buffer slices in functions that have the entry's parameters."""

from __future__ import annotations

from xjit.llvm.builder import IRBuilder
from xjit.llvm.function import Function
from xjit.llvm.types import I8, I64, PTR
from xjit.llvm.values import Value, const_int
from xjit.thunks import BufferSlice

ENTRY_PARAMS = tuple((PTR, name) for name in ("context", "parameters", "results", "arena", "constants"))
"""Of the entry and of all functions that run thunks: `xjit.runtime.program` says what they point to."""


class SlicePointers:
    """`pointers[slice]` in one function: computed once, in its entry block."""

    def __init__(self, function: Function) -> None:
        _, parameters, results, self._arena, constants = function.args
        self._tables = {"parameter": parameters, "result": results, "constant": constants}
        self._builder = IRBuilder(function.entry)
        self._known: dict[BufferSlice, Value] = {}

    def __getitem__(self, where: BufferSlice) -> Value:
        pointer = self._known.get(where)
        if pointer is None:
            pointer = self._known[where] = self._emit(where)
        return pointer

    def _emit(self, where: BufferSlice) -> Value:
        builder, offset = self._builder, const_int(I64, where.offset)
        if where.kind == "arena":
            return builder.gep(I8, self._arena, offset)
        table = self._tables.get(where.kind)
        if table is None:
            raise AssertionError(f"no buffer of kind {where.kind!r}")
        base = builder.load(PTR, builder.gep(PTR, table, const_int(I64, where.index)), align=8)
        return builder.gep(I8, base, offset) if where.offset else base
