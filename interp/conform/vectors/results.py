"""Reads results: a text file, or a folder with a file for each call. Everything is checked before it is judged.

The text file:

    minihlo.results/1
    vectors 3f2a…                   the SHA-256 in the manifest, `vectors`
    backend my-chip                 optional: its name in reports
    case add.f8E4M3FN.array
    7F 7E 00 …                      the codes, in hexadecimal digits, as many as a code has; any white space
    case divide.f8E4M3FN.array
    unsupported no divider          or: failed REASON, of a call that crashed
    end 2                           the number of calls

Calls may come in any order. Empty lines and lines that start with # are ignored. A folder has `vectors` (the same
SHA-256), optionally `backend`, and for each call NAME.npy, NAME.hex, NAME.unsupported or NAME.failed (a reason).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO

import numpy as np

from ... import foreign
from ...backends import BackendError
from ...errors import InputError, few, printable
from .manifest import Entry

SCHEMA = "minihlo.results/1"
#: The marks of calls without results, and the corresponding error kinds of a live run.
_ENDS = {"unsupported": "refused", "failed": "died"}
#: Maximum length of a line.
_LINE = 1 << 24


@dataclasses.dataclass
class Results:
    """The results of calls: codes, why there are none, or the file that has them."""

    backend: str = ""  #: the name of the backend; may be empty
    calls: dict[str, np.ndarray | BackendError | Path] = dataclasses.field(default_factory=dict)

    def codes(self, entry: Entry) -> np.ndarray:
        """The codes of a call, flat. Raises BackendError if it has no results."""
        found = self.calls[entry.name]
        if isinstance(found, BackendError):
            raise found
        return _in_file(found, entry) if isinstance(found, Path) else found


def read(path: str | Path, entries: Iterable[Entry], wanted: Iterable[Entry], vectors: str) -> Results:
    """Reads and checks results.

    Args:
        path: a file or a folder.
        entries: all calls of the vectors.
        wanted: the calls that need results.
        vectors: the identifier of the vectors.

    Raises InputError for results that are missing, too short or too long, duplicate, or of unknown calls or other
    vectors.
    """
    known = {e.name: e for e in entries}
    try:
        found = (_read_folder if Path(path).is_dir() else _read_file)(Path(path), known, vectors)
    except OSError as error:
        raise InputError(f"{error.filename or path}: {error.strerror or error}") from None
    except ValueError as error:
        raise InputError(str(error)) from None
    missing = [e.name for e in wanted if e.name not in found.calls]
    if missing:
        raise InputError(
            f"{path}: expected results of every case, got none for {few(missing)} (for a case that "
            "is not supported the result is: unsupported REASON)"
        )
    return found


def _check_vectors(where: str, got: str, expected: str) -> None:
    if got != expected:
        raise InputError(f"{where}: expected results of the vectors {expected}, got those of {printable(got)[:80]}")


def _entry(known: Mapping[str, Entry], name: str, where: str, names: Iterable[str]) -> Entry:
    if name not in known:
        raise InputError(f"{where}: expected a case of the manifest, got {printable(name)[:80]!r}")
    if name in names:
        raise InputError(f"{where}: expected one result of each case, got a second one of {name}")
    return known[name]


def _reason(text: str) -> str:
    return printable(text.strip()) or "no reason given"


def _digits(line: bytes, width: int, where: str) -> bytes:
    """The bytes of the codes on a line, each with the highest byte first."""
    codes = re.compile(rb"(?:0[xX])?((?:[0-9A-Fa-f]{%d})+)" % (2 * width))
    words = [(word, codes.fullmatch(word)) for word in line.split()]
    wrong = next((word for word, match in words if match is None), None)
    if wrong is not None:
        text = printable(wrong.decode(errors="replace"))[:40]
        raise InputError(f"{where}: expected codes of {2 * width} hexadecimal digits, got {text!r}")
    return bytes.fromhex(b"".join(match[1] for _, match in words if match).decode())


def _codes(data: bytes | bytearray, entry: Entry, where: str) -> np.ndarray:
    """The codes of a call. Raises InputError for another number of them."""
    width, size = entry.result.width, entry.result.size
    if len(data) != width * size:
        raise InputError(f"{where}: expected {size:,} codes of {entry.name}, got {len(data) // width:,}")
    return np.frombuffer(data, f">u{width}").astype(f"u{width}")


def _read_file(path: Path, known: Mapping[str, Entry], vectors: str) -> Results:
    """A text file."""
    found = Results()
    with foreign.open_file(path) as stream:
        lines = _lines(stream, path)
        where, line = next(lines, (f"{path}", b""))
        if line.strip() != SCHEMA.encode():
            raise InputError(f"{where}: expected {SCHEMA}, got {_show(line)}")
        where, line = next(lines, (f"{path}", b""))
        if not line.startswith(b"vectors "):
            raise InputError(f"{where}: expected vectors and their SHA-256, got {_show(line)}")
        _check_vectors(where, line.split(None, 1)[1].strip().decode(errors="replace"), vectors)
        current: Entry | None = None
        digits, ended = bytearray(), False
        for where, line in lines:
            word, _, rest = line.strip().partition(b" ")
            text = rest.strip().decode(errors="replace")
            if ended:
                raise InputError(f"{where}: expected nothing after the end, got {_show(line)}")
            if word in (b"case", b"end") and current is not None:
                found.calls[current.name] = _codes(digits, current, where)
                current = None
            if word == b"case":
                current, digits = _entry(known, text, where, found.calls), bytearray()
            elif word == b"end":
                ended = True
                if text != str(len(found.calls)):
                    raise InputError(f"{where}: expected end {len(found.calls)}, got end {printable(text)[:40]}")
            elif word == b"backend" and not found.calls and current is None:
                found.backend = _reason(text)
            elif current is None:
                raise InputError(f"{where}: expected a case or the end, got {_show(line)}")
            elif word.decode(errors="replace") in _ENDS and not digits:
                found.calls[current.name] = BackendError(_ENDS[word.decode()], _reason(text))
                current = None
            else:
                digits += _digits(line, current.result.width, where)
                if len(digits) > current.result.size * current.result.width:
                    _codes(digits, current, where)
        if not ended:
            last = f" in {current.name}" if current is not None else ""
            raise InputError(f"{path}: expected the line end, got the end of the file{last}")
    return found


def _lines(stream: IO[bytes], path: Path) -> Iterator[tuple[str, bytes]]:
    """The significant lines, and their positions."""
    number = 0
    while line := stream.readline(_LINE):
        number += 1
        if len(line) == _LINE:
            raise InputError(f"{path}:{number}: expected lines of less than {_LINE:,} bytes, got a longer one")
        if line.strip() and not line.lstrip().startswith(b"#"):
            yield f"{path}:{number}", line


def _show(line: bytes) -> str:
    text = printable(line.strip().decode(errors="replace"))
    return repr(text if len(text) < 40 else f"{text[:37]}...") if text else "nothing"


def _read_folder(path: Path, known: Mapping[str, Entry], vectors: str) -> Results:
    """A folder with a file for each call."""
    found = Results()
    if not (path / "vectors").is_file():
        raise InputError(f"{path}: expected a file vectors with the SHA-256 of the vectors, got none")
    _check_vectors(f"{path / 'vectors'}", _text(path / "vectors"), vectors)
    for file in sorted(path.iterdir()):
        how = _ENDS.get(file.suffix[1:])
        if file.name == "backend":
            found.backend = _reason(_text(file))
        elif file.name != "vectors":
            if how is None and file.suffix not in (".npy", ".hex"):
                raise InputError(f"{file}: expected a name that ends in .npy, .hex, .unsupported or .failed")
            entry = _entry(known, file.stem, str(file), found.calls)
            found.calls[file.stem] = file if how is None else BackendError(how, _reason(_text(file)))
            if how is None:
                _in_file(file, entry)
    return found


def _text(path: Path) -> str:
    with foreign.open_file(path) as stream:
        return stream.read(4096).decode(errors="replace").strip()


def _in_file(path: Path, entry: Entry) -> np.ndarray:
    """The codes in a file of their own."""
    width, shape = entry.result.width, tuple(entry.result.shape)
    with foreign.open_file(path) as stream:
        if path.suffix == ".hex":
            return _codes(b"".join(_digits(line, width, at) for at, line in _lines(stream, path)), entry, str(path))
        try:
            array = np.load(stream, allow_pickle=False)
        except (ValueError, EOFError) as error:
            raise InputError(f"{path}: expected an array of numpy, got {printable(str(error))[:120]}") from None
    kinds = f"u{width}", f"i{width}", *(["?"] if width == 1 else [])
    if not isinstance(array, np.ndarray) or array.dtype.newbyteorder("=") not in [np.dtype(k) for k in kinds]:
        kind = getattr(array, "dtype", type(array).__name__)
        raise InputError(f"{path}: expected codes of the type uint{8 * width}, got {kind}")
    if array.shape not in (shape, (entry.result.size,)):
        raise InputError(f"{path}: expected the shape {list(shape)}, got {list(array.shape)}")
    return array.astype(array.dtype.newbyteorder("=")).reshape(-1).view(f"u{width}")
