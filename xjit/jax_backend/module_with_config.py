"""A module as PJRT hands it on: an HloModuleProtoWithConfig, whose config says what XLA needs to read the module."""

from __future__ import annotations

from xjit.text.proto import hlo_pb2

_MODULE, _CONFIG = 1, 2  # fields of HloModuleProtoWithConfig
_LAYOUT, _REPLICAS, _PARTITIONS = 1, 4, 5  # fields of HloModuleConfigProto


def hlo_module_with_config(module: bytes, num_replicas: int, num_partitions: int) -> bytes:
    """Returns a serialized HloModuleProto with a config of its signature and these counts."""
    signature = hlo_pb2.HloModuleProto.FromString(module).host_program_shape.SerializeToString()
    config = _message(_LAYOUT, signature) + _number(_REPLICAS, num_replicas) + _number(_PARTITIONS, num_partitions)
    return _message(_MODULE, module) + _message(_CONFIG, config)


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
