"""Every pass, by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from xjit.passes.calls_and_control.call_inliner import CallInliner
from xjit.passes.calls_and_control.conditional_canonicalizer import ConditionalCanonicalizer
from xjit.passes.calls_and_control.conditional_code_motion import ConditionalCodeMotion
from xjit.passes.calls_and_control.conditional_simplifier import ConditionalSimplifier
from xjit.passes.calls_and_control.conditional_to_select import ConditionalToSelect
from xjit.passes.calls_and_control.control_dep_remover import ControlDepRemover
from xjit.passes.calls_and_control.flatten_call_graph import FlattenCallGraph
from xjit.passes.calls_and_control.hlo_subcomputation_unification import HloSubcomputationUnification
from xjit.passes.calls_and_control.host_offloading_prepare import HostOffloadingPrepare
from xjit.passes.collectives.all_gather_decomposer import AllGatherDecomposer
from xjit.passes.collectives.all_gather_remove_degenerate_dims import AllGatherRemoveDegenerateDims
from xjit.passes.collectives.all_reduce_combiner import AllReduceCombiner
from xjit.passes.collectives.all_reduce_promotion import AllReducePromotion
from xjit.passes.collectives.all_reduce_reassociate import AllReduceReassociate
from xjit.passes.collectives.all_reduce_simplifier import AllReduceSimplifier
from xjit.passes.collectives.all_to_all_decomposer import AllToAllDecomposer
from xjit.passes.collectives.ar_crs_combiner import ArCrsCombiner
from xjit.passes.collectives.async_collective_creator import AsyncCollectiveCreator
from xjit.passes.collectives.collective_expander import CollectiveExpander
from xjit.passes.collectives.collective_permute_cse import CollectivePermuteCSE
from xjit.passes.collectives.convert_async_collectives_to_sync import ConvertAsyncCollectivesToSync
from xjit.passes.collectives.reduce_scatter_decomposer import ReduceScatterDecomposer
from xjit.passes.collectives.reducing_collective_expander import ReducingCollectiveExpander
from xjit.passes.collectives.single_device_canonicalizer import SingleDeviceCanonicalizer
from xjit.passes.cpu.parallel_task_assigner import ParallelTaskAssigner
from xjit.passes.domains.hlo_domain_isolator import HloDomainIsolator
from xjit.passes.domains.hlo_domain_remover import HloDomainRemover
from xjit.passes.domains.hlo_domain_verifier import HloDomainVerifier
from xjit.passes.dynamic.dynamic_padder import DynamicPadder
from xjit.passes.dynamic.hlo_get_dimension_size_rewriter import HloGetDimensionSizeRewriter
from xjit.passes.expand.batch_norm_expander import BatchNormExpander
from xjit.passes.expand.batched_gather_scatter_normalizer import BatchedGatherScatterNormalizer
from xjit.passes.expand.bitcast_dtypes_expander import BitcastDtypesExpander
from xjit.passes.expand.bitcast_expander import BitcastExpander
from xjit.passes.expand.cholesky_expander import CholeskyExpander
from xjit.passes.expand.comparison_expander import ComparisonExpander
from xjit.passes.expand.concatenate_dimension_grouper import ConcatenateDimensionGrouper
from xjit.passes.expand.constant_gather_expander import ConstantGatherExpander
from xjit.passes.expand.conv_canonicalization import ConvCanonicalization
from xjit.passes.expand.convert_operand_folding import ConvertOperandFolding
from xjit.passes.expand.convolution_4d_expander import Convolution4DExpander
from xjit.passes.expand.convolution_group_converter import ConvolutionGroupConverter
from xjit.passes.expand.convolution_to_dot import ConvolutionToDot
from xjit.passes.expand.depthwise_gradient_expander import DepthwiseGradientExpander
from xjit.passes.expand.dot_decomposer import DotDecomposer
from xjit.passes.expand.dot_dimension_merger import DotDimensionMerger
from xjit.passes.expand.dot_expander import DotExpander
from xjit.passes.expand.dot_merger import DotMerger
from xjit.passes.expand.dot_strength_reduction import DotStrengthReduction
from xjit.passes.expand.dynamic_index_splitter import DynamicIndexSplitter
from xjit.passes.expand.fft_expander import FftExpander
from xjit.passes.expand.gather_expander import GatherExpander
from xjit.passes.expand.gemv_rewriter import GemvRewriter
from xjit.passes.expand.logistic_expander import LogisticExpander
from xjit.passes.expand.map_inliner import MapInliner
from xjit.passes.expand.narrow_convolution_expander import NarrowConvolutionExpander
from xjit.passes.expand.narrow_dot_expander import NarrowDotExpander
from xjit.passes.expand.op_expander_pass import OpExpanderPass
from xjit.passes.expand.operand_upcaster import OperandUpcaster, ResultCaster
from xjit.passes.expand.optimization_barrier_expander import OptimizationBarrierExpander
from xjit.passes.expand.planar_convolution_rewriter import PlanarConvolutionRewriter
from xjit.passes.expand.ragged_dot_rewriter import RaggedDotRewriter
from xjit.passes.expand.real_imag_expander import RealImagExpander
from xjit.passes.expand.rng_bit_generator_expander import RngBitGeneratorExpander
from xjit.passes.expand.rng_expander import RngExpander
from xjit.passes.expand.scan_expander import ScanExpander
from xjit.passes.expand.scatter_dimension_grouper import ScatterDimensionGrouper
from xjit.passes.expand.scatter_expander import ScatterExpander
from xjit.passes.expand.select_and_scatter_expander import SelectAndScatterExpander
from xjit.passes.expand.spread_convolution_expander import SpreadConvolutionExpander
from xjit.passes.expand.stable_sort_expander import StableSortExpander
from xjit.passes.expand.stochastic_convert_decomposer import StochasticConvertDecomposer
from xjit.passes.expand.triangular_solve_expander import TriangularSolveExpander
from xjit.passes.expand.variadic_op_splitter import VariadicOpSplitter
from xjit.passes.float_types.bfloat16_conversion_folding import BFloat16ConversionFolding
from xjit.passes.float_types.bfloat16_propagation import BFloat16Propagation
from xjit.passes.float_types.change_op_data_type import ChangeOpDataType
from xjit.passes.float_types.float_normalization import BFloat16MixedPrecisionRemoval, BFloat16Normalization
from xjit.passes.float_types.hlo_element_type_converter import HloElementTypeConverter
from xjit.passes.float_types.simplify_fp_conversions import SimplifyFPConversions
from xjit.passes.framework.base import HloModulePass
from xjit.passes.framework.hlo_verifier import HloVerifier
from xjit.passes.fusion.attention_fusion import AttentionFusion
from xjit.passes.fusion.attention_residuals import AttentionResiduals
from xjit.passes.fusion.defuser import Defuser
from xjit.passes.fusion.despecializer import Despecializer
from xjit.passes.fusion.dot_epilogue_fusion import DotEpilogueFusion
from xjit.passes.fusion.dot_operand_fusion import DotOperandFusion
from xjit.passes.fusion.instruction_fusion import InstructionFusion
from xjit.passes.fusion.multi_output_fusion import MultiOutputFusion
from xjit.passes.fusion.reduction_parallelizer import ReductionParallelizer
from xjit.passes.fusion.row_fusion import RowFusion
from xjit.passes.fusion.row_tiling import RowTiling
from xjit.passes.fusion.scatter_parallelizer import ScatterParallelizer
from xjit.passes.gpu.add_tracking_suffix import AddTrackingSuffixToInstructionNames
from xjit.passes.gpu.algorithm_pickers import GemmAlgorithmPicker, GpuConvAlgorithmPicker
from xjit.passes.gpu.cub_scratch_size import EstimateCubScanScratchSize, EstimateCubSortScratchSize
from xjit.passes.gpu.cublas_pad_for_gemms import CublasPadForGemms
from xjit.passes.gpu.cudnn_batch_norm_rewriter import CudnnBatchNormRewriter
from xjit.passes.gpu.cudnn_custom_call_converter import CuDnnCustomCallConverter
from xjit.passes.gpu.cudnn_fused_conv_rewriter import CudnnFusedConvRewriter
from xjit.passes.gpu.cudnn_pad_for_convolutions import CudnnPadForConvolutions
from xjit.passes.gpu.cusolver_rewriter import CusolverRewriter
from xjit.passes.gpu.dynamic_slice_annotator import DynamicSliceAnnotator
from xjit.passes.gpu.dynamic_slice_fusion_rewriter import DynamicSliceFusionRewriterV2
from xjit.passes.gpu.fusion_merger import FusionMerger
from xjit.passes.gpu.fusion_wrapper import FusionWrapper
from xjit.passes.gpu.gemm_rewriter import GemmRewriter
from xjit.passes.gpu.gpu_conv_padding_legalization import GpuConvPaddingLegalization
from xjit.passes.gpu.gpu_conv_rewriter import GpuConvRewriter
from xjit.passes.gpu.gpu_copy_insertion import GpuCopyInsertion
from xjit.passes.gpu.gpu_layout_assignment import GpuLayoutAssignment
from xjit.passes.gpu.gpu_multi_output_fusion import GpuMultiOutputFusion
from xjit.passes.gpu.gpu_sanitize_constant_names import GpuSanitizeConstantNames
from xjit.passes.gpu.horizontal_loop_fusion import GpuHorizontalLoopFusion
from xjit.passes.gpu.library_call_expander import LibraryCallExpander
from xjit.passes.gpu.vector_dot_rewriter import VectorDotRewriter
from xjit.passes.layout.layout_assignment import LayoutAssignment, ReshapeToBitcast
from xjit.passes.layout.layout_normalization import LayoutNormalization
from xjit.passes.layout.memory_space_propagation import MemorySpacePropagation
from xjit.passes.layout.move_copy_to_users import MoveCopyToUsers
from xjit.passes.layout.reshape_decomposer import ReshapeDecomposer
from xjit.passes.loops.while_loop_all_reduce_code_motion import WhileLoopAllReduceCodeMotion
from xjit.passes.loops.while_loop_constant_sinking import WhileLoopConstantSinking
from xjit.passes.loops.while_loop_dot_hoisting import WhileLoopDotHoisting
from xjit.passes.loops.while_loop_invariant_code_motion import WhileLoopInvariantCodeMotion
from xjit.passes.loops.while_loop_simplifier import WhileLoopSimplifier
from xjit.passes.loops.while_loop_transpose_sinking import WhileLoopTransposeSinking
from xjit.passes.loops.while_loop_trip_count_annotator import WhileLoopTripCountAnnotator
from xjit.passes.loops.while_loop_unroller import WhileLoopUnroller
from xjit.passes.reductions.associative_scan_rewriter import AssociativeScanRewriter
from xjit.passes.reductions.extremum_rewriter import ExtremumRewriter
from xjit.passes.reductions.gpu_tree_reduction_rewriter import GpuTreeReductionRewriter
from xjit.passes.reductions.narrow_reduction_rewriter import NarrowReductionRewriter
from xjit.passes.reductions.recognize_reduce_window import RecognizeReduceWindow
from xjit.passes.reductions.reduce_decomposer import ReduceDecomposer
from xjit.passes.reductions.reduce_window_rewriter import ReduceWindowRewriter
from xjit.passes.reductions.reduction_degenerate_dim_remover import ReductionDegenerateDimRemover
from xjit.passes.reductions.reduction_dimension_grouper import ReductionDimensionGrouper
from xjit.passes.reductions.reduction_layout_normalizer import ReductionLayoutNormalizer
from xjit.passes.reductions.reduction_splitter import ReductionSplitter
from xjit.passes.reductions.splitk_rewriter import SplitkRewriter
from xjit.passes.reductions.tree_reduction_rewriter import TreeReductionRewriter
from xjit.passes.schedule_and_memory.alias_passthrough_params import AliasPassthroughParams
from xjit.passes.schedule_and_memory.copy_fusion import CopyFusion
from xjit.passes.schedule_and_memory.copy_insertion import CopyInsertion
from xjit.passes.schedule_and_memory.hlo_descheduler import HloDescheduler
from xjit.passes.schedule_and_memory.hlo_rematerialization import HloRematerialization
from xjit.passes.schedule_and_memory.hlo_schedulers import HloMemoryScheduler, HloTrivialScheduler
from xjit.passes.schedule_and_memory.latency_hiding_scheduler import LatencyHidingScheduler
from xjit.passes.schedule_and_memory.optimize_input_output_buffer_alias import OptimizeInputOutputBufferAlias
from xjit.passes.schedule_and_memory.root_instruction_sinker import RootInstructionSinker
from xjit.passes.sharding.sharding_propagation import ShardingPropagation
from xjit.passes.sharding.spmd_partitioner import SpmdPartitioner
from xjit.passes.simplify.add_original_value import AddOriginalValue
from xjit.passes.simplify.algebraic_simplifier import AlgebraicSimplifier
from xjit.passes.simplify.batch_dot_simplification import BatchDotSimplification
from xjit.passes.simplify.broadcast_canonicalizer import BroadcastCanonicalizer
from xjit.passes.simplify.convert_mover import ConvertMover
from xjit.passes.simplify.dynamic_dimension_simplifier import DynamicDimensionSimplifier
from xjit.passes.simplify.gather_simplifier import GatherSimplifier
from xjit.passes.simplify.hlo_constant_folding import HloConstantFolding
from xjit.passes.simplify.hlo_constant_splitter import HloConstantSplitter
from xjit.passes.simplify.hlo_cse import HloCSE
from xjit.passes.simplify.hlo_dce import HloDCE
from xjit.passes.simplify.hlo_module_dce import HloModuleDCE
from xjit.passes.simplify.indexed_array_analysis import IndexedArrayAnalysisPrinterPass
from xjit.passes.simplify.reshape_mover import ReshapeMover
from xjit.passes.simplify.scatter_simplifier import ScatterSimplifier
from xjit.passes.simplify.slice_sinker import SliceSinker
from xjit.passes.simplify.sort_simplifier import SortSimplifier
from xjit.passes.simplify.topk_rewriter import TopkDecomposer, TopkRewriter
from xjit.passes.simplify.transpose_folding import TransposeFolding
from xjit.passes.simplify.tuple_simplifier import TupleSimplifier
from xjit.passes.simplify.zero_sized_hlo_elimination import ZeroSizedHloElimination

_ALL: tuple[type[HloModulePass], ...] = (
    AddOriginalValue,
    AddTrackingSuffixToInstructionNames,
    AlgebraicSimplifier,
    AliasPassthroughParams,
    AllGatherDecomposer,
    AllGatherRemoveDegenerateDims,
    AllReduceCombiner,
    AllReducePromotion,
    AllReduceReassociate,
    AllReduceSimplifier,
    AllToAllDecomposer,
    ArCrsCombiner,
    AssociativeScanRewriter,
    AsyncCollectiveCreator,
    AttentionFusion,
    AttentionResiduals,
    BFloat16ConversionFolding,
    BFloat16MixedPrecisionRemoval,
    BFloat16Normalization,
    BFloat16Propagation,
    BatchDotSimplification,
    BatchNormExpander,
    BatchedGatherScatterNormalizer,
    BitcastDtypesExpander,
    BitcastExpander,
    BroadcastCanonicalizer,
    CallInliner,
    ChangeOpDataType,
    CholeskyExpander,
    CollectiveExpander,
    CollectivePermuteCSE,
    ComparisonExpander,
    ConcatenateDimensionGrouper,
    ConditionalCanonicalizer,
    ConditionalCodeMotion,
    ConditionalSimplifier,
    ConditionalToSelect,
    ConstantGatherExpander,
    ControlDepRemover,
    ConvCanonicalization,
    ConvertAsyncCollectivesToSync,
    ConvertMover,
    ConvertOperandFolding,
    Convolution4DExpander,
    ConvolutionGroupConverter,
    ConvolutionToDot,
    CopyFusion,
    CopyInsertion,
    CuDnnCustomCallConverter,
    CublasPadForGemms,
    CudnnBatchNormRewriter,
    CudnnFusedConvRewriter,
    CudnnPadForConvolutions,
    CusolverRewriter,
    Defuser,
    DepthwiseGradientExpander,
    Despecializer,
    DotDecomposer,
    DotDimensionMerger,
    DotEpilogueFusion,
    DotExpander,
    DotMerger,
    DotOperandFusion,
    DotStrengthReduction,
    DynamicDimensionSimplifier,
    DynamicIndexSplitter,
    DynamicPadder,
    DynamicSliceAnnotator,
    DynamicSliceFusionRewriterV2,
    EstimateCubScanScratchSize,
    EstimateCubSortScratchSize,
    ExtremumRewriter,
    FftExpander,
    FlattenCallGraph,
    FusionMerger,
    FusionWrapper,
    GatherExpander,
    GatherSimplifier,
    GemmAlgorithmPicker,
    GemmRewriter,
    GemvRewriter,
    GpuConvAlgorithmPicker,
    GpuConvPaddingLegalization,
    GpuConvRewriter,
    GpuCopyInsertion,
    GpuHorizontalLoopFusion,
    GpuLayoutAssignment,
    GpuMultiOutputFusion,
    GpuSanitizeConstantNames,
    GpuTreeReductionRewriter,
    HloCSE,
    HloConstantFolding,
    HloConstantSplitter,
    HloDCE,
    HloDescheduler,
    HloDomainIsolator,
    HloDomainRemover,
    HloDomainVerifier,
    HloElementTypeConverter,
    HloGetDimensionSizeRewriter,
    HloMemoryScheduler,
    HloModuleDCE,
    HloRematerialization,
    HloSubcomputationUnification,
    HloTrivialScheduler,
    HloVerifier,
    HostOffloadingPrepare,
    IndexedArrayAnalysisPrinterPass,
    InstructionFusion,
    LatencyHidingScheduler,
    LayoutAssignment,
    LayoutNormalization,
    LibraryCallExpander,
    LogisticExpander,
    MapInliner,
    MemorySpacePropagation,
    MoveCopyToUsers,
    MultiOutputFusion,
    NarrowConvolutionExpander,
    NarrowDotExpander,
    NarrowReductionRewriter,
    OpExpanderPass,
    OperandUpcaster,
    OptimizationBarrierExpander,
    OptimizeInputOutputBufferAlias,
    ParallelTaskAssigner,
    PlanarConvolutionRewriter,
    RaggedDotRewriter,
    RealImagExpander,
    RecognizeReduceWindow,
    ReduceDecomposer,
    ReduceScatterDecomposer,
    ReduceWindowRewriter,
    ReducingCollectiveExpander,
    ReductionDegenerateDimRemover,
    ReductionDimensionGrouper,
    ReductionLayoutNormalizer,
    ReductionParallelizer,
    ReductionSplitter,
    ReshapeDecomposer,
    ReshapeMover,
    ReshapeToBitcast,
    ResultCaster,
    RngBitGeneratorExpander,
    RngExpander,
    RootInstructionSinker,
    RowFusion,
    RowTiling,
    ScanExpander,
    ScatterDimensionGrouper,
    ScatterExpander,
    ScatterParallelizer,
    ScatterSimplifier,
    SelectAndScatterExpander,
    ShardingPropagation,
    SimplifyFPConversions,
    SingleDeviceCanonicalizer,
    SliceSinker,
    SortSimplifier,
    SplitkRewriter,
    SpmdPartitioner,
    SpreadConvolutionExpander,
    StableSortExpander,
    StochasticConvertDecomposer,
    TopkDecomposer,
    TopkRewriter,
    TransposeFolding,
    TreeReductionRewriter,
    TriangularSolveExpander,
    TupleSimplifier,
    VariadicOpSplitter,
    VectorDotRewriter,
    WhileLoopAllReduceCodeMotion,
    WhileLoopConstantSinking,
    WhileLoopDotHoisting,
    WhileLoopInvariantCodeMotion,
    WhileLoopSimplifier,
    WhileLoopTransposeSinking,
    WhileLoopTripCountAnnotator,
    WhileLoopUnroller,
    ZeroSizedHloElimination,
)

BY_NAME: Mapping[str, type[HloModulePass]] = MappingProxyType(
    {name: cls for cls in _ALL for name in (cls.name, *cls.aliases)}
)
"""The passes by their dashed names and aliases."""
