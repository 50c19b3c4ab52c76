"""What a compilation is told beside the program: how many devices, and which."""

from __future__ import annotations

import dataclasses
import functools

from . import protobuf


@dataclasses.dataclass(frozen=True)
class CompileOptions:
    """`devices` has a row for each replica and a column for each partition; None where it is left to us."""

    replicas: int
    partitions: int
    devices: tuple[tuple[int, ...], ...] | None
    assignment: bytes  #: `devices` as it came


@functools.lru_cache(256)
def read_compile_options(data: bytes) -> CompileOptions:
    """The parts of a serialized CompileOptionsProto that we use. Raises ValueError where it cannot be read."""
    build = protobuf.fields(_message(protobuf.fields(data).get(3)))
    replicas, partitions = int(build.get(4) or 1), int(build.get(5) or 1)
    assignment = _message(build.get(9))
    if not assignment:
        return CompileOptions(replicas, partitions, None, b"")
    columns = [protobuf.integers(v, 1) for n, v in protobuf.read(assignment) if n == 3 and isinstance(v, bytes)]
    if len(columns) != partitions or any(len(c) != replicas for c in columns):
        raise ValueError(f"the device assignment is not {replicas} x {partitions}")
    return CompileOptions(replicas, partitions, tuple(zip(*columns, strict=True)), assignment)


def write_assignment(devices: tuple[tuple[int, ...], ...]) -> bytes:
    """A DeviceAssignmentProto."""
    columns = [(3, protobuf.message((1, column))) for column in zip(*devices, strict=True)]
    return protobuf.message((1, len(devices)), (2, len(devices[0])), *columns)


def _message(value: int | bytes | None) -> bytes:
    return value if isinstance(value, bytes) else b""
