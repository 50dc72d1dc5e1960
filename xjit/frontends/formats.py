"""Which format a file has, by its content. Extensions say nothing.

Imports nothing but the standard library: a serialized module is told from a file that wraps one by its first bytes.
"""

from __future__ import annotations

import enum
import re
import struct


class Format(enum.Enum):
    """The formats of programs; the value is what errors call it."""

    HLO_TEXT = "HLO text"
    HLO_PROTO = "a serialized HloModuleProto, HloProto or HloSnapshot"
    STABLEHLO_TEXT = "StableHLO text"
    STABLEHLO_BYTECODE = "StableHLO bytecode"
    JAX_EXPORT = "a file of jax.export"


_MLIR_MAGIC = b"ML\xefR"
_MLIR = re.compile(r"^\s*(?:builtin\.)?\"?(?:module|func\.func|builtin\.module)\b(?!\s*[:,])[^\n]*[{(]", re.MULTILINE)
_HLO = re.compile(r"^\s*(?:HloModule|ENTRY)\b", re.MULTILINE)
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f\x7f]")


def format_of(data: bytes) -> Format:
    """Returns the format of a file's bytes. What is no text and no known binary form is taken for a proto."""
    if data.startswith(_MLIR_MAGIC):
        return Format.STABLEHLO_BYTECODE
    if _MLIR_MAGIC in data and _is_flatbuffer(data):
        return Format.JAX_EXPORT
    if not _CONTROL.search(data[:4096]):
        return format_of_text(data.decode("utf-8", "replace"))
    return Format.HLO_PROTO


def format_of_text(text: str) -> Format:
    """Returns STABLEHLO_TEXT for MLIR, HLO_TEXT for anything else."""
    return Format.STABLEHLO_TEXT if _MLIR.search(text) and not _HLO.search(text) else Format.HLO_TEXT


def _is_flatbuffer(data: bytes) -> bool:
    """Whether the bytes begin like a flatbuffer: the offset of the root table, which has the offset of its vtable."""
    try:
        (root,) = struct.unpack_from("<I", data, 0)
        (back,) = struct.unpack_from("<i", data, root)
        vtable_bytes, table_bytes = struct.unpack_from("<HH", data, root - back)
    except struct.error:
        return False
    return root >= 4 and root >= back and vtable_bytes >= 4 and vtable_bytes % 2 == 0 and table_bytes >= 4


def unwrap_proto(data: bytes) -> bytes:
    """Returns the HloModuleProto inside of an HloProto or HloSnapshot; other bytes as they are.

    All three have a length-delimited field 1: the module's name, or the message one level further in. No name begins
    with the tag of a field.
    """
    for _ in range(2):
        inner = _first_field(data)
        if inner is None or inner[:1] not in (b"\x0a", b"\x12"):
            break
        data = inner
    return data


def _first_field(data: bytes) -> bytes | None:
    """The bytes of field 1, if the message begins with it and it is length-delimited."""
    if data[:1] != b"\x0a":
        return None
    length = shift = 0
    for position in range(1, min(len(data), 11)):
        byte = data[position]
        length |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            end = position + 1 + length
            return data[position + 1 : end] if end <= len(data) else None
    return None
