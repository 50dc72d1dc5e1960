"""PJRT's C interface as data: its functions in order, and the fields of what they take.

Source: `xla/pjrt/c/pjrt_c_api.h` of openxla/xla, version 0.93. Every function takes one pointer to a struct that begins
with its own size and a pointer to extensions; a caller of a later version passes more fields at the end. Fields are
pointers unless their type is named.
"""

from __future__ import annotations

import enum
from typing import Final

from xjit.llvm.struct_layout import StructLayout
from xjit.llvm.types import I8, I32, I64, PTR, LLVMType

VERSION: Final = (0, 93)
"""The version that the backend declares: callers of a later one then use no more than it has."""

MAX_FUNCTIONS: Final = 138
"""Places for functions in the struct of version 0.112. Those that 0.93 does not name refuse, too."""

_TYPES: Final[dict[str, LLVMType]] = {"i8": I8, "i32": I32, "i64": I64, "ptr": PTR}
_HEADER: Final = (("struct_size", I64), ("extension_start", PTR))

_FUNCTIONS: Final = """
Error_Destroy: error
Error_Message: error, message, message_size i64
Error_GetCode: error, code i32
Plugin_Initialize:
Plugin_Attributes: attributes, num_attributes i64
Event_Destroy: event
Event_IsReady: event, is_ready i8
Event_Error: event
Event_Await: event
Event_OnReady: event, callback, user_arg
Client_Create: create_options, num_options i64, kv_get_callback, kv_get_user_arg, kv_put_callback, kv_put_user_arg,
    client, kv_try_get_callback, kv_try_get_user_arg
Client_Destroy: client
Client_PlatformName: client, platform_name, platform_name_size i64
Client_ProcessIndex: client, process_index i32
Client_PlatformVersion: client, platform_version, platform_version_size i64
Client_Devices: client, devices, num_devices i64
Client_AddressableDevices: client, addressable_devices, num_addressable_devices i64
Client_LookupDevice: client, id i32, device
Client_LookupAddressableDevice: client, local_hardware_id i32, addressable_device
Client_AddressableMemories: client, addressable_memories, num_addressable_memories i64
Client_Compile: client, program, compile_options, compile_options_size i64, executable
Client_DefaultDeviceAssignment: client, num_replicas i32, num_partitions i32, default_assignment_size i64,
    default_assignment
Client_BufferFromHostBuffer: client, data, type i32, dims, num_dims i64, byte_strides, num_byte_strides i64,
    host_buffer_semantics i32, device, memory, device_layout, done_with_host_buffer, buffer
DeviceDescription_Id: device_description, id i32
DeviceDescription_ProcessIndex: device_description, process_index i32
DeviceDescription_Attributes: device_description, num_attributes i64, attributes
DeviceDescription_Kind: device_description, device_kind, device_kind_size i64
DeviceDescription_DebugString: device_description, debug_string, debug_string_size i64
DeviceDescription_ToString: device_description, to_string, to_string_size i64
Device_GetDescription: device, device_description
Device_IsAddressable: device, is_addressable i8
Device_LocalHardwareId: device, local_hardware_id i32
Device_AddressableMemories: device, memories, num_memories i64
Device_DefaultMemory: device, memory
Device_MemoryStats: device, bytes_in_use i64, peak_bytes_in_use i64, peak_bytes_in_use_is_set i8, num_allocs i64,
    num_allocs_is_set i8, largest_alloc_size i64, largest_alloc_size_is_set i8, bytes_limit i64, bytes_limit_is_set
    i8, bytes_reserved i64, bytes_reserved_is_set i8, peak_bytes_reserved i64, peak_bytes_reserved_is_set i8,
    bytes_reservable_limit i64, bytes_reservable_limit_is_set i8, largest_free_block_bytes i64,
    largest_free_block_bytes_is_set i8, pool_bytes i64, pool_bytes_is_set i8, peak_pool_bytes i64,
    peak_pool_bytes_is_set i8
Memory_Id: memory, id i32
Memory_Kind: memory, kind, kind_size i64
Memory_DebugString: memory, debug_string, debug_string_size i64
Memory_ToString: memory, to_string, to_string_size i64
Memory_AddressableByDevices: memory, devices, num_devices i64
Executable_Destroy: executable
Executable_Name: executable, executable_name, executable_name_size i64
Executable_NumReplicas: executable, num_replicas i64
Executable_NumPartitions: executable, num_partitions i64
Executable_NumOutputs: executable, num_outputs i64
Executable_SizeOfGeneratedCodeInBytes: executable, size_in_bytes i64
Executable_GetCostAnalysis: executable, num_properties i64, properties
Executable_OutputMemoryKinds: executable, num_outputs i64, memory_kinds, memory_kind_sizes
Executable_OptimizedProgram: executable, program
Executable_Serialize: executable, serialized_bytes, serialized_bytes_size i64, serialized_executable,
    serialized_executable_deleter
LoadedExecutable_Destroy: executable
LoadedExecutable_GetExecutable: loaded_executable, executable
LoadedExecutable_AddressableDevices: executable, addressable_devices, num_addressable_devices i64
LoadedExecutable_Delete: executable
LoadedExecutable_IsDeleted: executable, is_deleted i8
LoadedExecutable_Execute: executable, options, argument_lists, num_devices i64, num_args i64, output_lists,
    device_complete_events, execute_device
Executable_DeserializeAndLoad: client, serialized_executable, serialized_executable_size i64, loaded_executable,
    overridden_serialized_compile_options, overridden_serialized_compile_options_size i64
LoadedExecutable_Fingerprint: executable, executable_fingerprint, executable_fingerprint_size i64
Buffer_Destroy: buffer
Buffer_ElementType: buffer, type i32
Buffer_Dimensions: buffer, dims, num_dims i64
Buffer_UnpaddedDimensions: buffer, unpadded_dims, num_dims i64
Buffer_DynamicDimensionIndices: buffer, dynamic_dim_indices, num_dynamic_dims i64
Buffer_GetMemoryLayout: buffer, layout_size i64, layout_extension, tiled_size i64, tiled_extension, minor_to_major,
    minor_to_major_size i64, tile_dims, tile_dim_sizes, num_tiles i64, layout_type i32
Buffer_OnDeviceSizeInBytes: buffer, on_device_size_in_bytes i64
Buffer_Device: buffer, device
Buffer_Memory: buffer, memory
Buffer_Delete: buffer
Buffer_IsDeleted: buffer, is_deleted i8
Buffer_CopyToDevice: buffer, dst_device, dst_buffer
Buffer_ToHostBuffer: src, host_layout, dst, dst_size i64, event
Buffer_IsOnCpu: buffer, is_on_cpu i8
Buffer_ReadyEvent: buffer, event
Buffer_UnsafePointer: buffer, buffer_pointer i64
Buffer_IncreaseExternalReferenceCount: buffer
Buffer_DecreaseExternalReferenceCount: buffer
Buffer_OpaqueDeviceMemoryDataPointer: buffer, device_memory_ptr
CopyToDeviceStream_Destroy: stream
CopyToDeviceStream_AddChunk: stream, chunk, transfer_complete
CopyToDeviceStream_TotalBytes: stream, total_bytes i64
CopyToDeviceStream_GranuleSize: stream, granule_size_in_bytes i64
CopyToDeviceStream_CurrentBytes: stream, current_bytes i64
TopologyDescription_Create: topology_name, topology_name_size i64, create_options, num_options i64, topology
TopologyDescription_Destroy: topology
TopologyDescription_PlatformName: topology, platform_name, platform_name_size i64
TopologyDescription_PlatformVersion: topology, platform_version, platform_version_size i64
TopologyDescription_GetDeviceDescriptions: topology, descriptions, num_descriptions i64
TopologyDescription_Serialize: topology, serialized_bytes, serialized_bytes_size i64, serialized_topology,
    serialized_topology_deleter
TopologyDescription_Attributes: topology, attributes, num_attributes i64
Compile: topology, program, compile_options, compile_options_size i64, client, executable
Executable_OutputElementTypes: executable, output_types, num_output_types i64
Executable_OutputDimensions: executable, num_outputs i64, dims, dim_sizes
Buffer_CopyToMemory: buffer, dst_memory, dst_buffer
Client_CreateViewOfDeviceBuffer: client, device_buffer_ptr, dims, num_dims i64, element_type i32, layout, device,
    on_delete_callback, on_delete_callback_arg, stream i64, buffer, memory
Executable_Fingerprint: executable, executable_fingerprint, executable_fingerprint_size i64
Client_TopologyDescription: client, topology
Executable_GetCompiledMemoryStats: executable, generated_code_size_in_bytes i64, argument_size_in_bytes i64,
    output_size_in_bytes i64, alias_size_in_bytes i64, temp_size_in_bytes i64, host_generated_code_size_in_bytes i64,
    host_argument_size_in_bytes i64, host_output_size_in_bytes i64, host_alias_size_in_bytes i64,
    host_temp_size_in_bytes i64, peak_memory_in_bytes i64, total_size_in_bytes i64
Memory_Kind_Id: memory, kind_id i32
ExecuteContext_Create: context
ExecuteContext_Destroy: context
Buffer_CopyRawToHost: buffer, dst, offset i64, transfer_size i64, event
AsyncHostToDeviceTransferManager_Destroy: transfer_manager
AsyncHostToDeviceTransferManager_TransferData: transfer_manager, buffer_index i32, data, offset i64, transfer_size
    i64, is_last_transfer i8, done_with_h2d_transfer
Client_CreateBuffersForAsyncHostToDevice: client, shape_specs, num_shape_specs i64, device_layouts, num_device_layouts
    i64, memory, transfer_manager
AsyncHostToDeviceTransferManager_RetrieveBuffer: transfer_manager, buffer_index i32, buffer_out
AsyncHostToDeviceTransferManager_Device: transfer_manager, device_out
AsyncHostToDeviceTransferManager_BufferCount: transfer_manager, buffer_count i64
AsyncHostToDeviceTransferManager_BufferSize: transfer_manager, buffer_index i32, buffer_size i64
AsyncHostToDeviceTransferManager_SetBufferError: transfer_manager, buffer_index i32, error_code i32, error_message,
    error_message_size i64
AsyncHostToDeviceTransferManager_AddMetadata: transfer_manager, transfer_metadata, num_metadata i64
Client_DmaMap: client, data, size i64
Client_DmaUnmap: client, data
Client_CreateUninitializedBuffer: client, shape_dims, shape_num_dims i64, shape_element_type i32, shape_layout,
    device, memory, buffer
Client_UpdateGlobalProcessInfo: client, process_infos, num_process_infos i64
TopologyDescription_Deserialize: serialized_topology, serialized_topology_size i64, topology
Client_CreateAliasBuffer: client, memory, shape_dims, shape_num_dims i64, shape_element_type i32, shape_layout,
    alias_buffer, fulfill_alias_buffer_cb
Client_FulfillAliasBuffer: client, buffer, status_code i32, error_message, error_message_size i64,
    fulfill_alias_buffer_cb
LoadedExecutable_GetDeviceAssignment: executable, serialized_bytes, serialized_bytes_size i64,
    serialized_device_assignment, serialized_device_assignment_deleter
Client_CreateErrorBuffer: client, error_code i32, error_message, error_message_size i64, shape_dims, shape_num_dims
    i64, shape_element_type i32, shape_layout, memory, buffer
AsyncHostToDeviceTransferManager_TransferLiteral: transfer_manager, buffer_index i32, data, shape_dims, shape_num_dims
    i64, shape_element_type i32, shape_layout, done_with_h2d_transfer
Buffer_CopyRawToHostFuture: buffer, offset i64, transfer_size i64, event, callback_data, future_ready_callback
Device_PoisonExecution: device, launch_id i32, error_code i32, error_message, error_message_size i64, poisoned i8
Device_CreateAsyncTrackingEvent: device, description, description_size i64, event
AsyncTrackingEvent_Destroy: event
Executable_GetCompileOptions: executable, serialized_bytes, serialized_bytes_size i64, serialized_compile_options,
    serialized_compile_options_deleter
Buffer_DonateWithControlDependency: buffer, callback_data, dependency_ready_callback, out_buffer
Event_Create: event
Event_Set: event, error_code i32, error_message, error_message_size i64
Device_GetAttributes: device, attributes, num_attributes i64, device_attributes, attributes_deleter
"""


def _layout(name: str, fields: str) -> StructLayout:
    """The struct with these fields, `name type` or the name of a pointer each, after PJRT's header."""
    pairs = (field.split() for field in fields.split(",") if field.strip())
    typed = tuple((pair[0], _TYPES[pair[1] if len(pair) > 1 else "ptr"]) for pair in pairs)
    return StructLayout(name, (*_HEADER, *typed))


def _parse(table: str) -> dict[str, StructLayout]:
    lines = table.replace("\n    ", " ").strip().splitlines()
    return {name: _layout(name, fields) for name, _, fields in (line.partition(":") for line in lines)}


FUNCTIONS: Final[dict[str, StructLayout]] = _parse(_FUNCTIONS)
"""The functions by name, without `PJRT_`, in the order of the API struct; each with the struct that it takes."""

LAYOUT_FUNCTIONS: Final[dict[str, StructLayout]] = _parse("""
MemoryLayout_Destroy: layout
MemoryLayout_Serialize: layout, serialized_bytes, serialized_bytes_size i64, serialized_layout,
    serialized_layout_deleter
Client_GetDefaultLayout: client, type i32, dims, num_dims i64, layout
Buffer_MemoryLayout: buffer, layout
Topology_GetDefaultLayout: topology, type i32, dims, num_dims i64, layout
Executable_GetOutputLayouts: executable, num_outputs i64, layouts
Executable_GetParameterLayouts: executable, num_parameters i64, layouts
""")
"""The functions of the extension for layouts, in order; a client that declares `VERSION` is asked for no later ones."""

SHARDING_FUNCTIONS: Final[dict[str, StructLayout]] = _parse("""
Executable_ParameterShardings: executable, num_parameters i64, shardings, sharding_sizes
Executable_OutputShardings: executable, num_outputs i64, shardings, sharding_sizes
""")
"""Those of the extension for shardings: without it a caller reads the whole program back, to look for them."""


def _extension(name: str, functions: dict[str, StructLayout]) -> StructLayout:
    fields = (("struct_size", I64), ("type", I32), ("next", PTR), *((function, PTR) for function in functions))
    return StructLayout(name, fields)


LAYOUTS_EXTENSION: Final = _extension("LayoutsExtension", LAYOUT_FUNCTIONS)
LAYOUTS_EXTENSION_TYPE: Final = 4
SHARDINGS_EXTENSION: Final = _extension("ShardingsExtension", SHARDING_FUNCTIONS)
SHARDINGS_EXTENSION_TYPE: Final = 19

API: Final = StructLayout(
    "Api",
    (
        *_HEADER,
        ("version_size", I64),
        ("version_extension", PTR),
        ("major_version", I32),
        ("minor_version", I32),
        *((name, PTR) for name in FUNCTIONS),
        *((f"later_{i}", PTR) for i in range(MAX_FUNCTIONS - len(FUNCTIONS))),
    ),
)
"""The struct of all functions, with room for those of later versions."""

NAMED_VALUE: Final = _layout("NamedValue", "name, name_size i64, type i32, value, value_size i64")
PROGRAM: Final = _layout("Program", "code, code_size i64, format, format_size i64")
EXECUTE_OPTIONS: Final = _layout(
    "ExecuteOptions",
    "send_callbacks, recv_callbacks, num_send_ops i64, num_recv_ops i64, launch_id i32, non_donatable_input_indices, "
    "num_non_donatable_input_indices i64, context, call_location",
)
MEMORY_LAYOUT: Final = _layout(
    "MemoryLayout",
    "tiled_size i64, tiled_extension, minor_to_major, minor_to_major_size i64, tile_dims, tile_dim_sizes, "
    "num_tiles i64, type i32",
)
"""A tiled layout; of one by strides, `minor_to_major` are the byte strides."""

TILED_LAYOUT: Final = 0
STRIDED_LAYOUT: Final = 1


class NamedValueType(enum.IntEnum):
    """What a NamedValue holds."""

    STRING = 0
    INT64 = 1
    INT64_LIST = 2
    FLOAT = 3
    BOOL = 4


class ErrorCode(enum.IntEnum):
    """Abseil's status codes."""

    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


class HostBufferSemantics(enum.IntEnum):
    """For how long the caller keeps a host buffer as it is."""

    IMMUTABLE_ONLY_DURING_CALL = 0
    IMMUTABLE_UNTIL_TRANSFER_COMPLETES = 1
    IMMUTABLE_ZERO_COPY = 2
    MUTABLE_ZERO_COPY = 3


_BUFFER_TYPES: Final = """
invalid pred s8 s16 s32 s64 u8 u16 u32 u64 f16 f32 f64 bf16 c64 c128 f8e5m2 f8e4m3fn f8e4m3b11fnuz f8e5m2fnuz
f8e4m3fnuz s4 u4 token s2 u2 f8e4m3 f8e3m4 f8e8m0fnu f4e2m1fn
"""

BUFFER_TYPES: Final = tuple(_BUFFER_TYPES.split())
"""Element types by number, in HLO's names."""
