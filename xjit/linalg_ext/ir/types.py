"""MLIR's builtin types, and types of other dialects as text. `str(type)` is MLIR's syntax; equality is by value."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import TYPE_CHECKING, TypeAlias

from xjit.dataclass import dataclass

if TYPE_CHECKING:
    from xjit.linalg_ext.ir.attributes import Attribute

__all__ = [
    "Alias",
    "DialectType",
    "FloatType",
    "FunctionType",
    "IndexType",
    "IntegerType",
    "MemRefType",
    "NoneType",
    "Shape",
    "TensorType",
    "Type",
    "UnrankedMemRefType",
    "UnrankedTensorType",
    "VectorType",
    "element_type",
    "no_alias",
]

Shape: TypeAlias = tuple[int | None, ...]
"""Sizes of dimensions; None is a size that is known at run time only (`?`)."""

Alias: TypeAlias = Callable[["Attribute"], str | None]
"""Gives the name under which the printer has defined an attribute (`#map`), or None."""


def no_alias(attribute: Attribute) -> str | None:
    """The alias function of a text that stands alone."""
    return None


class Type:
    """Base of all types."""

    __slots__ = ()

    def text(self, alias: Alias) -> str:
        """Returns the type's syntax, with the names that `alias` gives to attributes inside."""
        raise NotImplementedError

    def __str__(self) -> str:
        return self.text(no_alias)


@dataclass(frozen=True, slots=True)
class IndexType(Type):
    """`index`: the integer type of sizes and subscripts, 64 bits here."""

    def text(self, alias: Alias) -> str:
        return "index"


@dataclass(frozen=True, slots=True)
class NoneType(Type):
    """`none`."""

    def text(self, alias: Alias) -> str:
        return "none"


@dataclass(frozen=True, slots=True)
class IntegerType(Type):
    """`i32`, `si8`, `ui8`: `signedness` is "", "s" or "u"."""

    width: int
    signedness: str = ""

    def text(self, alias: Alias) -> str:
        return f"{self.signedness}i{self.width}"


@dataclass(frozen=True, slots=True)
class FloatType(Type):
    """`f32`, `bf16`, `f8E4M3FN`, by name."""

    name: str

    def text(self, alias: Alias) -> str:
        return self.name

    @property
    def width(self) -> int:
        """Bits of a value."""
        digits = self.name.removeprefix("bf").removeprefix("tf").removeprefix("f").split("E")[0]
        return int(digits)


def _dimensions(shape: Shape) -> str:
    return "".join(f"{'?' if size is None else size}x" for size in shape)


@dataclass(frozen=True, slots=True)
class TensorType(Type):
    """`tensor<4x?xf32>`: a value with a shape, without a place in memory."""

    shape: Shape
    element: Type
    encoding: Attribute | None = None

    def text(self, alias: Alias) -> str:
        encoding = "" if self.encoding is None else f", {self.encoding.text(alias)}"
        return f"tensor<{_dimensions(self.shape)}{self.element.text(alias)}{encoding}>"

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def has_static_shape(self) -> bool:
        return None not in self.shape

    @property
    def num_elements(self) -> int:
        """Number of elements of a static shape; ValueError for others."""
        return _num_elements(self.shape)

    def with_shape(self, shape: Shape) -> TensorType:
        return TensorType(tuple(shape), self.element, self.encoding)


@dataclass(frozen=True, slots=True)
class MemRefType(Type):
    """`memref<4x?xf32, strided<[?, 1]>, 1>`: a buffer; no layout means row-major, no space the default one."""

    shape: Shape
    element: Type
    layout: Attribute | None = None
    memory_space: Attribute | None = None

    def text(self, alias: Alias) -> str:
        tail = [part.text(alias) for part in (self.layout, self.memory_space) if part is not None]
        tail = [part.removesuffix(" : i64") for part in tail]
        return f"memref<{_dimensions(self.shape)}{', '.join([self.element.text(alias), *tail])}>"

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def has_static_shape(self) -> bool:
        return None not in self.shape

    @property
    def num_elements(self) -> int:
        """Number of elements of a static shape; ValueError for others."""
        return _num_elements(self.shape)

    def with_shape(self, shape: Shape) -> MemRefType:
        """Returns the type of another shape in the same space, row-major."""
        return MemRefType(tuple(shape), self.element, None, self.memory_space)


def _num_elements(shape: Shape) -> int:
    sizes = [size for size in shape if size is not None]
    if len(sizes) != len(shape):
        raise ValueError(f"shape {shape} has sizes that are known at run time only")
    return prod(sizes)


@dataclass(frozen=True, slots=True)
class UnrankedTensorType(Type):
    """`tensor<*xf32>`."""

    element: Type

    def text(self, alias: Alias) -> str:
        return f"tensor<*x{self.element.text(alias)}>"


@dataclass(frozen=True, slots=True)
class UnrankedMemRefType(Type):
    """`memref<*xf32>`."""

    element: Type
    memory_space: Attribute | None = None

    def text(self, alias: Alias) -> str:
        space = "" if self.memory_space is None else f", {self.memory_space.text(alias).removesuffix(' : i64')}"
        return f"memref<*x{self.element.text(alias)}{space}>"


@dataclass(frozen=True, slots=True)
class VectorType(Type):
    """`vector<4x[8]xf32>`: `scalable` marks the dimensions in brackets."""

    shape: tuple[int, ...]
    element: Type
    scalable: tuple[bool, ...] = ()

    def text(self, alias: Alias) -> str:
        marks = self.scalable or (False,) * len(self.shape)
        sizes = "".join(f"[{size}]x" if mark else f"{size}x" for size, mark in zip(self.shape, marks))
        return f"vector<{sizes}{self.element.text(alias)}>"


@dataclass(frozen=True, slots=True)
class FunctionType(Type):
    """`(f32, f32) -> f32`."""

    inputs: tuple[Type, ...]
    results: tuple[Type, ...]

    def text(self, alias: Alias) -> str:
        inputs = ", ".join(t.text(alias) for t in self.inputs)
        results = ", ".join(t.text(alias) for t in self.results)
        single = len(self.results) == 1 and not isinstance(self.results[0], FunctionType)
        return f"({inputs}) -> {results if single else f'({results})'}"


@dataclass(frozen=True, slots=True)
class DialectType(Type):
    """A type of another dialect, as it is written: `!transform.any_op`, `tuple<f32>`."""

    spelling: str

    def text(self, alias: Alias) -> str:
        return self.spelling


def complex_component(t: Type) -> Type | None:
    """Returns the type of the real part of a complex type, which is written as those of other dialects are."""
    name = t.spelling.removeprefix("complex<")[:-1] if isinstance(t, DialectType) else ""
    if not name or not isinstance(t, DialectType) or not t.spelling.startswith("complex<"):
        return None
    return IntegerType(int(name[1:])) if name[0] == "i" else FloatType(name)


def element_type(t: Type) -> Type:
    """Returns the type of the elements of a tensor, memref or vector, and any other type itself."""
    if isinstance(t, TensorType | MemRefType | VectorType | UnrankedTensorType | UnrankedMemRefType):
        return t.element
    return t
