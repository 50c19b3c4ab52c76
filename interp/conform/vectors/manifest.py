"""`manifest.json`: the contents of a folder of vectors, and the check that they are unchanged.

The file is one JSON object, a call on each line of `cases`. `vectors` is the SHA-256 of the contents of the vectors,
independent of the form of their files: results name it. `sha256` is that of all text before its own line, and so covers
the folder, as `files` has the SHA-256 of each other file.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ... import foreign
from ...errors import InputError
from ...judging.open_points import question
from ...oracle.formats import FORMATS, bits, code_dtype
from .. import files
from ..files import File
from .acceptable import RULES

SCHEMA = "minihlo.vectors/1"
NAME = "manifest.json"


@dataclasses.dataclass(frozen=True)
class Tensor:
    """An array of codes, in a file of the folder."""

    type: str
    shape: list[int]
    codes: str  #: SHA-256 of the codes, little-endian, in order
    at: str  #: the file, and after # the name in it

    @property
    def place(self) -> str:
        """The name in the file."""
        return self.at.partition("#")[2]

    @property
    def size(self) -> int:
        """The number of codes."""
        return math.prod(self.shape)

    @property
    def width(self) -> int:
        """The bytes of a code."""
        return code_dtype(self.type).itemsize


@dataclasses.dataclass(frozen=True)
class Alternatives:
    """Other acceptable codes: rows of an index, and the first and the last code of an interval."""

    rows: int
    codes: str
    at: str
    place = Tensor.place


@dataclasses.dataclass(frozen=True)
class Entry:
    """A call."""

    name: str
    signature: str
    form: str
    part: int
    call: int  #: its index among the calls of the part
    op: str
    attributes: dict[str, str]
    operands: list[Tensor]
    result: Tensor  #: its codes are the expected ones
    alternatives: Alternatives | None = None
    rules: list[str] = dataclasses.field(default_factory=list)

    @property
    def key(self) -> tuple[str, str, int, int]:
        """The identity of the call in the tester."""
        return self.signature, self.form, self.part, self.call


@dataclasses.dataclass(frozen=True)
class ExportOptions:
    """The description of an export."""

    minihlo: str  #: its version
    form: str  #: npy, hex, json or c
    level: int
    seed: int
    ulp: int
    ops: list[str] = dataclasses.field(default_factory=list)
    formats: list[str] = dataclasses.field(default_factory=list)
    options: dict[str, list[str]] = dataclasses.field(default_factory=dict)  #: as in `result.Run`

    def facts(self) -> dict[str, Any]:
        """The facts that determine the vectors, independent of the form of their files."""
        return {k: v for k, v in dataclasses.asdict(self).items() if k != "form"}


@dataclasses.dataclass(frozen=True)
class Manifest:
    """A manifest."""

    schema: str
    made: ExportOptions
    types: dict[str, dict[str, Any]]
    rules: dict[str, str]
    cases: list[Entry]
    vectors: str
    files: dict[str, File]
    sha256: str


def nan_codes(element: str) -> list[list[int]]:
    """The codes that are NaN, as intervals."""
    if element not in FORMATS:
        return []
    fmt = FORMATS[element]
    match fmt.nan:
        case "none":
            return []
        case "sign":
            return [[fmt.sign_bit, fmt.sign_bit]]
        case "last":
            return [[fmt.ones, fmt.ones]]
    first = fmt.ones if fmt.nan == "ones" else fmt.max_code + 2
    return [[first, fmt.ones], [first | fmt.sign_bit, fmt.ones | fmt.sign_bit]]


def identifier(made: ExportOptions, calls: Iterable[Entry]) -> str:
    """The SHA-256 of the contents of the vectors."""
    content = hashlib.sha256(_line({"schema": SCHEMA, **made.facts()}).encode())
    for entry in calls:
        record = _record(entry)
        for tensor in (*record["operands"], record["result"], record.get("alternatives", {})):
            tensor.pop("at", None)
        content.update(_line(record).encode())
    return content.hexdigest()


def dumps(made: ExportOptions, calls: Sequence[Entry], vectors: str, written: Mapping[str, File]) -> str:
    """The text of a manifest; `written` are the other files of the folder."""
    elements = sorted({t.type for entry in calls for t in (*entry.operands, entry.result)})
    types = {t: {"bits": bits(t), "bytes": code_dtype(t).itemsize, "nan": nan_codes(t)} for t in elements}
    rules: dict[str, str] = {}
    for rule, element in ((r, entry.result.type) for entry in calls for r in entry.rules):
        rules.setdefault(rule, RULES.get(rule) or question(rule, element))
    cases = ",\n".join(_line(_record(entry)) for entry in calls)
    listed = ",\n".join(f"{json.dumps(p)}: {_line(dataclasses.asdict(f))}" for p, f in sorted(written.items()))
    text = (
        f'{{"schema": "{SCHEMA}",\n"made": {_line(dataclasses.asdict(made))},\n"cases": [\n{cases}\n],\n'
        f'"types": {_line(types)},\n"rules": {_line(rules)},\n'
        f'"vectors": "{vectors}",\n"files": {{\n{listed}\n}},\n'
    )
    return f'{text}"sha256": "{hashlib.sha256(text.encode()).hexdigest()}"}}\n'


def _record(entry: Entry) -> dict[str, Any]:
    record = {k: v for k, v in dataclasses.asdict(entry).items() if v not in (None, [], {})}
    record.setdefault("attributes", {})
    return record


def _line(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


# -- reading -----------------------------------------------------------------------------------------------------------


def load(folder: str | Path) -> Manifest:
    """Reads the manifest of a folder and checks all files against it.

    Raises InputError if a file is missing or has changed. Other files may be in the folder.
    """
    path = Path(folder) / NAME
    if not Path(folder).is_dir():
        raise InputError(f"{folder}: expected a folder that minihlo conform export has written, got none")
    if not path.is_file():
        raise InputError(f"{path}: expected the manifest of a finished export, got no such file")
    found, body = files.load(path, str(path), lambda raw: (_read(raw), raw.rpartition(b'"sha256"')[0]))
    if hashlib.sha256(body).hexdigest() != found.sha256:
        raise InputError(f"{path}: expected text with the SHA-256 {found.sha256}, got another; the file has changed")
    for name, file in found.files.items():
        _check(Path(folder) / name, file)
    return found


def _read(data: bytes) -> Manifest:
    try:
        made = foreign.parse_json(data)
        if not isinstance(made, dict) or made.get("schema") != SCHEMA:
            raise ValueError(f"no object with the schema {SCHEMA!r}")
        types, made["types"] = made.get("types"), {}  # facts for other readers
        result = files.read(Manifest, made, "manifest")
        outside = next((n for n in result.files if Path(n).is_absolute() or ".." in Path(n).parts), None)
        if outside is not None:
            raise ValueError(f"a file outside of the folder, {outside!r}")
    except (ValueError, RecursionError) as error:
        text = textwrap.shorten(str(error), 160, placeholder="...")
        raise ValueError(f"expected a manifest of minihlo conform export, got {text}") from None
    return dataclasses.replace(result, types=types if isinstance(types, dict) else {})


def _check(path: Path, expected: File) -> None:
    try:
        found = File.at(path)
    except FileNotFoundError:
        raise InputError(f"{path}: expected a file of {expected.size} bytes, got none") from None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    except ValueError as error:
        raise InputError(str(error)) from None
    if found.size != expected.size:
        raise InputError(f"{path}: expected {expected.size} bytes, got {found.size}; the file has changed")
    if found.sha256 != expected.sha256:
        raise InputError(f"{path}: expected the SHA-256 {expected.sha256}, got {found.sha256}; it has changed")
