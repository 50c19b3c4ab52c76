"""Profiles: frozen, versioned lists of the cases that a backend has to pass, and of the choices it may declare.

A profile is a TOML file. minihlo's own are in the folder `profiles`; docs/profiles.md describes the fields.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import itertools
import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...ops.close import hint
from ..errors import InputError, printable
from ..judging.open_points import CHOICES, IDENTIFIERS
from . import files
from .cases.case import Case
from .cases.cases import cases
from .cases.forms import FORMS, forms
from .run import Choice

SCHEMA = "minihlo.profile/1"

REQUIRED = "required"  #: must pass; no waiver
WAIVABLE = "waivable"  #: must pass, or have a waiver with a reason
OPTIONAL = "optional"  #: may be unsupported; if supported, the same as WAIVABLE
NEEDS = (REQUIRED, WAIVABLE, OPTIONAL)
#: The phrase of an open point at which no other choice is observed.
DEFAULT = "default"

_IDENTIFIER = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_VERSION = re.compile(r"[0-9]+(\.[0-9]+)*")
#: A profile is a page of text; larger files are not profiles.
_MOST_BYTES = 1 << 20


@dataclasses.dataclass(frozen=True)
class Selection:
    """Cases: every op with every type; the signature of a case joins the op, the format and the result by dots."""

    need: str  #: one of NEEDS
    ops: tuple[str, ...]
    formats: tuple[str, ...]  #: of the operands, different ones joined by dots: f8E4M3FN.f8E5M2
    to: tuple[str, ...] = ()  #: of the result, if the signature names it
    forms: tuple[str, ...] = ()  #: empty: all forms that the case has at the level of the profile

    def signatures(self) -> Iterator[str]:
        """The signatures of all cases."""
        for parts in itertools.product(self.ops, self.formats, self.to or ("",)):
            yield ".".join(filter(None, parts))


@dataclasses.dataclass(frozen=True)
class ListedCase:
    """A case of a profile, with its forms."""

    case: Case
    need: str
    forms: tuple[str, ...]

    @property
    def signature(self) -> str:
        """The signature of the case."""
        return self.case.signature


@dataclasses.dataclass(frozen=True)
class _File:
    """The fields of the file."""

    name: str
    version: str
    title: str
    sources: tuple[str, ...]
    cases: tuple[Selection, ...]
    #: The permitted declarations of open points (`judging.open_points`), by identifier: a phrase for each choice, and
    #: under `default` the phrase if no other choice is observed.
    declare: dict[str, dict[str, str]] = dataclasses.field(default_factory=dict)
    #: Patterns for the identifiers of accumulators that may be declared.
    accumulators: tuple[str, ...] = ()
    level: int = 1
    seed: int = 0
    ulp: int = 4
    sha256: str = ""


@dataclasses.dataclass(frozen=True)
class Profile(_File):
    """A profile, as written in its file, with its own hash."""

    text: str = dataclasses.field(default="", compare=False)  #: the file

    @property
    def identifier(self) -> str:
        """The name and the version, such as `ocp-fp8-1.0`."""
        return f"{self.name}-{self.version}"

    @functools.cached_property
    def listed(self) -> tuple[ListedCase, ...]:
        """All cases, in the order of `minihlo conform --list`, each once. Raises InputError if one does not exist."""
        known = {c.signature: c for c in cases(3)}
        found: dict[str, ListedCase] = {}
        for selection in self.cases:
            for signature in selection.signatures():
                if signature not in known:
                    raise InputError(f"{self.identifier}: there is no case {signature}")
                if signature in found:
                    raise InputError(f"{self.identifier}: expected each case once, got {signature} twice")
                has = forms(known[signature], self.level if not selection.forms else 3)
                chosen = tuple(f for f in has if not selection.forms or f in selection.forms)
                missing = [f for f in selection.forms if f not in has]
                if missing or not chosen:
                    raise InputError(f"{self.identifier}: {signature} has no form {', '.join(missing) or 'at all'}")
                found[signature] = ListedCase(known[signature], selection.need, chosen)
        return tuple(found[s] for s in known if s in found)

    def choice(self) -> Choice:
        """The cases and forms, as the choice of a run."""
        listed = tuple((entry.signature, entry.forms) for entry in self.listed)
        return Choice(listed=listed, profile=f"{self.identifier} sha256:{self.sha256}")

    def choices(self, point: str) -> dict[str, str]:
        """The choices at an open point that may be declared, with phrases."""
        return {choice: phrase for choice, phrase in self.declare[point].items() if choice != DEFAULT}

    def canonical(self) -> str:
        """The hashed text: JSON in ASCII with sorted keys, without spaces, of strings, integers and lists.

        The order of keys, comments and spaces in the file do not matter; titles and sources do.
        """
        data = {name: getattr(self, name) for name in ("name", "version", "title", "sources", "level", "seed", "ulp")}
        data |= {
            "schema": SCHEMA,
            "declare": self.declare,
            "accumulators": sorted(self.accumulators),
            "cases": sorted([entry.signature, entry.need, entry.forms] for entry in self.listed),
        }
        return json.dumps(data, sort_keys=True, ensure_ascii=True, separators=(",", ":"))


# -- reading -----------------------------------------------------------------------------------------------------------


def folder() -> Path:
    """The folder of minihlo's profiles, which is beside `interp` in a wheel too."""
    return Path(__file__).parents[2] / "profiles"


def names() -> list[str]:
    """The profiles of minihlo."""
    return sorted(p.stem for p in folder().glob("*.toml"))


def is_ours(profile: Profile) -> bool:
    """Whether a profile is one of minihlo's, unchanged."""
    return profile.identifier in names() and load(profile.identifier).sha256 == profile.sha256


def origin(profile: Profile) -> str:
    """The name of a profile, whose it is, and its hash: anyone may give a profile a name that resembles one of ours."""
    whose = "a profile of minihlo" if is_ours(profile) else "not a profile of minihlo"
    return f"{profile.identifier}, {whose}, SHA-256 {profile.sha256[:12]}"


def load(name_or_path: str | Path) -> Profile:
    """Loads a profile by name or from a file. Raises InputError if there is none, or if it is invalid."""
    given = str(name_or_path)
    path = folder() / f"{given}.toml" if given in names() else Path(given)
    if path.suffix != ".toml" and not path.is_file():
        raise InputError(f"expected a profile or a TOML file, got {printable(given)}{hint(given, names())}")
    return files.load(path, printable(given), lambda raw: parse(raw, printable(given)), _MOST_BYTES)


def parse(raw: bytes, where: str) -> Profile:
    """Parses the TOML text of a profile. Raises InputError, whose message begins with `where`."""
    try:
        text = raw.decode("utf-8")
        found = files.read(_File, tomllib.loads(text), "the profile")
        _check(found)
        profile = Profile(**vars(found), text=text)
        actual = hashlib.sha256(profile.canonical().encode("ascii")).hexdigest()
    except RecursionError:
        raise InputError(f"{where}: expected a profile, got a file that is nested too deeply") from None
    except ValueError as error:  # also bytes that cannot be decoded and text that is not TOML
        raise InputError(f"{where}: {printable(str(error))}") from None
    if found.sha256 not in ("", actual):
        raise InputError(
            f"{where}: expected a profile with its stated hash {found.sha256}, got {actual} "
            "(a profile is frozen: a change is a new version)"
        )
    return dataclasses.replace(profile, sha256=actual)


def _check(data: _File) -> None:
    _expect(bool(_IDENTIFIER.fullmatch(data.name)), "name", "lower-case letters, digits and hyphens", data.name)
    _expect(bool(_VERSION.fullmatch(data.version)), "version", "numbers with dots", data.version)
    _expect(data.level in (1, 2, 3), "level", "1, 2 or 3", data.level)
    _expect(0 <= data.seed < 1 << 32, "seed", "a number from 0 to 2^32 - 1", data.seed)
    _expect(data.ulp >= 0, "ulp", "a number that is not negative", data.ulp)
    for i, given in enumerate(data.cases):
        _expect(given.need in NEEDS, f"cases[{i}].need", f"one of {', '.join(NEEDS)}", given.need)
        _expect(bool(given.ops and given.formats), f"cases[{i}]", "at least one of ops and of formats", "none")
        unknown = next((f for f in given.forms if f not in FORMS), None)
        _expect(unknown is None, f"cases[{i}].forms", "forms (minihlo conform --list)", unknown)
    # A selection is of some cases, as it has ops and formats.
    _expect(any(c.need == REQUIRED for c in data.cases), "cases", "some that are required", "none")
    for point, phrases in data.declare.items():
        marks = [mark for mark, identifier in IDENTIFIERS.items() if identifier == point]
        _expect(bool(marks), f"declare.{point}", f"an open point ({', '.join(IDENTIFIERS.values())})", point)
        known = dict.fromkeys(c.identifier for mark in marks for c in CHOICES[mark])
        _expect(DEFAULT in phrases, f"declare.{point}", f"a phrase named {DEFAULT}", "none")
        unknown = next((c for c in phrases if c not in (DEFAULT, *known)), None)
        _expect(unknown is None, f"declare.{point}", f"choices among {', '.join(known)}", unknown)


def _expect(is_so: bool, field: str, expected: str, got: Any) -> None:
    if not is_so:
        raise ValueError(f"{field}: expected {expected}, got {printable(str(got))}")
