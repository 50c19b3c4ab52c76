"""A submission as a file: a zip of a claim, the profile, the results and their codes, with the hash of each.

claim.json      the claim, with its choices, waivers and the description of the run
profile.toml    the profile, as it was read
results.json    the cases, as `minihlo conform --json` writes them, without pictures and times
codes.bin       the results of all cases as codes, in the order of results.json and of the parts
manifest.json   the size and the SHA-256 of each other member, and the SHA-256 of that list
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import platform
import sys
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from ... import foreign
from ...errors import printable
from ...oracle.formats import FORMATS
from .. import files
from ..conformance import Assessment
from ..format_text import code_text
from ..result import CaseResult, Report, StoredCodes, dumps, parse
from ..waivers import Waiver

SCHEMA = "minihlo.submission/1"
CLAIM, PROFILE, RESULTS, CODES, MANIFEST = "claim.json", "profile.toml", "results.json", "codes.bin", "manifest.json"
MEMBERS = (CLAIM, PROFILE, RESULTS, CODES, MANIFEST)
#: Maximum size of unpacked members, in bytes: many times that of the largest profile at level 1.
MOST_BYTES = {CLAIM: 1 << 22, PROFILE: 1 << 20, RESULTS: 1 << 27, CODES: 1 << 29, MANIFEST: 1 << 20}
#: The timestamp of all members: the first that a zip can hold.
_TIME = (1980, 1, 1, 0, 0, 0)


@dataclasses.dataclass(frozen=True)
class Claim:
    """The claim of a submission."""

    schema: str
    profile: str  #: its name and version
    profile_sha256: str
    backend: str
    takes: str  #: programs or operations
    verdict: str
    waivers: list[Waiver]
    declared: dict[str, str]  #: the backend's choices where the profile leaves them open
    nan_codes: dict[str, list[str]]  #: the codes of NaN among its results, by element type
    counts: dict[str, int]  #: cases by verdict
    versions: dict[str, str]
    environment: dict[str, str]
    started: str
    seconds: float


@dataclasses.dataclass(frozen=True)
class Manifest:
    """The members of a submission, with size and SHA-256."""

    schema: str
    members: dict[str, files.File]
    sha256: str  #: of `members`, as JSON with sorted keys and without spaces

    @classmethod
    def of(cls, members: Mapping[str, bytes]) -> Manifest:
        """Lists the members."""
        listed = {name: files.File.of(raw) for name, raw in members.items()}
        text = json.dumps({n: vars(f) for n, f in listed.items()}, sort_keys=True, separators=(",", ":"))
        return cls(SCHEMA, listed, hashlib.sha256(text.encode()).hexdigest())


@dataclasses.dataclass(frozen=True)
class Submission:
    """A submission, as read from a file."""

    claim: Claim
    profile: bytes
    report: Report
    codes: bytes
    manifest: Manifest
    actual: Manifest  #: of the members found


# -- writing -----------------------------------------------------------------------------------------------------------


def write(path: str | Path, report: Report, assessment: Assessment, takes: str) -> str:
    """Writes a submission atomically and returns its hash. Raises OutputError if it cannot be written.

    Two runs with the same results give the same bytes, except for `started` and `seconds`.
    """
    members = {
        CLAIM: _json(_claim(report, assessment, takes)),
        PROFILE: assessment.profile.text.encode(),
        RESULTS: dumps(without_codes(report)).encode(),
        CODES: b"".join(kept.raw for *_, kept in _stored_results(report)),
    }
    manifest = Manifest.of(members)
    members[MANIFEST] = _json(manifest)
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, raw in members.items():
            info = zipfile.ZipInfo(name, _TIME)
            info.compress_type, info.create_system, info.external_attr = zipfile.ZIP_DEFLATED, 3, 0o644 << 16
            archive.writestr(info, raw, compresslevel=9)
    files.write_bytes(path, made.getvalue())
    return manifest.sha256


def _json(record: Claim | Manifest) -> bytes:
    data = dataclasses.asdict(record)
    return (json.dumps(data, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode(errors="backslashreplace")


def _claim(report: Report, assessment: Assessment, takes: str) -> Claim:
    run, profile = report.run, assessment.profile
    codes = nan_codes((case, kept.raw) for case, _, kept in _stored_results(report))
    claimed = assessment.verdict, list(assessment.used), dict(assessment.declared), codes, report.counts
    made = run.versions, _environment(), run.started, run.seconds
    return Claim(SCHEMA, profile.identifier, profile.sha256, run.backend, takes, *claimed, *made)


def _environment() -> dict[str, str]:
    """The facts that may change a result: system, processor, Python and numeric packages. No names of hosts or
    users."""
    return {
        "system": platform.system(),
        "release": platform.release(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "byte order": sys.byteorder,
        "numpy": np.__version__,
        "ml_dtypes": str(getattr(ml_dtypes, "__version__", "")),
    }


def without_codes(report: Report) -> Report:
    """The report without codes, pictures and times."""
    cases = []
    for c in report.cases:
        kept = {p: dataclasses.replace(k, codes="") for p, k in sorted(c.kept.items(), key=_part)}
        cases.append(dataclasses.replace(c, map=None, curve=None, seconds=0.0, is_expected=False, kept=kept))
    return Report(dataclasses.replace(report.run, started="", seconds=0.0), cases)


def _part(item: tuple[str, StoredCodes]) -> int:
    return int(item[0])


def _stored_results(report: Report) -> Iterator[tuple[CaseResult, str, StoredCodes]]:
    """The kept results of all cases, in order, with the case and the part."""
    for case in report.cases:
        for part, kept in sorted(case.kept.items(), key=_part):
            yield case, part, kept


def nan_codes(results: Iterable[tuple[CaseResult, bytes]]) -> dict[str, list[str]]:
    """The codes of NaN among the results of cases, by element type of minifloats."""
    found: dict[str, set[int]] = {}
    for case, raw in results:
        fmt = FORMATS.get(case.result)
        if fmt is None or not fmt.is_minifloat or case.form == "upcast" or case.op.startswith("quantize"):
            continue  # its results are f32, and elements with scales
        codes = np.unique(np.frombuffer(raw, np.uint8))
        found.setdefault(fmt.name, set()).update(codes[fmt.is_nan(codes) & ~fmt.is_none(codes)].tolist())
    return {name: [code_text(c, name) for c in sorted(codes)] for name, codes in sorted(found.items())}


# -- reading -----------------------------------------------------------------------------------------------------------


def read(path: str | Path) -> Submission:
    """Reads a submission. Raises InputError if the file is none."""
    return files.load(path, printable(str(path)), _parse, sum(MOST_BYTES.values()))


def _parse(raw: bytes) -> Submission:
    try:
        archive = zipfile.ZipFile(io.BytesIO(raw))
    except (zipfile.BadZipFile, NotImplementedError, ValueError) as error:
        raise ValueError(f"expected a submission, got a file that is no zip: {error}") from None
    members = _members(archive)
    claim = files.read(Claim, _load_json(members, CLAIM), CLAIM)
    manifest = files.read(Manifest, _load_json(members, MANIFEST), MANIFEST)
    report = parse(members[RESULTS], RESULTS)
    if claim.schema != SCHEMA:
        raise ValueError(f"expected the schema {SCHEMA}, got {claim.schema}")
    actual = Manifest.of({name: members[name] for name in MEMBERS if name != MANIFEST})
    return Submission(claim, members[PROFILE], report, members[CODES], manifest, actual)


def _load_json(members: Mapping[str, bytes], name: str) -> Any:
    """The JSON of a member. Raises ValueError if it is not JSON."""
    try:
        return foreign.parse_json(members[name])
    except ValueError as error:
        raise ValueError(f"{name}: expected JSON, got invalid text: {error}") from None


def _members(archive: zipfile.ZipFile) -> dict[str, bytes]:
    """The members. Raises ValueError if there are others, or if they are larger than any submission."""
    infos = archive.infolist()
    names = [i.filename for i in infos]
    if sorted(names) != sorted(MEMBERS):
        other = next((repr(n) for n in names if n not in MEMBERS or names.count(n) > 1), None)
        got = other or f"none named {next(m for m in MEMBERS if m not in names)}"
        raise ValueError(f"expected a submission, which holds {', '.join(MEMBERS)}, got {got}")
    members: dict[str, bytes] = {}
    for info in infos:
        name, most = info.filename, MOST_BYTES[info.filename]
        if info.file_size > most:
            raise ValueError(f"{name}: expected up to {most:,} bytes, got {info.file_size:,}")
        if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise ValueError(f"{name}: expected the method deflate, got method {info.compress_type}")
        try:
            with archive.open(info) as file:  # and reads no more than the listed size
                members[name] = file.read(info.file_size + 1)
        except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
            raise ValueError(f"{name} is damaged: {error}") from None
    return members


def split_codes(submission: Submission) -> Iterator[tuple[CaseResult, str, StoredCodes, bytes]]:
    """Each part of each case with its codes, fewer than `kept.size` if the member ends early."""
    at = 0
    for case, part, kept in _stored_results(submission.report):
        yield case, part, kept, submission.codes[at : at + kept.size]
        at += kept.size
