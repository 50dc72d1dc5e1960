"""The numbers that say what to multiply: code depends on element types only, and reads the rest from a record."""

from __future__ import annotations

import dataclasses

from xjit.emitters.gemm.convolution_shapes import ConvolutionParameters
from xjit.emitters.gemm.shapes import GemmParameters
from xjit.llvm.struct_layout import StructLayout
from xjit.llvm.structured_builder import StructuredBuilder
from xjit.llvm.types import I64
from xjit.llvm.values import Value


def _layout_of(parameters: type) -> StructLayout:
    """The layout of a dataclass of integers: its fields in order, each an i64."""
    return StructLayout(parameters.__name__, tuple((field.name, I64) for field in dataclasses.fields(parameters)))


GEMM_RECORD = _layout_of(GemmParameters)
CONVOLUTION_RECORD = _layout_of(ConvolutionParameters)
"""Where the fields lie."""


class Record:
    """Reads fields by name; every read is a load, where it is asked for."""

    def __init__(self, builder: StructuredBuilder, ptr: Value, layout: StructLayout) -> None:
        self._builder = builder
        self._layout = layout
        self.ptr = ptr

    def __getitem__(self, name: str) -> Value:
        return self._layout.load(self._builder, self.ptr, name)

    def flag(self, name: str) -> Value:
        """Whether a field is not zero."""
        return self._builder.icmp_signed("!=", self[name], self._builder.i64(0))
