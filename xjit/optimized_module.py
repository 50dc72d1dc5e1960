"""The half of a compilation that all targets share: a module verified and optimized, every value with its place."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from xjit.affine import tile_array
from xjit.compile_options import CompileOptions, Progress
from xjit.dataclass import dataclass
from xjit.dump import CompilationDump
from xjit.flags import flags_from_environment
from xjit.hlo.ir.module import HloModule
from xjit.hlo.types.literal import Literal
from xjit.hlo.types.shape import Shape
from xjit.ops.replica_groups import check_devices, device_count
from xjit.ops.verifier import verify_executable
from xjit.passes import PASSES, PassDriver, PassSwitches, find_pass
from xjit.passes.calls_and_control.flatten_call_graph import check_call_tree
from xjit.passes.framework.base import HloModulePass
from xjit.passes.framework.hlo_verifier import HloVerifier
from xjit.passes.pipelines import PipelineOptions
from xjit.passes.schedule_and_memory.buffer_assignment import BufferAssignment, assign_buffers, physical_byte_size
from xjit.passes.schedule_and_memory.buffer_verifier import verify_buffer_assignment
from xjit.runtime.arrays.physical_layout import array_signature
from xjit.runtime.program import ArraySignature, LeafTree

Pipeline = Callable[[PipelineOptions], list[HloModulePass]]
ModuleText = Callable[[], str]
"""Returns the text of a module as it was when it was compiled."""


@dataclass(frozen=True, slots=True)
class OptimizedModule:
    """What emitters start from. `dump` takes what comes out, if flags ask. With `verify` schedules are checked, too."""

    text: ModuleText
    module: HloModule
    assignment: BufferAssignment
    dump: CompilationDump | None
    verify: bool


def check_compilable(module: HloModule) -> None:
    """Raises what is wrong with a module."""
    verify_executable(module)
    check_devices(module)
    check_call_tree(module)


def text_of(module: HloModule, is_private: bool) -> ModuleText:
    """Returns what gives the module's text. A module that its owner may still change is printed now."""
    if is_private:
        return functools.cache(module.to_string)
    text = module.to_string()
    return lambda: text


def optimize_module(
    module: HloModule, text: ModuleText, options: CompileOptions, pipeline: Pipeline, phase: Callable[[str], None]
) -> OptimizedModule:
    """Optimizes a copy of a module that is verified; `text` is the module's. Errors: of a pass."""
    phase("optimize")
    flags = flags_from_environment()
    directory, pattern = flags.dump_to or options.dump_to, flags.dump_hlo_pass_re or options.dump_hlo_pass_re
    dump = CompilationDump(directory, module, pattern) if directory else None
    if dump is not None:
        dump.write("before_optimizations.txt", text())
    optimized = module.clone("")
    optimized.clear_schedule()  # of a module that came scheduled: the pipeline changes the graph, and orders it anew
    pipeline_options = PipelineOptions(
        fuse=options.fusion,
        keep_intermediate_layouts=options.keep_intermediate_layouts,
        memory_limit_bytes=options.memory_limit_bytes,
        use_cublaslt=bool(options.xla_gpu_enable_cublaslt),
        alias_passthrough_params=module.config.alias_passthrough_params,
    )
    disabled = (*options.disabled_passes, *(find_pass(PASSES, name).name for name in flags.disable_hlo_passes))
    hook = dump.on_pass if dump is not None else None
    checkers = (HloVerifier(),) if flags.verify_passes else ()
    PassDriver(PassSwitches.of(disabled), checkers, dump=hook).run(pipeline(pipeline_options), optimized)
    phase("assign buffers")
    assignment = assign_buffers(optimized)
    if flags.verify_passes:
        verify_buffer_assignment(assignment)
    return OptimizedModule(text, optimized, assignment, dump, flags.verify_passes)


def device_counts(module: HloModule) -> tuple[int, int]:
    """The replicas and the partitions that a call of a module runs on: one of each if nothing tells them apart."""
    config = module.config
    return (config.replica_count, config.num_partitions) if device_count(module) > 1 else (1, 1)


def call_signature(
    module: HloModule,
) -> tuple[tuple[ArraySignature, ...], tuple[LeafTree, ...], tuple[ArraySignature, ...], LeafTree]:
    """Returns the leaves of the parameters, their tree, those of the results, and theirs."""
    entry = module.entry_computation
    parameters: list[ArraySignature] = []
    parameter_tree = tuple(_signatures(p.shape, p.name, parameters) for p in entry.parameter_instructions)
    results: list[ArraySignature] = []
    result_tree = _signatures(entry.root_instruction.shape, "result", results)
    return tuple(parameters), parameter_tree, tuple(results), result_tree


class Phases:
    """Times the phases of a compilation and reports them."""

    def __init__(self, progress: Progress | None, seconds: dict[str, float]) -> None:
        self._progress = progress
        self._seconds = seconds
        self._name = ""
        self._start = time.perf_counter()

    def __call__(self, name: str) -> None:
        now = time.perf_counter()
        if self._name:
            self._seconds[self._name] = now - self._start
        self._name, self._start = name, now
        if name and self._progress is not None:
            self._progress(name)


def _signatures(shape: Shape, name: str, leaves: list[ArraySignature]) -> LeafTree:
    """Appends the signatures of a shape's leaves; returns the tree of their numbers (tokens are empty tuples)."""
    if shape.is_tuple:
        return tuple(_signatures(s, f"{name}{{{i}}}", leaves) for i, s in enumerate(shape.tuple_shapes))
    if not shape.is_array:
        return ()
    leaves.append(array_signature(shape, name))
    return len(leaves) - 1


def physical_constant(literal: Literal) -> np.ndarray[Any, Any]:
    """Returns a literal's elements in memory order."""
    shape = literal.shape
    tiles = shape.layout.tile_dimensions if shape.layout else ()
    data = tile_array(literal.array, shape.minor_to_major, tiles)
    return np.pad(data, (0, physical_byte_size(shape) // data.itemsize - data.size))
