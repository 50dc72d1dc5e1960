"""The public functions of `import xjit`."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, overload
from typing import Literal as OneOf

from xjit.compile_options import CompileOptions
from xjit.compiler import Executable, compile_module
from xjit.gpu_compiler import GpuExecutable
from xjit.hlo.diagnostics import InvalidArgument
from xjit.hlo.ir.module import HloModule
from xjit.hlo.ir.module_config import HloModuleConfig
from xjit.ops.evaluation.interpreter import evaluate as _evaluate
from xjit.ops.evaluation.interpreter import evaluate_devices as _evaluate_devices
from xjit.ops.verifier import verify_module
from xjit.passes import run_passes as _run_passes
from xjit.text.parser import parse_hlo
from xjit.text.proto import create_from_proto, to_proto

ModuleLike = HloModule | str | os.PathLike[str]
_STABLEHLO = re.compile(r"^\s*(module\b[^\n]*\{|func\.func\b)", re.MULTILINE)


def load_module(source: ModuleLike) -> HloModule:
    """Returns a module: itself, parsed from HLO text, or read from a path.

    A string with a newline or a brace, or an empty one, is text; any other string is a path. `-` is standard input, a
    file that ends in `.pb` is a serialized HloModuleProto. Errors: HloParseError; InvalidArgument if the file cannot be
    read, or holds StableHLO.
    """
    if isinstance(source, HloModule):
        return source
    if isinstance(source, str) and ("\n" in source or "{" in source or not source.strip()):
        return parse_hlo(source)
    if not isinstance(source, str | os.PathLike):
        raise InvalidArgument(f"expected a module, HLO text or a path; found {type(source).__name__}")
    name = os.fspath(source)
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(source).read_bytes()
        if name.endswith(".pb"):
            return from_hlo_proto(data)
        text = data.decode("utf-8-sig")
    except (OSError, ValueError) as error:  # a ValueError: no path, or no UTF-8
        raise InvalidArgument(f"cannot read HLO from {name!r}: {error}") from error
    if _STABLEHLO.search(text):
        raise InvalidArgument(f"{name!r} holds StableHLO, which xjit does not read: lower it to HLO first (see README)")
    return parse_hlo(text, file="<stdin>" if name == "-" else name)


def from_hlo_proto(data: bytes, config: HloModuleConfig | None = None) -> HloModule:
    """Returns the module of a serialized HloModuleProto; HloParseError if the bytes are malformed."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise InvalidArgument(f"expected the bytes of an HloModuleProto; found {type(data).__name__}")
    return create_from_proto(bytes(data), config)


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
    """Compiles a module, HLO text or a file for a target; the module is not changed.

    Targets: "cpu"; "cuda-sim" or "cuda-sim:sm_80", GPU kernels that the host runs; "cuda" or "cuda:sm_90", a GPU.
    Returns an executable: `exe(*arrays)` takes NumPy arrays (one per parameter) and returns an array, or a tuple nested
    as in HLO. Errors: the HloError family, with the place in the text.
    """
    return compile_module(load_module(module), target, CompileOptions() if options is None else options)


def evaluate(module: ModuleLike, *arrays: Any, inputs_per_device: Sequence[Sequence[Any]] | None = None) -> Any:
    """Returns what the reference evaluator computes: slow, obvious, and the definition that tests compare with.

    A module with replica_count R and num_partitions P runs on R * P devices, in step at its collectives: give it
    `inputs_per_device` (also as the only positional argument), one list of arrays for each device
    replica * P + partition; the result is a list with one result per device. Errors: HloVerifyError for an invalid
    module; InvalidArgument, naming the parameter, or if the inputs are for another number of devices; Unsupported.
    """
    loaded = load_module(module)
    verify_module(loaded, allow_mixed_precision=False)
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
