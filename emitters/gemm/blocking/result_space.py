"""How multiplications and convolutions number the elements of their results: batch, row and column.

An epilogue gets tiles in these numbers. Any dimension order and layout of a result is a matter of strides, so the
place of an element is an affine expression of the three.
"""

from __future__ import annotations

import math

from xjit.affine import AffineExpr
from xjit.affine.reshape import delinearize
from xjit.dataclass import dataclass
from xjit.emitters.gemm.blocking.convolution_dimensions import as_gemm, is_depthwise, spatial_dimensions
from xjit.emitters.gemm.blocking.convolution_shapes import ConvolutionShape
from xjit.emitters.gemm.blocking.shapes import GemmShape

Dimension = tuple[int, int]
"""(size, stride in elements of the result)"""


@dataclass(frozen=True, slots=True)
class ResultSpace:
    """The dimensions that each number runs over, outermost first, and the place of the first element."""

    batch: tuple[Dimension, ...]
    rows: tuple[Dimension, ...]
    columns: Dimension
    start: int = 0

    @property
    def num_batches(self) -> int:
        """How many batches there are."""
        return math.prod(size for size, _ in self.batch)

    @property
    def num_rows(self) -> int:
        """Rows of a batch."""
        return math.prod(size for size, _ in self.rows)

    @property
    def num_columns(self) -> int:
        """Columns of a row."""
        return self.columns[0]

    def offset(self, batch: AffineExpr, row: AffineExpr, column: AffineExpr) -> AffineExpr:
        """Returns the place of an element in the result, in elements."""
        total = column * self.columns[1] + self.start
        for number, dimensions in ((batch, self.batch), (row, self.rows)):
            indices = delinearize(number, [size for size, _ in dimensions])
            for index, (_, stride) in zip(indices, dimensions, strict=True):
                total = total + index * stride
        return total


def gemm_result_space(shape: GemmShape) -> ResultSpace:
    """The numbers of a multiplication; batches are counted innermost dimension first."""
    batch = tuple((d.size, d.out_stride) for d in reversed(shape.batch))
    return ResultSpace(batch, ((shape.m, shape.out_row),), (shape.n, shape.out_column))


def convolution_result_space(shape: ConvolutionShape) -> ResultSpace:
    """The numbers of a convolution: group, output pixel, output feature of the group."""
    gemm = as_gemm(shape)
    if gemm is not None:
        return gemm_result_space(gemm)
    groups = 1 if is_depthwise(shape) else shape.groups
    features = shape.output_features // groups
    pixels = [(d.output, d.output_stride) for d in spatial_dimensions(shape)]
    return ResultSpace(
        batch=((groups, features * shape.output_feature),),
        rows=((shape.batch // shape.batch_groups, shape.output_batch), *pixels),
        columns=(features, shape.output_feature),
    )
