"""Programs of JAX, compiled: from a portable artifact to the native struct of a loaded executable."""

from __future__ import annotations

import ctypes
import hashlib
import struct
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import xjit.compiler
from xjit.compile_options import CompileOptions
from xjit.frontends.shardy import import_shardy
from xjit.hlo.diagnostics import InvalidArgument, Unsupported
from xjit.hlo.ir.module import HloModule
from xjit.hlo.types.shape import Shape
from xjit.jax_backend.c_api import BUFFER_TYPES, NAMED_VALUE, NamedValueType
from xjit.jax_backend.callbacks import Callbacks, bind_callbacks
from xjit.jax_backend.devices import MEMORY_KINDS, Client
from xjit.jax_backend.module_with_config import hlo_module_with_config
from xjit.jax_backend.placement import Placement, placement_of
from xjit.jax_backend.records import ARRAY, DONATED_WITHOUT_RESULT, EXECUTABLE, NO_LEAF, NOT_DONATED
from xjit.jax_backend.requests import Memory
from xjit.ops.verifier import verify_executable
from xjit.passes.sharding.sharding_propagation import ShardingPropagation
from xjit.passes.sharding.spmd_partitioner import SpmdPartitioner
from xjit.runtime.executable import CpuExecutable
from xjit.runtime.program import ArraySignature
from xjit.runtime.program_file import program_from_bytes, program_to_bytes
from xjit.text.proto import create_from_proto, to_proto

_LENGTH: Final = struct.Struct("<Q")


@dataclass(frozen=True)
class LoadedProgram:
    """A program, ready to run, and its struct. `code` is what was compiled, `module` that of one of its devices.

    On several devices there is a struct per device, too (`parts`), which one execution at a time uses (`lock`).
    """

    executable: CpuExecutable
    module: HloModule
    code: bytes
    address: int
    parts: tuple[int, ...]
    options: Memory
    placement: Placement
    device_assignment: Memory
    callbacks: Callbacks
    keep_alive: tuple[Any, ...]
    lock: threading.Lock = field(default_factory=threading.Lock)

    @cached_property
    def analyzed(self) -> xjit.compiler.Executable:
        """The executable with its module; one that was read back is compiled for it."""
        if isinstance(self.executable, xjit.compiler.Executable):
            return self.executable
        return _compile(self.module)

    @cached_property
    def optimized_program(self) -> bytes:
        """The module as it runs (of code that was read back: as it came), and its config, serialized."""
        executable = self.executable
        module = self.module
        if isinstance(executable, xjit.compiler.Executable) and not executable.is_from_cache:
            module = executable.optimized_module
        return hlo_module_with_config(to_proto(module), self.placement.num_replicas, self.placement.num_partitions)

    @cached_property
    def costs(self) -> tuple[Memory, int, Sequence[Memory]]:
        """The properties of `cost_analysis()`: the array, how many, and their names."""
        rows = [(Memory(name), value) for name, value in self.analyzed.cost_analysis().items()]
        values = [_named_float(name, value) for name, value in rows]
        return Memory(b"".join(values)), len(values), [name for name, _ in rows]

    @cached_property
    def serialized(self) -> Memory:
        """All that `read_program` needs. Errors: Unsupported for a program that calls Python back."""
        if self.callbacks.numbers:
            raise Unsupported("a program with callbacks cannot be serialized")
        parts = (program_to_bytes(self.executable.program), self.code, bytes(self.options))
        return Memory(b"".join(_LENGTH.pack(len(part)) + part for part in parts))


def _read_program(code: bytes, placement: Placement) -> HloModule:
    """The program as each of its devices runs it. Errors: the HloError family."""
    from jaxlib import _jax  # pyright: ignore[reportAttributeAccessIssue]

    computation = _jax.mlir.mlir_module_to_xla_computation(code)
    module = create_from_proto(computation.as_serialized_hlo_module_proto())
    layout = module.mutable_entry_computation_layout()  # the converter gives a transpose at the end a layout to match
    layout.parameter_shapes = [_row_major(shape) for shape in layout.parameter_shapes]
    layout.result_shape = _row_major(layout.result_shape)
    module.config.replica_count, module.config.num_partitions = placement.num_replicas, placement.num_partitions
    import_shardy(module)
    if placement.num_partitions > 1 and placement.is_partitioned:
        _partition(module, placement)
    return module


def _partition(module: HloModule, placement: Placement) -> None:
    """Makes the program of one partition of one for all."""
    ShardingPropagation(allow_spmd_sharding_propagation_to_output=placement.spreads_to_results).run(module)
    SpmdPartitioner().run(module)


def _row_major(shape: Shape) -> Shape:
    if shape.is_tuple:
        return Shape.tuple_of([_row_major(part) for part in shape.tuple_shapes])
    return shape.with_layout(None).with_default_layouts() if shape.is_array else shape


def load_program(client: Client, number: int, code: bytes, options: bytes) -> LoadedProgram:
    """Compiles a portable artifact and makes its struct, number `number`. Errors: the HloError family."""
    placement = placement_of(options, len(client.devices))
    module = _read_program(code, placement)
    verify_executable(module)
    callbacks = bind_callbacks(module)
    loader = _Loader(client, _compile(module), number, placement)
    return loader.load(module, code, options, callbacks)


def read_program(client: Client, number: int, data: bytes, options: bytes) -> LoadedProgram:
    """Loads what `LoadedProgram.serialized` holds; `options`, if there are any, instead of its own.

    Errors: InvalidArgument for other bytes, and those of another version.
    """
    program, code, own_options = _cut(data)
    placement = placement_of(options or own_options, len(client.devices))
    loader = _Loader(client, CpuExecutable(program_from_bytes(program)), number, placement)
    return loader.load(_read_program(code, placement), code, options or own_options, Callbacks(()))


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
    if position != len(data) or len(parts) != 3:
        raise InvalidArgument("these bytes are not a serialized executable of xjit")
    return parts


def _compile(module: HloModule) -> xjit.compiler.Executable:
    executable = xjit.compiler.compile_module(module, "cpu", CompileOptions(), True)
    assert isinstance(executable, xjit.compiler.Executable)
    return executable


def _named_float(name: Memory, value: float) -> bytes:
    bits = struct.unpack("<I", struct.pack("<f", value))[0]
    kind = NamedValueType.FLOAT
    return NAMED_VALUE.pack(
        struct_size=NAMED_VALUE.size, name=name.address, name_size=name.size, type=kind, value=bits, value_size=1
    )


def _donors(module: HloModule) -> frozenset[int]:
    """The parameters that a call deletes, used or not."""
    donated = {alias.parameter_number for alias in module.config.input_output_alias}
    return frozenset(donated | {donor.parameter_number for donor in module.config.buffer_donors})


class _Loader:
    """Makes the struct of an executable."""

    def __init__(self, client: Client, executable: CpuExecutable, number: int, placement: Placement) -> None:
        self._client = client
        self._executable = executable
        self._number = number
        self._placement = placement
        self._kept: list[Any] = []

    def load(self, module: HloModule, code: bytes, options: bytes, callbacks: Callbacks) -> LoadedProgram:
        """The loaded program."""
        program = self._executable.program
        for signature in (*program.parameters, *program.results):
            if not signature.is_row_major:
                raise Unsupported(f"{signature.describe()} as a parameter or result: its layout must be row-major")
        entry, placement = self._executable.entry, self._placement
        objects = program.object_code
        devices = [self._client.devices[number] for number in placement.devices]
        common = {
            "num_replicas": placement.num_replicas,
            "num_partitions": placement.num_partitions,
            "entry": entry.address,
            "constants": entry.constants_address,
            "arena_size": entry.arena_size,
            "code_size": len(objects) if isinstance(objects, bytes) else sum(map(len, objects)),
            "number": self._number,
            **self._text("name", program.name),
            **self._text("fingerprint", hashlib.sha256(code).hexdigest()),
            **self._signature_fields(module),
        }
        address = self._on_devices(common, devices)
        parts = tuple(self._on_devices(common, [device]) for device in devices) if len(devices) > 1 else ()
        texts = Memory(options), placement, Memory(placement.assignment)
        return LoadedProgram(self._executable, module, code, address, parts, *texts, callbacks, tuple(self._kept))

    def _on_devices(self, common: dict[str, int], devices: Sequence[int]) -> int:
        """The struct of the program on some devices."""
        context = self._bytes(self._executable.entry.initial_context)
        return self._struct(**common, initial_context=context, devices=self._numbers(devices), num_devices=len(devices))

    def _signature_fields(self, module: HloModule) -> dict[str, int]:
        entry, program = module.entry_computation, self._executable.program
        root = entry.root_instruction.shape
        shapes = [parameter.shape for parameter in entry.parameter_instructions]
        parameters = _Leaves(shapes, program.parameters)
        results = _Leaves(root.tuple_shapes if root.is_tuple else [root], program.results)
        to = {parameters.positions[alias.parameter]: results.positions[alias.result] for alias in program.aliases}
        source = {result: parameter for parameter, result in to.items()}
        donors = dict.fromkeys(_donors(module), DONATED_WITHOUT_RESULT)
        takes = [
            self._array(parameters, i, donated_to=to.get(i, donors.get(i, NOT_DONATED)), donated_from=NOT_DONATED)
            for i in range(len(parameters.shapes))
        ]
        gives = [
            self._array(results, i, donated_to=NOT_DONATED, donated_from=source.get(i, NOT_DONATED))
            for i in range(len(results.shapes))
        ]
        kind = self._keep(Memory(MEMORY_KINDS[0]))
        count = len(gives)
        return {
            "num_parameters": len(takes),
            "num_results": count,
            "parameters": self._bytes(b"".join(takes)),
            "results": self._bytes(b"".join(gives)),
            "result_types": self._numbers([results.types[i] for i in range(count)], 32),
            "result_dimensions": self._numbers([d for shape in results.shapes for d in shape.dimensions]),
            "result_ranks": self._numbers([len(shape.dimensions) for shape in results.shapes]),
            "result_memory_kinds": self._numbers([kind.address] * count),
            "result_memory_kind_sizes": self._numbers([kind.size] * count),
        }

    def _array(self, values: _Leaves, number: int, **donation: int) -> bytes:
        shape, leaf = values.shapes[number], values.leaves[number]
        size = values.signatures[leaf].byte_size if leaf != NO_LEAF else 0
        return ARRAY.pack(
            type=values.types[number],
            num_bytes=size,
            rank=len(shape.dimensions),
            dimensions=self._numbers(shape.dimensions),
            leaf=leaf,
            **donation,
        )

    def _struct(self, **fields: int) -> int:
        made = self._keep(Memory(EXECUTABLE.pack(**fields)))
        place = made.address + EXECUTABLE.offsets["own_address"]
        ctypes.c_void_p.from_address(place).value = made.address
        return made.address

    def _text(self, field: str, text: str) -> dict[str, int]:
        kept = self._keep(Memory(text))
        return {field: kept.address, f"{field}_size": kept.size}

    def _numbers(self, numbers: Sequence[int], bits: int = 64) -> int:
        return self._keep(Memory.of_numbers(numbers, bits)).address

    def _bytes(self, data: bytes) -> int:
        return self._keep(Memory(data)).address

    def _keep(self, memory: Memory) -> Memory:
        self._kept.append(memory)
        return memory


class _Leaves:
    """The parameters or results of an entry, which JAX numbers with their tokens, and the program without them."""

    def __init__(self, shapes: Sequence[Shape], signatures: Sequence[ArraySignature]) -> None:
        self.shapes = tuple(shapes)
        self.signatures = tuple(signatures)
        if any(not shape.is_array and not shape.is_token for shape in shapes):
            raise Unsupported("a program with nested tuples as parameters or results")
        self.positions = [i for i, shape in enumerate(shapes) if shape.is_array]
        numbers = {position: leaf for leaf, position in enumerate(self.positions)}
        self.leaves = [numbers.get(i, NO_LEAF) for i in range(len(self.shapes))]
        self.types = [BUFFER_TYPES.index(shape.element_type.text) for shape in shapes]
