"""Causes of a peer's differences in whole programs: causes and absences of `function_causes.toml`.

Differences that a cause of a single op explains (`causes`) need none of these.
"""

from __future__ import annotations

import dataclasses
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from minihlo.interp.oracle.expected import expected
from minihlo.ops.programs.checks import INFINITELY_FAR, ulp_distance

from ..dialects import is_registered
from ..mlir_tests import catalog
from . import function_models
from .causes import assign
from .functions import CheckedValues, Function
from .numbers import is_nan
from .peers import Codes
from .registry import ACCURACY


@dataclasses.dataclass(frozen=True)
class FunctionCause:
    """One reason for differences of some peers. `title` and `why` are for the page."""

    name: str
    peers: tuple[str, ...]
    kind: str  #: one of `registry.KINDS`
    title: str
    why: str
    model: Callable[[CheckedValues], Codes | None]  #: the codes that the cause gives, or None where it does not apply


@dataclasses.dataclass(frozen=True)
class FunctionAbsence:
    """Functions that a peer refuses or dies of."""

    name: str
    peer: str
    kind: str  #: one of `registry.KINDS`, or `absent`
    title: str
    why: str
    says: str  #: a regular expression, which is found in what the peer says of the first function in each file
    tried: tuple[str, ...] | None = None  #: only in these files is one tried
    ops: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    text: str = ""
    not_in_name: str = ""
    newer: bool = False

    def covers(self, function: Function) -> bool:
        """Whether a function satisfies all conditions of the absence."""
        text = function.chunk.text
        return (
            (not self.ops or _holds(self.ops, text))
            and (not self.files or function.file in self.files)
            and re.search(self.text, text) is not None
            and not (self.not_in_name and re.search(self.not_in_name, function.name))
            and not (self.newer and not _is_newer(function))
        )


def _holds(ops: tuple[str, ...], text: str) -> bool:
    """Whether a text has one of these ops; a dialect that ends in a dot stands for any of its ops."""
    names = "|".join(re.escape(op) + ("" if op.endswith(".") else r"\b(?!_)") for op in ops)
    return re.search(rf"(?<![\w.#])(?:{names})", text) is not None


def _is_newer(function: Function) -> bool:
    """Whether the file's op is unknown to this jaxlib."""
    name = catalog.files()[catalog.FOLDER / f"interpret_{function.file}.mlir"]
    return name.startswith(("stablehlo.", "chlo.")) and not is_registered(name)


def _cause(data: dict[str, Any]) -> FunctionCause:
    return FunctionCause(**data | {"peers": tuple(data["peers"]), "model": getattr(function_models, data["model"])})


def _absence(data: dict[str, Any]) -> FunctionAbsence:
    fields = {k: tuple(v) if isinstance(v, list) else v for k, v in data.items()}
    ops = [op.removeprefix("stablehlo.") for op in fields.get("ops", ()) if op.startswith("stablehlo.")]
    return FunctionAbsence(**fields | {"why": data["why"].replace("{ops}", ", ".join(ops))})


_DATA = tomllib.loads((Path(__file__).parent / "function_causes.toml").read_text())
#: By name, in the order in which they are tried.
FUNCTION_CAUSES = {d["name"]: _cause(d) for d in _DATA["causes"]}
FUNCTION_ABSENCES = tuple(_absence(d) for d in _DATA["absences"])


def absence_of(peer: str, function: Function) -> FunctionAbsence | None:
    """The first known reason why a peer gives no result."""
    return next((a for a in FUNCTION_ABSENCES if a.peer == peer and a.covers(function)), None)


def explain(peer: str, checked: CheckedValues) -> Iterator[tuple[str, np.ndarray]]:
    """The causes of a peer's differences, each with the indices it explains; "" for unexplained ones."""
    left = np.flatnonzero(checked.got != checked.expected)
    if checked.case is not None:
        case, operands = checked.case
        right = dataclasses.replace(expected(case, operands), codes=checked.expected)
        for name, places in assign(peer, case, operands, right, checked.got):
            if name:
                yield name, places
                left = np.setdiff1d(left, places)
    nan = is_nan(checked.got, checked.element)
    for cause in FUNCTION_CAUSES.values():
        if not left.size:
            return
        if peer in cause.peers:
            model = cause.model(checked)
            if model is not None:
                model = np.broadcast_to(model, checked.got.shape)
                hit = (model == checked.got)[left] | (nan & is_nan(model, checked.element))[left]
                if cause.kind == ACCURACY:
                    hit &= _is_near(checked)[left]
                if hit.any():
                    yield cause.name, left[hit]
                left = left[~hit]
    if left.size:
        yield "", left


def _is_near(checked: CheckedValues) -> np.ndarray:
    """Where a difference is a number of ULP. (The others are no matter of accuracy.)"""
    t = checked.element
    if not t.is_float:
        return np.zeros(checked.got.shape, bool)
    return np.asarray(ulp_distance(checked.got.view(t.dtype), checked.expected.view(t.dtype))) != INFINITELY_FAR
