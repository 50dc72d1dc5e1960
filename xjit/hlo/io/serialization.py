"""`to_proto` and `create_from_proto` of the graph classes: the wire format itself belongs to xjit.text.proto.

The graph knows nothing of protocol buffers. `xjit.text.proto` registers its functions here when it is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from xjit.hlo.diagnostics import FailedPrecondition
from xjit.hlo.ir.module_config import HloModuleConfig, with_options

if TYPE_CHECKING:
    from xjit.hlo.ir.computation import HloComputation
    from xjit.hlo.ir.module import HloModule

_functions: dict[str, Callable[..., Any]] = {}


def register(**functions: Callable[..., Any]) -> None:
    """Provides `module_to_proto`, `computation_to_proto`, `module_from_proto` and `config_from_proto`."""
    _functions.update(functions)


def module_to_proto(module: HloModule) -> bytes:
    """Returns the module as a serialized HloModuleProto."""
    return _function("module_to_proto")(module)


def computation_to_proto(computation: HloComputation) -> bytes:
    """Returns the computation as a serialized HloComputationProto; ids are those it has in its module's proto."""
    return _function("computation_to_proto")(computation)


def create_from_proto(data: bytes, config: HloModuleConfig | None = None) -> HloModule:
    """Returns the module of a serialized HloModuleProto, validated; HloParseError if it is malformed."""
    return _function("module_from_proto")(data, config)


def create_module_config_from_proto(
    data: bytes,
    debug_options: Mapping[str, Any] | None = None,
    execution_options: Mapping[str, Any] | None = None,
    **options: Any,
) -> HloModuleConfig:
    """Returns the config of a serialized HloModuleProto with the given debug options.

    Execution options, as a mapping or as keywords, replace fields of the config: entry_computation_layout,
    replica_count, num_partitions, seed, ... InvalidArgument for an unknown one.
    """
    config = _function("config_from_proto")(data)
    return with_options(config, debug_options=dict(debug_options or {}), **{**(execution_options or {}), **options})


def _function(name: str) -> Callable[..., Any]:
    if name not in _functions:
        raise FailedPrecondition("protos need xjit.text.proto: import it first")
    return _functions[name]
