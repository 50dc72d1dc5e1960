"""Attributes of opcodes that are an algorithm each: gathers, windows, sorts, products, factorizations."""

from __future__ import annotations

from xjit.dataclass import dataclass
from xjit.hlo.attributes.declaration import Attributes, attr
from xjit.hlo.attributes.values import ConvolutionDimensionNumbers, Window


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
class WindowAttributes(Attributes):
    """reduce-window, select-and-scatter."""

    window: Window = attr("window", Window())


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
    convolution_kind: str = attr("word", "")
    sparsity_config: str = attr("raw_braces", "")
    operand_precision: tuple[str, ...] = attr("precisions", ())


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
class BatchNormAttributes(Attributes):
    epsilon: float = attr("float")
    feature_index: int = attr("int")
