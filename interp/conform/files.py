"""Files of results: written atomically, and read back with their size and every field checked.

A file may come from anyone. What is read is no larger than any that the tester writes, and fits the types of the
dataclass that it becomes; what is wrong is a ValueError with its place.
"""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import functools
import gzip
import io
import itertools
import json
import math
import os
import secrets
import stat
import types
import typing
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ..errors import OutputError

#: The most bytes of a file, and the most values of its JSON: some ten times those of a whole run.
MOST_BYTES, MOST_VALUES = 1 << 27, 10_000_000
#: Numbers of more bits are none of ours.
_MOST_BITS = 64


def write(path: str | Path, text: str) -> None:
    """Writes a text file atomically. Raises OutputError if that fails."""
    write_bytes(path, text.encode("utf-8", errors="backslashreplace"))


def write_bytes(path: str | Path, raw: bytes) -> None:
    """Writes a binary file atomically. Raises OutputError if that fails."""
    target = Path(path)
    try:
        if target.exists() and not target.is_file():  # a pipe or a device, which cannot be replaced
            target.write_bytes(raw)
            return
        name = _temporary(target)
        try:
            with open(name, "xb") as file:
                file.write(raw)
            name.replace(target)
        except BaseException:
            with contextlib.suppress(OSError):
                name.unlink()
            raise
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror or error}") from None


def check(path: str | Path) -> None:
    """Raises OutputError if a file cannot be written, by trying; an existing file is left unchanged."""
    target = Path(path)
    try:
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if target.exists() and not target.is_file():
            return
        name = _temporary(target)
        with open(name, "xb"):
            pass
        name.unlink()
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror or error}") from None


def _temporary(target: Path) -> Path:
    """A new name beside a file: another one may belong to the user."""
    return target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}.part")


def read_bytes(path: str | Path, most: int = MOST_BYTES) -> bytes:
    """The bytes of a file, decompressed if its name ends in .gz. Raises OSError, and ValueError for a pipe."""
    # A pipe without a writer would block.
    with open(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise ValueError(
                f"{path}: expected a file, got a {'folder' if Path(path).is_dir() else 'pipe or a device'}"
            )
        data = file.read(most + 1)
    if str(path).endswith(".gz") and len(data) <= most:
        try:
            with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
                data = stream.read(most + 1)
        except (OSError, EOFError, zlib.error) as error:
            raise ValueError(f"{path}: {error}") from None
    if len(data) > most:
        raise ValueError(f"{path}: expected at most {most:,} bytes, got more")
    return data


def parse_json(raw: bytes) -> Any:
    """The value of JSON in UTF-8. Raises ValueError, also for values that are nested too deeply or too many."""
    most = sum(raw.count(mark) for mark in (b",", b"[", b"{"))
    if most > MOST_VALUES:
        raise ValueError(f"expected JSON of up to {MOST_VALUES:,} values, got about {most:,}")
    try:
        return json.loads(raw.decode("utf-8"))
    except RecursionError:
        raise ValueError("expected JSON, got a value that is nested too deeply") from None


def read(kind: Any, data: Any, where: str = "") -> Any:
    """Converts JSON to a value of a type or to a dataclass. Raises ValueError with the place of a mismatch.

    Args:
        kind: the type: a dataclass, `int`, `str | None`, `list[list[int]]` and the like.
        data: the parsed JSON.
        where: the place in the file, for the message.
    """
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        for option in arguments:
            with contextlib.suppress(ValueError):
                return read(option, data, where)
        raise ValueError(f"{where}: expected {' or '.join(map(_name, arguments))}, got {_show(data)}")
    if isinstance(kind, type) and dataclasses.is_dataclass(kind):
        return _record(kind, data, where)
    if origin is list:
        if set(map(type, _as(list, data, where))) == {str} == {arguments[0]}:  # long lists are read quickly
            return data
        return _items(itertools.repeat(arguments[0]), _as(list, data, where), where)
    if origin is tuple:
        values = _as(list, data, where)
        if arguments[-1] is ...:
            return tuple(_items(itertools.repeat(arguments[0]), values, where))
        if len(values) != len(arguments):
            raise ValueError(f"{where}: expected {len(arguments)} items, got {len(values)}")
        return tuple(_items(arguments, values, where))
    if origin is dict:
        return {k: read(arguments[1], x, f"{where}.{k}") for k, x in _as(dict, data, where).items()}
    if kind is types.NoneType:
        return _as(types.NoneType, data, where)
    return _as(kind, data, where)


def _items(kinds: Iterable[Any], values: list[Any], where: str) -> list[Any]:
    return [read(kind, x, f"{where}[{i}]") for i, (kind, x) in enumerate(zip(kinds, values, strict=False))]


def _record(kind: type, data: Any, where: str) -> Any:
    given: Mapping[str, Any] = _as(dict, data, where)
    hints, fields = _hints(kind), {f.name: f for f in dataclasses.fields(kind)}
    unknown = next((k for k in given if k not in fields), None)
    if unknown is not None:
        raise ValueError(f"{where}: there is no field {_show(unknown)}")
    needed = (f.name for f in fields.values() if _is_needed(f) and f.name not in given)
    missing = next(needed, None)
    if missing is not None:
        raise ValueError(f"{where}: the field {missing!r} is missing")
    return kind(**{k: read(hints[k], v, f"{where}.{k}") for k, v in given.items()})


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    """The cached field types of a dataclass: a report has thousands of records."""
    return typing.get_type_hints(kind)


def _is_needed(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _as(kind: type, data: Any, where: str) -> Any:
    if kind is int and isinstance(data, bool):  # a code of i1
        return int(data)
    if kind in (int, float) and type(data) is int:
        if data.bit_length() > _MOST_BITS:
            raise ValueError(f"{where}: expected a number of up to {_MOST_BITS} bits, got {data.bit_length()} bits")
        return kind(data)
    if not isinstance(data, kind) or (kind is float and not math.isfinite(data)):
        raise ValueError(f"{where}: expected {_name(kind)}, got {_show(data)}")
    return data


def _name(kind: Any) -> str:
    return {
        list: "a list",
        dict: "an object",
        str: "a string",
        int: "an integer",
        float: "a number",
        types.NoneType: "null",
    }.get(kind, getattr(kind, "__name__", str(kind)))


def _show(data: Any) -> str:
    text = repr(data)
    return text if len(text) < 40 else f"{text[:37]}..."
