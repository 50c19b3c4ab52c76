"""The results of a run of the tester: the dataclasses of its JSON, from which every report is made.

The file is one object: `schema` (SCHEMA), `run` (Run) and `cases` (a list of CaseResult), every field under the name
it has here. A file may come from an unfinished run (`run.complete` is false).

**ULP**, everywhere: the number of steps from the correctly rounded result to the given one, where a step is from one
number of the result's format to the next; both zeros are one number, and infinity is the step after the largest number
(in a format without infinity, the NaN that overflow gives is that step). NaN has no distance to a number.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .. import foreign
from ..judging.record import ACCURACY as ACCURACY
from ..judging.record import CRASH as CRASH
from ..judging.record import DIVERGENT as DIVERGENT
from ..judging.record import FAIL as FAIL
from ..judging.record import PASS as PASS
from ..judging.record import UNSUPPORTED as UNSUPPORTED
from ..judging.record import VERDICTS as VERDICTS
from ..judging.record import worst as worst
from . import consistency, files

SCHEMA = "minihlo.conform/1"

# -- the error of one element, in a byte -------------------------------------------------------------------------------

#: An error is an int8: 0 right; from -100 to 100 other than 0 the signed distance in ULP, clamped (positive: the
#: result is too large); else one of these.
CUT = 100
WRONG_ZERO = 111  #: a zero with the wrong sign
OPEN = 112  #: left open: not an error
NOT_NAN = 120  #: a number where NaN is right
IS_NAN = 121  #: NaN where a number is right
IS_INFINITE = 122  #: infinity where a number is right that is not next to it
ABSENT = 127  #: there is no result
UNTRIED = -128  #: in a map: the pair was not tried
ERRORS = {
    WRONG_ZERO: "the sign of zero is wrong",
    OPEN: "left open by the format",
    NOT_NAN: "not NaN, and should be",
    IS_NAN: "NaN, and should not be",
    IS_INFINITE: "infinite, and should not be",
    ABSENT: "no result",
}


@dataclasses.dataclass(frozen=True)
class ErrorMap:
    """The errors of a binary op over pairs: `data` is base64 of zlib of int8[n][n], rows the first operand."""

    n: int  #: 2 to the bits of the operands
    data: str

    @classmethod
    def of(cls, errors: np.ndarray) -> ErrorMap:
        """Encodes an array of errors."""
        return cls(len(errors), _pack(errors.astype(np.int8).tobytes()))

    def array(self) -> np.ndarray:
        """int8[n, n]: at [a, b] the error of the operands with the codes a and b. Raises ValueError, zlib.error."""
        size = self.n * self.n
        if not 0 < self.n <= 1 << 8:
            raise ValueError(f"expected at most 256 codes, got {self.n}")
        data = zlib.decompressobj().decompress(base64.b64decode(self.data), size + 1)  # and no more
        return np.frombuffer(data, np.int8).reshape(self.n, self.n)


@dataclasses.dataclass(frozen=True)
class ErrorCurve:
    """The errors of an op on one operand, in the order of the operands' values, NaN last; or of any op, by position.

    For many elements these are up to a thousand wrong ones, and as many right ones.
    """

    codes: list[int]  #: of the operands; or the positions themselves
    values: list[float | str]  #: of the operands, or positions; "inf", "-inf", "nan" where JSON has no number
    errors: list[int]  #: int8, as in ErrorMap
    over: str = "values"  #: or "places"


@dataclasses.dataclass(frozen=True)
class Failure:
    """One unexpected result, FAIL first, or how the backend ended."""

    verdict: str
    index: int  #: of the element in the result, which has `size` of them
    size: int
    #: For each operand the codes that contribute to this element: one, or the row of a sum.
    operands: list[list[int]]
    values: list[list[str]]  #: the same, as numbers: "0.5", "nan", "2^-127"
    got: int | None  #: None if there is no result
    got_value: str
    expected: int  #: for a sum the exact one, rounded once
    expected_value: str
    error: int  #: int8, as in ErrorMap
    ulp: int | None = None  #: distance; None if there is none
    #: Other right results, in words: "the largest number, as XLA".
    also: str = ""


@dataclasses.dataclass(frozen=True)
class AccumulatorFacts:
    """The accumulator that explains the results of products, with the facts that a drawing shows."""

    name: str  #: an identifier
    keep: str  #: the form of the sum between steps: exact, f32, f32:13 …
    bits: int | None  #: fraction bits that terms keep below the largest exponent; None: all
    step: int = 1  #: products in a step; 0: all
    drop: str = "nearest_even"  #: how lower bits are dropped
    order: str = "in order"
    then: str = ""  #: the type that sums are rounded to before they become results
    c: str = "aligned"  #: where the running sum joins the products of a step
    outer: int = 0  #: number of products after which sums are added in f32; 0: never
    record: str = ""  #: all facts of a unit, as --accumulate takes them


@dataclasses.dataclass(frozen=True)
class StoredCodes:
    """The results of one part of a case, as codes from which it can be judged again."""

    operands: str  #: SHA-256 of the operands' codes
    sha256: str  #: of the results' codes, in little-endian order
    size: int  #: of these, in bytes
    codes: str = ""  #: base64 of zlib of these; empty if they are in another file

    @classmethod
    def of(cls, operands: Sequence[np.ndarray], results: np.ndarray) -> StoredCodes:
        """The record of codes."""
        raw = _little(results)
        return cls(hash_of(operands), hashlib.sha256(raw).hexdigest(), len(raw), _pack(raw))

    @property
    def raw(self) -> bytes:
        """The bytes of the codes. Raises ValueError if they cannot be read."""
        try:
            return zlib.decompress(base64.b64decode(self.codes, validate=True))
        except zlib.error as error:
            raise ValueError(str(error)) from None


def hash_of(operands: Sequence[np.ndarray]) -> str:
    """The SHA-256 of codes: for each array its shape, its bytes per element, and the codes."""
    digest = hashlib.sha256()
    for codes in operands:
        digest.update(f"{codes.shape} {codes.itemsize};".encode())
        digest.update(_little(codes))
    return digest.hexdigest()


def _little(codes: np.ndarray) -> bytes:
    return np.ascontiguousarray(codes).astype(codes.dtype.newbyteorder("<"), copy=False).tobytes()


def _pack(raw: bytes) -> str:
    return base64.b64encode(zlib.compress(raw, 9)).decode()


@dataclasses.dataclass(frozen=True)
class CaseResult:
    """One case: an op on types, in one form."""

    signature: str  #: add.f8E4M3FNUZ, convert.f64.f8E4M3FN, compare_LT.f8E5M2, dot_general.f8E5M2.f32
    form: str  #: array, constant, scalar, chain, size-7, unaligned, … (see FORMS in cases.py)
    op: str  #: add, compare_LT, convert, reduce_add …
    operands: list[str]  #: element types
    result: str  #: element type
    row: str  #: of the grid: the op, `convert from f64`, `convert to f64`
    column: str  #: of the grid: the minifloat tested
    verdict: str
    total: int = 0  #: elements judged
    counts: dict[str, int] = dataclasses.field(default_factory=dict)  #: elements by verdict; no zeros
    worst_ulp: int | None = None  #: None if no wrong result is at a distance
    histogram: dict[str, int] = dataclasses.field(default_factory=dict)  #: number of elements at each distance in ULP
    #: A description of the failing elements, in one sentence: "all failing operands are subnormal".
    diagnosis: str = ""
    causes: list[str] = dataclasses.field(default_factory=list)  #: the same by identifier
    is_of_places: bool = False  #: failures depend on the positions of elements, not on their operands
    choices: list[str] = dataclasses.field(default_factory=list)  #: open points with the backend's choices
    #: The same by identifier: for each open point the number of results of each choice (judging.open_points).
    open_points: dict[str, dict[str, int]] = dataclasses.field(default_factory=dict)
    model: str = ""  #: for a sum, the accumulation that explains the results: "accumulated in f32 in order"
    accumulator: AccumulatorFacts | None = None  #: for a product that is not exact
    message: str = ""  #: why there is no result
    failures: list[Failure] = dataclasses.field(default_factory=list)  #: some, FAIL before ACCURACY before DIVERGENT
    command: str = ""  #: reproduces the first failure
    program: str = ""  #: the first failure as a StableHLO program, whose operands are the arguments `inputs`
    inputs: list[str] = dataclasses.field(default_factory=list)  #: as `minihlo run --input` takes them
    map: ErrorMap | None = None
    curve: ErrorCurve | None = None
    seconds: float = 0.0
    is_expected: bool = False  #: named by --xfail
    kept: dict[str, StoredCodes] = dataclasses.field(default_factory=dict)  #: with --submit: the results, by part

    @property
    def key(self) -> tuple[str, str]:
        """The signature and the form, which identify a case."""
        return self.signature, self.form


@dataclasses.dataclass
class Run:
    """How the cases were run."""

    backend: str
    level: int
    seed: int = 0
    ulp: int = 4  #: the limit of ACCURACY in types of 16 bits and more
    ops: list[str] = dataclasses.field(default_factory=list)  #: as given by --ops; empty: all
    formats: list[str] = dataclasses.field(default_factory=list)
    #: Other options, as given, by name: --case, --form, --operands, --beside, --tests,
    #: --shard.
    options: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    versions: dict[str, str] = dataclasses.field(default_factory=dict)  #: of minihlo and the backend's packages
    host: str = ""  #: system and processor
    started: str = ""  #: ISO 8601
    takes: str = "programs"  #: the kind of the backend: programs or operations
    seconds: float = 0.0
    complete: bool = False


@dataclasses.dataclass
class Report:
    """A whole run."""

    run: Run
    cases: list[CaseResult] = dataclasses.field(default_factory=list)

    @property
    def counts(self) -> dict[str, int]:
        """Cases by verdict, in the order of VERDICTS."""
        return {v: sum(c.verdict == v for c in self.cases) for v in VERDICTS}

    @property
    def is_bad(self) -> bool:
        """Whether there is an unexpected failure."""
        return any(c.verdict in (FAIL, CRASH) and not c.is_expected for c in self.cases)

    def save(self, path: str | Path) -> None:
        """Writes the JSON file atomically. Raises OutputError if that fails."""
        files.write(path, dumps(self))


def dumps(report: Report) -> str:
    """The JSON of a run, one case a line."""
    cases = ",\n".join(json.dumps(_without_nothing(c), ensure_ascii=False) for c in report.cases)
    head = json.dumps(dataclasses.asdict(report.run), ensure_ascii=False, indent=1)
    return f'{{"schema": "{SCHEMA}",\n"run": {head},\n"cases": [\n{cases}\n]}}\n'


def _without_nothing(case: CaseResult) -> dict[str, Any]:
    return {k: v for k, v in dataclasses.asdict(case).items() if v not in (None, "", [], {})}


def load(path: str | Path) -> Report:
    """Reads a JSON file. Raises ValueError if it is not a report, and OSError if it cannot be read."""
    return parse(foreign.read_bytes(path), path)


def parse(text: bytes, path: str | Path) -> Report:
    """Parses a report; `path` is for messages. Raises ValueError if it is not one."""
    try:
        data = foreign.parse_json(text)
        if not isinstance(data, dict) or data.get("schema") != SCHEMA:
            raise ValueError(f"expected an object whose schema is {SCHEMA!r}")
        cases = files.read(list[CaseResult], data.get("cases"), "cases")
        found = Report(files.read(Run, data.get("run"), "run"), cases)
        for i, case in enumerate(cases):
            _check(case, i)
    except ValueError as error:  # also bytes that cannot be decoded and text that is not JSON
        raise ValueError(f"{path} is not a result of minihlo conform: {error}") from None
    return found


def _check(case: CaseResult, index: int) -> None:
    try:
        consistency.check(case)
    except (ValueError, KeyError, OverflowError, zlib.error) as error:
        raise ValueError(f"cases[{index}]: {error.args[0] if error.args else error}") from None
