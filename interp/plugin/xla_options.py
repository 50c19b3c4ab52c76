"""Compiler options: which names and values XLA takes, so that a mistyped one is an error here as it is on XLA's CPU.

They say how XLA compiles, and change nothing here. The names and types are those of the fields of XLA's `DebugOptions`,
a message of protocol buffers; the library of the installed jaxlib holds its description.
"""

from __future__ import annotations

import functools
import mmap
from collections.abc import Iterator, Mapping
from pathlib import Path

import jaxlib

from .pjrt.errors import INVALID_ARGUMENT, PluginError

Value = str | bool | int | float

#: The numbers of protocol buffers' types, for kinds of fields; any other field takes text.
_TYPES = {8: "bool", **dict.fromkeys((3, 4, 5, 13), "int"), **dict.fromkeys((1, 2), "float")}
_LIBRARIES = (".so", ".dylib", ".pyd", ".dll")
#: An option that every XLA has: where its description cannot be found, no other can be missed.
_CONTROL = "xla_dump_to"
_PREFIX = "xla_"
_NAME, _NUMBER, _LABEL, _TYPE = 0x0A, 0x18, 0x20, 0x28  #: the keys of a field's description, in their order
_MOST_VARINT = 3  #: bytes


def check(options: Mapping[str, Value]) -> None:
    """Raises PluginError where XLA has no option of a name, or where its value is of another kind."""
    for name, value in options.items():
        kind = _kind(name)
        if kind is None:
            raise PluginError(INVALID_ARGUMENT, f"No such compile option: '{name}'")
        if not _is_valid(kind, value):
            message = f"While setting option {name}, '{value}' is not a valid {kind} value."
            raise PluginError(INVALID_ARGUMENT, message)


def _is_valid(kind: str, value: Value) -> bool:
    if kind == "bool":
        return isinstance(value, bool) or value in ("True", "False")
    if kind in ("int", "float") and isinstance(value, str):
        try:
            float(value) if kind == "float" else int(value)
        except ValueError:
            return False
        return True
    kinds: dict[str, type] = {"int": int, "float": float, "text": str}
    return kind not in kinds or type(value) is kinds[kind] or (kind, type(value)) == ("float", int)


@functools.lru_cache(256)
def _kind(name: str) -> str | None:
    """The kind of value that an option takes; None where there is no such option, "any" where that cannot be known."""
    if not name.startswith(_PREFIX) or not name.isascii() or len(name) > 127:
        return None
    number = _described(name)
    if number is not None:
        return _TYPES.get(number, "text")
    return None if _described(_CONTROL) is not None else "any"


def _described(name: str) -> int | None:
    """The type of the field of a name, as the description of a message in jaxlib's libraries says it."""
    start = bytes([_NAME, len(name)]) + name.encode() + bytes([_NUMBER])
    for library in _libraries():
        with open(library, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            at = data.find(start)
            if at < 0:
                continue
            at += len(start)
            rest = data[at : at + _MOST_VARINT + 4]
            end = next((i for i, byte in enumerate(rest) if byte < 0x80), 0) + 1  # of the field's number
            if rest[end : end + 1] == bytes([_LABEL]) and rest[end + 2 : end + 3] == bytes([_TYPE]):
                return rest[end + 3]
    return None


def _libraries() -> Iterator[Path]:
    """The libraries of jaxlib, the largest first."""
    folder = Path(jaxlib.__file__ or "").parent
    libraries = [p for p in folder.iterdir() if p.suffix in _LIBRARIES and p.stat().st_size]
    yield from sorted(libraries, key=lambda p: -p.stat().st_size)
