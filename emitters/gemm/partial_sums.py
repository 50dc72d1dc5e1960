"""Integers that are summed as floats: how far a float holds their sums exactly, and what happens then."""

from __future__ import annotations

from xjit.emitters.gemm.plan import CHUNK_BYTES
from xjit.emitters.gemm.storage import size_of
from xjit.emitters.gemm.support import GemmSupport
from xjit.llvm import Value
from xjit.llvm.structured_builder import StructuredBuilder
from xjit.llvm.types import I1, I64
from xjit.llvm.values import const_int


class PartialSums:
    """How many terms the scratch block holds, and whether there is a sum in the result to add it to.

    Both are variables of the function that is being emitted.
    """

    def __init__(self, builder: StructuredBuilder, support: GemmSupport) -> None:
        assert support.unpack_add is not None and support.types.exact_terms is not None
        self.builder = builder
        self.functions = support.unpack_add.value, support.unpack.value
        self.limit = support.types.exact_terms - CHUNK_BYTES // size_of(support.compute)
        self._terms, self._unpacked = (builder.alloca(I64, 1, align=8, name=name) for name in ("terms", "unpacked"))
        for variable in (self._terms, self._unpacked):
            builder.store(builder.i64(0), variable, 8)

    def terms(self) -> Value:
        """The number of terms that have been summed since the last unpacking."""
        return self.builder.load(I64, self._terms, 8)

    def is_full(self, added: Value, is_last: Value) -> Value:
        """Counts `added` terms; whether another chunk (there is one unless `is_last`) might not be summed exactly."""
        builder = self.builder
        terms = builder.add(self.terms(), added)
        builder.store(terms, self._terms, 8)
        full = builder.icmp_signed(">", terms, builder.i64(self.limit))
        return builder.select(is_last, const_int(I1, 0), full)

    def restart(self) -> None:
        """After the scratch block was unpacked."""
        self.builder.store(self.builder.i64(0), self._terms, 8)
        self.builder.store(self.builder.i64(1), self._unpacked, 8)

    def unpack_function(self) -> Value:
        """The function that unpacks now."""
        unpacked = self.builder.load(I64, self._unpacked, 8)
        return self.builder.select(self.builder.icmp_signed("!=", unpacked, self.builder.i64(0)), *self.functions)
