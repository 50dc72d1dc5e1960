"""Convolutions: one call of the implicit GEMM, or loops for types that it has not and tiled layouts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from xjit.emitters.gemm.blocking.convolution_dimensions import as_gemm, is_depthwise
from xjit.emitters.gemm.blocking.convolution_plan import plan_convolution
from xjit.emitters.gemm.blocking.convolution_shapes import MAX_SPATIAL_DIMENSIONS, ConvolutionShape, SpatialDimension
from xjit.emitters.gemm.blocking.facts import convolution_facts, gemm_facts
from xjit.emitters.gemm.blocking.method import GemmTypes, gains_by_planes, with_unit
from xjit.emitters.gemm.blocking.plan import plan_gemm
from xjit.emitters.gemm.blocking.register_tile import register_tile
from xjit.emitters.gemm.convolution.phases import convolution_phases
from xjit.emitters.kernels.view import KernelView
from xjit.emitters.planners.cpu.dot import element_strides, gemm_types
from xjit.emitters.planners.cpu.epilogue import epilogue_fact, place_of_sums
from xjit.emitters.planners.cpu.loops import plan_loops
from xjit.emitters.planners.plan import HandWritten, KernelPlan, PlanContext
from xjit.hlo import attributes as at
from xjit.hlo.ir.instruction import HloInstruction
from xjit.llvm.target import Target
from xjit.passes.analysis.planar_convolutions import suits_planes


@dataclass(frozen=True, slots=True)
class ConvolutionWork:
    """The sizes and types of a view's convolution; `operands` are the numbers of its leaves, `sums` as of GemmWork."""

    shape: ConvolutionShape
    types: GemmTypes
    operands: tuple[int, int]
    sums: int | None
    has_epilogue: bool

    def facts(self, context: PlanContext) -> Mapping[str, object]:
        """Its sizes, and how it is blocked; of an input that is spread out, how the first of its phases is."""
        phases = convolution_phases(self.shape)
        count = {"phases": len(phases)} if len(phases) > 1 else {}
        epilogue = {"epilogue": epilogue_fact(self.has_epilogue, self.sums)}
        return count | self._facts_of(phases[0].shape, context.target) | epilogue

    def _facts_of(self, shape: ConvolutionShape, target: Target) -> dict[str, object]:
        """How a convolution of these types is blocked."""
        in_scratch = self.sums is None
        gemm, tile = as_gemm(shape), register_tile(target, self.types)
        if gemm is not None:
            plan = plan_gemm(gemm, self.types, target, may_swap=not self.has_epilogue, in_scratch=in_scratch)
            return gemm_facts(gemm, self.types, plan, tile)
        plan = plan_convolution(shape, self.types, target, in_scratch=in_scratch)
        return convolution_facts(self.types, plan, tile)


def plan_convolution_kernels(context: PlanContext, view: KernelView) -> list[KernelPlan]:
    """Plans a convolution with what is computed from it: one call of a library function, or loops."""
    work = convolution_work(view, context.target)
    if work is None:
        return [*plan_loops(context, view)]
    return [HandWritten(view.instruction.name, "convolution", "blocked for registers and caches", work)]


def convolution_work(view: KernelView, target: Target) -> ConvolutionWork | None:
    """Returns what a view's convolution is to the library on a target; None if it is to be loops."""
    convolution = view.hero
    in_memory = all(operand in view.leaves for operand in convolution.operands)
    shape = convolution_shape(convolution) if in_memory else None
    types = gemm_types(convolution)
    if shape is None or types is None or (suits_planes(convolution) and _is_of_rows(shape)):
        return None
    if not is_depthwise(shape):
        planes = "highest" not in convolution.attributes_as(at.ConvolutionAttributes).operand_precision
        gains = gains_by_planes(shape.pixels, shape.output_features // shape.groups, shape.terms)
        best = with_unit(types, target, as_gemm(shape), planes=planes and gains)
        if shape.input_features // shape.feature_groups >= best.lanes.group:  # one channel leaves half of a lane empty
            types = best
    lhs, rhs = (view.leaves.index(operand) for operand in convolution.operands)
    has_epilogue = view.roots != (convolution,)
    return ConvolutionWork(shape, types, (lhs, rhs), place_of_sums(view, types), has_epilogue)


def _is_of_rows(shape: ConvolutionShape) -> bool:
    """Whether the last spatial dimension lies along memory, and nothing is padded: loops need no masks then.

    `planar-convolution-rewriter` makes convolutions such.
    """
    row = shape.spatial[-1]
    along_memory = row.input_stride == row.output_stride == 1
    return along_memory and all(_sees_no_padding(d) for d in shape.spatial)


def _sees_no_padding(d: SpatialDimension) -> bool:
    last = (d.output - 1) * d.window_stride + (d.kernel - 1) * d.window_dilation
    return d.padding_low == 0 and d.base_dilation == 1 and last < d.input


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
