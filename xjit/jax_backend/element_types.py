"""The element types of buffers: their widths in memory."""

from __future__ import annotations

from typing import Final

from xjit.hlo.diagnostics import Unsupported
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.jax_backend.c_api import BUFFER_TYPES

BYTE_WIDTHS: Final = {kind.text: kind.byte_width for kind in PrimitiveType if kind.is_array}
"""Bytes of an element, by HLO's name of its type; narrow ones take a byte."""


def byte_width(kind: int) -> int:
    """Bytes of an element of a PJRT type. Errors: Unsupported for types that arrays do not have."""
    name = BUFFER_TYPES[kind] if 0 <= kind < len(BUFFER_TYPES) else str(kind)
    if name not in BYTE_WIDTHS:
        raise Unsupported(f"arrays of the type {name}")
    return BYTE_WIDTHS[name]


def element_size_in_bits(kind: PrimitiveType) -> int:
    """What XLA's layouts say of types of less than a byte, beside how arrays lie in memory; 0 for others."""
    return kind.bit_width if kind.bit_width < 8 and kind is not PrimitiveType.PRED else 0
