"""The attributes of HLO instructions as frozen dataclasses: one class per family of opcodes.

A field names its key in HLO text and the codec (xjit/hlo/attributes/codecs) that reads and writes it; parser,
printer, hashing and error messages all walk these fields, so an attribute is declared once. Called computations are
not here: they are references, kept in `HloInstruction.called_computations`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, TypeVar

from xjit.hlo.types.literal import Literal
from xjit.hlo.types.shape import Shape

T = TypeVar("T")


def attr(codec: str, default: Any = dataclasses.MISSING, key: str | None = None, always: bool = False) -> Any:
    """Declares an attribute field: its codec, its default (none: required), its key if not the field's name.

    A default is not printed unless `always`: XLA's parser insists on some keys whatever their value.
    """
    metadata = {"codec": codec, "key": key, "always": always}
    if default is dataclasses.MISSING:
        return dataclasses.field(metadata=metadata)
    return dataclasses.field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True)
class WindowDimension:
    """One dimension of a window, in elements."""

    size: int = 1
    stride: int = 1
    padding_low: int = 0
    padding_high: int = 0
    window_dilation: int = 1
    base_dilation: int = 1
    window_reversal: bool = False


@dataclass(frozen=True, slots=True)
class Window:
    """The window of a convolution, reduce-window or select-and-scatter."""

    dimensions: tuple[WindowDimension, ...] = ()


@dataclass(frozen=True, slots=True)
class PaddingDimension:
    """Padding of one dimension; negative edges crop."""

    edge_padding_low: int = 0
    edge_padding_high: int = 0
    interior_padding: int = 0


@dataclass(frozen=True, slots=True)
class SliceDimension:
    """`[start:limit:stride]` of one dimension."""

    start: int
    limit: int
    stride: int = 1


@dataclass(frozen=True, slots=True)
class ConvolutionDimensionNumbers:
    """Which dimension of input, kernel and output plays which role (`b01f_01io->b01f`)."""

    input_batch_dimension: int
    input_feature_dimension: int
    input_spatial_dimensions: tuple[int, ...]
    kernel_input_feature_dimension: int
    kernel_output_feature_dimension: int
    kernel_spatial_dimensions: tuple[int, ...]
    output_batch_dimension: int
    output_feature_dimension: int
    output_spatial_dimensions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ReplicaGroups:
    """Replica groups of a collective; `text` keeps the compact spelling (`[2,4]<=[8]`) if it came in one."""

    groups: tuple[tuple[int, ...], ...] = ()
    text: str = ""


class Attributes:
    """Base of all attribute classes."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class NoAttributes(Attributes):
    """Opcodes without attributes."""


NO_ATTRIBUTES = NoAttributes()


@dataclass(frozen=True, slots=True)
class ParameterAttributes(Attributes):
    parameter_number: int = attr("in_parentheses")
    parameter_replication: tuple[bool, ...] = attr("bool_list", ())


@dataclass(frozen=True, slots=True)
class ConstantAttributes(Attributes):
    literal: Literal = attr("in_parentheses")


@dataclass(frozen=True, slots=True)
class DimensionsAttributes(Attributes):
    """broadcast, transpose, reverse, reduce, map."""

    dimensions: tuple[int, ...] = attr("int_list", (), always=True)


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
class DimensionAttributes(Attributes):
    """get-dimension-size, set-dimension-size."""

    dimension: int = attr("int_in_list", key="dimensions")


@dataclass(frozen=True, slots=True)
class IotaAttributes(Attributes):
    iota_dimension: int = attr("int", 0, always=True)


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
class GetTupleElementAttributes(Attributes):
    index: int = attr("int")


@dataclass(frozen=True, slots=True)
class ReducePrecisionAttributes(Attributes):
    exponent_bits: int = attr("int")
    mantissa_bits: int = attr("int")


@dataclass(frozen=True, slots=True)
class ResultAccuracyAttributes(Attributes):
    """Transcendental unary opcodes."""

    result_accuracy: str = attr("result_accuracy", "")


@dataclass(frozen=True, slots=True)
class DotAttributes(Attributes):
    lhs_batch_dims: tuple[int, ...] = attr("int_list", ())
    lhs_contracting_dims: tuple[int, ...] = attr("int_list", ())
    rhs_batch_dims: tuple[int, ...] = attr("int_list", ())
    rhs_contracting_dims: tuple[int, ...] = attr("int_list", ())
    operand_precision: tuple[str, ...] = attr("precisions", ())
    algorithm: str = attr("dot_algorithm", "")
    sparsity: str = attr("word", "")


@dataclass(frozen=True, slots=True)
class RaggedDotAttributes(Attributes):
    lhs_batch_dims: tuple[int, ...] = attr("int_list", ())
    lhs_contracting_dims: tuple[int, ...] = attr("int_list", ())
    rhs_batch_dims: tuple[int, ...] = attr("int_list", ())
    rhs_contracting_dims: tuple[int, ...] = attr("int_list", ())
    lhs_ragged_dims: tuple[int, ...] = attr("int_list", ())
    rhs_group_dims: tuple[int, ...] = attr("int_list", ())
    operand_precision: tuple[str, ...] = attr("precisions", ())


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvolutionAttributes(Attributes):
    window: Window = attr("window", Window())
    dim_labels: ConvolutionDimensionNumbers = attr("dim_labels")
    feature_group_count: int = attr("int", 1)
    batch_group_count: int = attr("int", 1)
    conv_kind: str = attr("word", "")
    operand_precision: tuple[str, ...] = attr("precisions", ())


@dataclass(frozen=True, slots=True)
class WindowAttributes(Attributes):
    """reduce-window, select-and-scatter."""

    window: Window = attr("window", Window())


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherAttributes(Attributes):
    offset_dims: tuple[int, ...] = attr("int_list")
    collapsed_slice_dims: tuple[int, ...] = attr("int_list")
    start_index_map: tuple[int, ...] = attr("int_list")
    operand_batching_dims: tuple[int, ...] = attr("int_list", ())
    start_indices_batching_dims: tuple[int, ...] = attr("int_list", ())
    index_vector_dim: int = attr("int")
    slice_sizes: tuple[int, ...] = attr("int_list")
    indices_are_sorted: bool = attr("bool", False)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScatterAttributes(Attributes):
    update_window_dims: tuple[int, ...] = attr("int_list")
    inserted_window_dims: tuple[int, ...] = attr("int_list")
    scatter_dims_to_operand_dims: tuple[int, ...] = attr("int_list")
    input_batching_dims: tuple[int, ...] = attr("int_list", ())
    scatter_indices_batching_dims: tuple[int, ...] = attr("int_list", ())
    index_vector_dim: int = attr("int")
    indices_are_sorted: bool = attr("bool", False)
    unique_indices: bool = attr("bool", False)


@dataclass(frozen=True, slots=True)
class SortAttributes(Attributes):
    dimensions: tuple[int, ...] = attr("int_list", (), always=True)
    is_stable: bool = attr("bool", False)

    @property
    def sort_dimension(self) -> int:
        """The dimension along which elements are sorted."""
        return self.dimensions[0]


@dataclass(frozen=True, slots=True)
class TopKAttributes(Attributes):
    k: int = attr("int")
    largest: bool = attr("bool", True, always=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanAttributes(Attributes):
    dimensions: tuple[int, ...] = attr("int_list")
    num_carries: int = attr("int")
    is_reverse: bool = attr("bool", False)
    is_associative: str = attr("word", "")


@dataclass(frozen=True, slots=True)
class FftAttributes(Attributes):
    fft_type: str = attr("fft_type")
    fft_length: tuple[int, ...] = attr("int_list")


@dataclass(frozen=True, slots=True)
class TriangularSolveAttributes(Attributes):
    left_side: bool = attr("bool", False)
    lower: bool = attr("bool", False)
    unit_diagonal: bool = attr("bool", False)
    transpose_a: str = attr("transpose", "NO_TRANSPOSE", always=True)


@dataclass(frozen=True, slots=True)
class CholeskyAttributes(Attributes):
    lower: bool = attr("bool", False)


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
class BatchNormAttributes(Attributes):
    epsilon: float = attr("float")
    feature_index: int = attr("int")


@dataclass(frozen=True, slots=True)
class FusionAttributes(Attributes):
    kind: str = attr("fusion_kind", "kLoop", always=True)
    output_to_operand_aliasing: str = attr("raw_braces", "")


@dataclass(frozen=True, slots=True)
class CallAttributes(Attributes):
    is_composite: bool = attr("bool", False)
    output_to_operand_aliasing: str = attr("raw_braces", "")


@dataclass(frozen=True, slots=True)
class CustomCallAttributes(Attributes):
    custom_call_target: str = attr("string")
    window: Window | None = attr("window", None)
    dim_labels: ConvolutionDimensionNumbers | None = attr("dim_labels", None)
    feature_group_count: int = attr("int", 1)
    batch_group_count: int = attr("int", 1)
    custom_call_has_side_effect: bool = attr("bool", False)
    operand_layout_constraints: tuple[Shape, ...] | None = attr("shape_list", None)
    output_to_operand_aliasing: str = attr("raw_braces", "")
    api_version: str = attr("api_version", "")
    schedule: str = attr("schedule", "")
    literal: Literal | None = attr("literal", None)
    padding_type: str = attr("padding_type", "")
    operand_precision: tuple[str, ...] = attr("precisions", ())


@dataclass(frozen=True, slots=True)
class DomainAttributes(Attributes):
    domain: str = attr("raw_braces")


@dataclass(frozen=True, slots=True)
class CollectiveAttributes(Attributes):
    """all-reduce, collective-broadcast, all-to-all, ragged-all-to-all and their start forms."""

    channel_id: int | None = attr("int", None)
    replica_groups: ReplicaGroups = attr("replica_groups", ReplicaGroups(), always=True)
    constrain_layout: bool = attr("bool", False)
    use_global_device_ids: bool = attr("bool", False)
    dimensions: tuple[int, ...] = attr("int_list", ())  # all-gather, reduce-scatter, all-to-all


@dataclass(frozen=True, slots=True)
class CollectivePermuteAttributes(Attributes):
    channel_id: int | None = attr("int", None)
    source_target_pairs: tuple[tuple[int, ...], ...] = attr("int_lists", (), always=True)
    slice_sizes: tuple[tuple[int, ...], ...] = attr("int_lists", ())


@dataclass(frozen=True, slots=True)
class ChannelAttributes(Attributes):
    """send, recv and their done forms."""

    channel_id: int | None = attr("int", None)
    is_host_transfer: bool = attr("bool", False)


@dataclass(frozen=True, slots=True)
class InfeedAttributes(Attributes):
    infeed_config: str = attr("string", "")


@dataclass(frozen=True, slots=True)
class OutfeedAttributes(Attributes):
    outfeed_config: str = attr("string", "")
    outfeed_shape: Shape | None = attr("shape", None)


@dataclass(frozen=True, slots=True)
class CopyStartAttributes(Attributes):
    cross_program_prefetch_index: int | None = attr("int", None)


@dataclass(frozen=True, slots=True)
class AsyncAttributes(Attributes):
    async_group_id: int | None = attr("int", None)
    async_execution_thread: str = attr("string", "")
    output_to_operand_aliasing: str = attr("raw_braces", "")
