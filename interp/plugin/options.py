"""The options of a compilation: how many devices, which, and the compiler options of the user."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping

from jaxlib import xla_client

from .pjrt import protobuf
from .xla_options import Value


@dataclasses.dataclass(frozen=True)
class CompileOptions:
    """The options.

    Attributes:
        devices: The numbers of the devices, in a row for each replica with a column for each partition; None if the
            platform may choose.
        assignment: The devices as a serialized DeviceAssignmentProto; empty if the platform may choose.
        overrides: The compiler options of the user, by name.
        serialized: All options as they came.
    """

    replicas: int
    partitions: int
    devices: tuple[tuple[int, ...], ...] | None
    assignment: bytes
    overrides: Mapping[str, Value] = dataclasses.field(default_factory=dict)
    serialized: bytes = dataclasses.field(default=b"", compare=False, repr=False)


@functools.lru_cache(256)
def read_compile_options(data: bytes) -> CompileOptions:
    """Return the parts of a serialized CompileOptionsProto that we use. Raises ValueError if it cannot be read."""
    options = xla_client.CompileOptions.ParseFromString(data)
    replicas, partitions = options.num_replicas or 1, options.num_partitions or 1
    overrides = dict(options.env_option_overrides)
    if options.device_assignment is None:
        return CompileOptions(replicas, partitions, None, b"", overrides, data)
    assignment = options.device_assignment.serialize()
    columns = [protobuf.integers(v, 1) for n, v in protobuf.read(assignment) if n == 3 and isinstance(v, bytes)]
    if len(columns) != partitions or any(len(c) != replicas for c in columns):
        raise ValueError(f"the device assignment is not {replicas} x {partitions}")
    return CompileOptions(replicas, partitions, tuple(zip(*columns, strict=True)), assignment, overrides, data)


def write_assignment(devices: tuple[tuple[int, ...], ...]) -> bytes:
    """Return a serialized DeviceAssignmentProto."""
    columns = [(3, protobuf.message((1, column))) for column in zip(*devices, strict=True)]
    return protobuf.message((1, len(devices)), (2, len(devices[0])), *columns)
