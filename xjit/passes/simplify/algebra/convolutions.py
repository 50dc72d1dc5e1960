"""Convolutions that are padded before, contract one element, or have their operands the wrong way round."""

from __future__ import annotations

from dataclasses import replace
from math import prod

from xjit.hlo import HloInstruction
from xjit.hlo import attributes as at
from xjit.hlo.attributes import ConvolutionAttributes, DotAttributes, Window, WindowDimension
from xjit.passes.framework import match as m
from xjit.passes.framework.expansion import Expansion
from xjit.passes.framework.match import Match
from xjit.passes.simplify.algebra.constants import is_zero, value_of
from xjit.passes.simplify.algebra.padding import padding_of
from xjit.passes.simplify.algebra.rule import AlgebraRule, Exactness


def _of(convolution: HloInstruction) -> ConvolutionAttributes:
    return convolution.attributes_as(ConvolutionAttributes)


def _pads_with_zero(pad: HloInstruction) -> bool:
    value = value_of(pad.operand(1))
    edges = [e for p in padding_of(pad) for e in (p.edge_padding_low, p.edge_padding_high)]
    return value is not None and is_zero(value, pad.shape.element_type) and min(edges, default=0) >= 0


def _padded_input(match: Match, into: Expansion) -> HloInstruction | None:
    """Edges of zeros around the input belong to the window, zeros between its elements are base dilation."""
    root, pad = match.root, match["pad"]
    c, padding = _of(root), padding_of(pad)
    spatial = c.dim_labels.input_spatial_dimensions
    if not _pads_with_zero(pad) or any(p != at.PaddingDimension() for d, p in enumerate(padding) if d not in spatial):
        return None
    window: list[WindowDimension] = []
    for d, number in zip(c.window.dimensions, spatial, strict=True):
        p = padding[number]
        if p != at.PaddingDimension() and d.base_dilation != 1:
            return None
        window.append(replace(
            d, padding_low=d.padding_low + p.edge_padding_low, padding_high=d.padding_high + p.edge_padding_high,
            base_dilation=d.base_dilation * (p.interior_padding + 1),
        ))  # fmt: skip
    return into.like_source("convolution", [pad.operand(0), root.operand(1)], replace(c, window=Window(tuple(window))))


def _padded_kernel(match: Match, into: Expansion) -> HloInstruction | None:
    """Zeros between the elements of the kernel are window dilation."""
    root, pad = match.root, match["pad"]
    c, padding = _of(root), padding_of(pad)
    spatial = c.dim_labels.kernel_spatial_dimensions
    if not _pads_with_zero(pad) or any(p.edge_padding_low or p.edge_padding_high for p in padding):
        return None
    if any(p.interior_padding for d, p in enumerate(padding) if d not in spatial):
        return None
    window: list[WindowDimension] = []
    for d, number in zip(c.window.dimensions, spatial, strict=True):
        between, size = padding[number].interior_padding, pad.operand(0).shape.dimensions[number]
        if between and d.window_dilation != 1:
            return None
        window.append(replace(d, size=size, window_dilation=d.window_dilation * (between + 1)))
    return into.like_source("convolution", [root.operand(0), pad.operand(0)], replace(c, window=Window(tuple(window))))


def _as_dot(match: Match, into: Expansion) -> HloInstruction | None:
    """A kernel of one element only contracts features."""
    root, c = match.root, _of(match.root)
    n = c.dim_labels
    plain = all(replace(d, window_reversal=False, window_dilation=1) == WindowDimension() for d in c.window.dimensions)
    types = {root.shape.element_type, *[o.shape.element_type for o in root.operands]}
    if not plain or c.feature_group_count != 1 or c.batch_group_count != 1 or len(types) != 1:
        return None
    x, w = root.operands
    ones = list(n.kernel_spatial_dimensions)
    kernel = into.make("reshape", w, shape=w.shape.with_dimensions(
        [size for d, size in enumerate(w.shape.dimensions) if d not in ones]
    )) if ones else w  # fmt: skip
    inner = int(n.kernel_input_feature_dimension > n.kernel_output_feature_dimension)
    dot = into.make("dot", x, kernel, attributes=DotAttributes(
        lhs_contracting_dims=(n.input_feature_dimension,), rhs_contracting_dims=(inner,),
        operand_precision=c.operand_precision,
    ))  # fmt: skip
    free = [d for d in range(x.shape.rank) if d != n.input_feature_dimension]
    result = {n.output_batch_dimension: free.index(n.input_batch_dimension), n.output_feature_dimension: len(free)}
    for out, d in zip(n.output_spatial_dimensions, n.input_spatial_dimensions, strict=True):
        result[out] = free.index(d)
    order = tuple(result[d] for d in range(root.shape.rank))
    if order == tuple(range(root.shape.rank)):
        return dot
    return into.make("transpose", dot, attributes=at.DimensionsAttributes(order))


def _as_product(match: Match, into: Expansion) -> HloInstruction | None:
    """One feature of the kernel for each of the input, and one window of each spatial dimension, or one element."""
    root, c = match.root, _of(match.root)
    n, (x, w) = c.dim_labels, match.root.operands
    sizes, features = root.shape.dimensions, c.feature_group_count
    spatial = list(zip(c.window.dimensions, n.output_spatial_dimensions, n.kernel_spatial_dimensions, strict=True))
    if any(replace(d, size=1) != WindowDimension() or (d.size != 1 and sizes[o] != 1) for d, o, _ in spatial):
        return None
    counts = (x.shape.dimensions[n.input_feature_dimension], sizes[n.output_feature_dimension])
    types = {root.shape.element_type, x.shape.element_type, w.shape.element_type}
    if counts != (features, features) or c.batch_group_count != 1 or len(types) != 1 or not root.shape.num_elements:
        return None
    source = {n.output_batch_dimension: n.input_batch_dimension, n.output_feature_dimension: n.input_feature_dimension}
    source |= dict(zip(n.output_spatial_dimensions, n.input_spatial_dimensions, strict=True))
    order = tuple(source[d] for d in range(root.shape.rank))
    moved = into.make("transpose", x, attributes=at.DimensionsAttributes(order)) if order != tuple(sorted(order)) else x
    kernel = {n.kernel_output_feature_dimension: n.output_feature_dimension, **{k: o for _, o, k in spatial}}
    taken = [o for d, o, _ in spatial if d.size != 1]
    kept = [k for k in range(w.shape.rank) if kernel.get(k) in (*taken, n.output_feature_dimension)]
    flat = into.make("reshape", w, shape=w.shape.with_dimensions([w.shape.dimensions[d] for d in kept]))
    in_order = sorted(range(len(kept)), key=lambda i: kernel[kept[i]])
    if in_order != sorted(in_order):
        flat = into.make("transpose", flat, attributes=at.DimensionsAttributes(tuple(in_order)))
    places = at.DimensionsAttributes(tuple(sorted(kernel[k] for k in kept)))
    product = into.make("multiply", moved, into.make("broadcast", flat, shape=moved.shape, attributes=places))
    return into.like_source("reshape", [into.sum(product, tuple(taken))]) if taken else product


def _swapped(match: Match, into: Expansion) -> HloInstruction | None:
    """The input slides over the kernel, reversed, where that has fewer products to sum: a kernel larger than its input.

    Batch and output features change places, as do base and window dilation.
    """
    c = _of(match.root)
    n, (x, w) = c.dim_labels, match.root.operands
    if c.feature_group_count != 1 or c.batch_group_count != 1:
        return None
    sizes = [x.shape.dimensions[d] for d in n.input_spatial_dimensions]
    if prod(d.size for d in c.window.dimensions) <= prod(sizes):
        return None
    window: list[WindowDimension] = []
    for d, size in zip(c.window.dimensions, sizes, strict=True):
        overlap = (size - 1) * d.base_dilation - (d.size - 1) * d.window_dilation
        window.append(replace(
            d, size=size, padding_low=d.padding_low + overlap, padding_high=d.padding_high + overlap,
            base_dilation=d.window_dilation, window_dilation=d.base_dilation, window_reversal=True,
        ))  # fmt: skip
    turned = [k for k, d in zip(n.kernel_spatial_dimensions, c.window.dimensions, strict=True) if not d.window_reversal]
    kernel = into.make("reverse", w, attributes=at.DimensionsAttributes(tuple(turned))) if turned else w
    labels = replace(
        n,
        input_batch_dimension=n.kernel_output_feature_dimension,
        input_feature_dimension=n.kernel_input_feature_dimension,
        input_spatial_dimensions=n.kernel_spatial_dimensions,
        kernel_output_feature_dimension=n.input_batch_dimension,
        kernel_input_feature_dimension=n.input_feature_dimension,
        kernel_spatial_dimensions=n.input_spatial_dimensions,
        output_batch_dimension=n.output_feature_dimension,
        output_feature_dimension=n.output_batch_dimension,
    )
    swapped = replace(c, window=Window(tuple(window)), dim_labels=labels, operand_precision=c.operand_precision[::-1])
    return into.like_source("convolution", [kernel, x], swapped)


def _nothing(convolution: HloInstruction) -> bool:
    return any(not i.shape.num_elements for i in (convolution, *convolution.operands))


_CONVOLUTION = m.op("convolution", m.any(), m.any())
_FOLDING = "enable_conv_simplification enable_folding_pad_into_convolution"

CONVOLUTIONS = (
    AlgebraRule("R157b", "convolution(nothing) = 0", _CONVOLUTION.where(_nothing),
                lambda match, into: into.full(match.root.shape, 0)),
    AlgebraRule("R154", "convolution(pad(x, 0), w) = convolution(x, w) with padding",
                m.op("convolution", m.op("pad", name="pad"), m.any()), _padded_input, Exactness.FINITE, _FOLDING),
    AlgebraRule("R154b", "convolution(x, pad(w, 0)) = convolution(x, w) with dilation",
                m.op("convolution", m.any(), m.op("pad", name="pad")), _padded_kernel, Exactness.FINITE, _FOLDING),
    AlgebraRule("R156", "convolution(x, w) = convolution(reverse(w), x) where w is larger", _CONVOLUTION, _swapped,
                Exactness.ORDER, "enable_conv_operand_swap"),
    AlgebraRule("R155", "convolution(x, w) of single elements = dot(x, w)", _CONVOLUTION, _as_dot, Exactness.ORDER,
                "is_layout_sensitive"),
    AlgebraRule("N64", "convolution(x, w) of each feature by itself = sum(multiply(x, broadcast(w)))", _CONVOLUTION,
                _as_product, Exactness.ORDER, "!is_layout_sensitive enable_conv_simplification"),
)  # fmt: skip
