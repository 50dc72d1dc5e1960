"""XLA's options of a compilation, the fields of its `DebugOptions`: which there are, and which values they take.

These are facts of XLA as jaxlib 0.10 has it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from xjit.hlo.diagnostics import InvalidArgument

Value = bool | int | float | str

_NAMES: Final = {
    "bool": """
        xla_allow_excess_precision xla_allow_h2h_copy_when_automatic_host_compute_offload_disabled
        xla_allow_scalar_index_dynamic_ops xla_cpu_copy_insertion_use_region_analysis
        xla_cpu_enable_concurrency_optimized_scheduler xla_cpu_enable_fast_math xla_cpu_enable_fast_min_max
        xla_cpu_enable_platform_dependent_math xla_cpu_enable_xprof_traceme
        xla_cpu_experimental_enable_tiling_propagation xla_cpu_experimental_onednn_custom_call
        xla_cpu_fast_math_honor_division xla_cpu_fast_math_honor_functions xla_cpu_fast_math_honor_infs
        xla_cpu_fast_math_honor_nans xla_cpu_ftz xla_cpu_generate_unique_c_style_kernel_entry_points
        xla_cpu_multi_thread_eigen xla_cpu_strict_dot_conv_math xla_cpu_use_acl xla_cpu_use_fusion_emitters
        xla_cpu_use_onednn xla_cpu_use_xnnpack xla_detailed_logging xla_disable_all_hlo_passes
        xla_disable_automatic_host_compute_offload xla_dump_buffer_assignment_analysis xla_dump_compress_protos
        xla_dump_disable_metadata xla_dump_enable_mlir_pretty_form xla_dump_full_hlo_config
        xla_dump_fusion_visualization xla_dump_hlo_as_dot xla_dump_hlo_as_html xla_dump_hlo_as_long_text
        xla_dump_hlo_as_proto xla_dump_hlo_as_text xla_dump_hlo_as_url xla_dump_hlo_snapshots
        xla_dump_hlo_to_subfolder xla_dump_hlo_unoptimized_snapshots xla_dump_include_timestamp
        xla_dump_large_constants xla_dump_latency_hiding_schedule xla_dump_module_metadata
        xla_early_exit_with_layouts xla_eliminate_hlo_implicit_broadcast xla_embed_ir_in_executable
        xla_enable_command_buffers_during_profiling xla_enable_dumping xla_enable_enzyme_comms_opt
        xla_enable_fast_math xla_enable_hlo_sharding_v3 xla_enable_rgv3_materialization
        xla_enable_scoped_logging_timers xla_flags_reset xla_gpu_async_dot xla_gpu_collect_cost_model_stats
        xla_gpu_collective_permute_connected_components xla_gpu_command_buffer_unroll_loops
        xla_gpu_copy_insertion_use_region_analysis xla_gpu_crash_on_verification_failures
        xla_gpu_cublas_fallback xla_gpu_default_to_alg_dot_bf16_bf16_f32 xla_gpu_deterministic_ops
        xla_gpu_disable_gpuasm_optimizations xla_gpu_dump_autotuned_gemm_fusions
        xla_gpu_dump_autotuned_instructions xla_gpu_dump_llvmir xla_gpu_enable_all_gather_combine_by_dim
        xla_gpu_enable_analytical_latency_estimator xla_gpu_enable_analytical_sol_latency_estimator
        xla_gpu_enable_approx_costly_collectives xla_gpu_enable_cub_radix_sort xla_gpu_enable_cublaslt
        xla_gpu_enable_cudnn_int8x32_convolution_reordering xla_gpu_enable_cudnn_layer_norm
        xla_gpu_enable_dus_accumulator_zero_init_elimination xla_gpu_enable_dynamic_slice_fusion
        xla_gpu_enable_fast_min_max xla_gpu_enable_highest_priority_async_stream
        xla_gpu_enable_host_memory_offloading xla_gpu_enable_latency_hiding_scheduler
        xla_gpu_enable_libnvptxcompiler xla_gpu_enable_llvm_module_compilation_parallelism
        xla_gpu_enable_nccl_clique_optimization xla_gpu_enable_nccl_comm_splitting
        xla_gpu_enable_nccl_user_buffers xla_gpu_enable_pdl xla_gpu_enable_pipelined_all_gather
        xla_gpu_enable_pipelined_all_reduce xla_gpu_enable_pipelined_collectives
        xla_gpu_enable_pipelined_host_offloading xla_gpu_enable_pipelined_p2p
        xla_gpu_enable_pipelined_reduce_scatter xla_gpu_enable_reassociation_for_converted_ar
        xla_gpu_enable_reduce_scatter_combine_by_dim xla_gpu_enable_scatter_determinism_expander
        xla_gpu_enable_shared_constants xla_gpu_enable_triton_gemm xla_gpu_enable_while_loop_double_buffering
        xla_gpu_enable_while_loop_reduce_scatter_code_motion xla_gpu_exclude_nondeterministic_ops
        xla_gpu_executable_embed_debug_info xla_gpu_exhaustive_tiling_search
        xla_gpu_experimental_all_fusions_with_triton xla_gpu_experimental_aot_compiled_thunks
        xla_gpu_experimental_autotune_post_fusion xla_gpu_experimental_collective_start_as_early_as_possible
        xla_gpu_experimental_disable_binary_libraries xla_gpu_experimental_dump_fdo_profiles
        xla_gpu_experimental_dump_gpu_executable xla_gpu_experimental_dynamic_slice_fusion_verify_offsets
        xla_gpu_experimental_enable_alltoall_windowed_einsum xla_gpu_experimental_enable_buffer_saver_on_thunks
        xla_gpu_experimental_enable_checksum_tracing_on_thunks
        xla_gpu_experimental_enable_collective_multi_streaming xla_gpu_experimental_enable_conv_fusion
        xla_gpu_experimental_enable_fusion_autotuner xla_gpu_experimental_enable_fusion_block_level_rewriter
        xla_gpu_experimental_enable_heuristic_collective_combining
        xla_gpu_experimental_enable_nccl_symmetric_buffers xla_gpu_experimental_enable_nvshmem
        xla_gpu_experimental_enable_subchannel_dequantisation_fusion
        xla_gpu_experimental_enable_tiling_propagation
        xla_gpu_experimental_enable_triton_heroless_priority_fusion
        xla_gpu_experimental_enable_triton_warp_specialization xla_gpu_experimental_gemm_fusion_v2
        xla_gpu_experimental_pack_dot_operands_along_k_dimension
        xla_gpu_experimental_ragged_all_to_all_use_barrier
        xla_gpu_experimental_ragged_all_to_all_use_barrier_with_nccl
        xla_gpu_experimental_ragged_all_to_all_zero_copy xla_gpu_experimental_scaled_dot_with_triton
        xla_gpu_experimental_stream_annotation xla_gpu_experimental_thunk_buffer_debug_module_outputs
        xla_gpu_experimental_use_raft_select_k xla_gpu_experimental_use_ragged_dot_fusion
        xla_gpu_experimental_use_ragged_dot_grouped_gemm xla_gpu_fail_ptx_compilation_on_register_spilling
        xla_gpu_filter_kernels_spilling_registers_on_autotuning xla_gpu_force_conv_nchw xla_gpu_force_conv_nhwc
        xla_gpu_ftz xla_gpu_fused_attention_use_cudnn_rng xla_gpu_generate_debug_info xla_gpu_generate_line_info
        xla_gpu_graph_enable_concurrent_region xla_gpu_log_minmax xla_gpu_mock_custom_calls
        xla_gpu_multi_streamed_windowed_einsum xla_gpu_native_emitter_tune_unroll_factor_for_loops
        xla_gpu_nccl_async_execution xla_gpu_nccl_blocking_communicators xla_gpu_nccl_terminate_on_error
        xla_gpu_print_compilation_stats xla_gpu_require_complete_aot_autotune_results
        xla_gpu_require_exclusive_lock xla_gpu_shard_autotuning xla_gpu_temp_buffer_use_separate_color
        xla_gpu_triton_gemm_any xla_gpu_unsafe_fallback_to_driver_on_ptxas_not_found
        xla_gpu_unsupported_enable_all_reduce_decomposer xla_gpu_unsupported_enable_ragged_all_to_all_decomposer
        xla_gpu_unsupported_enable_ragged_all_to_all_multi_host_decomposer
        xla_gpu_unsupported_enable_triton_gemm xla_gpu_unsupported_enable_triton_multi_output_fusion
        xla_gpu_unsupported_use_all_reduce_one_shot_kernel
        xla_gpu_unsupported_use_ragged_all_to_all_one_shot_kernel xla_gpu_use_embeded_device_lib
        xla_gpu_use_inprocess_lld xla_gpu_use_memcpy_local_p2p xla_gpu_use_runtime_fusion
        xla_gpu_verify_triton_fusion_numerics xla_hlo_evaluator_use_fast_path xla_hlo_graph_addresses
        xla_hlo_graph_sharding_color xla_hlo_pass_fix_detect_cycles xla_hlo_print_inline_stack_frames
        xla_hlo_profile xla_keep_shardings_after_spmd xla_llvm_disable_expensive_passes
        xla_llvm_enable_alias_scope_metadata xla_llvm_enable_invariant_load_metadata
        xla_llvm_enable_noalias_metadata xla_llvm_force_inline_before_split xla_pjrt_allow_auto_layout_in_hlo
        xla_sdy_export_all_reduce_scatter xla_syntax_sugar_async_ops xla_test_add_command_buffer_mode
        xla_test_all_input_layouts xla_test_all_output_layouts xla_tpu_detect_inf xla_tpu_detect_nan
        xla_unsupported_crash_on_hlo_pass_fix_max_iterations xla_unsupported_crash_on_hlo_pass_noop_change
        xla_unsupported_crash_on_hlo_pass_silent_hlo_change
    """,
    "int32": """
        xla_backend_optimization_level xla_cpu_collective_call_terminate_timeout_seconds
        xla_cpu_collective_call_warn_stuck_seconds xla_cpu_collective_timeout_seconds
        xla_cpu_emitter_verification_level xla_cpu_parallel_codegen_split_count xla_cpu_prefer_vector_width
        xla_dump_max_hlo_modules xla_force_host_platform_device_count
        xla_gpu_all_reduce_blueconnect_num_devices_per_host xla_gpu_auto_spmd_partitioning_memory_budget_gb
        xla_gpu_autotune_level xla_gpu_collective_inflation_factor xla_gpu_cudnn_gemm_fusion_level
        xla_gpu_cudnn_gemm_max_plans xla_gpu_dot_merger_threshold_mb
        xla_gpu_executable_num_communication_streams xla_gpu_executable_num_compute_streams
        xla_gpu_executable_terminate_timeout_seconds xla_gpu_executable_warn_stuck_timeout_seconds
        xla_gpu_execution_progress_tracking xla_gpu_experimental_force_split_k
        xla_gpu_experimental_max_unroll_factor xla_gpu_experimental_parallel_async_compute_limit
        xla_gpu_experimental_parallel_collective_overlap_limit
        xla_gpu_first_collective_call_terminate_timeout_seconds
        xla_gpu_first_collective_call_warn_stuck_timeout_seconds xla_gpu_force_compilation_parallelism
        xla_gpu_fusion_autotune_top_k_configs xla_gpu_graph_min_graph_size xla_gpu_llvm_verification_level
        xla_gpu_memory_limit_slop_factor xla_multiheap_size_constraint_per_heap
        xla_recognize_reduction_optimization_level
    """,
    "int64": """
        xla_cmd_buffer_trace_cache_size xla_debug_buffer_assignment_show_max
        xla_gpu_all_gather_combine_threshold_bytes xla_gpu_all_reduce_combine_threshold_bytes
        xla_gpu_autotune_max_solutions xla_gpu_collective_combine_threshold_count
        xla_gpu_collective_permute_combine_threshold_bytes xla_gpu_collective_permute_decomposer_threshold
        xla_gpu_experimental_collective_cse_distance_threshold xla_gpu_gemm_rewrite_size_threshold
        xla_gpu_nccl_collective_max_nchannels xla_gpu_nccl_init_max_rank_per_root_ratio
        xla_gpu_nccl_p2p_max_nchannels xla_gpu_nccl_termination_timeout_seconds
        xla_gpu_operand_bytes_threshold_for_windowed_einsum xla_gpu_reduce_scatter_combine_threshold_bytes
        xla_gpu_redzone_padding_bytes xla_gpu_rocm_max_trace_events xla_gpu_threshold_for_windowed_einsum_mib
        xla_gpu_unsupported_override_fast_interconnect_slice_size xla_reduce_window_rewrite_base_length
    """,
    "float": "xla_gpu_auto_spmd_partitioning_memory_budget_ratio xla_gpu_autotune_gemm_rtol",
    "string": """
        xla_cpu_max_isa xla_disable_hlo_passes xla_dump_emitter_re xla_dump_hlo_module_re xla_dump_hlo_pass_re
        xla_dump_hlo_pipeline_re xla_dump_to xla_enable_hlo_passes_only xla_gpu_algorithm_denylist_path
        xla_gpu_collectives_implementation xla_gpu_cuda_data_dir xla_gpu_dump_autotune_logs_to
        xla_gpu_dump_autotune_results_to xla_gpu_execution_terminate_timeout
        xla_gpu_experimental_autotuner_cache_dir xla_gpu_experimental_collective_perf_table_path
        xla_gpu_experimental_matmul_perf_table_path xla_gpu_gemm_autotuner_override_file
        xla_gpu_kernel_cache_file xla_gpu_llvm_ir_file xla_gpu_load_autotune_results_from
        xla_gpu_override_gemm_autotuner xla_gpu_per_fusion_autotune_cache_dir
        xla_gpu_pgle_profile_file_or_directory_path xla_gpu_ptx_compiler_extra_flags xla_gpu_ptx_file
        xla_gpu_target_config_filename
    """,
    "message": """
        xla_backend_extra_options xla_gpu_analytical_latency_estimator_options
        xla_gpu_experimental_cost_model_gemm_tiling_options xla_gpu_experimental_thunk_buffer_debug_filter
    """,
}
"""By type. What is a message cannot be given as a value."""

_ENUMS: Final = {
    "xla_cpu_opt_preset": "CPU_OPT_PRESET_DEFAULT CPU_OPT_PRESET_FAST_COMPILE CPU_OPT_PRESET_FAST_RUNTIME",
    """
        xla_cpu_experimental_onednn_fusion_type xla_cpu_experimental_xnn_fusion_type
        xla_cpu_experimental_ynn_fusion_type
    """: """
        LIBRARY_FUSION_TYPE_DOT LIBRARY_FUSION_TYPE_ELTWISE LIBRARY_FUSION_TYPE_INDIVIDUAL_CONVOLUTION
        LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT LIBRARY_FUSION_TYPE_INVALID LIBRARY_FUSION_TYPE_REDUCE
    """,
    "xla_cpu_experimental_xnn_graph_fusion_mode": """
        XNN_GRAPH_FUSION_MODE_BYPASS_COST_MODEL XNN_GRAPH_FUSION_MODE_DISABLED XNN_GRAPH_FUSION_MODE_GREEDY
        XNN_GRAPH_FUSION_MODE_GREEDY_SLINKY
    """,
    "xla_cpu_scheduler_type": """
        CPU_SCHEDULER_TYPE_CONCURRENCY_OPTIMIZED CPU_SCHEDULER_TYPE_DEFAULT CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED
    """,
    "xla_gpu_deviceless_cub_mode": """
        DEVICELESS_CUB_DISABLED DEVICELESS_CUB_FORCE_ON_NO_FALLBACK DEVICELESS_CUB_NO_FALLBACK
        DEVICELESS_CUB_UNSET DEVICELESS_CUB_WITH_FALLBACK
    """,
    "xla_gpu_experimental_autotune_backends": """
        UNSPECIFIED_BACKEND CUDNN TRITON CUBLASLT HIPBLASLT MIOPEN CUSTOM_KERNEL BLOCK_LEVEL_EMITTER NATIVE_EMITTER
        LLVM_KERNEL_EMITTER CUBLASLT_FISSION CUSTOM_KERNEL_FISSION HIPBLASLT_FISSION CUBLAS CUBLAS_FISSION ROCBLAS
        ROCBLAS_FISSION
    """,
    "xla_gpu_all_gather_mode xla_gpu_collective_permute_mode xla_gpu_ragged_all_to_all_mode": """
        COLLECTIVES_MODE_INVALID COLLECTIVES_PEER_MEMORY COLLECTIVES_PRIVATE_MEMORY COLLECTIVES_SYMMETRIC_MEMORY
    """,
    "xla_gpu_command_buffer_scheduling_mode": "CONCURRENT CONCURRENT_REGIONS LHS SERIALIZE",
    "xla_gpu_command_buffer_update_mode": "ALWAYS_UPDATE CAPTURE_CMD_NEVER_UPDATE NEVER_UPDATE",
    "xla_gpu_disable_async_collectives": """
        ALLCOLLECTIVES ALLGATHER ALLREDUCE ALLTOALL COLLECTIVEBROADCAST COLLECTIVEPERMUTE NOOP RAGGEDALLTOALL
        REDUCESCATTER
    """,
    "xla_gpu_enable_command_buffer": """
        COLLECTIVES CONDITIONAL CONVOLUTION CUBLAS CUBLASLT CUDNN CUSTOM_CALL DYNAMIC_SLICE_FUSION FUSION
        INVALID WHILE
    """,
    "xla_gpu_enable_while_loop_unrolling": """
        WHILE_LOOP_UNROLLING_AUTO_UNROLL WHILE_LOOP_UNROLLING_DOUBLE_BUFFER WHILE_LOOP_UNROLLING_FULL_UNROLL
        WHILE_LOOP_UNROLLING_MANUAL_UNROLL WHILE_LOOP_UNROLLING_NO_UNROLL
    """,
    "xla_gpu_experimental_autotune_cache_mode": """
        AUTOTUNE_CACHE_MODE_READ AUTOTUNE_CACHE_MODE_UNSPECIFIED AUTOTUNE_CACHE_MODE_UPDATE
    """,
    "xla_gpu_experimental_pipeline_parallelism_opt_level": """
        PIPELINE_PARALLELISM_OPT_LEVEL_DISABLE PIPELINE_PARALLELISM_OPT_LEVEL_ENABLE
    """,
    "xla_gpu_libnvjitlink_mode": "LIB_NV_JIT_LINK_MODE_AUTO LIB_NV_JIT_LINK_MODE_DISABLED LIB_NV_JIT_LINK_MODE_ENABLED",
    "xla_gpu_pgle_accuracy_checker": "PGLE_STRICTNESS_LEVEL_ERROR PGLE_STRICTNESS_LEVEL_OFF PGLE_STRICTNESS_LEVEL_WARN",
    "xla_gpu_shape_checks": "COMPILE_TIME IGNORE RUNTIME",
    "xla_step_marker_location": """
        STEP_MARK_AT_ENTRY STEP_MARK_AT_SECOND_LEVEL_WHILE_LOOP STEP_MARK_AT_TOP_LEVEL_WHILE_LOOP STEP_MARK_NONE
    """,
    "xla_partitioning_algorithm": """
        PARTITIONING_ALGORITHM_EXP0 PARTITIONING_ALGORITHM_EXP1 PARTITIONING_ALGORITHM_EXP2
        PARTITIONING_ALGORITHM_NOOP
    """,
    """
        xla_detect_unstable_reductions xla_detect_unstable_reductions_post_optimizations xla_gpu_detect_inf
        xla_gpu_detect_nan
    """: "DETECTION_MODE_FAIL DETECTION_MODE_NONE DETECTION_MODE_WARNING",
}
"""The options that name one of some things, and these."""

_LISTS: Final = """
    xla_backend_extra_options xla_cpu_experimental_onednn_fusion_type xla_cpu_experimental_xnn_fusion_type
    xla_cpu_experimental_ynn_fusion_type xla_disable_hlo_passes xla_enable_hlo_passes_only
    xla_gpu_analytical_latency_estimator_options xla_gpu_disable_async_collectives xla_gpu_enable_command_buffer
    xla_gpu_experimental_autotune_backends xla_gpu_experimental_cost_model_gemm_tiling_options
    xla_gpu_llvm_ir_file xla_gpu_ptx_compiler_extra_flags xla_gpu_ptx_file
"""
"""A text may hold several values of these, or none."""

_BOOLS: Final = {"True": True, "False": False}
_BITS: Final = {"int32": 32, "int64": 64}


def check_option(name: str, value: Value) -> Value:
    """An option's value, as its type: it may be given as text. Errors: InvalidArgument for others."""
    kind = _TYPES.get(name)
    if kind is None:
        raise InvalidArgument(f"No such compile option: '{name}'")
    parts: list[Value] = [value]
    if name in _LIST_NAMES and isinstance(value, str):
        parts = list(filter(None, value.split(",")))
    converted = value
    for part in parts:
        try:
            converted = _enum_value(name, part) if kind == "enum" else _CONVERSIONS[kind](part)
        except (ValueError, KeyError):
            text = f"{part:g}" if isinstance(part, float) else str(int(part)) if isinstance(part, bool) else part
            raise InvalidArgument(f"While setting option {name}, '{text}' is not a valid {kind} value.") from None
    return value if name in _LIST_NAMES else converted


def _bool(value: Value) -> bool:
    return value if isinstance(value, bool) else _BOOLS[_text(value)]


def _integer(kind: str) -> Callable[[Value], int]:
    def convert(value: Value) -> int:
        number = value if type(value) is int else int(_digits(value))
        if not -1 <= number >> (_BITS[kind] - 1) <= 0:
            raise ValueError
        return number

    return convert


def _float(value: Value) -> float:
    return value if isinstance(value, float) else float(_digits(value))


def _text(value: Value) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value


def _digits(value: Value) -> str:
    """The text of a number; Python's readers would take underscores, XLA's do not."""
    text = _text(value)
    if "_" in text:
        raise ValueError
    return text


def _message(value: Value) -> Value:
    raise ValueError


def _enum_value(name: str, value: Value) -> Value:
    """A name or a number; a number need not be that of a name."""
    if type(value) is int or value in _ENUM_VALUES[name]:
        return value
    return _CONVERSIONS["int32"](value)


_CONVERSIONS: Final[dict[str, Callable[[Value], Value]]] = {
    "bool": _bool,
    "int32": _integer("int32"),
    "int64": _integer("int64"),
    "float": _float,
    "string": _text,
    "message": _message,
}

_ENUM_VALUES: Final = {name: frozenset(values.split()) for names, values in _ENUMS.items() for name in names.split()}
_TYPES: Final = {name: kind for kind, names in _NAMES.items() for name in names.split()} | dict.fromkeys(
    _ENUM_VALUES, "enum"
)
_LIST_NAMES: Final = frozenset(_LISTS.split())
