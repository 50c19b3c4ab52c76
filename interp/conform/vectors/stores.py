"""The files of vectors: an array a file (npy, hex), or an operation a file (json; c in `c_source`).

Equal arrays are written once. Codes are unsigned integers; those of i1 are 0 and 1.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import InputError, OutputError
from .. import files
from ..files import File
from . import manifest
from .calls import plain
from .manifest import Entry

#: Codes on a line of a text file.
_ON_A_LINE = 16


def digest(array: np.ndarray) -> str:
    """The SHA-256 of codes, little-endian, in order."""
    return hashlib.sha256(plain(array).tobytes()).hexdigest()


def hex_codes(codes: np.ndarray, between: str = " ", before: str = "") -> Iterator[str]:
    """Lines of codes in hexadecimal digits, with the width of a code."""
    flat = plain(codes).reshape(-1)
    width = flat.dtype.itemsize
    swapped = flat.astype(flat.dtype.newbyteorder(">"))
    for start in range(0, len(flat), _ON_A_LINE):
        text = swapped[start : start + _ON_A_LINE].tobytes().hex(" ", width)
        yield before + text.replace(" ", between + before)


class Store:
    """The files of one form, with their sizes and hashes. The arrays of a call are stored before the call."""

    def __init__(self, folder: Path, form: str) -> None:
        self.folder, self.form = empty_folder(folder), form
        self.files: dict[str, File] = {}

    def write(self, name: str, data: bytes | str) -> None:
        """Writes a file. Raises OutputError if that fails."""
        raw = data.encode() if isinstance(data, str) else data
        files.write_bytes(self.folder / name, raw)
        self.files[name] = File.of(raw)

    def array(self, op: str, codes: np.ndarray, is_rows: bool = False) -> str:
        """Stores codes of a call, or rows of an index, a first and a last code.

        Returns their location: the file, and after # the name there.
        """
        raise NotImplementedError

    def family(self, op: str, calls: Sequence[Entry]) -> None:
        """Ends an operation, all of whose calls are given."""

    def end(self, vectors: str, families: Mapping[str, Sequence[Entry]]) -> None:
        """Writes the rest; `vectors` identifies the calls of all operations."""


class Arrays(Store):
    """An array a file: `.npy`, or `.hex`, which `$readmemh` reads."""

    def __init__(self, folder: Path, form: str) -> None:
        super().__init__(folder, form)
        empty_folder(folder / "arrays")

    def array(self, op: str, codes: np.ndarray, is_rows: bool = False) -> str:  # noqa: ARG002
        codes = plain(codes)
        shape = "x".join(map(str, codes.shape)) or "scalar"
        name = "alternatives" if is_rows else f"{codes.dtype.itemsize}-{shape}"
        path = f"arrays/{digest(codes)[:20]}-{name}.{self.form}"
        if path in self.files:
            return path
        if self.form == "npy":
            stream = io.BytesIO()
            np.lib.format.write_array(stream, codes, allow_pickle=False)
            self.write(path, stream.getvalue())
        elif is_rows:
            self.write(path, "".join(f"{p:x} {low:x} {high:x}\n" for p, low, high in codes.tolist()))
        else:
            self.write(path, "".join(f"{line}\n" for line in hex_codes(codes)))
        return path

    def end(self, vectors: str, families: Mapping[str, Sequence[Entry]]) -> None:  # noqa: ARG002
        if self.form == "hex":  # a table of the calls, for readers without JSON
            self.write("cases.txt", "".join(_words(entry) for calls in families.values() for entry in calls))


def _words(entry: Entry) -> str:
    words = [entry.name, entry.op, ";".join(f"{k}={v}" for k, v in entry.attributes.items()) or "-"]
    words += [f"{t.type}:{'x'.join(map(str, t.shape))}:{t.at}" for t in (*entry.operands, entry.result)]
    return " ".join([*words, entry.alternatives.at if entry.alternatives is not None else "-"]) + "\n"


class Families(Store):
    """The calls of an operation and their arrays in a file, which may be larger than the memory: JSON, or another form
    in subclasses."""

    suffix = "json"

    def __init__(self, folder: Path, form: str) -> None:
        super().__init__(folder, form)
        self._names: dict[str, str] = {}  #: of the arrays of the operation

    def array(self, op: str, codes: np.ndarray, is_rows: bool = False) -> str:
        flat = codes if is_rows else plain(codes).reshape(-1)
        key = f"{digest(flat)}-{'rows' if is_rows else flat.dtype}"
        if key not in self._names:
            head = "" if self._names else self.head(op)
            self._names[key], text = self.array_text(op, len(self._names), flat)
            self._add(op, head + text)
        return f"{op}.{self.suffix}#{self._names[key]}"

    def family(self, op: str, calls: Sequence[Entry]) -> None:
        self._add(op, self.tail(op, calls))
        self.files[f"{op}.{self.suffix}"] = File.at(self.folder / f"{op}.{self.suffix}")
        self._names.clear()

    def _add(self, op: str, text: str) -> None:
        path = self.folder / f"{op}.{self.suffix}"
        try:
            with open(path, "ab") as stream:
                stream.write(text.encode())
        except OSError as error:
            raise OutputError(f"{path}: {error.strerror}") from None

    def head(self, op: str) -> str:  # noqa: ARG002
        """The begin of a file."""
        return f'{{"schema": "{manifest.SCHEMA}",\n"arrays": {{'

    def array_text(self, op: str, number: int, codes: np.ndarray) -> tuple[str, str]:  # noqa: ARG002
        """The name and the text of an array: of codes, or of rows."""
        name = f"{'r' if codes.ndim == 2 else 'a'}{number}"
        return name, f'{"," if number else ""}\n"{name}": {json.dumps(codes.tolist(), separators=(",", ":"))}'

    def tail(self, op: str, calls: Sequence[Entry]) -> str:  # noqa: ARG002
        """The end of a file, with its calls."""
        listed = ",\n".join(json.dumps(_record(c)) for c in calls)
        return f'\n}},\n"cases": [\n{listed}\n]}}\n'


def _record(entry: Entry) -> dict[str, Any]:
    """A call as other programs read it, with the names of its arrays."""
    operands = [{"type": t.type, "shape": t.shape, "codes": t.place} for t in entry.operands]
    record = {"name": entry.name, "op": entry.op, "attributes": entry.attributes, "operands": operands}
    record |= {"result": {"type": entry.result.type, "shape": entry.result.shape}, "expected": entry.result.place}
    other = {"alternatives": entry.alternatives.place} if entry.alternatives is not None else {}
    return record | other | {"rules": entry.rules}


def empty_folder(path: Path) -> Path:
    """Creates a folder, or accepts an empty one.

    Raises InputError if it has files, OutputError if it cannot be used.
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
        has_files = any(path.iterdir())
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror}") from None
    if has_files:
        raise InputError(f"{path}: expected an empty folder or a new one, got one with files")
    return path
