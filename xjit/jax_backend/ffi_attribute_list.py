"""The attributes of a call of XLA's typed interface: from a dictionary in MLIR's syntax to the structs of C."""

from __future__ import annotations

import ctypes
import re
from typing import Any, Final

from xjit.hlo.diagnostics import Unsupported
from xjit.jax_backend.ffi_structs import Array, Attributes, Scalar, Span

_ARRAY, _SCALAR, _STRING = 1, 3, 4  # XLA_FFI_AttrType

_ATTRIBUTE_TYPES: Final = {
    "i1": (1, ctypes.c_bool), "i8": (2, ctypes.c_int8), "i16": (3, ctypes.c_int16), "i32": (4, ctypes.c_int32),
    "i64": (5, ctypes.c_int64), "ui8": (6, ctypes.c_uint8), "ui16": (7, ctypes.c_uint16), "ui32": (8, ctypes.c_uint32),
    "ui64": (9, ctypes.c_uint64), "f32": (11, ctypes.c_float), "f64": (12, ctypes.c_double),
}  # fmt: skip
"""The data type and the C type of MLIR's types of numbers."""


_ATTRIBUTE = re.compile(
    r"\s*(?P<name>[\w.$-]+|\"[^\"]*\")\s*=\s*"
    r"(?:(?P<text>\"(?:[^\"\\]|\\.)*\")|(?P<bool>true|false)|array<(?P<kind>\w+)(?::(?P<items>[^>]*))?>"
    r"|dense<\[?(?P<elements>[^\]>\"]*)\]?>\s*:\s*tensor<(?P<count>\d+)x(?P<dense>\w+)>"
    r"|(?P<number>[-+]?\d[\d.eE+-]*)\s*:\s*(?P<type>\w+))\s*(?:,|\Z)"
)


class AttributeList:
    """The attributes of a call as the C struct; `kept` is what it points to."""

    def __init__(self, text: str) -> None:
        self.kept: list[Any] = []
        body = text.strip()
        body = body[1:-1].strip() if body.startswith("{") else ""
        rows: list[tuple[bytes, int, int]] = []
        position = 0
        while position < len(body):
            match = _ATTRIBUTE.match(body, position)
            if match is None:
                raise Unsupported(f"the attributes {text!r} of a call of XLA's FFI: numbers, texts and arrays are read")
            rows.append((match["name"].strip('"').encode(), *self._value(match)))
            position = match.end()
        rows.sort()  # handlers look for names in this order
        count = len(rows)
        names = [self._keep(Span(self._text(name), len(name))) for name, _, _ in rows]
        self.struct = Attributes(
            size=count,
            types=self._keep((ctypes.c_int * count)(*(kind for _, kind, _ in rows))),
            names=self._keep((ctypes.c_void_p * count)(*names)),
            values=self._keep((ctypes.c_void_p * count)(*(value for _, _, value in rows))),
        )

    def _value(self, match: re.Match[str]) -> tuple[int, int]:
        if match["text"] is not None:
            text = _unquoted(match["text"][1:-1])
            return _STRING, self._keep(Span(self._text(text), len(text)))
        kind = match["kind"] or match["dense"]
        if kind is not None:
            dtype, ctype = _attribute_type(kind)
            items = (match["items"] or match["elements"] or "").split(",")
            values = [_number(item, ctype) for item in items if item.strip()]
            if match["dense"] is not None and len(values) == 1:
                values *= int(match["count"])  # all of them
            data = self._keep((ctype * len(values))(*values))
            return _ARRAY, self._keep(Array(dtype, len(values), data))
        name, literal = ("i1", match["bool"]) if match["bool"] else (match["type"], match["number"])
        dtype, ctype = _attribute_type(name)
        return _SCALAR, self._keep(Scalar(dtype, self._keep(ctype(_number(literal, ctype)))))

    def _text(self, text: bytes) -> int:
        return self._keep(ctypes.create_string_buffer(text))

    def _keep(self, data: Any) -> int:
        self.kept.append(data)
        return ctypes.addressof(data)


def _attribute_type(name: str) -> tuple[int, Any]:
    if name not in _ATTRIBUTE_TYPES:
        raise Unsupported(f"an attribute of the type {name} of a call of XLA's FFI")
    return _ATTRIBUTE_TYPES[name]


def _number(literal: str, ctype: Any) -> int | float | bool:
    text = literal.strip()
    if text in ("true", "false"):
        return text == "true"
    return float(text) if ctype in (ctypes.c_float, ctypes.c_double) else int(text)


def _unquoted(text: str) -> bytes:
    r"""MLIR's text without its escapes: `\\`, `\"`, and bytes as `\0A`."""
    plain = re.sub(rb"\\([0-9A-Fa-f]{2})", lambda m: bytes([int(m[1], 16)]), text.encode())
    return plain.replace(b'\\"', b'"').replace(b"\\\\", b"\\")
