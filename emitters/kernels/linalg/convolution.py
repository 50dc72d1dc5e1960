"""Convolutions as calls of the emitted implicit GEMM; types that it has not and tiled layouts as loops."""

from __future__ import annotations

import math

from xjit.emitters.gemm.convolution import emit_convolution_call
from xjit.emitters.gemm.convolution_shapes import MAX_SPATIAL_DIMENSIONS, ConvolutionShape, SpatialDimension
from xjit.emitters.gemm.library import link_gemm_library
from xjit.emitters.gemm.plan import GemmTypes
from xjit.emitters.gemm.result_space import convolution_result_space
from xjit.emitters.kernels.kernel import Kernel, KernelContext, KernelView
from xjit.emitters.kernels.linalg.dot import NS_PER_FLOP, element_strides, gemm_types
from xjit.emitters.kernels.linalg.epilogue import HeroTypes, emit_result, epilogue_cost
from xjit.emitters.kernels.loops.loop import emit_loop_kernels
from xjit.hlo import attributes as at
from xjit.hlo.ir.instruction import HloInstruction
from xjit.llvm.builder import IRBuilder


def emit_convolution(context: KernelContext, view: KernelView) -> list[Kernel]:
    """Emits a convolution with what is computed from it: one call of a library function, or the loop kernel."""
    convolution = view.hero
    in_memory = all(operand in view.leaves for operand in convolution.operands)
    shape = convolution_shape(convolution) if in_memory else None
    types = gemm_types(convolution)
    if shape is None or types is None or not _sums_exactly(shape, types):
        return emit_loop_kernels(context, view)
    if view.roots != (convolution,) and types.exact_terms is not None:
        return emit_loop_kernels(context, view)
    function, leaves, results = context.new_kernel(view)
    builder = IRBuilder(function.append_block("entry"))
    hero_types = HeroTypes(types.compute, types.out)
    result = emit_result(context, view, convolution_result_space(shape), hero_types, builder, leaves, results)
    lhs, rhs = (leaves[o].pointer for o in convolution.operands)
    link_gemm_library(context.module, types)
    emit_convolution_call(builder, types, shape, (lhs, rhs), result.out, result.closure, context.num_threads)
    builder.ret_void()
    cost = shape.flops * NS_PER_FLOP + epilogue_cost(view)
    return [Kernel(function, 1, cost, "convolution", view.byte_size, shape.flops)]


def _sums_exactly(shape: ConvolutionShape, types: GemmTypes) -> bool:
    """Whether a sum of integers, if it is kept as a float, has few enough terms."""
    terms = shape.input_features * math.prod(dimension.kernel for dimension in shape.spatial)
    return types.exact_terms is None or terms <= types.exact_terms


def convolution_shape(convolution: HloInstruction) -> ConvolutionShape | None:
    """Returns the sizes and strides of a convolution; None if the emitted function cannot do it."""
    shapes = [o.shape for o in (*convolution.operands, convolution)]
    strides = [element_strides(s) for s in shapes]
    if gemm_types(convolution) is None or any(0 in s.dimensions for s in shapes) or None in strides:
        return None
    attrs = convolution.attributes_as(at.ConvolutionAttributes)
    numbers, window = attrs.dim_labels, attrs.window.dimensions
    if len(window) > MAX_SPATIAL_DIMENSIONS:
        return None
    source, kernel, out = shapes
    source_strides, kernel_strides, out_strides = (s or [] for s in strides)
    spatial = tuple(
        SpatialDimension(
            source.dimensions[i], kernel.dimensions[k], out.dimensions[o],
            source_strides[i], kernel_strides[k], out_strides[o],
            w.stride, w.padding_low, w.window_dilation, w.base_dilation, w.window_reversal,
        )
        for i, k, o, w in zip(
            numbers.input_spatial_dimensions, numbers.kernel_spatial_dimensions, numbers.output_spatial_dimensions,
            window, strict=True,
        )
    )  # fmt: skip
    return ConvolutionShape(
        batch=source.dimensions[numbers.input_batch_dimension],
        input_features=source.dimensions[numbers.input_feature_dimension],
        output_features=out.dimensions[numbers.output_feature_dimension],
        spatial=spatial,
        input_batch=source_strides[numbers.input_batch_dimension],
        input_feature=source_strides[numbers.input_feature_dimension],
        kernel_input=kernel_strides[numbers.kernel_input_feature_dimension],
        kernel_output=kernel_strides[numbers.kernel_output_feature_dimension],
        output_batch=out_strides[numbers.output_batch_dimension],
        output_feature=out_strides[numbers.output_feature_dimension],
        feature_groups=attrs.feature_group_count,
        batch_groups=attrs.batch_group_count,
    )
