"""`DynamicParameterBinding`: which s32 scalar parameters of the entry hold the run-time sizes of which dimensions.

A view on the header attribute `dynamic_parameter_binding={ (0, {}, 1): (2, {}) }`: dimension 1 of parameter 0 has the
size that parameter 2 holds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from xjit.dataclass import dataclass
from xjit.hlo.annotations.input_output_alias import subshape_at
from xjit.hlo.diagnostics import HloVerifyError, InvalidArgument
from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.hlo.types.shape import ShapeIndex
from xjit.hlo.types.shape_index import format_shape_index, parse_shape_index

if TYPE_CHECKING:
    from xjit.hlo.ir.module import HloModule

_KEY = "dynamic_parameter_binding"
_INDEX = r"\{([\d,\s]*)\}"
_ENTRY = re.compile(rf"\(\s*(\d+)\s*,\s*{_INDEX}\s*,\s*(\d+)\s*\)\s*:\s*\(\s*(\d+)\s*,\s*{_INDEX}\s*\)\s*,?\s*")


@dataclass(frozen=True, slots=True)
class DynamicSizeParameter:
    """The s32 scalar (an element of a parameter) that holds a size."""

    parameter_number: int
    parameter_index: ShapeIndex = ()


@dataclass(frozen=True, slots=True)
class DynamicDimension:
    """A dimension of an array (an element of a parameter) whose size is known at run time only."""

    parameter_number: int
    parameter_index: ShapeIndex
    dimension: int


Bindings = dict[DynamicDimension, DynamicSizeParameter]
SizeLike = DynamicSizeParameter | tuple[int, Sequence[int]]
DimensionLike = DynamicDimension | tuple[int, Sequence[int], int]


class DynamicParameterBinding:
    """The bindings of a module's entry parameters. A dimension has one binding; a size may serve several dimensions."""

    def __init__(self, module: HloModule) -> None:
        self._module = module

    @property
    def bindings(self) -> Bindings:
        """A copy of all bindings, in the order they were made; InvalidArgument if the header's text is malformed."""
        return _parse(self._module.config.header_attributes.get(_KEY, ""))

    def bind(self, dynamic_parameter: SizeLike, dynamic_dimension: DimensionLike) -> None:
        """Binds a dimension to the scalar that gives its size; InvalidArgument if it is bound or does not exist."""
        size, dimension = _size(dynamic_parameter), _dimension(dynamic_dimension)
        bindings = self.bindings
        if dimension in bindings:
            raise InvalidArgument(f"{_show(dimension)} is already bound to {_show_size(bindings[dimension])}")
        try:
            _check(self._module, dimension, size)
        except HloVerifyError as error:
            raise InvalidArgument(error.message) from None
        bindings[dimension] = size
        entries = ", ".join(f"{_show(d)}: {_show_size(s)}" for d, s in bindings.items())
        self._module.config.header_attributes[_KEY] = f"{{ {entries} }}"

    def get_binding(self, dynamic_dimension: DimensionLike) -> DynamicSizeParameter | None:
        """Returns the scalar that gives the size of a dimension, or None."""
        return self.bindings.get(_dimension(dynamic_dimension))

    def for_each_binding(self, visit: Callable[[DynamicSizeParameter, DynamicDimension], None]) -> None:
        """Calls `visit(size, dimension)` for every binding."""
        for dimension, size in self.bindings.items():
            visit(size, dimension)

    def clear(self) -> None:
        """Removes all bindings."""
        self._module.config.header_attributes.pop(_KEY, None)

    def verify(self, module: HloModule | None = None) -> None:
        """Raises HloVerifyError unless all bindings fit the entry parameters of a module (by default their own)."""
        for dimension, size in self.bindings.items():
            _check(module or self._module, dimension, size)

    def __str__(self) -> str:
        return self._module.config.header_attributes.get(_KEY, "{}")


def _size(value: SizeLike) -> DynamicSizeParameter:
    if isinstance(value, DynamicSizeParameter):
        return value
    return DynamicSizeParameter(value[0], tuple(value[1]))


def _dimension(value: DimensionLike) -> DynamicDimension:
    if isinstance(value, DynamicDimension):
        return value
    return DynamicDimension(value[0], tuple(value[1]), value[2])


def _check(module: HloModule, dimension: DynamicDimension, size: DynamicSizeParameter) -> None:
    what = f"{_KEY} {_show(dimension)}: {_show_size(size)}"
    parameters = module.entry_computation.parameter_instructions
    for number in (dimension.parameter_number, size.parameter_number):
        if not 0 <= number < len(parameters):
            raise HloVerifyError(f"{what}: there are only {len(parameters)} parameters")
    array = subshape_at(parameters[dimension.parameter_number].shape, dimension.parameter_index, what)
    if not array.is_array or not 0 <= dimension.dimension < array.rank:
        raise HloVerifyError(f"{what}: {array} has no dimension {dimension.dimension}")
    scalar = subshape_at(parameters[size.parameter_number].shape, size.parameter_index, what)
    if not scalar.is_scalar or scalar.element_type is not PrimitiveType.S32:
        raise HloVerifyError(f"{what}: the size must be s32[], not {scalar}")


def _parse(text: str) -> Bindings:
    body = text.strip().removeprefix("{").removesuffix("}").strip()
    bindings: Bindings = {}
    position = 0
    while position < len(body):
        match = _ENTRY.match(body, position)
        if match is None:
            raise InvalidArgument(f"{_KEY} '{text}': cannot read '{body[position:]}'")
        number, index, dimension, size_number, size_index = match.groups()
        key = DynamicDimension(int(number), parse_shape_index(index), int(dimension))
        bindings[key] = DynamicSizeParameter(int(size_number), parse_shape_index(size_index))
        position = match.end()
    return bindings


def _show(dimension: DynamicDimension) -> str:
    return f"({dimension.parameter_number}, {format_shape_index(dimension.parameter_index)}, {dimension.dimension})"


def _show_size(size: DynamicSizeParameter) -> str:
    return f"({size.parameter_number}, {format_shape_index(size.parameter_index)})"
