"""The bridge to XLA's `HloModuleProto`: wire-compatible in both directions."""

from xjit.hlo.io import serialization
from xjit.text.proto.module_reader import create_from_proto, read_module_config
from xjit.text.proto.module_writer import computation_to_proto, to_proto
from xjit.text.proto.sharding import serialized_sharding

__all__ = ["computation_to_proto", "create_from_proto", "read_module_config", "serialized_sharding", "to_proto"]

serialization.register(
    module_to_proto=to_proto,
    computation_to_proto=computation_to_proto,
    module_from_proto=create_from_proto,
    config_from_proto=read_module_config,
)
