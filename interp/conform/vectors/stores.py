"""The files of vectors: an array a file (npy, hex), or a family of cases a file (json; c in `c_source`).

Equal arrays are written once. Codes are unsigned integers; those of i1 are 0 and 1.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Protocol

import numpy as np

from ...errors import InputError, OutputError
from . import manifest
from .calls import plain
from .manifest import Entry, File

#: Codes on a line of a text file.
_ON_A_LINE = 16


class Store(Protocol):
    """The files of one form."""

    def array(self, codes: np.ndarray) -> str:
        """Stores an array. Returns its location: the file, and after # its name there."""
        ...

    def alternatives(self, rows: np.ndarray) -> str:
        """Stores rows of an index, a first and a last code. Returns their location."""
        ...

    def call(self, entry: Entry, /) -> None:
        """Adds a call whose arrays are stored."""
        ...

    def next_family(self, op: str, /) -> None:
        """Starts the calls of an operation."""
        ...

    def end(self, vectors: str, /) -> None:
        """Writes the rest; `vectors` identifies all that was added."""
        ...


def digest(array: np.ndarray) -> str:
    """The SHA-256 of codes, little-endian, in order."""
    return hashlib.sha256(plain(array).tobytes()).hexdigest()


class Folder:
    """A folder that files are written to, with their SHA-256."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.files: dict[str, File] = {}

    def write(self, name: str, data: bytes) -> None:
        """Writes a whole file. Raises OutputError if that fails."""
        with self.open(name) as stream:
            stream.write(data)

    def open(self, name: str) -> HashedFile:
        """Opens a new file for incremental writing."""
        return HashedFile(self, name)


class HashedFile:
    """A file that is hashed as it is written."""

    def __init__(self, folder: Folder, name: str) -> None:
        self._folder, self._name = folder, name
        self._hash, self._size = hashlib.sha256(), 0
        path = folder.path / name
        try:
            path.parent.mkdir(exist_ok=True)
            self._stream: IO[bytes] = open(path, "wb")  # noqa: SIM115
        except OSError as error:
            raise OutputError(f"{path}: {error.strerror}") from None

    def write(self, data: bytes | str) -> None:
        """Adds to the file. Raises OutputError."""
        data = data.encode() if isinstance(data, str) else data
        try:
            self._stream.write(data)
        except OSError as error:
            raise OutputError(f"{self._folder.path / self._name}: {error.strerror}") from None
        self._hash.update(data)
        self._size += len(data)

    def __enter__(self) -> HashedFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the file."""
        try:
            self._stream.close()
        except OSError as error:
            raise OutputError(f"{self._folder.path / self._name}: {error.strerror}") from None
        self._folder.files[self._name] = File(self._hash.hexdigest(), self._size)


def hex_codes(codes: np.ndarray, between: str = " ", before: str = "") -> Iterator[str]:
    """Lines of codes in hexadecimal digits, with the width of a code."""
    flat = plain(codes).reshape(-1)
    width = flat.dtype.itemsize
    swapped = flat.astype(flat.dtype.newbyteorder(">"))
    for start in range(0, len(flat), _ON_A_LINE):
        text = swapped[start : start + _ON_A_LINE].tobytes().hex(" ", width)
        yield before + text.replace(" ", between + before) if between != " " or before else text


class Arrays:
    """An array a file: `.npy`, or `.hex`, which `$readmemh` reads."""

    def __init__(self, folder: Folder, form: str) -> None:
        self._folder, self._form = folder, form
        self._lines: list[str] = []

    def array(self, codes: np.ndarray) -> str:
        """See Store."""
        codes = plain(codes)
        shape = "x".join(map(str, codes.shape)) or "scalar"
        return self._store(f"{digest(codes)[:20]}-{codes.dtype.itemsize}-{shape}", codes)

    def _store(self, name: str, codes: np.ndarray, is_rows: bool = False) -> str:
        path = f"arrays/{name}.{self._form}"
        if path in self._folder.files:
            return path
        with self._folder.open(path) as stream:
            if self._form == "npy":
                np.lib.format.write_array(_Bytes(stream), codes, allow_pickle=False)  # pyright: ignore
            elif is_rows:
                stream.write("".join(f"{p:x} {low:x} {high:x}\n" for p, low, high in codes.tolist()))
            else:
                stream.write("".join(f"{line}\n" for line in hex_codes(codes)))
        return path

    def alternatives(self, rows: np.ndarray) -> str:
        """See Store."""
        rows = plain(rows)
        return self._store(f"{digest(rows)[:20]}-alternatives", rows, is_rows=True)

    def call(self, entry: Entry, /) -> None:
        """See Store."""
        words = [entry.name, entry.op, ";".join(f"{k}={v}" for k, v in entry.attributes.items()) or "-"]
        words += [f"{t.type}:{'x'.join(map(str, t.shape))}:{t.at}" for t in (*entry.operands, entry.result)]
        words.append(entry.alternatives.at if entry.alternatives is not None else "-")
        self._lines.append(" ".join(words))

    def next_family(self, op: str, /) -> None:
        """See Store."""

    def end(self, _: str, /) -> None:
        """Writes a table of the calls beside text, for readers without JSON."""
        if self._form == "hex":
            self._folder.write("cases.txt", "".join(f"{line}\n" for line in self._lines).encode())


class _Bytes:
    """A stream that numpy can write to."""

    def __init__(self, stream: HashedFile) -> None:
        self.write = stream.write


class Families:
    """A family of cases in a file of JSON: its arrays first, then its calls."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._stream: HashedFile | None = None
        self._path = ""
        self._known: dict[str, str] = {}
        self._calls: list[str] = []

    def array(self, codes: np.ndarray) -> str:
        """See Store."""
        flat = plain(codes).reshape(-1)
        return self._store(f"{digest(flat)}-{flat.dtype}", "a", flat)

    def alternatives(self, rows: np.ndarray) -> str:
        """See Store."""
        return self._store(f"{digest(rows)}-rows", "r", rows)

    def _store(self, key: str, letter: str, codes: np.ndarray) -> str:
        assert self._stream is not None
        if key not in self._known:
            self._known[key] = f"{letter}{len(self._known)}"
            text = json.dumps(codes.tolist(), separators=(",", ":"))
            self._stream.write(f'{"," if len(self._known) > 1 else ""}\n"{self._known[key]}": {text}')
        return f"{self._path}#{self._known[key]}"

    def call(self, entry: Entry) -> None:
        """See Store."""
        operands = [{"type": t.type, "shape": t.shape, "codes": t.at.partition("#")[2]} for t in entry.operands]
        result = {"type": entry.result.type, "shape": entry.result.shape}
        other = entry.alternatives
        record = {
            "name": entry.name,
            "op": entry.op,
            "attributes": entry.attributes,
            "operands": operands,
            "result": result,
            "expected": entry.result.at.partition("#")[2],
            **({"alternatives": other.at.partition("#")[2]} if other is not None else {}),
            "rules": entry.rules,
        }
        self._calls.append(json.dumps(record))

    def next_family(self, op: str) -> None:
        """See Store."""
        self._close()
        self._path = f"{op}.json"
        self._stream = self._folder.open(self._path)
        self._stream.write(f'{{"schema": "{manifest.SCHEMA}",\n"arrays": {{')

    def _close(self) -> None:
        if self._stream is not None:
            calls = ",\n".join(self._calls)
            self._stream.write(f'\n}},\n"cases": [\n{calls}\n]}}\n')
            self._stream.close()
        self._stream, self._known, self._calls = None, {}, []

    def end(self, _: str, /) -> None:
        """See Store."""
        self._close()


def empty_folder(path: Path) -> Path:
    """Creates a folder, or accepts an empty one. Raises InputError if it has files, OutputError if it cannot be
    used."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        if any(path.iterdir()):
            raise InputError(f"{path}: expected an empty folder or a new one, got one with files")
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror}") from None
    return path
