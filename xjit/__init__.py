"""xjit: a readable JIT compiler for HLO modules.

exe = xjit.compile("model.hlo")
outputs = exe(*arrays)
"""

from xjit.collector_pause import collector_pause as _collector_pause
from xjit.collector_pause import take_all_for_old as _take_all_for_old

with _collector_pause:  # what is imported is no garbage
    from xjit.api import (
        compile,
        evaluate,
        from_hlo_proto,
        from_jax,
        from_stablehlo,
        jit,
        load,
        load_module,
        run_passes,
        to_hlo_proto,
    )
    from xjit.comparison import Comparison, compare
    from xjit.compile_options import CompileOptions
    from xjit.compiler import Executable
    from xjit.frontends.device_function import DeviceFunction, device_function
    from xjit.frontends.numba_calls import enable_numba
    from xjit.hlo import (
        CompileError,
        ExecutionError,
        FailedPrecondition,
        HloComputation,
        HloError,
        HloInstruction,
        HloModule,
        HloParseError,
        HloPrintOptions,
        HloVerifyError,
        InvalidArgument,
        Layout,
        Literal,
        PassError,
        PrimitiveType,
        ResourceExhausted,
        Shape,
        Unsupported,
        XjitError,
        structural_equal,
    )
    from xjit.hlo.custom_call_registry import custom_call_status_set_failure, register_custom_call_target
    from xjit.llvm.target import Target
    from xjit.passes import PASSES
    from xjit.runtime.arrays.host_arrays import DlpackArray
    from xjit.text.parser import parse_hlo
    from xjit.version import __version__

    _take_all_for_old()

__all__ = [
    "PASSES",
    "Comparison",
    "CompileError",
    "CompileOptions",
    "DeviceFunction",
    "DlpackArray",
    "Executable",
    "ExecutionError",
    "FailedPrecondition",
    "HloComputation",
    "HloError",
    "HloInstruction",
    "HloModule",
    "HloParseError",
    "HloPrintOptions",
    "HloVerifyError",
    "InvalidArgument",
    "Layout",
    "Literal",
    "PassError",
    "PrimitiveType",
    "ResourceExhausted",
    "Shape",
    "Target",
    "Unsupported",
    "XjitError",
    "__version__",
    "compare",
    "compile",
    "custom_call_status_set_failure",
    "device_function",
    "enable_numba",
    "evaluate",
    "from_hlo_proto",
    "from_jax",
    "from_stablehlo",
    "jit",
    "load",
    "load_module",
    "parse_hlo",
    "register_custom_call_target",
    "run_passes",
    "structural_equal",
    "to_hlo_proto",
]
