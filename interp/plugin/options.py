"""The options of a compilation: how many devices, which, and what else the user says to the compiler."""

from __future__ import annotations

import dataclasses
import functools
import struct

from .pjrt import protobuf
from .xla_options import Value


@dataclasses.dataclass(frozen=True)
class CompileOptions:
    """`devices` has a row for each replica and a column for each partition; None where it is left to us."""

    replicas: int
    partitions: int
    devices: tuple[tuple[int, ...], ...] | None
    assignment: bytes  #: `devices` as it came
    overrides: tuple[tuple[str, Value], ...] = ()  #: the compiler options of the user, by name
    serialized: bytes = dataclasses.field(default=b"", compare=False, repr=False)  #: all of it as it came


@functools.lru_cache(256)
def read_compile_options(data: bytes) -> CompileOptions:
    """The parts of a serialized CompileOptionsProto that we use. Raises ValueError where it cannot be read."""
    build = protobuf.fields(_message(protobuf.fields(data).get(3)))
    replicas, partitions = int(build.get(4) or 1), int(build.get(5) or 1)
    overrides = tuple(_override(v) for n, v in protobuf.read(data) if n == 7 and isinstance(v, bytes))
    assignment = _message(build.get(9))
    if not assignment:
        return CompileOptions(replicas, partitions, None, b"", overrides, data)
    columns = [protobuf.integers(v, 1) for n, v in protobuf.read(assignment) if n == 3 and isinstance(v, bytes)]
    if len(columns) != partitions or any(len(c) != replicas for c in columns):
        raise ValueError(f"the device assignment is not {replicas} x {partitions}")
    return CompileOptions(replicas, partitions, tuple(zip(*columns, strict=True)), assignment, overrides, data)


def _override(entry: bytes) -> tuple[str, Value]:
    """A name and its value: text, a bool, an integer or a float."""
    fields = protobuf.fields(entry)
    for number, value in protobuf.read(_message(fields.get(2))):
        if number == 1 and isinstance(value, bytes):
            return _message(fields.get(1)).decode(), value.decode()
        if number in (2, 3) and isinstance(value, int):
            return _message(fields.get(1)).decode(), bool(value) if number == 2 else value
        if number == 4 and isinstance(value, bytes):
            return _message(fields.get(1)).decode(), struct.unpack("<d", value)[0]
    return _message(fields.get(1)).decode(), ""


def write_assignment(devices: tuple[tuple[int, ...], ...]) -> bytes:
    """A DeviceAssignmentProto."""
    columns = [(3, protobuf.message((1, column))) for column in zip(*devices, strict=True)]
    return protobuf.message((1, len(devices)), (2, len(devices[0])), *columns)


def _message(value: int | bytes | None) -> bytes:
    return value if isinstance(value, bytes) else b""
