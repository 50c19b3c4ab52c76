"""What is asked of an executable: its name, its devices, the types of its results, and what it became when compiled."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from typing import Any

from ...ops.types import TensorType, Type
from .executable import Executable
from .pjrt import abi
from .pjrt.errors import INVALID_ARGUMENT, PluginError
from .pjrt.runtime import Sized, fallible, getter, lists, objects, pool, properties, words
from .sharding import partition

properties("Executable", "NumReplicas", "NumPartitions", "NumOutputs", "SizeOfGeneratedCodeInBytes")
lists("Executable", "Name", "Fingerprint", "OutputElementTypes", "OutputDimensions", "OutputMemoryKinds")
lists("LoadedExecutable", "AddressableDevices", "Fingerprint", "GetDeviceAssignment")


@fallible("LoadedExecutable_GetExecutable")
def _get_executable(a: Any) -> None:
    a.executable = pool.add(objects[a.loaded])


@getter("LoadedExecutable_Delete")
def _delete(p: int) -> None:
    objects[words[(p >> 3) + 2]].client = None


@getter("LoadedExecutable_IsDeleted")
def _is_deleted(p: int) -> None:
    words[(p >> 3) + 3] = objects[words[(p >> 3) + 2]].client is None


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
    a.temporaries = executable.analysis.temporaries() // executable.options.partitions
    a.peak = a.arguments + a.outputs + a.temporaries


def _bytes_of_parts(types: Sequence[Type], tilings: Sequence[partition.Tiling]) -> list[int]:
    """The bytes of each value on one device."""
    return [
        t.nbytes // math.prod(tiling.parts) if isinstance(t, TensorType) and t.is_static else 0
        for t, tiling in zip(types, tilings, strict=True)
    ]


@fallible("Executable_GetCostAnalysis")
def _cost(a: Any) -> None:
    costs = objects[a.executable].cost_analysis
    a.num_properties, a.properties = costs.size, costs.address


@fallible("Executable_OptimizedProgram")
def _optimized_program(a: Any) -> None:
    optimized: bytes = objects[a.executable].optimized
    program = abi.Program.from_address(a.program)
    program.format, program.format_size = _FORMAT
    if program.code:
        if program.code_size < len(optimized):
            raise PluginError(INVALID_ARGUMENT, "the program does not fit")
        ctypes.memmove(program.code, optimized, len(optimized))
    program.code_size = len(optimized)


_FORMAT = Sized.text("hlo_with_config")
