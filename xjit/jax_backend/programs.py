"""Programs of JAX, compiled: from a portable artifact to the native struct of a loaded executable."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import xjit.compiler
from xjit.collector_pause import collector_pause
from xjit.frontends import shardy_factors
from xjit.frontends.shardy import import_shardy, on_whole_axes, split_constants
from xjit.frontends.stablehlo import convert_mlir
from xjit.frontends.stablehlo_reader.reader import read_artifact
from xjit.hlo.annotations.device_sharding import REPLICATED, read_sharding
from xjit.hlo.annotations.mesh import Mesh
from xjit.hlo.annotations.metadata import HloSharding
from xjit.hlo.diagnostics import InvalidArgument, UnknownTarget, Unsupported
from xjit.hlo.ir.module import HloModule
from xjit.hlo.types.shape import Shape
from xjit.jax_backend.aliases import settle_aliases
from xjit.jax_backend.analyses import cost_properties
from xjit.jax_backend.boundary import AUTO, Boundary, boundary_of, free_layout, placed_shape
from xjit.jax_backend.c_api import NAMED_VALUE, ErrorCode, NamedValueType
from xjit.jax_backend.callbacks import Callbacks, bind_callbacks
from xjit.jax_backend.devices import Client
from xjit.jax_backend.executable_structs import ExecutableStructs, native_code
from xjit.jax_backend.gpu_programs import GpuProgram
from xjit.jax_backend.module_with_config import hlo_module_with_config
from xjit.jax_backend.placement import Placement, placement_of
from xjit.jax_backend.platforms import CPU, Platform
from xjit.jax_backend.requests import CodedError, Memory
from xjit.passes.calls_and_control.flatten_call_graph import FlattenCallGraph
from xjit.passes.collectives.reducing_collective_expander import ReducingCollectiveExpander
from xjit.passes.sharding.sharding_propagation import ShardingPropagation
from xjit.passes.sharding.spmd_partitioner import SpmdPartitioner, replicated_sharding
from xjit.runtime.executable import CpuExecutable
from xjit.runtime.program_file import program_from_bytes, program_to_bytes
from xjit.text.proto import create_from_proto, to_proto

_LENGTH: Final = struct.Struct("<Q")
_NUM_PARTS: Final = 4  # of a serialized program


@dataclass(frozen=True)
class LoadedProgram:
    """A program, ready to run, and its structs. `code` is what was compiled, `module` that of one of its devices."""

    executable: CpuExecutable | GpuProgram
    module: HloModule
    code: bytes
    structs: ExecutableStructs
    options: Memory
    placement: Placement
    boundary: Boundary
    callbacks: Callbacks

    @cached_property
    def device_assignment(self) -> Memory:
        """The devices, serialized."""
        return Memory(self.placement.assignment)

    @cached_property
    def analyzed(self) -> xjit.compiler.Executable | GpuProgram:
        """The executable with its module; one that was read back is compiled for it."""
        if isinstance(self.executable, xjit.compiler.Executable | GpuProgram):
            return self.executable
        return _compile(self.module, self.placement, CPU)

    @cached_property
    def optimized_program(self) -> bytes:
        """The module as it runs (of code that was read back: as it came), and its config, serialized."""
        module = self.analyzed.optimized_module if self._is_compiled_here else self.module
        return self._with_config(module)

    def _with_config(self, module: HloModule) -> bytes:
        placement, boundary = self.placement, self.boundary
        memories = boundary.parameter_memories, boundary.result_memories
        return hlo_module_with_config(to_proto(module), placement.num_replicas, placement.num_partitions, *memories)

    @property
    def _is_compiled_here(self) -> bool:
        executable = self.executable
        if isinstance(executable, xjit.compiler.Executable):
            return not executable.is_from_cache
        return isinstance(executable, GpuProgram)

    @cached_property
    def shown_program(self) -> bytes:
        """The program for readers: optimized, though its code was read back, too. Reductions over devices are whole:
        not the exchanges and folds that run for them.
        """
        module = self.module
        is_reducing = any(
            i.opcode in ReducingCollectiveExpander.opcodes for c in module.computations() for i in c.instructions
        )
        if self._is_compiled_here and not is_reducing:
            return self.optimized_program
        options = self.placement.compile_options
        left_out = (*options.disabled_passes, *([ReducingCollectiveExpander.name] if is_reducing else []))
        shown = xjit.compiler.optimized_for_cpu(module, replace(options, disabled_passes=left_out))
        return self._with_config(shown)

    @cached_property
    def costs(self) -> tuple[Memory, int, Sequence[Memory]]:
        """The properties of `cost_analysis()`: the array, how many, and their names."""
        rows = [(Memory(name), value) for name, value in cost_properties(self.analyzed.optimized_module).items()]
        values = [_named_float(name, value) for name, value in rows]
        return Memory(b"".join(values)), len(values), [name for name, _ in rows]

    @cached_property
    def serialized(self) -> Memory:
        """All that `read_program` needs. Errors: Unsupported for a program that calls Python back."""
        if self.callbacks.numbers:
            raise Unsupported("a program with callbacks cannot be serialized")
        if isinstance(self.executable, GpuProgram):
            raise Unsupported("a program of a GPU cannot be serialized")
        program = program_to_bytes(self.executable.program)
        parts = (program, self.code, bytes(self.options), to_proto(self.module))
        return Memory(b"".join(_LENGTH.pack(len(part)) + part for part in parts))


def _read_program(code: bytes, placement: Placement, boundary: Boundary) -> HloModule:
    """The program as each of its devices runs it. Errors: the HloError family; CodedError of `settle_aliases`."""
    module = read_artifact(code) or convert_mlir(code)
    _count_devices(module, placement)
    meshes = import_shardy(module)
    if placement.num_partitions > 1 and placement.is_partitioned:
        _partition(module, placement, meshes)
    _place(module, boundary)
    settle_aliases(module)
    return module


def _count_devices(module: HloModule, placement: Placement) -> None:
    module.config.replica_count, module.config.num_partitions = placement.num_replicas, placement.num_partitions


def _partition(module: HloModule, placement: Placement, meshes: Sequence[Mesh]) -> None:
    """Makes the program of one partition of one for all."""
    parameters = module.entry_computation.parameter_instructions
    open_parameters = [p for p, free in zip(parameters, placement.spreads_to_parameters) if free and p.sharding is None]
    FlattenCallGraph().run(module)  # each call's arrays may be split in a way of their own
    split_constants(module)
    ShardingPropagation(
        allow_spmd_sharding_propagation_to_output=any(placement.spreads_to_results),
        allow_spmd_sharding_propagation_to_parameters=bool(open_parameters),
        fixed_outputs=tuple(i for i, free in enumerate(placement.spreads_to_results) if not free),
        fixed_parameters=tuple(i for i, p in enumerate(parameters) if p not in open_parameters),
        even_boundary=not meshes,
        own_rows=shardy_factors.FACTORS if meshes else {},
        mesh=max(meshes, key=lambda mesh: len(mesh.axes), default=None),
    ).run(module)
    for parameter in parameters:
        if meshes and parameter in open_parameters and parameter.sharding is not None:
            parameter.sharding = _on_axes(parameter.sharding, parameter.shape, meshes)
        if parameter.sharding is None:  # JAX asks for that of each, where the program says nothing, too
            parameter.sharding = HloSharding(str(REPLICATED))
    root = module.entry_computation.root_instruction
    if meshes and root.sharding is not None:
        root.sharding = _results_on_axes(root.sharding, root.shape, placement.spreads_to_results, meshes)
    if root.sharding is None:  # of a program without parameters that says nothing, JAX asks, too
        root.sharding = replicated_sharding(root.shape)
    SpmdPartitioner().run(module)


def _results_on_axes(
    sharding: HloSharding, shape: Shape, is_free: Sequence[bool], meshes: Sequence[Mesh]
) -> HloSharding:
    """`_on_axes` of the results that may get a sharding; those of others are JAX's own."""
    if not sharding.elements:
        return _on_axes(sharding, shape, meshes) if any(is_free) else sharding
    flags = is_free if len(is_free) == len(sharding.elements) else [any(is_free)] * len(sharding.elements)
    triples = zip(sharding.elements, shape.tuple_shapes, flags, strict=True)
    return HloSharding(elements=tuple(_on_axes(e, s, meshes) if free else e for e, s, free in triples))


def _on_axes(sharding: HloSharding, shape: Shape, meshes: Sequence[Mesh]) -> HloSharding:
    """What JAX can say of a sharding at the boundary: dimensions are split by whole axes of a mesh, and evenly."""
    if sharding.elements:
        pairs = zip(sharding.elements, shape.tuple_shapes, strict=True)
        return HloSharding(elements=tuple(_on_axes(element, part, meshes) for element, part in pairs))
    read = read_sharding(sharding)
    found = (on_whole_axes(mesh, read, shape.dimensions) for mesh in meshes)
    return HloSharding(str(max(filter(None, found), key=lambda s: s.tile_count, default=REPLICATED)))


def _place(module: HloModule, boundary: Boundary) -> None:
    """Gives parameters and results the layouts that are asked for: the converter makes up some of its own."""
    layout = module.mutable_entry_computation_layout()
    takes, gives = layout.parameter_shapes, layout.result_shape
    layout.parameter_shapes = _placed(takes, boundary.parameter_layouts)
    asked = list(boundary.result_layouts)
    root = module.entry_computation.root_instruction
    for i, result in enumerate(root.operands if root.opcode == "tuple" else [root]):
        if asked and asked[i] == AUTO:
            asked[i] = str(free_layout(result, layout.parameter_shapes))
    if gives.is_tuple:
        layout.result_shape = Shape.tuple_of(_placed(gives.tuple_shapes, asked))
    else:
        (layout.result_shape,) = _placed([gives], asked)


def _placed(shapes: Sequence[Shape], layouts: Sequence[str]) -> list[Shape]:
    asked = layouts or ("",) * len(shapes)
    return [placed_shape(shape, layout) for shape, layout in zip(shapes, asked, strict=True)]


@collector_pause
def load_program(client: Client, number: int, code: bytes, options: bytes) -> LoadedProgram:
    """Compiles a portable artifact and makes its struct, number `number`.

    Errors: the HloError family, and CodedError for a call to a function that nobody registered.
    """
    from jax.profiler import TraceAnnotation

    placement, boundary = placement_of(options, len(client.devices)), boundary_of(code)
    with TraceAnnotation("xjit::read_program"):
        module = _read_program(code, placement, boundary)
        callbacks = bind_callbacks(module)
    with TraceAnnotation("xjit::compile", module=module.name):
        try:
            executable = _compile(module, placement, client.platform)
        except UnknownTarget as error:
            raise _not_found(error) from error
    run = executable.code if isinstance(executable, GpuProgram) else native_code(executable, len(placement.devices))
    structs = ExecutableStructs(client, executable.program, run, number, placement, boundary)
    structs.build(module, code, returns_errors=bool(callbacks.numbers))
    return LoadedProgram(executable, module, code, structs, Memory(options), placement, boundary, callbacks)


def _not_found(error: UnknownTarget) -> CodedError:
    """XLA's words for what its CPU client does not find, and ours."""
    found = f"No registered implementation for untyped custom call to {error.target} for Host"
    if error.is_typed:
        found = f"No FFI handler registered for {error.target} on a platform Host (canonical host)"
    return CodedError(ErrorCode.NOT_FOUND, f"{found}: {error}")


@collector_pause
def read_program(client: Client, number: int, data: bytes, options: bytes) -> LoadedProgram:
    """Loads what `LoadedProgram.serialized` holds; `options`, if there are any, instead of its own.

    Errors: InvalidArgument for other bytes, and those of another version.
    """
    program, code, own_options, proto = _cut(data)
    options = options or own_options
    placement, boundary = placement_of(options, len(client.devices)), boundary_of(code)
    if client.platform.is_gpu:
        raise Unsupported("a serialized program for a GPU")
    executable = CpuExecutable(program_from_bytes(program))
    module = create_from_proto(proto)
    _count_devices(module, placement)  # no part of a module's proto
    run = native_code(executable, len(placement.devices))
    structs = ExecutableStructs(client, executable.program, run, number, placement, boundary)
    structs.build(module, code, returns_errors=False)
    return LoadedProgram(executable, module, code, structs, Memory(options), placement, boundary, Callbacks())


def _cut(data: bytes) -> list[bytes]:
    parts: list[bytes] = []
    position = 0
    while position < len(data):
        if position + _LENGTH.size > len(data):
            break
        (length,) = _LENGTH.unpack_from(data, position)
        position += _LENGTH.size
        parts.append(data[position : position + length])
        position += length
    if position != len(data) or len(parts) != _NUM_PARTS:
        raise InvalidArgument("these bytes are not a serialized executable of xjit")
    return parts


def _compile(module: HloModule, placement: Placement, platform: Platform) -> xjit.compiler.Executable | GpuProgram:
    executable = xjit.compiler.compile_module(module, platform.target, placement.compile_options, True)
    return executable if isinstance(executable, xjit.compiler.Executable) else GpuProgram(executable)


def _named_float(name: Memory, value: float) -> bytes:
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    kind = NamedValueType.FLOAT
    return NAMED_VALUE.pack(
        struct_size=NAMED_VALUE.size, name=name.address, name_size=name.size, type=kind, value=bits, value_size=1
    )
