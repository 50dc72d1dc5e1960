"""Answers that are fields of an object: one row each, and one function that emits them all.

These are native because callers hold locks, unwind exceptions or shut down while they ask.
"""

from __future__ import annotations

from typing import Final

from xjit.jax_backend.c_api import FUNCTIONS, SHARDING_FUNCTIONS
from xjit.jax_backend.records import BUFFER, CLIENT, DEVICE, EXECUTABLE, MEMORY
from xjit.llvm import Module, Value
from xjit.llvm.struct_layout import StructLayout
from xjit.llvm.structured_builder import StructuredBuilder, define
from xjit.llvm.types import PTR, LLVMType
from xjit.llvm.values import const_int, zero

_EXECUTABLE_DIMENSIONS: Final = "num_outputs=num_results dims=result_dimensions dim_sizes=result_ranks"

_ROWS: Final = (
    # function, the object's field, the object, then `field` or `field=field of the object`
    ("Client_PlatformName", "client", CLIENT, "platform_name platform_name_size"),
    ("Client_PlatformVersion", "client", CLIENT, "platform_version platform_version_size"),
    ("Client_ProcessIndex", "client", CLIENT, "process_index"),
    ("Client_Devices", "client", CLIENT, "devices num_devices"),
    (
        "Client_AddressableDevices",
        "client",
        CLIENT,
        "addressable_devices=devices num_addressable_devices=num_devices",
    ),
    (
        "Client_AddressableMemories",
        "client",
        CLIENT,
        "addressable_memories=memories num_addressable_memories=num_memories",
    ),
    ("TopologyDescription_PlatformName", "topology", CLIENT, "platform_name platform_name_size"),
    ("TopologyDescription_PlatformVersion", "topology", CLIENT, "platform_version platform_version_size"),
    (
        "TopologyDescription_GetDeviceDescriptions",
        "topology",
        CLIENT,
        "descriptions=devices num_descriptions=num_devices",
    ),
    ("DeviceDescription_Id", "device_description", DEVICE, "id"),
    ("DeviceDescription_ProcessIndex", "device_description", DEVICE, "process_index"),
    ("DeviceDescription_Kind", "device_description", DEVICE, "device_kind=kind device_kind_size=kind_size"),
    ("DeviceDescription_DebugString", "device_description", DEVICE, "debug_string debug_string_size"),
    ("DeviceDescription_ToString", "device_description", DEVICE, "to_string to_string_size"),
    ("Device_GetDescription", "device", DEVICE, "device_description=own_address"),
    ("Device_IsAddressable", "device", DEVICE, "is_addressable"),
    ("Device_LocalHardwareId", "device", DEVICE, "local_hardware_id=id"),
    ("Device_AddressableMemories", "device", DEVICE, "memories num_memories"),
    ("Device_DefaultMemory", "device", DEVICE, "memory=default_memory"),
    ("Memory_Id", "memory", MEMORY, "id"),
    ("Memory_Kind", "memory", MEMORY, "kind kind_size"),
    ("Memory_Kind_Id", "memory", MEMORY, "kind_id"),
    ("Memory_DebugString", "memory", MEMORY, "debug_string debug_string_size"),
    ("Memory_ToString", "memory", MEMORY, "to_string to_string_size"),
    ("Memory_AddressableByDevices", "memory", MEMORY, "devices num_devices"),
    ("Executable_Name", "executable", EXECUTABLE, "executable_name=name executable_name_size=name_size"),
    ("Executable_NumReplicas", "executable", EXECUTABLE, "num_replicas"),
    ("Executable_NumPartitions", "executable", EXECUTABLE, "num_partitions"),
    ("Executable_NumOutputs", "executable", EXECUTABLE, "num_outputs=num_results"),
    ("Executable_SizeOfGeneratedCodeInBytes", "executable", EXECUTABLE, "size_in_bytes=code_size"),
    (
        "Executable_Fingerprint",
        "executable",
        EXECUTABLE,
        "executable_fingerprint=fingerprint executable_fingerprint_size=fingerprint_size",
    ),
    (
        "Executable_OutputElementTypes",
        "executable",
        EXECUTABLE,
        "output_types=result_types num_output_types=num_results",
    ),
    ("Executable_OutputDimensions", "executable", EXECUTABLE, _EXECUTABLE_DIMENSIONS),
    (
        "Executable_OutputMemoryKinds",
        "executable",
        EXECUTABLE,
        "num_outputs=num_results memory_kinds=result_memory_kinds memory_kind_sizes=result_memory_kind_sizes",
    ),
    ("LoadedExecutable_GetExecutable", "loaded_executable", EXECUTABLE, "executable=own_address"),
    (
        "LoadedExecutable_AddressableDevices",
        "executable",
        EXECUTABLE,
        "addressable_devices=devices num_addressable_devices=num_devices",
    ),
    (
        "LoadedExecutable_Fingerprint",
        "executable",
        EXECUTABLE,
        "executable_fingerprint=fingerprint executable_fingerprint_size=fingerprint_size",
    ),
    ("LoadedExecutable_IsDeleted", "executable", EXECUTABLE, "is_deleted"),
    ("Buffer_ElementType", "buffer", BUFFER, "type"),
    ("Buffer_Dimensions", "buffer", BUFFER, "dims=dimensions num_dims=rank"),
    ("Buffer_UnpaddedDimensions", "buffer", BUFFER, "unpadded_dims=dimensions num_dims=rank"),
    ("Buffer_OnDeviceSizeInBytes", "buffer", BUFFER, "on_device_size_in_bytes=num_bytes"),
    ("Buffer_Device", "buffer", BUFFER, "device"),
    ("Buffer_Memory", "buffer", BUFFER, "memory"),
    ("Buffer_IsDeleted", "buffer", BUFFER, "is_deleted"),
    ("Buffer_IsOnCpu", "buffer", BUFFER, "is_on_cpu=is_on_host"),
    (
        "Buffer_GetMemoryLayout",
        "buffer",
        BUFFER,
        "minor_to_major minor_to_major_size=rank",  # untiled: the other fields are zero, and were by the caller
    ),
    (
        "Executable_ParameterShardings",
        "executable",
        EXECUTABLE,
        "num_parameters=num_parameter_shardings shardings=parameter_shardings sharding_sizes=parameter_sharding_sizes",
    ),
    (
        "Executable_OutputShardings",
        "executable",
        EXECUTABLE,
        "num_outputs=num_result_shardings shardings=result_shardings sharding_sizes=result_sharding_sizes",
    ),
)

_CONSTANTS: Final[dict[str, dict[str, int | str]]] = {
    "Buffer_DynamicDimensionIndices": {"dynamic_dim_indices": 0, "num_dynamic_dims": 0},
    "Buffer_GetMemoryLayout": {"tile_dims": 0, "tile_dim_sizes": 0, "num_tiles": 0, "layout_type": 0},
    "DeviceDescription_Attributes": {"attributes": 0, "num_attributes": 0},
    "Device_GetAttributes": {
        "attributes": 0,
        "num_attributes": 0,
        "device_attributes": 0,
        "attributes_deleter": "@Plugin_Initialize",
    },
    "TopologyDescription_Attributes": {"attributes": 0, "num_attributes": 0},
    "Device_CreateAsyncTrackingEvent": {"event": 0},
    "AsyncTrackingEvent_Destroy": {},
    "TopologyDescription_Destroy": {},
    "Client_Destroy": {},
    "Client_UpdateGlobalProcessInfo": {},
    "Plugin_Initialize": {},
    "Executable_Destroy": {},  # it ends with its loaded executable
}
"""Answers that are the same for all objects: the values of fields, or a function (that does nothing)."""

_ARGUMENTS: Final = {**FUNCTIONS, **SHARDING_FUNCTIONS}


def define_getters(module: Module) -> None:
    """Defines the functions of both tables."""
    rows = {name: (handle, layout, fields) for name, handle, layout, fields in _ROWS}
    for name in {**rows, **_CONSTANTS}:
        _define(module, name, rows.get(name), _CONSTANTS.get(name, {}))


def _define(
    module: Module, name: str, row: tuple[str, StructLayout, str] | None, constants: dict[str, int | str]
) -> None:
    arguments = _ARGUMENTS[name]
    builder = define(module, name, [(PTR, "args")], linkage="", return_type=PTR)
    (request,) = builder.function.args
    if row is not None:
        handle, layout, fields = row
        found = arguments.load(builder, request, handle)
        for field in fields.split():
            target, _, source = field.partition("=")
            value = layout.load(builder, found, source or target)
            arguments.store(builder, request, target, _fitting(builder, value, arguments.type_of(target)))
    for field, constant in constants.items():
        kind = arguments.type_of(field)
        if isinstance(constant, str):
            value = Value(PTR, constant)
        else:
            value = zero(PTR) if kind is PTR else const_int(kind, constant)
        arguments.store(builder, request, field, value)
    builder.ret(zero(PTR))


def _fitting(builder: StructuredBuilder, value: Value, kind: LLVMType) -> Value:
    """The value as the type of the field that the caller reads."""
    if value.type is kind:
        return value
    if value.type is PTR:
        return builder.ptrtoint(value, kind)
    return builder.trunc(value, kind) if value.type.bits > kind.bits else builder.zext(value, kind)
