"""The native structs of a loaded executable: what calls need, and what JAX asks about it."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from xjit.emitters.kernels.calls.registered_call import KIND as CUSTOM_CALL
from xjit.emitters.kernels.collectives.collective import KIND as COLLECTIVE
from xjit.hlo.annotations.device_sharding import REPLICATED
from xjit.hlo.annotations.metadata import HloSharding
from xjit.hlo.diagnostics import InvalidArgument, Unsupported
from xjit.hlo.ir.module import HloModule
from xjit.hlo.types.layout import Layout, Tile
from xjit.hlo.types.shape import Shape
from xjit.jax_backend.aliases import aliased_parameters
from xjit.jax_backend.boundary import Boundary, tiles_of
from xjit.jax_backend.c_api import BUFFER_TYPES
from xjit.jax_backend.devices import MEMORY_KINDS, Client
from xjit.jax_backend.element_types import element_size_in_bits
from xjit.jax_backend.placement import Placement
from xjit.jax_backend.records import (
    ARRAY,
    DISPATCH_LONG,
    DISPATCH_SHORT,
    DISPATCH_TOGETHER,
    DONATED_WITHOUT_RESULT,
    EXECUTABLE,
    LAYOUT,
    NO_LEAF,
    NOT_DONATED,
    RETURNED_ALL,
    RETURNED_MEMORY,
    RETURNED_NONE,
)
from xjit.jax_backend.requests import Memory
from xjit.llvm.execution_context import initial_context
from xjit.runtime.collectives.sharded_call import device_context
from xjit.runtime.executable import CpuExecutable
from xjit.runtime.gpu_program import GpuModule
from xjit.runtime.program import ArraySignature, CpuProgram
from xjit.text.proto import serialized_sharding

_REPLICATED: Final = HloSharding(str(REPLICATED))

LONG_US: Final = 100.0
"""Microseconds of estimated work above which a call goes to a queue: to wake another thread, and to be woken by it,
costs about 20."""


@dataclass(frozen=True, slots=True)
class Code:
    """What calls run: native code at `entry`, or (0) what Python runs. `size` is the code's, in bytes."""

    dispatch: int
    calls_functions: bool
    size: int
    entry: int = 0
    constants: int = 0
    arena_size: int = 0
    context: bytes = field(default_factory=initial_context)


def native_code(executable: CpuExecutable, num_devices: int) -> Code:
    """The code of a program for CPUs that runs on a number of devices."""
    program, entry = executable.program, executable.entry
    return Code(
        dispatch=_dispatch(program, num_devices),
        calls_functions=any(kernel.kind == CUSTOM_CALL for kernel in program.kernels),
        size=sum(map(len, program.object_code)),
        entry=entry.address,
        constants=entry.constants_address,
        arena_size=entry.arena_size,
        context=entry.initial_context,
    )


def _dispatch(program: CpuProgram, num_devices: int) -> int:
    """How a program is called; a loop without a known end may be long."""
    kinds = {kernel.kind for kernel in program.kernels}
    if num_devices > 1 and COLLECTIVE in kinds:
        return DISPATCH_TOGETHER
    may_be_endless = program.always_releases_gil and not kinds & {CUSTOM_CALL, COLLECTIVE}
    return DISPATCH_LONG if may_be_endless or program.estimated_us * num_devices > LONG_US else DISPATCH_SHORT


class ExecutableStructs:
    """Makes the structs of an executable: `address` is that of all its devices, `parts` one per device, if several."""

    def __init__(
        self,
        client: Client,
        program: CpuProgram | GpuModule,
        code: Code,
        number: int,
        placement: Placement,
        boundary: Boundary,
    ) -> None:
        self._client = client
        self._program = program
        self._code = code
        self._number = number
        self._placement = placement
        self._boundary = boundary
        self.kept: list[Memory] = []
        self.address = 0
        self.parts: tuple[int, ...] = ()

    def build(self, module: HloModule, code: bytes, *, returns_errors: bool) -> None:
        """Makes them. `code` is the program as it came, `module` that of one device."""
        run, placement = self._code, self._placement
        devices = [self._client.devices[number] for number in placement.devices]
        common = {
            "dispatch": run.dispatch,
            "calls_functions": run.calls_functions,
            "num_replicas": placement.num_replicas,
            "num_partitions": placement.num_partitions,
            "entry": run.entry,
            "constants": run.constants,
            "arena_size": run.arena_size,
            "code_size": run.size,
            "number": self._number,
            **self._text("name", self._program.name),
            **self._text("fingerprint", hashlib.sha256(code).hexdigest()),
            **self._signature_fields(module),
            **self._sharding_fields(module),
        }
        if len(devices) == 1:
            returned = RETURNED_ALL if returns_errors else RETURNED_MEMORY
            self.address = self._struct(self._on_devices(common, devices, 0, returned))
            return
        parts = [self._on_devices(common, [device], i, RETURNED_NONE) for i, device in enumerate(devices)]
        whole = self._on_devices(common, devices, 0, RETURNED_NONE)
        table = self._bytes(b"".join(EXECUTABLE.pack(**part) for part in parts))
        order = self._numbers(sorted(range(len(devices)), key=placement.devices.__getitem__))
        self.address = self._struct(whole | {"parts": table, "part_order": order})
        self.parts = tuple(table + EXECUTABLE.size * i for i in range(len(devices)))

    def _on_devices(self, common: dict[str, int], devices: Sequence[int], first: int, returned: int) -> dict[str, int]:
        """The fields of the program on some devices, of which it gives the first this number."""
        replica, partition = divmod(first, self._placement.num_partitions)
        context = device_context(self._code.context, replica, partition, 0)
        return common | {
            "devices": self._numbers(devices),
            "num_devices": len(devices),
            "initial_context": self._bytes(context),
            "returned_errors": returned,
        }

    def _signature_fields(self, module: HloModule) -> dict[str, int]:
        entry, program = module.entry_computation, self._program
        root = entry.root_instruction.shape
        shapes = [parameter.shape for parameter in entry.parameter_instructions]
        asked = self._boundary
        parameters = _Leaves(shapes, program.parameters, asked.parameter_layouts)
        results = _Leaves(root.tuple_shapes if root.is_tuple else [root], program.results, asked.result_layouts)
        to = {parameters.positions[alias.parameter]: results.positions[alias.result] for alias in program.aliases}
        source = {result: parameter for parameter, result in to.items()}
        donors = dict.fromkeys(aliased_parameters(module), DONATED_WITHOUT_RESULT)
        memories = self._result_memories(len(results.shapes))
        takes = [
            self._array(parameters, i, donated_to=to.get(i, donors.get(i, NOT_DONATED)), donated_from=NOT_DONATED)
            for i in range(len(parameters.shapes))
        ]
        gives = [
            self._array(results, i, donated_to=NOT_DONATED, donated_from=source.get(i, NOT_DONATED), memory=memories[i])
            for i in range(len(results.shapes))
        ]
        kinds = [self._keep(Memory(MEMORY_KINDS[memory])) for memory in memories]
        count = len(gives)
        return {
            "num_parameters": len(takes),
            "num_results": count,
            "parameters": self._bytes(b"".join(takes)),
            "results": self._bytes(b"".join(gives)),
            "result_types": self._numbers([results.types[i] for i in range(count)], 32),
            "result_dimensions": self._numbers([d for shape in results.shapes for d in shape.dimensions]),
            "result_ranks": self._numbers([len(shape.dimensions) for shape in results.shapes]),
            "result_layouts": self._numbers([self._layout(results, i) for i in range(count)]),
            "parameter_layouts": self._numbers([self._layout(parameters, i) for i in range(len(takes))]),
            "result_memory_kinds": self._numbers([kind.address for kind in kinds]),
            "result_memory_kind_sizes": self._numbers([kind.size for kind in kinds]),
        }

    def _sharding_fields(self, module: HloModule) -> dict[str, int]:
        """The shardings of parameters and results; none where the partitioner had nothing to do."""
        if not module.has_spmd_output_sharding():
            return {}
        shape, whole = module.entry_computation.root_instruction.shape, module.spmd_output_sharding
        given = {
            "parameter": module.spmd_parameters_shardings,
            # an empty tuple has one, too
            "result": whole.elements or [whole] * (len(shape.tuple_shapes) if shape.is_tuple else 1) or [_REPLICATED],
        }
        fields: dict[str, int] = {}
        for what, shardings in given.items():
            serialized = [self._keep(Memory(serialized_sharding(sharding))) for sharding in shardings]
            fields[f"{what}_shardings"] = self._numbers([memory.address for memory in serialized])
            fields[f"num_{what}_shardings"] = len(serialized)
            fields[f"{what}_sharding_sizes"] = self._numbers([memory.size for memory in serialized])
        return fields

    def _layout(self, values: _Leaves, number: int) -> int:
        narrow = element_size_in_bits(values.shapes[number].element_type)
        text = str(Layout(values.order(number), values.tiles[number], element_size_in_bits=narrow)).encode()
        return self._bytes(LAYOUT.pack(is_static=1, text_size=len(text)) + text)

    def _result_memories(self, count: int) -> list[int]:
        """The number of each result's memory among those of its device."""
        asked = self._boundary.result_memories or ("",) * count
        unknown = [kind for kind in asked if kind and kind not in MEMORY_KINDS]
        if unknown:
            raise InvalidArgument(f"memory of the kind {unknown[0]!r}: expected one of {', '.join(MEMORY_KINDS)}")
        return [MEMORY_KINDS.index(kind) if kind else 0 for kind in asked]

    def _array(self, values: _Leaves, number: int, **more: int) -> bytes:
        shape, leaf = values.shapes[number], values.leaves[number]
        order = 0
        if leaf != NO_LEAF and not values.signatures[leaf].is_row_major:
            order = self._numbers(values.order(number))
        return ARRAY.pack(
            type=values.types[number],
            num_bytes=values.num_bytes(number),
            rank=len(shape.dimensions),
            dimensions=self._numbers(shape.dimensions),
            leaf=leaf,
            minor_to_major=order,
            tiles=_tile_text(values.tiles[number]),
            **more,
        )

    def _struct(self, fields: dict[str, int]) -> int:
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
        self.kept.append(memory)
        return memory


_TILE_TEXTS: dict[tuple[Tile, ...], Memory] = {}
"""For ever: buffers, which point to them, outlive their program."""


def _tile_text(tiles: tuple[Tile, ...]) -> int:
    """The address of `:T(2,2)`; 0 without tiles."""
    text = ":T" + "".join(map(str, tiles))
    return _TILE_TEXTS.setdefault(tiles, Memory(text)).address if tiles else 0


class _Leaves:
    """The parameters or results of an entry, which JAX numbers with their tokens, and the program without them."""

    def __init__(self, shapes: Sequence[Shape], signatures: Sequence[ArraySignature], layouts: Sequence[str]) -> None:
        self.shapes = tuple(shapes)
        self.tiles = [tiles_of(layout) for layout in layouts or ("",) * len(shapes)]
        self.signatures = tuple(signatures)
        if any(not shape.is_array and not shape.is_token for shape in shapes):
            raise Unsupported("a program with nested tuples as parameters or results")
        self.positions = [i for i, shape in enumerate(shapes) if shape.is_array]
        numbers = {position: leaf for leaf, position in enumerate(self.positions)}
        self.leaves = [numbers.get(i, NO_LEAF) for i in range(len(self.shapes))]
        self.types = [BUFFER_TYPES.index(shape.element_type.text) for shape in shapes]

    def num_bytes(self, number: int) -> int:
        """The size of the array; 0 for a token."""
        leaf = self.leaves[number]
        return self.signatures[leaf].byte_size if leaf != NO_LEAF else 0

    def order(self, number: int) -> tuple[int, ...]:
        """The dimensions from minor to major."""
        leaf = self.leaves[number]
        given = self.signatures[leaf].minor_to_major if leaf != NO_LEAF else None
        return given if given is not None else Layout.row_major(len(self.shapes[number].dimensions)).minor_to_major
