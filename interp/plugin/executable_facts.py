"""What is asked of an executable: its name, its devices, the types of its results, and what it became when compiled."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

from ...ops.types import TensorType, Type
from . import analysis
from .executable import Executable, handle
from .pjrt import abi
from .pjrt.errors import INVALID_ARGUMENT, PluginError
from .pjrt.handles import destroyer
from .pjrt.runtime import Addresses, NamedValues, Text, fact, fallible, getter, listing, objects, words
from .sharding import partition

fact(0, 1, "Executable_NumReplicas")
fact(1, 1, "Executable_NumPartitions")
fact(2, 1, "Executable_NumOutputs")
fact(3, 2, "Executable_Name")
listing("devices", "LoadedExecutable_AddressableDevices")
listing("types", "Executable_OutputElementTypes")
listing("fingerprint", "Executable_Fingerprint", "LoadedExecutable_Fingerprint")


@getter("Executable_SizeOfGeneratedCodeInBytes")
def _size_of_code(p: int) -> None:
    words[(p >> 3) + 3] = 0


@fallible("LoadedExecutable_GetExecutable")
def _get_executable(a: Any) -> None:
    a.executable = handle(objects[a.loaded])


@getter("LoadedExecutable_Delete")
def _delete(p: int) -> None:
    executable = objects[words[(p >> 3) + 2]]
    executable.client = executable.quick = None
    executable.is_small = False


@getter("LoadedExecutable_IsDeleted")
def _is_deleted(p: int) -> None:
    words[(p >> 3) + 3] = objects[words[(p >> 3) + 2]].client is None


@getter("Executable_OutputDimensions")
def _output_dimensions(p: int) -> None:
    at = p >> 3
    executable = objects[words[at + 2]]
    words[at + 3] = executable.num_outputs
    words[at + 4], words[at + 5] = executable.output_dims.address, executable.output_ranks.address


@getter("Executable_OutputMemoryKinds")
def _output_memory_kinds(p: int) -> None:
    at = p >> 3
    executable = objects[words[at + 2]]
    words[at + 3] = executable.num_outputs
    words[at + 4], words[at + 5] = executable.memory_kinds.address, executable.memory_kind_sizes.address


#: What "deletes" an assignment clears a cell, as Destroy does: the third word, which is empty.
_NOTHING = Addresses([0, 0, 0, 0])


@getter("LoadedExecutable_GetDeviceAssignment")
def _get_assignment(p: int) -> None:
    at = p >> 3
    assignment = objects[words[at + 2]].listed["assignment"]
    words[at + 3], words[at + 4] = assignment.address, assignment.size
    words[at + 5], words[at + 6] = _NOTHING.address, _destroyer


@fallible("Executable_GetCompiledMemoryStats")
def _memory_stats(a: Any) -> None:
    executable: Executable = objects[a.executable]
    function, partition = executable.function, executable.partition
    for name, _ in a._fields_[3:]:
        setattr(a, name, 0)
    takes = _bytes_of_parts(function.argument_types, partition.arguments)
    a.arguments, a.outputs = sum(takes), sum(_bytes_of_parts(function.result_types, partition.results))
    a.aliases = sum(takes[i] for i in executable.donated)
    # Each device has its part of what is between, if all of it is cut as arguments and results are.
    a.temporaries = analysis.temporaries(executable.program, function) // executable.options.partitions
    a.peak = a.arguments + a.outputs + a.temporaries


def _bytes_of_parts(types: Sequence[Type], tilings: Sequence[partition.Tiling]) -> list[int]:
    """The bytes of each value on one device."""
    return [
        t.nbytes // math.prod(tiling.parts) if isinstance(t, TensorType) and t.is_static else 0
        for t, tiling in zip(types, tilings, strict=True)
    ]


@fallible("Executable_GetCostAnalysis")
def _cost(a: Any) -> None:
    executable: Executable = objects[a.executable]
    if executable.costs is None:
        executable.costs = NamedValues(analysis.costs(executable.program, executable.function))
    a.num_properties, a.properties = executable.costs.size, executable.costs.address


@fallible("Executable_OptimizedProgram")
def _optimized_program(a: Any) -> None:
    executable: Executable = objects[a.executable]
    if executable.optimized is None:
        executable.optimized = partition.optimized_program(
            executable.function,
            executable.partition,
            executable.function.name,
            executable.options.replicas,
            executable.options.partitions,
        )
    program = abi.Program.from_address(a.program)
    program.format, program.format_size = _FORMAT.address, _FORMAT.size
    if program.code:
        if program.code_size < len(executable.optimized):
            raise PluginError(INVALID_ARGUMENT, "the program does not fit")
        ctypes.memmove(program.code, executable.optimized, len(executable.optimized))
    program.code_size = len(executable.optimized)


_FORMAT = Text("hlo_with_config")
_destroyer = destroyer()
