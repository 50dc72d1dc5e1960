"""XLA's options of a compilation (`compiler_options=`): which there are, of which type, and what they mean here.

`xla_backend_optimization_level` and `xla_disable_hlo_passes` have their meaning. The others say how XLA's own compilers
or GPUs work, what they write beside, or what they may do and need not: a right value of one changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from xjit.compile_options import CompileOptions
from xjit.hlo.diagnostics import HloError, InvalidArgument
from xjit.passes import PASSES, find_pass
from xjit.passes.framework.driver import refuse_if_required

_OPT_LEVEL: Final = "xla_backend_optimization_level"
_DISABLED: Final = "xla_disable_hlo_passes"

_NAMES: Final = {
    bool: """
        xla_allow_excess_precision xla_allow_scalar_index_dynamic_ops xla_cpu_copy_insertion_use_region_analysis
        xla_cpu_enable_concurrency_optimized_scheduler xla_cpu_enable_fast_math xla_cpu_enable_fast_min_max
        xla_cpu_enable_platform_dependent_math xla_cpu_fast_math_honor_division xla_cpu_fast_math_honor_functions
        xla_cpu_fast_math_honor_infs xla_cpu_fast_math_honor_nans xla_cpu_multi_thread_eigen
        xla_cpu_strict_dot_conv_math xla_cpu_use_acl xla_cpu_use_onednn xla_cpu_use_xnnpack xla_detailed_logging
        xla_dump_compress_protos xla_dump_disable_metadata xla_dump_enable_mlir_pretty_form
        xla_dump_full_hlo_config xla_dump_fusion_visualization xla_dump_hlo_as_dot xla_dump_hlo_as_html
        xla_dump_hlo_as_long_text xla_dump_hlo_as_proto xla_dump_hlo_as_text xla_dump_hlo_as_url
        xla_dump_hlo_snapshots xla_dump_hlo_unoptimized_snapshots xla_dump_include_timestamp xla_dump_large_constants
        xla_dump_module_metadata xla_eliminate_hlo_implicit_broadcast xla_embed_ir_in_executable
        xla_gpu_crash_on_verification_failures xla_gpu_deterministic_ops
        xla_gpu_enable_cublaslt xla_gpu_enable_cudnn_fusion xla_gpu_enable_fast_min_max
        xla_gpu_enable_latency_hiding_scheduler xla_gpu_enable_pipelined_all_gather
        xla_gpu_enable_pipelined_all_reduce xla_gpu_enable_pipelined_reduce_scatter xla_gpu_enable_triton_gemm
        xla_gpu_enable_while_loop_double_buffering xla_gpu_exclude_nondeterministic_ops xla_gpu_ftz
        xla_gpu_strict_conv_algorithm_picker xla_gpu_triton_gemm_any xla_hlo_profile
        xla_llvm_disable_expensive_passes xla_llvm_enable_alias_scope_metadata
        xla_llvm_enable_invariant_load_metadata xla_llvm_enable_noalias_metadata xla_pjrt_allow_auto_layout_in_hlo
        xla_test_all_input_layouts xla_test_all_output_layouts
        xla_unsupported_crash_on_hlo_pass_fix_max_iterations xla_unsupported_crash_on_hlo_pass_noop_change
    """,
    int: f"""
        {_OPT_LEVEL} xla_cpu_prefer_vector_width xla_cpu_parallel_codegen_split_count xla_dump_max_hlo_modules
        xla_force_host_platform_device_count xla_gpu_all_gather_combine_threshold_bytes
        xla_gpu_all_reduce_combine_threshold_bytes xla_gpu_autotune_level xla_gpu_force_compilation_parallelism
        xla_gpu_reduce_scatter_combine_threshold_bytes xla_hlo_graph_sharding_color_count
        xla_multiheap_size_constraint_per_heap
    """,
    float: "xla_gpu_auto_spmd_partitioning_memory_budget_ratio",
    str: f"""
        {_DISABLED} xla_cpu_max_isa xla_dump_hlo_module_re xla_dump_hlo_pass_re xla_dump_to xla_enable_hlo_passes_only
        xla_gpu_cuda_data_dir xla_step_marker_location xla_backend_extra_options xla_gpu_disable_async_collectives
    """,
}
_TYPES: Final = {name: kind for kind, names in _NAMES.items() for name in names.split()}

_DEFAULT_LEVEL: Final = CompileOptions().opt_level
_WORDS: Final = {"true": True, "false": False, "1": True, "0": False}


def compile_options_of(overrides: Iterable[tuple[str, bool | int | float | str]]) -> CompileOptions:
    """What options of XLA mean. Errors: InvalidArgument for unknown names and values of another type."""
    values: dict[str, bool | int | float | str] = {}
    for name, value in overrides:
        if name not in _TYPES:
            raise InvalidArgument(f"No such compile option: '{name}'")
        values[name] = _converted(name, value)
    level = min(int(values.get(_OPT_LEVEL, _DEFAULT_LEVEL)), 3)
    disabled = tuple(name for name in str(values.get(_DISABLED, "")).split(",") if _can_be_disabled(name))
    return CompileOptions(opt_level=max(level, 0), disabled_passes=disabled)


def _converted(name: str, value: bool | int | float | str) -> bool | int | float | str:
    """The value as the option's type: it may be given as text."""
    kind = _TYPES[name]
    try:
        if kind is bool:
            return _WORDS[value.lower()] if isinstance(value, str) else bool(value)
        return kind(value)
    except (ValueError, KeyError):
        text = f"While setting option {name}, '{value}' is not a valid {kind.__name__} value."
        raise InvalidArgument(text) from None


def _can_be_disabled(name: str) -> bool:
    """Whether xjit has a pass of that name which it can do without; XLA ignores other names, too."""
    try:
        refuse_if_required(find_pass(PASSES, name))
    except HloError:
        return False
    return True
