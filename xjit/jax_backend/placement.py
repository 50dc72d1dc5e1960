"""Where and how a program of JAX runs: replicas, partitions, the device of each, from serialized compile options."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from xjit.compile_options import CompileOptions
from xjit.hlo.diagnostics import InvalidArgument, Unsupported
from xjit.jax_backend.compiler_options import compile_options_of, dump_flags

_VARINT, _BYTES = 0, 2
_COMPUTATIONS, _REPLICA_IDS = 3, 1  # fields of DeviceAssignmentProto and its ComputationDevice


@dataclass(frozen=True, slots=True)
class Placement:
    """Devices by number, replica after replica; `assignment` is the serialized DeviceAssignment.

    `spreads_to_parameters`, `spreads_to_results`: which of them may get a sharding. `is_partitioned` asks for the SPMD
    partitioner. `compile_options` are what the caller's options mean for xjit's compiler.
    """

    num_replicas: int
    num_partitions: int
    devices: tuple[int, ...]
    assignment: bytes
    is_partitioned: bool
    spreads_to_parameters: tuple[bool, ...]
    spreads_to_results: tuple[bool, ...]
    compile_options: CompileOptions


def placement_of(options: bytes, num_devices: int) -> Placement:
    """Reads serialized CompileOptions: most programs of a process have the same ones.

    What they say is remembered, not their bytes: these hold a map whose entries come in another order each time.
    Errors: Unsupported for options that nothing here honours, InvalidArgument.
    """
    from jaxlib import xla_client

    parsed = xla_client.CompileOptions.ParseFromString(options)
    if parsed.parameter_is_tupled_arguments:
        raise Unsupported("compile option parameter_is_tupled_arguments")
    build = parsed.executable_build_options
    if build.use_auto_spmd_partitioning:
        raise Unsupported("compile option use_auto_spmd_partitioning")
    replicas, partitions = parsed.num_replicas, parsed.num_partitions
    assignment = parsed.device_assignment
    if assignment is None:
        numbers = np.arange(replicas * partitions).reshape(replicas, partitions)
        assignment = xla_client.DeviceAssignment.create(numbers)
    return _placement(
        replicas,
        partitions,
        assignment.serialize(),
        num_devices,
        build.use_spmd_partitioning,
        tuple(build.allow_spmd_sharding_propagation_to_parameters),
        tuple(build.allow_spmd_sharding_propagation_to_output),
        compile_options_of(parsed.env_option_overrides, dump_flags(build.debug_options)),
    )


@functools.lru_cache(maxsize=64)
def _placement(
    replicas: int,
    partitions: int,
    assignment: bytes,
    num_devices: int,
    is_partitioned: bool,
    spreads_to_parameters: tuple[bool, ...],
    spreads_to_results: tuple[bool, ...],
    compile_options: CompileOptions,
) -> Placement:
    devices = _devices(assignment)
    if len(devices) != replicas * partitions:
        text = f"{replicas} replicas of {partitions} partitions"
        raise InvalidArgument(f"a device assignment of {len(devices)} devices for {text}")
    if not all(0 <= device < num_devices for device in devices) or len(set(devices)) != len(devices):
        raise InvalidArgument(f"a device assignment outside of the {num_devices} devices: {list(devices)}")
    return Placement(
        replicas,
        partitions,
        devices,
        assignment,
        is_partitioned,
        spreads_to_parameters,
        spreads_to_results,
        compile_options,
    )


def _devices(assignment: bytes) -> tuple[int, ...]:
    """The devices of a serialized DeviceAssignmentProto: replica * partitions + partition."""
    columns: list[list[int]] = []
    for number, value in _fields(assignment):
        if number == _COMPUTATIONS and isinstance(value, bytes):
            columns.append([i for field, ids in _fields(value) if field == _REPLICA_IDS for i in _numbers(ids)])
    return tuple(device for row in zip(*columns, strict=True) for device in row)


def _numbers(value: bytes | int) -> Iterator[int]:
    """A repeated integer: alone, or packed."""
    if isinstance(value, int):
        yield value
        return
    position = 0
    while position < len(value):
        number, position = _varint(value, position)
        yield number


def _fields(message: bytes) -> Iterator[tuple[int, bytes | int]]:
    """The fields of a message of integers and messages: their numbers and values."""
    position = 0
    while position < len(message):
        key, position = _varint(message, position)
        if key & 7 not in (_VARINT, _BYTES):
            raise InvalidArgument("a device assignment that is no DeviceAssignmentProto")
        value, position = _varint(message, position)
        if key & 7 == _VARINT:
            yield key >> 3, value
        else:
            yield key >> 3, message[position : position + value]
            position += value


def _varint(data: bytes, position: int) -> tuple[int, int]:
    value = shift = 0
    while position < len(data):
        byte = data[position]
        value |= (byte & 0x7F) << shift
        position, shift = position + 1, shift + 7
        if not byte & 0x80:
            return value, position
    raise InvalidArgument("a device assignment that ends too soon")
