"""The numbers that say what to multiply: code depends on element types only, and reads the rest from a record."""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import TypeAlias, TypeVar

from xjit.emitters.gemm.blocking.convolution_shapes import ConvolutionParameters
from xjit.emitters.gemm.blocking.shapes import GemmParameters, numbers_of
from xjit.llvm.struct_layout import StructLayout
from xjit.llvm.structured_builder import StructuredBuilder
from xjit.llvm.types import I64
from xjit.llvm.values import Value

Parameters: TypeAlias = GemmParameters | ConvolutionParameters
P = TypeVar("P", GemmParameters, ConvolutionParameters)


def _numbered(kind: type[P], first: int) -> P:
    """Returns parameters each of which is a number of its own, from `first` on."""
    return kind(*range(first, first + len(dataclasses.fields(kind))))


GEMM = _numbered(GemmParameters, 0)
CONV = _numbered(ConvolutionParameters, 1000)
"""The fields of a record by number, to be read as `record[GEMM.m]`. A record of the one has no field of the other."""


@cache
def _layout_of(kind: type[Parameters]) -> StructLayout:
    """Where the fields lie: in their order, each an i64."""
    return StructLayout(kind.__name__, tuple((field.name, I64) for field in dataclasses.fields(kind)))


class Record:
    """Reads fields of `GEMM` or `CONV`; every read is a load, where it is asked for."""

    def __init__(self, builder: StructuredBuilder, ptr: Value, fields: Parameters) -> None:
        self._builder = builder
        self._layout = _layout_of(type(fields))
        self._names = dict(zip(numbers_of(fields), self._layout.offsets, strict=True))
        self.ptr = ptr

    def __getitem__(self, field: int) -> Value:
        """Returns the value of a field, by its number. KeyError for a field of another record."""
        return self._layout.load(self._builder, self.ptr, self._names[field])

    @property
    def end(self) -> Value:
        """Where the record ends."""
        return self._builder.offset(self.ptr, self._builder.i64(self._layout.size))

    def flag(self, field: int) -> Value:
        """Whether a field is not zero."""
        return self._builder.icmp_signed("!=", self[field], self._builder.i64(0))
