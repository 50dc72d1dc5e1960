"""A module as PJRT hands it on: an HloModuleProtoWithConfig, whose config says what XLA needs to read the module."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from itertools import chain, zip_longest
from typing import Final

from xjit.hlo.types.primitive_type import PrimitiveType
from xjit.jax_backend.element_types import element_size_in_bits

_MODULE, _CONFIG = 1, 2  # fields of HloModuleProtoWithConfig
_LAYOUT, _REPLICAS, _PARTITIONS = 1, 4, 5  # fields of HloModuleConfigProto
_MEMORY_SPACES: Final = {"pinned_host": 5}
"""What layouts say of a kind of memory, S(5), if it is not where programs run."""


def hlo_module_with_config(
    module: bytes,
    num_replicas: int,
    num_partitions: int,
    parameter_memories: Sequence[str] = (),
    result_memories: Sequence[str] = (),
) -> bytes:
    """Returns a serialized HloModuleProto with a config of its signature and these counts.

    In the signature, elements of less than a byte have their size, and arrays of other memories than that of the
    device their space, as in what XLA has compiled.
    """
    from xjit.text.proto import hlo_pb2

    proto = hlo_pb2.HloModuleProto.FromString(module)
    signature = proto.host_program_shape
    results = signature.result.tuple_shapes or [signature.result]
    bits = _sizes_of_narrow_types()
    narrow = [shape for shape in chain(signature.parameters, results) if shape.element_type in bits]
    for shape in narrow:
        shape.layout.element_size_in_bits = bits[shape.element_type]
    sides = (zip_longest(signature.parameters, parameter_memories), zip_longest(results, result_memories))
    apart = [(shape, _MEMORY_SPACES[memory]) for shape, memory in chain(*sides) if memory in _MEMORY_SPACES]
    for shape, space in apart:
        shape.layout.memory_space = space
    text = signature.SerializeToString()
    config = _message(_LAYOUT, text) + _number(_REPLICAS, num_replicas) + _number(_PARTITIONS, num_partitions)
    is_changed = narrow or apart
    return _message(_MODULE, proto.SerializeToString() if is_changed else module) + _message(_CONFIG, config)


@functools.cache
def _sizes_of_narrow_types() -> dict[int, int]:
    """Bits of an element of less than a byte, by the number of its type."""
    from xjit.text.proto import hlo_pb2

    sizes = {kind: element_size_in_bits(kind) for kind in PrimitiveType if kind.is_array}
    return {hlo_pb2.PrimitiveType.Value(kind.text.upper()): size for kind, size in sizes.items() if size}


def _message(field: int, data: bytes) -> bytes:
    return bytes([field << 3 | 2]) + _varint(len(data)) + data


def _number(field: int, value: int) -> bytes:
    return bytes([field << 3]) + _varint(value)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])
