"""The binary interface of a PJRT plugin: the structures that a framework hands to its functions, as ctypes sees them.

Facts of `xla/pjrt/c/pjrt_c_api.h`, minor version 81. A function takes the address of one structure, whose fields it
reads and fills, and returns None for success or the address of an error. Every structure starts with its own size and a
pointer to extensions.
"""

from __future__ import annotations

import ctypes
import functools
import re
from typing import Any

MAJOR, MINOR = 0, 81

_KINDS: dict[str, Any] = {
    "p": ctypes.c_void_p,
    "n": ctypes.c_size_t,
    "q": ctypes.c_int64,
    "i": ctypes.c_int,
    "b": ctypes.c_bool,
    "f": ctypes.c_float,
}


def _structure(name: str, *fields: str) -> Any:
    """A structure with fields `name:kind`, or names alone for pointers."""
    split = [f.partition(":") for f in ["struct_size:n", "extension_start", *fields]]
    return type(name, (ctypes.Structure,), {"_fields_": [(n, _KINDS[k or "p"]) for n, _, k in split]})


#: The order of an array's elements in memory, by dimensions from minor to major, or by byte strides. The first list of
#: either structure of its union is `numbers` and `count`.
_LAYOUT = "inner_size:n inner_extension numbers count:n tile_dims tile_dim_sizes num_tiles:n type:i"
Layout = _KINDS["L"] = _structure("Layout", *_LAYOUT.split())
Program = _structure("Program", "code", "code_size:n", "format", "format_size:n")
#: A value of one of several types, by name. `union` holds a pointer, an integer, a float or a bool.
NamedValue = _structure("NamedValue", "name", "name_size:n", "type:i", "union:q", "value_size:n")
TILED = 0  #: the type of a Layout by dimensions
STRING, INT64, INT64_LIST, FLOAT, BOOL = range(5)  #: the types of a NamedValue

#: The buffer types by number, as our element types; 23 is a token, 30 and 31 are numbers of one bit.
ELEMENTS = (
    "", "i1", "i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64", "f16", "f32", "f64", "bf16", "complex<f32>",
    "complex<f64>", "f8E5M2", "f8E4M3FN", "f8E4M3B11FNUZ", "f8E5M2FNUZ", "f8E4M3FNUZ", "i4", "ui4", "", "i2", "ui2",
    "f8E4M3", "f8E3M4", "f8E8M0FNU", "f4E2M1FN", "", "", "f6E2M3FN", "f6E3M2FN",
)  # fmt: skip
TOKEN = 23

#: Every function there is, in the order of their slots, with the fields of its argument; those that are not implemented
#: have none. An indented line continues the one before.
_TABLE = """
Error_Destroy error
Error_Message error message message_size:n
Error_GetCode error code:i
Plugin_Initialize
Plugin_Attributes attributes num_attributes:n
Event_Destroy event
Event_IsReady event is_ready:b
Event_Error event
Event_Await event
Event_OnReady event callback user_arg
Client_Create create_options num_options:n kv_get_callback kv_get_user_arg kv_put_callback kv_put_user_arg client
Client_Destroy client
Client_PlatformName client text text_size:n
Client_ProcessIndex client process_index:i
Client_PlatformVersion client text text_size:n
Client_Devices client items num_items:n
Client_AddressableDevices client items num_items:n
Client_LookupDevice client id:i device
Client_LookupAddressableDevice client id:i device
Client_AddressableMemories client items num_items:n
Client_Compile client program compile_options compile_options_size:n executable
Client_DefaultDeviceAssignment client num_replicas:i num_partitions:i size:n assignment
Client_BufferFromHostBuffer client data type:i dims num_dims:n byte_strides num_byte_strides:n semantics:i device
    memory device_layout done_with_host_buffer buffer
DeviceDescription_Id device id:i
DeviceDescription_ProcessIndex device process_index:i
DeviceDescription_Attributes device num_attributes:n attributes
DeviceDescription_Kind device text text_size:n
DeviceDescription_DebugString device text text_size:n
DeviceDescription_ToString device text text_size:n
Device_GetDescription device description
Device_IsAddressable device is_addressable:b
Device_LocalHardwareId device id:i
Device_AddressableMemories device items num_items:n
Device_DefaultMemory device memory
Device_MemoryStats device bytes_in_use:q peak_bytes_in_use:q peak_bytes_in_use_is_set:b num_allocs:q
    num_allocs_is_set:b largest_alloc_size:q largest_alloc_size_is_set:b bytes_limit:q bytes_limit_is_set:b
    bytes_reserved:q bytes_reserved_is_set:b peak_bytes_reserved:q peak_bytes_reserved_is_set:b
    bytes_reservable_limit:q bytes_reservable_limit_is_set:b largest_free_block_bytes:q
    largest_free_block_bytes_is_set:b pool_bytes:q pool_bytes_is_set:b peak_pool_bytes:q peak_pool_bytes_is_set:b
Memory_Id memory id:i
Memory_Kind memory text text_size:n
Memory_DebugString memory text text_size:n
Memory_ToString memory text text_size:n
Memory_AddressableByDevices memory items num_items:n
Executable_Destroy executable
Executable_Name executable text text_size:n
Executable_NumReplicas executable number:n
Executable_NumPartitions executable number:n
Executable_NumOutputs executable number:n
Executable_SizeOfGeneratedCodeInBytes executable number:q
Executable_GetCostAnalysis executable num_properties:n properties
Executable_OutputMemoryKinds executable num_outputs:n kinds sizes
Executable_OptimizedProgram executable program
Executable_Serialize executable text text_size:n owner deleter
LoadedExecutable_Destroy executable
LoadedExecutable_GetExecutable loaded executable
LoadedExecutable_AddressableDevices executable items num_items:n
LoadedExecutable_Delete executable
LoadedExecutable_IsDeleted executable is_deleted:b
LoadedExecutable_Execute executable options argument_lists num_devices:n num_args:n output_lists
    device_complete_events execute_device
Executable_DeserializeAndLoad client text text_size:n executable compile_options compile_options_size:n
LoadedExecutable_Fingerprint executable text text_size:n
Buffer_Destroy buffer
Buffer_ElementType buffer type:i
Buffer_Dimensions buffer dims num_dims:n
Buffer_UnpaddedDimensions buffer dims num_dims:n
Buffer_DynamicDimensionIndices buffer indices num_indices:n
Buffer_GetMemoryLayout buffer layout:L
Buffer_OnDeviceSizeInBytes buffer number:n
Buffer_Device buffer device
Buffer_Memory buffer memory
Buffer_Delete buffer
Buffer_IsDeleted buffer is_deleted:b
Buffer_CopyToDevice buffer device copy
Buffer_ToHostBuffer buffer host_layout dst dst_size:n event
Buffer_IsOnCpu buffer is_on_cpu:b
Buffer_ReadyEvent buffer event
Buffer_UnsafePointer buffer pointer
Buffer_IncreaseExternalReferenceCount buffer
Buffer_DecreaseExternalReferenceCount buffer
Buffer_OpaqueDeviceMemoryDataPointer buffer pointer
CopyToDeviceStream_Destroy
CopyToDeviceStream_AddChunk
CopyToDeviceStream_TotalBytes
CopyToDeviceStream_GranuleSize
CopyToDeviceStream_CurrentBytes
TopologyDescription_Create
TopologyDescription_Destroy topology
TopologyDescription_PlatformName topology text text_size:n
TopologyDescription_PlatformVersion topology text text_size:n
TopologyDescription_GetDeviceDescriptions topology items num_items:n
TopologyDescription_Serialize
TopologyDescription_Attributes topology attributes num_attributes:n
Compile
Executable_OutputElementTypes executable types num_types:n
Executable_OutputDimensions executable num_outputs:n dims dim_sizes
Buffer_CopyToMemory buffer memory copy
Client_CreateViewOfDeviceBuffer
Executable_Fingerprint executable text text_size:n
Client_TopologyDescription client topology
Executable_GetCompiledMemoryStats executable code:q arguments:q outputs:q aliases:q temporaries:q host_code:q
    host_arguments:q host_outputs:q host_aliases:q host_temporaries:q peak:q
Memory_Kind_Id memory id:i
ExecuteContext_Create context
ExecuteContext_Destroy context
Buffer_CopyRawToHost
AsyncHostToDeviceTransferManager_Destroy
AsyncHostToDeviceTransferManager_TransferData
Client_CreateBuffersForAsyncHostToDevice
AsyncHostToDeviceTransferManager_RetrieveBuffer
AsyncHostToDeviceTransferManager_Device
AsyncHostToDeviceTransferManager_BufferCount
AsyncHostToDeviceTransferManager_BufferSize
AsyncHostToDeviceTransferManager_SetBufferError
AsyncHostToDeviceTransferManager_AddMetadata
Client_DmaMap
Client_DmaUnmap
Client_CreateUninitializedBuffer
Client_UpdateGlobalProcessInfo
TopologyDescription_Deserialize
Client_CreateAliasBuffer
Client_FulfillAliasBuffer
LoadedExecutable_GetDeviceAssignment executable text text_size:n owner deleter
"""
FUNCTIONS = {name: fields for name, *fields in map(str.split, re.split(r"\n(?! )", _TABLE.strip()))}

#: The table of functions.
Api = _structure("Api", "version_size:n", "version_extension", "major:i", "minor:i", *FUNCTIONS)
Function = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)


@functools.cache
def argument(name: str) -> Any:
    """The structure that a function takes."""
    return _structure(name + "_Args", *FUNCTIONS[name])


def make_words() -> memoryview:
    """All the memory of the process as words of eight bytes: `words[address >> 3]`.

    Reading or writing a field so takes half the time that a structure takes.
    """
    return memoryview((ctypes.c_uint64 * (1 << 44)).from_address(0)).cast("B").cast("Q")
