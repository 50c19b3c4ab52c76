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
import hashlib
import itertools
import math
import os
import secrets
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from .. import foreign
from ..errors import InputError, OutputError, printable

#: Numbers of more bits are none of ours.
_MOST_BITS = 64


@dataclasses.dataclass(frozen=True)
class File:
    """The contents of a file, in brief."""

    sha256: str
    size: int  #: in bytes

    @classmethod
    def of(cls, raw: bytes) -> File:
        """The hash and the size of contents."""
        return cls(hashlib.sha256(raw).hexdigest(), len(raw))

    @classmethod
    def at(cls, path: Path) -> File:
        """The hash and the size of a file. Raises OSError, and ValueError for a pipe or a device."""
        with foreign.open_file(path) as stream:
            return cls(hashlib.file_digest(stream, "sha256").hexdigest(), stream.tell())


def write(path: str | Path, text: str) -> None:
    """Writes a text file atomically, compressed if its name ends in `.gz`. Raises OutputError if that fails."""
    raw = text.encode("utf-8", errors="backslashreplace")
    write_bytes(path, gzip.compress(raw, mtime=0) if str(path).endswith(".gz") else raw)


def write_bytes(path: str | Path, raw: bytes) -> None:
    """Writes a binary file atomically. Raises OutputError if that fails."""
    with _beside(path) as new:
        new.write_bytes(raw)
        if new != Path(path):
            new.replace(path)


def check(path: str | Path) -> None:
    """Raises OutputError if a file cannot be written, by trying; an existing file is left unchanged."""
    with _beside(path):
        pass


@contextlib.contextmanager
def _beside(path: str | Path) -> Iterator[Path]:
    """A new file beside a file, removed at the end; a pipe or a device itself, which cannot be replaced.

    Raises OutputError for every OSError.
    """
    target = Path(path)
    try:
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if target.exists() and not target.is_file():
            yield target
            return
        new = target.with_name(f".{target.name[:100]}.{secrets.token_hex(4)}.part")  # another may belong to the user
        new.touch(exist_ok=False)
        try:
            yield new
        finally:
            with contextlib.suppress(OSError):
                new.unlink()
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror or error}") from None


def load(path: str | Path, where: str, parse: Callable[[bytes], Any], most: int = foreign.MOST_BYTES) -> Any:
    """Reads a file that may come from anyone, and parses it. Raises InputError, whose message begins with `where`."""
    try:
        return parse(foreign.read_bytes(path, most))
    except OSError as error:
        why = error.strerror or str(error)
    except RecursionError:
        why = "expected another file, got one that is nested too deeply"
    except (InputError, ValueError) as error:
        why = str(error)
    raise InputError(printable(why if why.startswith(where) else f"{where}: {why}"))


def read(kind: Any, data: Any, where: str = "") -> Any:
    """Converts JSON to a value of a type or to a dataclass. Raises ValueError with the place of a mismatch.

    Args:
        kind: the type: a dataclass, `int`, `str | None`, `list[list[int]]` and the like.
        data: the parsed JSON.
        where: the place in the file, for the message.
    """
    if kind is str or kind is int:
        return _as(kind, data, where)
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
    hints, needed = _fields(kind)
    unknown = given.keys() - hints.keys()
    if unknown:
        raise ValueError(f"{where}: there is no field {_show(min(unknown))}")
    missing = next((name for name in needed if name not in given), None)
    if missing is not None:
        raise ValueError(f"{where}: the field {missing!r} is missing")
    return kind(**{k: read(hints[k], v, f"{where}.{k}") for k, v in given.items()})


@functools.cache
def _fields(kind: type) -> tuple[dict[str, Any], list[str]]:
    """The types of the fields of a dataclass, and the names of those without a default. A report has many records."""
    fields, hints = dataclasses.fields(kind), typing.get_type_hints(kind)
    missing = dataclasses.MISSING
    needed = [f.name for f in fields if f.default is missing and f.default_factory is missing]
    return {f.name: hints[f.name] for f in fields}, needed


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
