"""The bridge to XLA's `HloModuleProto`: wire-compatible in both directions.

Most programs meet no proto: the first one imports what reads and writes them, and the library of protocol buffers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from xjit.hlo.io import serialization

if TYPE_CHECKING:
    from xjit.hlo.annotations.metadata import HloSharding
    from xjit.hlo.ir.computation import HloComputation
    from xjit.hlo.ir.module import HloModule
    from xjit.hlo.ir.module_config import HloModuleConfig

__all__ = ["computation_to_proto", "create_from_proto", "read_module_config", "serialized_sharding", "to_proto"]


def create_from_proto(data: bytes, config: HloModuleConfig | None = None) -> HloModule:
    """Returns the module of a serialized HloModuleProto; HloParseError if it is malformed."""
    from xjit.text.proto import module_reader

    return module_reader.create_from_proto(data, config)


def read_module_config(data: bytes) -> HloModuleConfig:
    """Returns the config of a serialized HloModuleProto; HloParseError if it is malformed."""
    from xjit.text.proto import module_reader

    return module_reader.read_module_config(data)


def to_proto(module: HloModule) -> bytes:
    """Returns the module as a serialized HloModuleProto; HloError if an attribute's text is malformed."""
    from xjit.text.proto import module_writer

    return module_writer.to_proto(module)


def computation_to_proto(computation: HloComputation) -> bytes:
    """Returns a computation as a serialized HloComputationProto, with the ids it has in its module's proto."""
    from xjit.text.proto import module_writer

    return module_writer.computation_to_proto(computation)


def serialized_sharding(sharding: HloSharding) -> bytes:
    """A serialized OpSharding; CodecError if the text is not a sharding."""
    from xjit.text.proto import sharding as writer

    return writer.serialized_sharding(sharding)


serialization.register(
    module_to_proto=to_proto,
    computation_to_proto=computation_to_proto,
    module_from_proto=create_from_proto,
    config_from_proto=read_module_config,
)
