"""The pipelines, as flat lists to read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from xjit.hlo import HloInstruction
from xjit.passes.calls_and_control.call_inliner import CallInliner
from xjit.passes.calls_and_control.conditional_simplifier import ConditionalSimplifier
from xjit.passes.calls_and_control.conditional_to_select import ConditionalToSelect
from xjit.passes.calls_and_control.flatten_call_graph import FlattenCallGraph
from xjit.passes.collectives.collective_expander import CollectiveExpander
from xjit.passes.collectives.reducing_collective_expander import ReducingCollectiveExpander
from xjit.passes.collectives.single_device_canonicalizer import SingleDeviceCanonicalizer
from xjit.passes.cpu.profitability import (
    FEW_DOT_ROWS,
    MIN_SPLIT_DOT_STEPS,
    SPLIT_DOT_BLOCKS,
    gains_by_channels_last,
    gains_by_parts,
    has_short_rows,
    reads_transposed,
    saves_a_sort,
)
from xjit.passes.dynamic.hlo_get_dimension_size_rewriter import HloGetDimensionSizeRewriter
from xjit.passes.expand.batch_norm_expander import BatchNormExpander
from xjit.passes.expand.bitcast_expander import BitcastExpander
from xjit.passes.expand.cholesky_expander import CholeskyExpander
from xjit.passes.expand.concatenate_dimension_grouper import ConcatenateDimensionGrouper
from xjit.passes.expand.constant_gather_expander import ConstantGatherExpander
from xjit.passes.expand.conv_canonicalization import ConvCanonicalization
from xjit.passes.expand.convolution_to_dot import ConvolutionToDot
from xjit.passes.expand.depthwise_gradient_expander import DepthwiseGradientExpander
from xjit.passes.expand.dot_expander import DotExpander
from xjit.passes.expand.dot_strength_reduction import DotStrengthReduction
from xjit.passes.expand.fft_expander import FftExpander
from xjit.passes.expand.narrow_convolution_expander import NarrowConvolutionExpander
from xjit.passes.expand.narrow_dot_expander import NarrowDotExpander
from xjit.passes.expand.planar_convolution_rewriter import PlanarConvolutionRewriter
from xjit.passes.expand.rng_expander import RngExpander
from xjit.passes.expand.scan_expander import ScanExpander
from xjit.passes.expand.scatter_dimension_grouper import ScatterDimensionGrouper
from xjit.passes.expand.spread_convolution_expander import SpreadConvolutionExpander
from xjit.passes.expand.stable_sort_expander import StableSortExpander
from xjit.passes.expand.triangular_solve_expander import TriangularSolveExpander
from xjit.passes.framework.base import HloModulePass
from xjit.passes.framework.pipeline import HloPassFix
from xjit.passes.fusion.attention_fusion import AttentionFusion
from xjit.passes.fusion.attention_residuals import AttentionResiduals
from xjit.passes.fusion.defuser import Defuser
from xjit.passes.fusion.dot_epilogue_fusion import DotEpilogueFusion
from xjit.passes.fusion.dot_operand_fusion import DotOperandFusion
from xjit.passes.fusion.instruction_fusion import InstructionFusion
from xjit.passes.fusion.multi_output_fusion import MultiOutputFusion
from xjit.passes.fusion.reduction_parallelizer import ReductionParallelizer
from xjit.passes.fusion.row_fusion import RowFusion
from xjit.passes.fusion.row_tiling import RowTiling
from xjit.passes.fusion.scatter_parallelizer import ScatterParallelizer
from xjit.passes.gpu.gemm_rewriter import GemmRewriter
from xjit.passes.gpu.library_call_expander import LibraryCallExpander
from xjit.passes.gpu.vector_dot_rewriter import VectorDotRewriter
from xjit.passes.layout.layout_assignment import LayoutAssignment, ReshapeToBitcast
from xjit.passes.loops.while_loop_constant_sinking import WhileLoopConstantSinking
from xjit.passes.loops.while_loop_dot_hoisting import WhileLoopDotHoisting
from xjit.passes.loops.while_loop_invariant_code_motion import WhileLoopInvariantCodeMotion
from xjit.passes.loops.while_loop_simplifier import WhileLoopSimplifier
from xjit.passes.loops.while_loop_transpose_sinking import WhileLoopTransposeSinking
from xjit.passes.loops.while_loop_trip_count_annotator import WhileLoopTripCountAnnotator
from xjit.passes.loops.while_loop_unroller import WhileLoopUnroller
from xjit.passes.reductions.extremum_rewriter import ExtremumRewriter
from xjit.passes.reductions.narrow_reduction_rewriter import NarrowReductionRewriter
from xjit.passes.reductions.reduce_window_rewriter import ReduceWindowRewriter
from xjit.passes.reductions.reduction_dimension_grouper import ReductionDimensionGrouper
from xjit.passes.reductions.reduction_splitter import ReductionSplitter
from xjit.passes.reductions.splitk_rewriter import SplitkRewriter
from xjit.passes.schedule_and_memory.alias_passthrough_params import AliasPassthroughParams
from xjit.passes.schedule_and_memory.copy_fusion import CopyFusion
from xjit.passes.schedule_and_memory.copy_insertion import CopyInsertion
from xjit.passes.schedule_and_memory.hlo_rematerialization import HloRematerialization
from xjit.passes.schedule_and_memory.hlo_schedulers import HloMemoryScheduler
from xjit.passes.simplify.algebraic_simplifier import AlgebraicSimplifier
from xjit.passes.simplify.dynamic_dimension_simplifier import DynamicDimensionSimplifier
from xjit.passes.simplify.hlo_constant_folding import HloConstantFolding
from xjit.passes.simplify.hlo_cse import HloCSE
from xjit.passes.simplify.hlo_dce import HloDCE
from xjit.passes.simplify.hlo_module_dce import HloModuleDCE
from xjit.passes.simplify.topk_rewriter import TopkDecomposer, TopkRewriter
from xjit.passes.simplify.transpose_folding import TransposeFolding
from xjit.passes.simplify.tuple_simplifier import TupleSimplifier

SortPredicate = Callable[[HloInstruction], bool]
CUBLASLT_WORKSPACE_BYTES = 32 << 20
"""What NVIDIA advises for Hopper. It lies where other temporary values lie at other times."""

VECTOR_BYTES = 64
"""Of a CPU's vectors, the widest there are."""

MIN_SPLIT_ELEMENTS = 1 << 15
"""Of what is reduced in two steps on CPUs: fewer are reduced before another kernel is compiled."""

NEEDED_FOR: Mapping[str, str] = {
    "attention-residuals": "gradients of loops over layers with attention, which would keep the scores of all layers",
    "batch-norm-expander": "batch normalization, which has no kernel of its own",
    "collective-expander": "collectives of modules for one device",
    "concatenate-dimension-grouper": "matrices that are written element by element, as rotations of quaternions are",
    "constant-gather-expander": "columns and channels that a list of numbers picks, as BGR for RGB",
    "conditional-to-select": "conditionals inside kernels, where nothing can branch",
    "defuser": "modules that another compiler has fused",
    "dot-expander": "ragged and scaled dots, and dots of floats to integers",
    "convolution-to-dot": "gradients by 1x1 kernels, in training steps larger than those measured",
    "depthwise-gradient-expander": "gradients by the kernels of depthwise convolutions",
    "dynamic-dimension-simplifier": "sizes of static dimensions that are set, which has no kernel",
    "hlo-get-dimension-size-rewriter": "sizes that are read, which has no kernel",
    "hlo-module-dce": "elements of loops' states that nothing reads; it finds few that others leave",
    "multi-output-fusion": "loops that read the same arrays, in training steps larger than those measured",
    "narrow-convolution-expander": "convolutions to few features, as the last ones of networks that make images",
    "narrow-dot-expander": "products of many rows by a small matrix, as points by a rotation",
    "planar-convolution-rewriter": "filters of images and signals, and other convolutions to few features",
    "reducing-collective-expander": "reductions over devices: the runtime only moves data",
    "reduction-parallelizer": "large sums to few results, for threads, in training steps larger than those measured",
    "reduction-splitter": "sums over separate dimensions, as those of group norms are",
    "rng-expander": "random numbers of the stateful opcode, which has no kernel inside fusions",
    "row-tiling": "softmax and variances over rows that are longer than those measured",
    "scatter-parallelizer": "sums and maxima of segments of more elements than those measured",
    "topk-rewriter": "sorts of which only the first elements are read, as approximate top k on CPUs is",
    "transpose-folding": "products with `x.T`, which gradients of dots do not have: a transposed matrix times a vector",
    "while-loop-constant-sinking": "loops whose state carries constants, as JAX makes none: they fold in the body",
    "while-loop-dot-hoisting": "recurrent networks that multiply their inputs step by step",
}
"""Passes of the CPU pipeline that make no difference to the programs that are measured, and what they are for."""


@dataclass(frozen=True, slots=True)
class PipelineOptions:
    """What may be switched. `optimize=False` only does what execution needs: every instruction is its own kernel.

    `use_cublaslt`: products of matrices are calls of that library, where it has them. `alias_passthrough_params`:
    results that are parameters are declared to have their buffers, which a call must donate then; a module's config
    asks for it. `memory_limit_bytes`: beyond that, values are computed again where they can be (0: never).
    """

    optimize: bool = True
    fuse: bool = True
    fuse_rows: bool = True
    fuse_dots: bool = True
    keep_intermediate_layouts: bool = False
    use_cublaslt: bool = False
    alias_passthrough_params: bool = False
    memory_limit_bytes: int = 0


def cpu_pipeline(options: PipelineOptions | None = None) -> list[HloModulePass]:
    """Returns the passes that make a module ready for buffer assignment and the CPU emitters, in order."""
    options = options or PipelineOptions()
    return [
        *canonicalization(
            options,
            [
                ReducingCollectiveExpander(),  # devices exchange data, and code folds them
                DepthwiseGradientExpander(),
                ConvolutionToDot(),
                ConvCanonicalization(entry_only=False, any_float=True, extra_filter=gains_by_channels_last),
                SpreadConvolutionExpander(),
                NarrowConvolutionExpander(),
                DotExpander(splits_complex=True),  # multiplications have floats, and loops are slow
            ],
        ),
        *(
            [
                *simplification(options, residuals=[AttentionResiduals()]),
                TransposeFolding(
                    dot_operands="factors", convolution_operands="none", can_fold_dot_operand=reads_transposed
                ),
                NarrowDotExpander(),
                DotStrengthReduction(),
                ConstantGatherExpander(),
                ConcatenateDimensionGrouper(),
                PlanarConvolutionRewriter(),  # what it pads is not to be folded into a window again
                ScatterDimensionGrouper(),
                ScatterParallelizer(),
                TopkRewriter(saves_a_sort),
            ]
            if options.optimize
            else []
        ),
        *layouts(options, [NarrowReductionRewriter()]),
        *(
            [
                ReductionDimensionGrouper(extra_filter=has_short_rows),  # of parts, too, whose rows are whole
                # sums of groups of columns: of columns first, which are read along memory
                ReductionSplitter(min_elements=MIN_SPLIT_ELEMENTS),
            ]
            if options.optimize
            else []
        ),
        *(fusion(options, products=split_dots()) if options.optimize and options.fuse else []),
        *memory(options),
    ]


def split_dots() -> list[HloModulePass]:
    """Cuts long sums of few results, which a CPU would share out by packing their operands again for each share."""
    split = SplitkRewriter(SPLIT_DOT_BLOCKS, MIN_SPLIT_DOT_STEPS, FEW_DOT_ROWS, extra_filter=gains_by_parts)
    return [split, ReshapeToBitcast()]


def gpu_pipeline(
    options: PipelineOptions | None = None,
    sorts_stably: SortPredicate = lambda _: False,
    pickers: Sequence[HloModulePass] = (),
) -> list[HloModulePass]:
    """Returns the passes that make a module ready for buffer assignment and the GPU emitters, in order.

    `sorts_stably`: whether the emitter has a stable algorithm for a sort. `pickers` choose algorithms of library calls.
    """
    options = options or PipelineOptions()
    products = [*cublaslt_products(), *pickers] if options.use_cublaslt else []
    return [
        *canonicalization(options, gpu_expansion(options.use_cublaslt, sorts_stably)),
        *(simplification(options) if options.optimize else []),
        *([VectorDotRewriter()] if options.optimize else []),
        *([SplitkRewriter()] if options.optimize and not products else []),  # the library splits sums by itself
        *layouts(options),
        *(fusion(options, True, products) if options.optimize and options.fuse else products),
        *memory(options),
    ]


def cublaslt_products() -> list[HloModulePass]:
    """Hands dots to cublasLt, with the limits of XLA: scratch memory, and the smallest product.

    Those that stay - smaller, of other types, or of dimensions that are no matrices - are kernels.
    """
    return [
        GemmRewriter(use_cublaslt=True, workspace_bytes=CUBLASLT_WORKSPACE_BYTES, size_threshold=100),
        LibraryCallExpander(use_cublaslt=True),  # what cuBLAS has and cublasLt has not
        CallInliner(),
    ]


def canonicalization(options: PipelineOptions, more: Sequence[HloModulePass] = ()) -> list[HloModulePass]:
    """Removes what means nothing on one device, and what another compiler made of the module: bitcasts and fusions.

    Barriers go first: they would hide equal expressions. Bitcasts are expanded while all layouts are those of the text.
    `more` are the expansions of a target.
    """
    return [
        *([] if options.keep_intermediate_layouts else [BitcastExpander()]),
        SingleDeviceCanonicalizer(),
        Defuser(),
        ConditionalToSelect(),  # inside kernels nothing branches; the calls that it makes are inlined
        *expansion(),
        *more,
        CallInliner(),
        HloDCE(),
    ]


def expansion() -> list[HloModulePass]:
    """Writes what has no emitter of its own in terms of what has one. A scan becomes a loop that calls its body."""
    return [
        CollectiveExpander(),
        HloGetDimensionSizeRewriter(),
        DynamicDimensionSimplifier(),
        BatchNormExpander(),
        DotExpander(),
        RngExpander(),
        ScanExpander(),
    ]


def gpu_expansion(use_cublaslt: bool, sorts_stably: SortPredicate) -> list[HloModulePass]:
    """Writes what needs a library, or a serial program, in terms of what threads share out."""
    return [
        ReducingCollectiveExpander(),  # devices exchange data, and kernels fold them
        LibraryCallExpander(use_cublaslt=use_cublaslt),  # first: what libraries were to do is expanded, too
        CholeskyExpander(one_block=True),  # leaves triangular solves
        TriangularSolveExpander(one_block=True),
        FftExpander(one_block=True),
        ReduceWindowRewriter(eliminate_rank_1=False, by_map=False),  # loops take one dimension as well as two
        TopkDecomposer(),  # into stable sorts
        StableSortExpander(sorts_stably),  # bitonic networks are not stable
    ]


def simplification(options: PipelineOptions, residuals: Sequence[HloModulePass] = ()) -> list[HloModulePass]:
    """Simplifies to a fixed point. Layouts that are replaced anyway must not keep equal values apart.

    `residuals` decide what loops keep for those of their gradients; the simplifier of loops drops the rest.
    """
    sensitive = options.keep_intermediate_layouts
    return [
        HloPassFix(
            passes=[
                TupleSimplifier(),
                # emitters know products of matrices, and no convolutions that slide backwards; slices move no less
                # than a transpose
                AlgebraicSimplifier(
                    is_layout_sensitive=sensitive,
                    supports_non_canonical_dots=False,
                    enable_conv_operand_swap=False,
                    enable_hoist_transpose_of_reshape=True,
                    enable_conv_add_multiply_reorder=True,
                    rewrite_reshape_transpose_as_slice_concatenate=False,
                ),
                HloConstantFolding(),
                HloCSE(is_layout_sensitive=sensitive),
                # before loops drop the elements that it frees
                WhileLoopConstantSinking(sink_only_scalar_constants=True, sink_positions=True),
                HloModuleDCE(),
                WhileLoopSimplifier(shared_computations=True),
                ConditionalSimplifier(select_cheap_branches=False),  # after folding: a predicate may be a constant now
                HloDCE(),
                WhileLoopTransposeSinking(),  # stacked weights: what is left to reshape is simplified with the rest
                WhileLoopDotHoisting(),  # of slices that lie as they are multiplied: transposes have moved
                WhileLoopUnroller(),  # when bounds are constants and bodies small; what it leaves is simplified again
                *residuals,  # of loops that stay
                WhileLoopInvariantCodeMotion(only_gains=True),
            ]
        ),
        WhileLoopTripCountAnnotator(),  # nothing after this changes how often a loop runs
    ]


def layouts(options: PipelineOptions, reductions: Sequence[HloModulePass] = ()) -> list[HloModulePass]:
    """Fixes layouts. Needs one computation per call site: each may get layouts of its own.

    `reductions` are what a target does with reductions before long ones are cut.
    """
    return [
        FlattenCallGraph(),
        LayoutAssignment(options.keep_intermediate_layouts),
        TupleSimplifier(),  # copies of tuples are taken apart again by get-tuple-element
        # rows first: of their reductions each has a use for the other's parts
        *([RowTiling(), *reductions, ReductionParallelizer()] if options.optimize else []),
        ReshapeToBitcast(),  # only now is it known which reshapes move nothing
        HloDCE(),
    ]


def fusion(
    options: PipelineOptions, for_tiles: bool = False, products: Sequence[HloModulePass] = ()
) -> list[HloModulePass]:
    """Builds fusions. CSE before, as equal values in two fusions are not found later; and inside of them after.

    `for_tiles`: what dots are fused with is computed from tiles that have an index, not a place in memory. `products`
    are done to the dots that are not in attention.
    """
    return [
        HloCSE(),
        HloDCE(),
        attention_on_gpus() if for_tiles else AttentionFusion(),  # first: of scores nothing is to be left for loops
        *products,
        *([] if for_tiles else [ExtremumRewriter()]),  # behind attention and softmax, which know maxima
        InstructionFusion(into_updates=not for_tiles, cuts_loops=not for_tiles),
        *([RowFusion()] if options.fuse_rows else []),
        # of loop fusions as they are: what softmax or layer norm took in is not an epilogue
        *([DotOperandFusion(), _epilogues(for_tiles)] if options.fuse_dots else []),
        MultiOutputFusion(),  # of what is left: no loop here may be a dot's epilogue
        HloCSE(),
        HloDCE(),
    ]


def _epilogues(for_tiles: bool) -> DotEpilogueFusion:
    return DotEpilogueFusion(like_dimensions=True) if for_tiles else DotEpilogueFusion(vector_bytes=VECTOR_BYTES)


def attention_on_gpus() -> AttentionFusion:
    """Returns the pass with a GPU's limits, which are by bytes, not by measured times.

    Unfused, a score goes through memory four times: written and read, as a score and as a weight. Fused, keys and
    values are read again for every 16 to 64 rows, from the second-level cache. So it pays as soon as scores are no
    longer few beside the operands, and there are the rows of one tile. Longer rows than these leave no room in shared
    memory for the operands of a gradient in f32.
    """
    return AttentionFusion(min_rows=16, scores_per_element=16, max_depth=128, joint_batches=0, weighs=False)


def memory(options: PipelineOptions) -> list[HloModulePass]:
    """Orders the program and gives every value a place. Nothing may reorder or add instructions after this."""
    return [
        HloDCE(),
        HloMemoryScheduler(),
        # of the program as it runs; CSE would undo it
        *([HloRematerialization(options.memory_limit_bytes)] if options.memory_limit_bytes else []),
        *([AliasPassthroughParams()] if options.alias_passthrough_params else []),  # no copies of these then
        CopyInsertion(),  # after scheduling: whether a copy is needed depends on the order
        CopyFusion(),  # copies that change places with each other are one kernel
    ]
