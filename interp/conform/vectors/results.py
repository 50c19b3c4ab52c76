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
from typing import IO, Protocol

import numpy as np

from ... import foreign
from ...backends import BackendError
from ...errors import InputError, printable
from .manifest import Entry

SCHEMA = "minihlo.results/1"
#: The marks of calls without results, and the corresponding error kinds of a live run.
_ENDS = {"unsupported": "refused", "failed": "died"}
#: Maximum length of a line.
_LINE = 1 << 24
#: Number of names listed in a message.
_FEW = 3


class Results(Protocol):
    """The results of calls."""

    backend: str  #: the name of the backend; may be empty

    def codes(self, entry: Entry) -> np.ndarray:
        """The codes of a call, flat. Raises BackendError if it has no results."""
        ...


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
        found = _Folder(Path(path), known, vectors) if Path(path).is_dir() else _File(Path(path), known, vectors)
    except OSError as error:
        raise InputError(f"{error.filename or path}: {error.strerror or error}") from None
    except ValueError as error:
        raise InputError(str(error)) from None
    missing = [e.name for e in wanted if e.name not in found.names]
    if missing:
        more = f" and {len(missing) - _FEW:,} more" if len(missing) > _FEW else ""
        raise InputError(
            f"{path}: expected results of every case, got none for {', '.join(missing[:_FEW])}{more} (for a case that "
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


def _width(entry: Entry) -> int:
    from ...oracle.formats import code_dtype

    return code_dtype(entry.result.type).itemsize


def _size(entry: Entry) -> int:
    return int(np.prod(entry.result.shape))


def _digits(line: bytes, width: int, where: str) -> bytes:
    """The bytes of the codes on a line, each with the highest byte first."""
    words = [w[2:] if w[:2] in (b"0x", b"0X") else w for w in line.split()]
    wrong = next((w for w in words if len(w) % (2 * width) or not w.isalnum()), None)
    joined = b"".join(words)
    if wrong is None and re.fullmatch(rb"[0-9A-Fa-f]*", joined):
        return bytes.fromhex(joined.decode())
    wrong = wrong or next(w for w in words if not re.fullmatch(rb"[0-9A-Fa-f]*", w))
    text = printable(wrong.decode(errors="replace"))[:40]
    raise InputError(f"{where}: expected codes of {2 * width} hexadecimal digits, got {text!r}")


def _check_count(entry: Entry, count: int, where: str) -> None:
    if count != _size(entry):
        raise InputError(f"{where}: expected {_size(entry):,} codes of {entry.name}, got {count:,}")


def _codes(data: bytes, width: int) -> np.ndarray:
    return np.frombuffer(data, f">u{width}").astype(f"u{width}")


@dataclasses.dataclass
class _Block:
    """The codes of a call in a text file."""

    start: int  #: in bytes
    lines: int = 0


class _File:
    """A text file. Codes are read when needed."""

    def __init__(self, path: Path, known: Mapping[str, Entry], vectors: str) -> None:
        self._path, self.backend = path, ""
        self._blocks: dict[str, _Block | BackendError] = {}
        with foreign.open_file(path) as stream:
            self._index(stream, known, vectors)

    @property
    def names(self) -> Iterable[str]:
        return self._blocks

    def _index(self, stream: IO[bytes], known: Mapping[str, Entry], vectors: str) -> None:
        lines = _lines(stream, self._path)
        where, line, _ = next(lines, (f"{self._path}", b"", 0))
        if line.strip() != SCHEMA.encode():
            raise InputError(f"{where}: expected {SCHEMA}, got {_show(line)}")
        where, line, _ = next(lines, (f"{self._path}", b"", 0))
        if not line.startswith(b"vectors "):
            raise InputError(f"{where}: expected vectors and their SHA-256, got {_show(line)}")
        _check_vectors(where, line.split(None, 1)[1].strip().decode(errors="replace"), vectors)
        current: Entry | None = None
        count, ended = 0, False
        for where, line, after in lines:
            word, _, rest = line.strip().partition(b" ")
            text = rest.strip().decode(errors="replace")
            if ended:
                raise InputError(f"{where}: expected nothing after the end, got {_show(line)}")
            if word in (b"case", b"end"):
                self._finish(current, count, where)
                current, count = None, 0
            if word == b"case":
                current = _entry(known, text, where, self._blocks)
                self._blocks[current.name] = _Block(after)
            elif word == b"end":
                ended = True
                if text != str(len(self._blocks)):
                    raise InputError(f"{where}: expected end {len(self._blocks)}, got end {printable(text)[:40]}")
            elif word == b"backend" and not self._blocks:
                self.backend = _reason(text)
            elif current is None:
                raise InputError(f"{where}: expected a case or the end, got {_show(line)}")
            elif word.decode(errors="replace") in _ENDS and not count:
                self._blocks[current.name] = BackendError(_ENDS[word.decode()], _reason(text))
                current = None
            else:
                block = self._blocks[current.name]
                assert isinstance(block, _Block)
                count += len(_digits(line, _width(current), where)) // _width(current)
                block.lines += 1
                if count > _size(current):
                    _check_count(current, count, where)
        if not ended:
            last = f" in {current.name}" if current is not None else ""
            raise InputError(f"{self._path}: expected the line end, got the end of the file{last}")

    def _finish(self, current: Entry | None, count: int, where: str) -> None:
        if current is not None:
            _check_count(current, count, where)

    def codes(self, entry: Entry) -> np.ndarray:
        """See Results."""
        block = self._blocks[entry.name]
        if isinstance(block, BackendError):
            raise block
        with foreign.open_file(self._path) as stream:
            stream.seek(block.start)
            lines = _lines(stream, self._path)
            pieces = [_digits(next(lines)[1], _width(entry), str(self._path)) for _ in range(block.lines)]
        codes = _codes(b"".join(pieces), _width(entry))
        _check_count(entry, len(codes), str(self._path))  # which may have changed since
        return codes


def _lines(stream: IO[bytes], path: Path) -> Iterator[tuple[str, bytes, int]]:
    """The significant lines, their positions, and the offset of the next line."""
    number, at = 0, stream.tell()
    while line := stream.readline(_LINE):
        number, at = number + 1, at + len(line)
        if len(line) == _LINE:
            raise InputError(f"{path}:{number}: expected lines of less than {_LINE:,} bytes, got a longer one")
        if line.strip() and not line.lstrip().startswith(b"#"):
            yield f"{path}:{number}", line, at


def _show(line: bytes) -> str:
    text = printable(line.strip().decode(errors="replace"))
    return repr(text if len(text) < 40 else f"{text[:37]}...") if text else "nothing"


class _Folder:
    """A folder with a file for each call."""

    def __init__(self, path: Path, known: Mapping[str, Entry], vectors: str) -> None:
        self.backend = ""
        self._files: dict[str, Path] = {}
        if not (path / "vectors").is_file():
            raise InputError(f"{path}: expected a file vectors with the SHA-256 of the vectors, got none")
        _check_vectors(f"{path / 'vectors'}", _text(path / "vectors"), vectors)
        for file in sorted(path.iterdir()):
            if file.name == "backend":
                self.backend = _reason(_text(file))
            elif file.name != "vectors":
                if file.suffix not in (".npy", ".hex", ".unsupported", ".failed"):
                    raise InputError(f"{file}: expected a name that ends in .npy, .hex, .unsupported or .failed")
                entry = _entry(known, file.stem, str(file), self._files)
                self._files[file.stem] = file
                if file.suffix in (".npy", ".hex"):
                    _in_file(file, entry)

    @property
    def names(self) -> Iterable[str]:
        return self._files

    def codes(self, entry: Entry) -> np.ndarray:
        """See Results."""
        file = self._files[entry.name]
        how = _ENDS.get(file.suffix[1:])
        if how is not None:
            raise BackendError(how, _reason(_text(file)))
        return _in_file(file, entry)


def _text(path: Path) -> str:
    with foreign.open_file(path) as stream:
        return stream.read(4096).decode(errors="replace").strip()


def _in_file(path: Path, entry: Entry) -> np.ndarray:
    """The codes in a file of their own."""
    width = _width(entry)
    if path.suffix == ".hex":
        with foreign.open_file(path) as stream:
            data = b"".join(_digits(line, width, where) for where, line, _ in _lines(stream, path))
        codes = _codes(data, width)
    else:
        try:
            with foreign.open_file(path) as stream:
                array = np.load(stream, allow_pickle=False)
        except (ValueError, EOFError) as error:
            raise InputError(f"{path}: expected an array of numpy, got {printable(str(error))[:120]}") from None
        kinds = f"u{width}", f"i{width}", *(["?"] if width == 1 else [])
        if not isinstance(array, np.ndarray) or array.dtype.newbyteorder("=") not in [np.dtype(k) for k in kinds]:
            kind = getattr(array, "dtype", type(array).__name__)
            raise InputError(f"{path}: expected codes of the type uint{8 * width}, got {kind}")
        shape = tuple(entry.result.shape)
        if array.shape not in (shape, (_size(entry),)):
            raise InputError(f"{path}: expected the shape {list(shape)}, got {list(array.shape)}")
        codes = array.astype(array.dtype.newbyteorder("=")).reshape(-1)
        codes = codes.view(f"u{width}")
    _check_count(entry, len(codes), str(path))
    return codes
