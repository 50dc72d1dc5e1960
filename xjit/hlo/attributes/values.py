"""What fields of attributes hold besides numbers, texts, shapes and literals."""

from __future__ import annotations

from xjit.dataclass import dataclass


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
