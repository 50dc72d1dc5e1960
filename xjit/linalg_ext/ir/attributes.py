"""Attributes: the constants that operations carry. `str(attribute)` is MLIR's syntax; equality is by value."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import copysign
from typing import Any, TypeAlias

from xjit.affine import AffineMap
from xjit.dataclass import dataclass
from xjit.linalg_ext.ir.float_text import float_text
from xjit.linalg_ext.ir.types import (
    Alias,
    FloatType,
    IntegerType,
    TensorType,
    Type,
    VectorType,
    complex_component,
    no_alias,
)

__all__ = [
    "AffineMapAttr",
    "AffineSetAttr",
    "ArrayAttr",
    "Attribute",
    "BoolAttr",
    "DenseArrayAttr",
    "DenseAttr",
    "DenseResourceAttr",
    "DictAttr",
    "EnumAttr",
    "FloatAttr",
    "IntegerAttr",
    "OpaqueAttr",
    "StridedLayoutAttr",
    "StringAttr",
    "SymbolRefAttr",
    "TypeAttr",
    "UnitAttr",
    "dictionary_text",
    "quoted",
]

Scalar: TypeAlias = bool | int | float | complex

_BARE_KEY = re.compile(r"[A-Za-z_][\w$.]*\Z")
_ESCAPES = {'"': '\\"', "\\": "\\\\"}


def quoted(text: str) -> str:
    """Returns a string literal: quotes and backslashes escaped, bytes that do not print as two hex digits."""
    pieces = (_ESCAPES.get(c) or (c if " " <= c <= "~" else _hex_escaped(c)) for c in text)
    return f'"{"".join(pieces)}"'


def _hex_escaped(character: str) -> str:
    return "".join(f"\\{byte:02X}" for byte in character.encode("utf-8", "surrogateescape"))


def dictionary_text(attributes: Mapping[str, Attribute], alias: Alias = no_alias) -> str:
    """Returns `{a = 1, unit}`."""
    entries: list[str] = []
    for name, value in attributes.items():
        key = name if _BARE_KEY.match(name) else quoted(name)
        entries.append(key if isinstance(value, UnitAttr) else f"{key} = {value.text(alias)}")
    return f"{{{', '.join(entries)}}}"


def element_text(attribute: Attribute, alias: Alias) -> str:
    """Returns the syntax inside a list, where 64-bit numbers do not tell their type."""
    if isinstance(attribute, IntegerAttr) and attribute.type == IntegerType(64):
        return str(attribute.value)
    if isinstance(attribute, FloatAttr) and attribute.type.name == "f64":
        return float_text(attribute.value, "f64")
    return attribute.text(alias)


class Attribute:
    """Base of all attributes."""

    __slots__ = ()

    def text(self, alias: Alias) -> str:
        """Returns the attribute's syntax, with the names that `alias` gives to attributes inside."""
        raise NotImplementedError

    def __str__(self) -> str:
        return self.text(no_alias)


@dataclass(frozen=True, slots=True)
class UnitAttr(Attribute):
    """`unit`: there or not there is all it says."""

    def text(self, alias: Alias) -> str:
        return "unit"


@dataclass(frozen=True, slots=True)
class BoolAttr(Attribute):
    """`true`, `false`."""

    value: bool

    def text(self, alias: Alias) -> str:
        return "true" if self.value else "false"


@dataclass(frozen=True, slots=True)
class IntegerAttr(Attribute):
    """`1 : i64`, `1 : index`."""

    value: int
    type: Type

    def text(self, alias: Alias) -> str:
        return f"{self.value} : {self.type.text(alias)}"


@dataclass(frozen=True, slots=True, eq=False)
class FloatAttr(Attribute):
    """`1.000000e+00 : f32`. Zeros of either sign differ, and NaNs are equal."""

    value: float
    type: FloatType

    def text(self, alias: Alias) -> str:
        return f"{float_text(self.value, self.type.name)} : {self.type.name}"

    def _key(self) -> tuple[object, ...]:
        return (_scalar_key(self.value), self.type)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FloatAttr) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())


def _scalar_key(value: Scalar) -> object:
    if isinstance(value, float):
        return "nan" if value != value else (value, copysign(1.0, value))
    return value


@dataclass(frozen=True, slots=True)
class StringAttr(Attribute):
    """`"text"`."""

    value: str

    def text(self, alias: Alias) -> str:
        return quoted(self.value)


@dataclass(frozen=True, slots=True)
class ArrayAttr(Attribute):
    """`[1, "a"]`."""

    elements: tuple[Attribute, ...]

    def text(self, alias: Alias) -> str:
        return f"[{', '.join(element_text(element, alias) for element in self.elements)}]"


@dataclass(frozen=True, slots=True)
class DictAttr(Attribute):
    """`{a = 1, b}`; entries in the order of the text."""

    entries: tuple[tuple[str, Attribute], ...]

    def text(self, alias: Alias) -> str:
        return dictionary_text(dict(self.entries), alias)


@dataclass(frozen=True, slots=True)
class TypeAttr(Attribute):
    """`f32` as an attribute."""

    type: Type

    def text(self, alias: Alias) -> str:
        return self.type.text(alias)


@dataclass(frozen=True, slots=True)
class SymbolRefAttr(Attribute):
    """`@name`, `@outer::@inner`; `name` is the root, `nested` what follows."""

    name: str
    nested: tuple[str, ...] = ()

    def text(self, alias: Alias) -> str:
        return "::".join(f"@{n if _BARE_KEY.match(n) else quoted(n)}" for n in (self.name, *self.nested))


@dataclass(frozen=True, slots=True)
class AffineMapAttr(Attribute):
    """`affine_map<(d0) -> (d0)>`, by its alias where there is one."""

    map: AffineMap

    def text(self, alias: Alias) -> str:
        return alias(self) or f"affine_map<{self.map.text(ceiled=True)}>"


@dataclass(frozen=True, slots=True)
class AffineSetAttr(Attribute):
    """`affine_set<(d0) : (d0 - 1 >= 0)>`: the constraints are results of `map`; `equalities` tells == 0 from >= 0."""

    map: AffineMap
    equalities: tuple[bool, ...]

    def text(self, alias: Alias) -> str:
        named = alias(self)
        if named:
            return named
        variables = str(self.map).split(" -> ")[0]
        constraints = [f"{e} {'==' if eq else '>='} 0" for e, eq in zip(self.map.results, self.equalities)]
        return f"affine_set<{variables} : ({', '.join(constraints)})>"


@dataclass(frozen=True, slots=True)
class StridedLayoutAttr(Attribute):
    """`strided<[?, 1], offset: ?>`; None is a value known at run time only."""

    strides: tuple[int | None, ...]
    offset: int | None = 0

    def text(self, alias: Alias) -> str:
        strides = ", ".join("?" if s is None else str(s) for s in self.strides)
        offset = "" if self.offset == 0 else f", offset: {'?' if self.offset is None else self.offset}"
        return f"strided<[{strides}]{offset}>"


def _element_text(value: Scalar, t: Type) -> str:
    component = complex_component(t)
    if component is not None:
        number = complex(value)
        parts = (number.real, number.imag) if isinstance(component, FloatType) else (int(number.real), int(number.imag))
        return f"({','.join(_element_text(part, component) for part in parts)})"
    if isinstance(t, FloatType):
        assert not isinstance(value, complex)
        return float_text(float(value), t.name)
    if t == IntegerType(1):
        return "true" if value else "false"
    return str(value)


@dataclass(frozen=True, slots=True, eq=False)
class DenseAttr(Attribute):
    """`dense<1.0> : tensor<4xf32>`: `values` are the elements in row-major order, or the one that all of them have."""

    values: tuple[Scalar, ...]
    type: TensorType | VectorType

    @property
    def is_splat(self) -> bool:
        return len(self.values) == 1

    def text(self, alias: Alias) -> str:
        element = self.type.element
        if self.is_splat and 0 not in self.type.shape:
            body = _element_text(self.values[0], element)
        elif not self.values:
            body = ""
        else:
            body = self._nested([_element_text(v, element) for v in self.values])
        return f"dense<{body}> : {self.type.text(alias)}"

    def _nested(self, texts: list[str]) -> str:
        for size in reversed(self.type.shape):
            assert size is not None
            texts = [f"[{', '.join(texts[i : i + size])}]" for i in range(0, len(texts), size)]
        return texts[0]

    def _key(self) -> tuple[object, ...]:
        return (tuple(map(_scalar_key, self.values)), self.type)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DenseAttr) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())


@dataclass(frozen=True, slots=True)
class DenseResourceAttr(Attribute):
    """`dense_resource<name> : tensor<4xf32>`: elements that stand elsewhere, or were left out (`__elided__`)."""

    name: str
    type: Type

    def text(self, alias: Alias) -> str:
        return f"dense_resource<{self.name}> : {self.type.text(alias)}"


@dataclass(frozen=True, slots=True)
class DenseArrayAttr(Attribute):
    """`array<i64: 1, 2>`: a list of scalars of the type `element`."""

    element: Type
    values: tuple[Scalar, ...]

    @staticmethod
    def i64(values: Any) -> DenseArrayAttr:
        """Returns `array<i64: ...>` of some integers."""
        return DenseArrayAttr(IntegerType(64), tuple(values))

    @staticmethod
    def i32(values: Any) -> DenseArrayAttr:
        """Returns `array<i32: ...>` of some integers."""
        return DenseArrayAttr(IntegerType(32), tuple(values))

    @property
    def ints(self) -> tuple[int, ...]:
        """The values of an array of integers."""
        return tuple(int(v) for v in self.values if not isinstance(v, complex))

    def text(self, alias: Alias) -> str:
        values = ", ".join(_element_text(v, self.element) for v in self.values)
        return f"array<{self.element.text(alias)}{': ' if values else ''}{values}>"


@dataclass(frozen=True, slots=True)
class EnumAttr(Attribute):
    """`#linalg.iterator_type<parallel>`: `dialect` is what stands before the brackets, `value` what is inside."""

    dialect: str
    value: str

    def text(self, alias: Alias) -> str:
        return f"#{self.dialect}<{self.value}>"


@dataclass(frozen=True, slots=True)
class OpaqueAttr(Attribute):
    """Any other attribute, as it is written: `#gpu.address_space<workgroup>`, `loc(unknown)`."""

    spelling: str

    def text(self, alias: Alias) -> str:
        return self.spelling
