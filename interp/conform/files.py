"""Report files: written atomically, and read back with every field checked against its type."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import functools
import os
import types
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..errors import OutputError


def write(path: str | Path, text: str) -> None:
    """Writes a text file atomically. Raises OutputError if that fails."""
    write_bytes(path, text.encode("utf-8", errors="backslashreplace"))


def write_bytes(path: str | Path, raw: bytes) -> None:
    """Writes a binary file atomically. Raises OutputError if that fails."""
    target = Path(path)
    is_special = target.exists() and not target.is_file()  # a pipe or a device, which cannot be replaced
    written = target if is_special else _temporary(target)
    try:
        written.write_bytes(raw)
        if not is_special:
            written.replace(target)
    except OSError as error:
        if not is_special:
            with contextlib.suppress(OSError):
                written.unlink()
        raise OutputError(f"{path}: {error.strerror or error}") from None


def check(path: str | Path) -> None:
    """Raises OutputError if a file cannot be written, by trying; an existing file is left unchanged."""
    target = Path(path)
    try:
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if target.exists() and not target.is_file():
            return
        with open(_temporary(target), "ab"):
            pass
        os.unlink(_temporary(target))
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror or error}") from None


def _temporary(target: Path) -> Path:
    return target.with_name(target.name + ".part")


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
        return [read(arguments[0], x, f"{where}[{i}]") for i, x in enumerate(_as(list, data, where))]
    if origin is dict:
        return {k: read(arguments[1], x, f"{where}.{k}") for k, x in _as(dict, data, where).items()}
    if kind is types.NoneType:
        return _as(types.NoneType, data, where)
    wanted: type = kind
    if wanted is float and isinstance(data, int) and not isinstance(data, bool):
        return float(data)
    return _as(wanted, data, where)


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
    if not isinstance(data, kind):
        raise ValueError(f"{where}: expected {_name(kind)}, got {_show(data)}")
    return data


def _name(kind: Any) -> str:
    return {list: "a list", dict: "an object", str: "a string", int: "an integer", types.NoneType: "null"}.get(
        kind, getattr(kind, "__name__", str(kind))
    )


def _show(data: Any) -> str:
    text = repr(data)
    return text if len(text) < 40 else f"{text[:37]}..."
