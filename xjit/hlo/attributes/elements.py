"""Attributes of opcodes that make, move and compute elements: leaves, elementwise opcodes, slices, pads."""

from __future__ import annotations

from xjit.dataclass import dataclass
from xjit.hlo.attributes.declaration import Attributes, attr
from xjit.hlo.attributes.values import PaddingDimension, SliceDimension
from xjit.hlo.types.literal import Literal


@dataclass(frozen=True, slots=True)
class ParameterAttributes(Attributes):
    parameter_number: int = attr("in_parentheses")
    parameter_replication: tuple[bool, ...] = attr("bool_list", ())


@dataclass(frozen=True, slots=True)
class ConstantAttributes(Attributes):
    literal: Literal = attr("in_parentheses")


@dataclass(frozen=True, slots=True)
class IotaAttributes(Attributes):
    iota_dimension: int = attr("int", 0, always=True)


@dataclass(frozen=True, slots=True)
class RngAttributes(Attributes):
    distribution: str = attr("rng_distribution")


@dataclass(frozen=True, slots=True)
class RngBitGeneratorAttributes(Attributes):
    algorithm: str = attr("rng_algorithm")


@dataclass(frozen=True, slots=True)
class RngStateAttributes(Attributes):
    delta: int = attr("int", 0, always=True)


@dataclass(frozen=True, slots=True)
class DimensionsAttributes(Attributes):
    """broadcast, transpose, reverse, reduce, map."""

    dimensions: tuple[int, ...] = attr("int_list", (), always=True)


@dataclass(frozen=True, slots=True)
class DimensionAttributes(Attributes):
    """get-dimension-size, set-dimension-size."""

    dimension: int = attr("int_in_list", key="dimensions")


@dataclass(frozen=True, slots=True)
class ReshapeAttributes(Attributes):
    inferred_dimension: int = attr("int", -1)


@dataclass(frozen=True, slots=True)
class ConcatenateAttributes(Attributes):
    dimension: int = attr("int_in_list", key="dimensions")

    @property
    def dimensions(self) -> tuple[int, ...]:
        """The dimension as the list that HLO text has."""
        return (self.dimension,)


@dataclass(frozen=True, slots=True)
class SliceAttributes(Attributes):
    slice: tuple[SliceDimension, ...] = attr("slice_ranges")

    @property
    def starts(self) -> tuple[int, ...]:
        """First index read per dimension."""
        return tuple(d.start for d in self.slice)

    @property
    def limits(self) -> tuple[int, ...]:
        """Exclusive end per dimension."""
        return tuple(d.limit for d in self.slice)

    @property
    def strides(self) -> tuple[int, ...]:
        """Step per dimension."""
        return tuple(d.stride for d in self.slice)


@dataclass(frozen=True, slots=True)
class DynamicSliceAttributes(Attributes):
    dynamic_slice_sizes: tuple[int, ...] = attr("int_list")


@dataclass(frozen=True, slots=True)
class PadAttributes(Attributes):
    padding: tuple[PaddingDimension, ...] = attr("padding")


@dataclass(frozen=True, slots=True)
class CompareAttributes(Attributes):
    direction: str = attr("comparison_direction")
    type: str = attr("comparison_type", "")  # empty: the default of the operand type


@dataclass(frozen=True, slots=True)
class ReducePrecisionAttributes(Attributes):
    exponent_bits: int = attr("int")
    mantissa_bits: int = attr("int")


@dataclass(frozen=True, slots=True)
class ResultAccuracyAttributes(Attributes):
    """Transcendental unary opcodes."""

    result_accuracy: str = attr("result_accuracy", "")
