"""Files that hold a program in another form -> MLIR: files of `jax.export`, HLO text, and HLO modules as protobuf.

Of an exported function (`Exported.serialize()`) the StableHLO in it is read: `@main` takes the arrays that the program
uses. HLO is converted by jaxlib, as XLA does it.
"""

from __future__ import annotations

import contextlib
import importlib
import re
import struct
from typing import Any

from ..errors import ProgramError

BYTECODE = b"ML\xefR"
_HLO_TEXT = re.compile(r"(?:\s|//[^\n]*\n|/\*.*?\*/)*HloModule\s", re.DOTALL)


#: The custom call that stands for a constant that HLO text elides: XLA would read other numbers.
ELIDED = "minihlo.elided"
#: The bytes of HLO text in which its first line is looked for.
_HEAD = 1 << 16
_ELIDED = re.compile(r"\bconstant\(\{\.\.\.\}\)"), f'custom-call(), custom_call_target="{ELIDED}"'
#: Numbers of processes in the first line of HLO text, and the module's attributes for them, which XLA leaves out.
_COUNTS = {"replica_count": "mhlo.num_replicas", "num_partitions": "mhlo.num_partitions"}


def is_binary(data: bytes) -> bool:
    """Whether data holds a program in a binary form: MLIR's own, or another one."""
    return data.startswith(BYTECODE) or _exported(data) is not None or _is_proto(data)


def mlir_of(source: str | bytes, file: str) -> str | bytes:
    """Return a program as MLIR text or bytecode; the source itself where it has no other form.

    Raises ProgramError where HLO cannot be read or converted.
    """
    if isinstance(source, bytes):
        if source.startswith(BYTECODE):
            return source
        if (artifact := _exported(source)) is not None:
            return artifact
        if _is_proto(source):
            return _converted(lambda: native("hlo_to_stablehlo")(_module_in(source) or source), file)
        if not source.lstrip().startswith((b"HloModule", b"//", b"/*")):
            return source
        try:
            source = source.decode()
        except UnicodeDecodeError:
            return source
    if not _HLO_TEXT.match(source):
        return source
    text = _ELIDED[0].sub(_ELIDED[1], source)
    proto = lambda: native("hlo_module_from_text")(text).as_serialized_hlo_module_proto()  # noqa: E731
    return _converted(lambda: native("hlo_to_stablehlo")(proto()), file)


def process_counts(source: str | bytes) -> dict[str, int]:
    """Return the module's attributes for the numbers of replicas and partitions that HLO text gives."""
    text = source if isinstance(source, str) else source[:_HEAD].decode(errors="replace")
    start = _HLO_TEXT.match(text)
    line = text[start.end() :].partition("\n")[0] if start else ""
    return {_COUNTS[name]: int(n) for name, n in re.findall(rf"\b({'|'.join(_COUNTS)})=(\d{{1,9}})\b", line)}


def _exported(data: bytes) -> bytes | None:
    """The bytecode within a FlatBuffer, whose length stands before it."""
    at = data.find(BYTECODE)
    if at < 8:
        return None
    (length,) = struct.unpack_from("<I", data, at - 4)
    return data[at : at + length] if 8 < length <= len(data) - at else None


def _is_proto(data: bytes) -> bool:
    """Whether data begins as an HLO module does: a message whose first field is its name, or one that holds such."""
    fields = _fields(data, 3)
    return [number for number, _ in fields] == [1, 2, 3] or _module_in(data) is not None


def _fields(data: bytes, most: int) -> list[tuple[int, bytes]]:
    """The first fields of a message, as far as they have a length: their numbers and contents."""
    fields: list[tuple[int, bytes]] = []
    at = 0
    while at < len(data) and len(fields) < most and data[at] & 7 == 2:
        number, at = data[at] >> 3, at + 1
        length = shift = 0
        while at < len(data) and shift < 35:
            byte, at = data[at], at + 1
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                break
        fields.append((number, data[at : at + length]))  # cut off where only the beginning is at hand
        at += length
    return fields


def _module_in(data: bytes, depth: int = 2) -> bytes | None:
    """The HloModuleProto in an HloProto or HloSnapshot, of which it is the first field of the first field."""
    for number, inner in _fields(data, 1):
        if number == 1 and depth:
            if [n for n, _ in _fields(inner, 3)] == [1, 2, 3]:
                return inner
            return _module_in(inner, depth - 1)
    return None


def _converted(convert: Any, file: str) -> bytes:
    try:
        return convert()
    except AttributeError:
        raise ProgramError(f"{file}: expected MLIR, got HLO, which this jaxlib cannot convert") from None
    except Exception as error:  # XlaRuntimeError, a ValueError or a RuntimeError, as versions have it
        lines = " ".join(str(error).split())
        raise ProgramError(f"{file}: HLO: {lines[:600] or type(error).__name__}") from None


def native(name: str) -> Any:
    """A function of jaxlib, which versions have in other places."""
    for module in ("_hlo", "_jax"):
        with contextlib.suppress(ImportError):
            found: Any = importlib.import_module(f"jaxlib.{module}")
            for place in (found, getattr(found, "mlir", None)):
                if hasattr(place, name):
                    return getattr(place, name)
    raise AttributeError(name)
