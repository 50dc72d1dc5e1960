"""Sums of products over loops as `convolution`, where an image is read at sums of an outer and a window's loop."""

from __future__ import annotations

from collections.abc import Sequence

from xjit.affine.expr import AffineExpr, AffineExprKind
from xjit.dataclass import dataclass
from xjit.hlo import HloInstruction, PrimitiveType, Shape
from xjit.hlo.attributes import ConvolutionAttributes, ConvolutionDimensionNumbers, Window, WindowDimension
from xjit.linalg_ext.structured import Access
from xjit.linalg_ext.to_hlo.accesses import loop_of
from xjit.linalg_ext.to_hlo.writer import FunctionWriter

__all__ = ["convolution_over_loops"]


@dataclass(frozen=True, slots=True)
class _Sum:
    """An index `stride * outer + dilation * inner`."""

    axis: int
    outer: int
    stride: int
    inner: int
    dilation: int


def _sum_of(axis: int, e: AffineExpr | None, result: Sequence[int]) -> _Sum | None:
    terms = () if e is None or e.constant_term else e.terms
    if len(terms) != 2 or any(t.kind is not AffineExprKind.DIM or k < 1 for t, k in terms):
        return None
    outer = [(t.position, k) for t, k in terms if t.position in result]
    inner = [(t.position, k) for t, k in terms if t.position not in result]
    return _Sum(axis, *outer[0], *inner[0]) if len(outer) == len(inner) == 1 else None


@dataclass(frozen=True, slots=True)
class _Roles:
    """The loops of a convolution: batch, input and output features, each None if there is none; the sums."""

    batch: int | None
    input: int | None
    output: int | None
    sums: tuple[_Sum, ...]


def _roles(image: Access, kernel: Access, count: int, result: Sequence[int]) -> _Roles | None:
    """Returns the roles of all loops; None if some loop has another role."""
    kernel_loops = [loop_of(e) for e in kernel]
    sums = [s for axis, e in enumerate(image) if (s := _sum_of(axis, e, result)) is not None]
    plain = [loop for e in image if (loop := loop_of(e)) is not None]
    used = [*plain, *(loop for s in sums for loop in (s.outer, s.inner))]
    if not sums or len(plain) + len(sums) != len(image) or len(set(used)) != len(used):
        return None
    inner = [s.inner for s in sums]
    rest = [loop for loop in kernel_loops if loop is not None and loop not in inner]
    if None in kernel_loops or not set(inner) <= set(kernel_loops) or len(set(kernel_loops)) != len(kernel_loops):
        return None
    batch = [loop for loop in plain if loop in result and loop not in rest]
    inputs = [loop for loop in plain if loop not in result and loop in rest]
    outputs = [loop for loop in rest if loop in result and loop not in used]
    groups = (batch, inputs, outputs)
    if any(len(group) > 1 for group in groups) or sum(map(len, groups)) + 2 * len(sums) != count:
        return None
    found = [group[0] if group else None for group in groups]
    return _Roles(found[0], found[1], found[2], tuple(sums))


def convolution_over_loops(
    writer: FunctionWriter,
    image: tuple[HloInstruction, Access],
    kernel: tuple[HloInstruction, Access],
    sizes: Sequence[int],
    result: Sequence[int],
    kind: PrimitiveType,
) -> HloInstruction | None:
    """Returns the sum of image * kernel over the loops that are not in `result`; None if it is no convolution."""
    roles = _roles(image[1], kernel[1], len(sizes), result)
    if roles is None or 0 in sizes or roles.output is None or sizes[roles.output] < 2:
        return None  # with one output feature there is no matrix product to gain
    pixels = _cut(writer, image[0], roles, sizes)
    left = [loop_of(e) for e in image[1]]
    right = [loop_of(e) for e in kernel[1]]
    pixels, left_places = _with_places(writer, pixels, left, (roles.batch, roles.input))
    weights, right_places = _with_places(writer, kernel[0], right, (roles.input, roles.output))
    spatial = tuple(range(2, 2 + len(roles.sums)))
    labels = ConvolutionDimensionNumbers(
        input_batch_dimension=left_places[0],
        input_feature_dimension=left_places[1],
        input_spatial_dimensions=tuple(s.axis for s in roles.sums),
        kernel_input_feature_dimension=right_places[0],
        kernel_output_feature_dimension=right_places[1],
        kernel_spatial_dimensions=tuple(right.index(s.inner) for s in roles.sums),
        output_batch_dimension=0,
        output_feature_dimension=1,
        output_spatial_dimensions=spatial,
    )
    window = Window(
        tuple(WindowDimension(size=sizes[s.inner], stride=s.stride, window_dilation=s.dilation) for s in roles.sums)
    )
    order = [roles.batch, roles.output, *(s.outer for s in roles.sums)]
    shape = Shape.array(kind, tuple(1 if loop is None else sizes[loop] for loop in order))
    attributes = ConvolutionAttributes(window=window, dim_labels=labels)
    found = writer.make("convolution", pixels, weights, attributes=attributes, shape=shape)
    kept = [loop for loop in order if loop is not None]
    found = writer.reshape(found, [sizes[loop] for loop in kept])
    return writer.transpose(found, [kept.index(loop) for loop in result])


def _cut(writer: FunctionWriter, pixels: HloInstruction, roles: _Roles, sizes: Sequence[int]) -> HloInstruction:
    """The part of the image that windows touch."""
    limits = list(pixels.shape.dimensions)
    for s in roles.sums:
        limits[s.axis] = (sizes[s.outer] - 1) * s.stride + (sizes[s.inner] - 1) * s.dilation + 1
    same = pixels.shape.dimensions == tuple(limits)
    return pixels if same else writer.slice(pixels, [0] * len(limits), limits)


def _with_places(
    writer: FunctionWriter, array: HloInstruction, loops: list[int | None], wanted: Sequence[int | None]
) -> tuple[HloInstruction, list[int]]:
    """Returns the dimensions of two loops; for one that is missing a dimension of size 1 is added."""
    sizes, places = list(array.shape.dimensions), []
    for loop in wanted:
        places.append(len(sizes) if loop is None else loops.index(loop))
        sizes += [1] if loop is None else []
    return writer.reshape(array, sizes), places
