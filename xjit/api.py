"""The public functions of `import xjit`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload
from typing import Literal as OneOf

from xjit.compile_options import CompileOptions
from xjit.compiler import Executable, GpuExecutable, compile_module
from xjit.frontends.formats import unwrap_proto
from xjit.frontends.jax_functions import from_jax
from xjit.frontends.jit import JitFunction, jit
from xjit.frontends.loading import ModuleLike, load, load_module
from xjit.frontends.stablehlo import from_stablehlo
from xjit.hlo.diagnostics import InvalidArgument
from xjit.hlo.ir.module import HloModule
from xjit.hlo.ir.module_config import HloModuleConfig
from xjit.hlo.provided import compile_hlo
from xjit.ops.evaluation.interpreter import evaluate as _evaluate
from xjit.ops.evaluation.interpreter import evaluate_devices as _evaluate_devices
from xjit.ops.verifier import verify_executable
from xjit.passes import run_passes as _run_passes
from xjit.passes.fusion.row_tiling import tiled_rows
from xjit.text.proto import create_from_proto, to_proto

__all__ = [
    "JitFunction",
    "compile",
    "evaluate",
    "from_hlo_proto",
    "from_jax",
    "from_stablehlo",
    "jit",
    "load",
    "load_module",
    "run_passes",
    "to_hlo_proto",
]


def from_hlo_proto(data: bytes, config: HloModuleConfig | None = None) -> HloModule:
    """Returns the module of a serialized HloModuleProto (or HloProto, HloSnapshot); HloParseError if malformed."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise InvalidArgument(f"expected the bytes of an HloModuleProto; found {type(data).__name__}")
    return create_from_proto(unwrap_proto(bytes(data)), config)


def to_hlo_proto(module: HloModule) -> bytes:
    """Returns a module as a serialized HloModuleProto, which XLA reads."""
    if not isinstance(module, HloModule):
        raise InvalidArgument(f"expected an HloModule; found {type(module).__name__}")
    return to_proto(module)


@overload
def compile(module: ModuleLike, target: OneOf["cpu"] = "cpu", options: CompileOptions | None = None) -> Executable: ...
@overload
def compile(module: ModuleLike, target: str, options: CompileOptions | None = None) -> Executable | GpuExecutable: ...
def compile(
    module: ModuleLike, target: str = "cpu", options: CompileOptions | None = None
) -> Executable | GpuExecutable:
    """Compiles a module, or what `load_module` makes one of, for a target; the module is not changed.

    Targets: "cpu"; "cuda-sim" or "cuda-sim:sm_80", GPU kernels that the host runs; "cuda" or "cuda:sm_90", a GPU.
    Returns an executable: `exe(*arrays)` takes NumPy arrays (one per parameter) and returns an array, or a tuple nested
    as in HLO. Errors: the HloError family, with the place in the text.
    """
    loaded = load_module(module)
    return compile_module(loaded, target, CompileOptions() if options is None else options, loaded is not module)


def evaluate(module: ModuleLike, *arrays: Any, inputs_per_device: Sequence[Sequence[Any]] | None = None) -> Any:
    """Returns what the reference evaluator computes: slow, obvious, and the definition that tests compare with.

    A module with replica_count R and num_partitions P runs on R * P devices, in step at its collectives: give it
    `inputs_per_device` (also as the only positional argument), one list of arrays for each device
    replica * P + partition; the result is a list with one result per device. Errors: HloVerifyError for an invalid
    module; InvalidArgument, naming the parameter, or if the inputs are for another number of devices; Unsupported.
    """
    loaded = load_module(module)
    verify_executable(loaded)
    if inputs_per_device is None:
        return _evaluate(loaded, *arrays)
    if arrays:
        raise InvalidArgument("evaluate takes arrays or inputs_per_device, not both")
    return _evaluate_devices(loaded, inputs_per_device)


def run_passes(module: HloModule, names: Sequence[str]) -> bool:
    """Runs passes by name, in place, verified; returns whether anything changed.

    Errors: InvalidArgument for an unknown name or something that is no module; HloVerifyError.
    """
    if not isinstance(module, HloModule):
        raise InvalidArgument(f"passes change a module in place: expected an HloModule, found {type(module).__name__}")
    return _run_passes(module, names)


def _tiled_rows(rows: HloModule, parts: int) -> HloModule | None:
    from xjit.linalg_ext.automatic.rows import tiled_rows as cut  # 180 modules, for those few programs with long rows

    return cut(rows, parts)


compile_hlo.provide(compile)
tiled_rows.provide(_tiled_rows)
