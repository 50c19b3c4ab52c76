"""`interp.probe`: finds how a backend sums products, by dots alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ops.accumulators import units
from ...ops.accumulators.record import Accumulator
from ..backends import Backend
from ..backends.operation import OperationBackend
from ..backends.subjects import any_subject
from ..errors import InputError
from . import health
from .answers import Answers, Session, simplest
from .dots import Asker, Signature
from .operands import check
from .orders import order
from .predict import predict
from .questions import ask_rivals
from .report import SENTENCES, Fact, Report, evidence, format_result, line
from .search import find, refit
from .structure import Structure

#: The number of random dots of the check: rows by columns of each kind.
_ROWS, _COLUMNS = 50, 100
_KINDS = ("codes", "normal")
#: How often the search continues with random dots of the check that the record does not predict.
_AGAIN = 2
#: How often the nearest records are distinguished from one that predicts all dots.
_RIVALS = 3
#: The dots that are searched for evidence of a fact.
_LOOKED = 4000
#: Contradictions shown in a report.
_SHOWN = 3
#: The largest k: a sum of more products has steps that no shorter one has.
_MOST_PRODUCTS = 1 << 14


def probe(
    backend: Any,
    /,
    *,
    type: str | Sequence[str] = "f8E4M3FN",
    result: str = "f32",
    k: int = 256,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> Report:
    """Find the accumulator of a backend through `dot_general` alone.

    Dots of a few large and small products reveal one fact each; the record that predicts them all is checked on 10,000
    random dots. No unit is looked up before the record has been found. After feature-targeted tests as in FTTN
    (arXiv 2403.00232) and MMA-Sim (arXiv 2511.10909); pairs of large numbers that cancel show the order, as in FPRev
    (arXiv 2411.00442).

    Args:
        backend: As in `interp.compare`: a platform of JAX, the name of a backend, a function `(text, arrays) -> arrays`
            or an object with a method `evaluate` or `operate`.
        type: The element type of the operands, of up to 32 bits, or those of both.
        result: The element type of the results.
        k: The number of products of a dot. Steps and groups longer than that cannot be seen.
        seed: The seed of the random dots.
        progress: Called regularly with the state of the search, a line of text. The search takes seconds for types of
            8 bits, and minutes for f32.

    Returns:
        A Report. `record` is the accumulator, `findings` the facts with the dots that show them. It predicts
        `predicted` of `checked` random dots.

    Raises:
        InputError: There is no such backend, type or k.
        BackendError: The backend gives no results.
        ProbeFailure: No accumulator gives such results: they change, or products are lost or wrong.
    """
    names = (type, type) if isinstance(type, str) else tuple(type)
    if len(names) != 2:
        raise InputError(f"type: expected one element type or two, got {len(names)}")
    lhs, rhs = (check(n, "type").name for n in names)
    signature = Signature(lhs, rhs, check(result, "result").name, k)
    if isinstance(k, bool) or not isinstance(k, int) or not 1 <= k <= _MOST_PRODUCTS:
        raise InputError(f"k: expected an integer from 1 to {_MOST_PRODUCTS}, got {k!r}")
    chosen = any_subject(backend)
    try:
        return examine(chosen, signature, seed, progress)
    finally:
        chosen.close()


def examine(
    backend: Backend | OperationBackend,
    signature: Signature,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> Report:
    """Return the report on a backend."""
    rng = np.random.default_rng([seed, signature.k])
    asker = Asker(backend, signature, progress)
    health.check(asker, rng)
    session = Session(asker, rng)
    record, shown = find(session)
    for _ in range(_RIVALS):
        if session.count_misses(record) or not ask_rivals(session, record):
            break
        if session.count_misses(record):
            record = refit(session, record, shown)
    for again in range(_AGAIN + 1):
        checks = _random(session)
        missed = [a[session.misses(record, a)] for a in checks]
        # Random dots do not repair a record that misses designed ones.
        if again == _AGAIN or not any(map(len, missed)) or session.count_misses(record):
            return _report(backend.name, session, shown, record, checks, missed)
        session.answers += [a for a in missed if len(a)]
        record = refit(session, record, shown)
    raise AssertionError("the last iteration returns")


def _random(session: Session) -> list[Answers]:
    """Ask for random dots, which the search does not use."""
    answers = []
    for kind in _KINDS:
        dots = session.designer.random(session.rng, _ROWS, _COLUMNS, kind)
        answers.append(Answers(f"random {kind}", dots, session.asker.ask(dots.x, dots.y)))
    return answers


def _report(
    name: str,
    session: Session,
    found: Structure,
    record: Accumulator,
    checks: Sequence[Answers],
    missed: Sequence[Answers],
) -> Report:
    s = session.signature
    wrong = [a[session.misses(record, a)] for a in session.answers]
    record, notes = _nan(session, record)
    simple = simplest(session.answers, _LOOKED)
    findings = [
        Fact(field, text, tuple(evidence(session, simple, record, field)))
        for field, sentence in SENTENCES.items()
        if (text := sentence(record)) is not None
    ]
    checked = sum(map(len, checks))
    contradictions = [
        f"{line(a.dots, i, s)} => {format_result(a.got[i], s)}, the record gives {format_result(expected[i], s)}"
        for a in [simplest([*wrong, *missed], _SHOWN)]
        for expected in [predict(record, a.dots, s)]
        for i in range(len(a))
    ]
    designed = sum(map(len, wrong))
    is_found = not contradictions
    return Report(
        name,
        s,
        record,
        found.hidden,
        tuple(findings),
        checked - sum(map(len, missed)),
        checked,
        designed,
        tuple(contradictions),
        _units(session, checks) if is_found else (),
        "" if is_found else order(session, checks),
        tuple(notes),
        session.asker.dots,
    )


def _nan(session: Session, record: Accumulator) -> tuple[Accumulator, list[str]]:
    """Return the record with the backend's code of NaN, and a note if it has none."""
    given = [a.got[session.is_nan(a.got)] for a in session.answers]
    seen, counts = np.unique(np.concatenate(given), return_counts=True)
    if not len(seen) or record.storage.name != session.signature.result:
        return record, []
    fmt = record.storage
    known = {int(fmt.nan_code or 0): "quiet", fmt.sign_bit - 1: "ones"}
    most = int(seen[np.argmax(counts)])
    if len(seen) == 1 and most in known:
        return dataclasses.replace(record, nan=known[most]), [f"NaN is {most:#x} ({known[most]})"]
    return record, [f"NaN is {', '.join(hex(int(c)) for c in seen[:4])}{', …' if len(seen) > 4 else ''}"]


def _units(session: Session, checks: Sequence[Answers]) -> tuple[str, ...]:
    """Return the chip accumulators that predict all dots."""
    s = session.signature
    found: dict[str, None] = {}
    for name in units.names():
        if "." not in name:
            continue
        row = units.row_for(name, s.lhs, s.rhs, s.result)
        if row is not None and not any(session.cost(row.record, a) for a in (*session.answers, *checks)):
            found[name] = None
    return tuple(found)
