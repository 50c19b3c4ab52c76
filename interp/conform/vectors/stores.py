"""The files of vectors: an array a file (npy, hex), or a family of calls a file (json; c in `c_source`).

Equal arrays are written once. Codes are unsigned integers; those of i1 are 0 and 1.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from ...errors import InputError, OutputError
from . import manifest
from .calls import plain
from .manifest import Entry, File

#: Codes on a line of a text file.
_ON_A_LINE = 16


def digest(array: np.ndarray) -> str:
    """The SHA-256 of codes, little-endian, in order."""
    return hashlib.sha256(plain(array).tobytes()).hexdigest()


@contextlib.contextmanager
def _as_output_error(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror}") from None


class HashedFile:
    """A new file that is hashed as it is written, and listed when it is closed. Raises OutputError if that fails."""

    def __init__(self, folder: Path, name: str, listed: dict[str, File]) -> None:
        self._path, self._name, self._listed = folder / name, name, listed
        self._hash, self._size = hashlib.sha256(), 0
        with _as_output_error(self._path):
            self._path.parent.mkdir(exist_ok=True)
            self._stream: IO[bytes] = open(self._path, "wb")  # noqa: SIM115

    def write(self, data: bytes | str) -> None:
        """Adds to the file."""
        data = data.encode() if isinstance(data, str) else data
        with _as_output_error(self._path):
            self._stream.write(data)
        self._hash.update(data)
        self._size += len(data)

    def __enter__(self) -> HashedFile:
        return self

    def __exit__(self, *_: object) -> None:
        with _as_output_error(self._path):
            self._stream.close()
        self._listed[self._name] = File(self._hash.hexdigest(), self._size)


def hex_codes(codes: np.ndarray, between: str = " ", before: str = "") -> Iterator[str]:
    """Lines of codes in hexadecimal digits, with the width of a code."""
    flat = plain(codes).reshape(-1)
    width = flat.dtype.itemsize
    swapped = flat.astype(flat.dtype.newbyteorder(">"))
    for start in range(0, len(flat), _ON_A_LINE):
        text = swapped[start : start + _ON_A_LINE].tobytes().hex(" ", width)
        yield before + text.replace(" ", between + before)


class Store:
    """The files of one form, and their hashes. The arrays of a call are stored before the call."""

    def __init__(self, folder: Path, form: str) -> None:
        self.folder, self.form = folder, form
        self.files: dict[str, File] = {}
        self.calls: list[str] = []

    def open(self, name: str) -> HashedFile:
        """Opens a new file."""
        return HashedFile(self.folder, name, self.files)

    def array(self, codes: np.ndarray, is_rows: bool = False) -> str:
        """Stores codes, or rows of an index, a first and a last code.

        Returns their location: the file, and after # the name there.
        """
        raise NotImplementedError

    def call(self, entry: Entry) -> None:
        """Adds a call."""
        raise NotImplementedError

    def next_family(self, op: str) -> None:
        """Starts the calls of an operation."""

    def end(self, vectors: str) -> None:
        """Writes the rest; `vectors` identifies all that was added."""
        raise NotImplementedError


class Arrays(Store):
    """An array a file: `.npy`, or `.hex`, which `$readmemh` reads."""

    def array(self, codes: np.ndarray, is_rows: bool = False) -> str:
        codes = plain(codes)
        shape = "x".join(map(str, codes.shape)) or "scalar"
        name = "alternatives" if is_rows else f"{codes.dtype.itemsize}-{shape}"
        path = f"arrays/{digest(codes)[:20]}-{name}.{self.form}"
        if path in self.files:
            return path
        with self.open(path) as stream:
            if self.form == "npy":
                target: Any = stream
                np.lib.format.write_array(target, codes, allow_pickle=False)
            elif is_rows:
                stream.write("".join(f"{p:x} {low:x} {high:x}\n" for p, low, high in codes.tolist()))
            else:
                stream.write("".join(f"{line}\n" for line in hex_codes(codes)))
        return path

    def call(self, entry: Entry) -> None:
        words = [entry.name, entry.op, ";".join(f"{k}={v}" for k, v in entry.attributes.items()) or "-"]
        words += [f"{t.type}:{'x'.join(map(str, t.shape))}:{t.at}" for t in (*entry.operands, entry.result)]
        self.calls.append(" ".join([*words, entry.alternatives.at if entry.alternatives is not None else "-"]) + "\n")

    def end(self, vectors: str) -> None:  # noqa: ARG002
        if self.form == "hex":  # a table of the calls, for readers without JSON
            with self.open("cases.txt") as stream:
                stream.write("".join(self.calls))


class Families(Store):
    """A family of calls in a file: its arrays first, then its calls."""

    op = ""
    _stream: HashedFile | None = None

    def array(self, codes: np.ndarray, is_rows: bool = False) -> str:
        assert self._stream is not None
        flat = codes if is_rows else plain(codes).reshape(-1)
        key = f"{digest(flat)}-{'rows' if is_rows else flat.dtype}"
        if key not in self._names:
            self._names[key], text = self.text_of(flat, len(self._names))
            self._stream.write(text)
        return f"{self.op}.{self.suffix}#{self._names[key]}"

    def next_family(self, op: str) -> None:
        self.close()
        self.op, self._names = op, dict[str, str]()
        self._stream = self.open(f"{op}.{self.suffix}")
        self._stream.write(self.head())

    def close(self) -> None:
        """Ends the file of a family."""
        if self._stream is not None:
            with self._stream as stream:
                stream.write(self.tail())
        self._stream, self.calls = None, []

    def end(self, vectors: str) -> None:  # noqa: ARG002
        self.close()

    # -- one form of files ---------------------------------------------------------------------------------------------

    suffix = "json"

    def head(self) -> str:
        """The begin of a file."""
        return f'{{"schema": "{manifest.SCHEMA}",\n"arrays": {{'

    def tail(self) -> str:
        """The end of a file, with its calls."""
        calls = ",\n".join(self.calls)
        return f'\n}},\n"cases": [\n{calls}\n]}}\n'

    def text_of(self, codes: np.ndarray, number: int) -> tuple[str, str]:
        """The name and the text of the array of that number."""
        name = f"{'r' if codes.ndim == 2 else 'a'}{number}"
        return name, f'{"," if number else ""}\n"{name}": {json.dumps(codes.tolist(), separators=(",", ":"))}'

    def call(self, entry: Entry) -> None:
        operands = [{"type": t.type, "shape": t.shape, "codes": t.place} for t in entry.operands]
        other = {"alternatives": entry.alternatives.place} if entry.alternatives is not None else {}
        record = {"name": entry.name, "op": entry.op, "attributes": entry.attributes, "operands": operands}
        record |= {"result": {"type": entry.result.type, "shape": entry.result.shape}, "expected": entry.result.place}
        self.calls.append(json.dumps(record | other | {"rules": entry.rules}))


def empty_folder(path: Path) -> Path:
    """Creates a folder, or accepts an empty one.

    Raises InputError if it has files, OutputError if it cannot be used.
    """
    with _as_output_error(path):
        path.mkdir(parents=True, exist_ok=True)
        if any(path.iterdir()):
            raise InputError(f"{path}: expected an empty folder or a new one, got one with files")
    return path
