"""The sections of docs/divergences.md on whole programs: results of peers for functions of mlir_tests/."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

from minihlo.ops.minifloat.formats import FORMATS
from minihlo.ops.types import ELEMENT_TYPES

from .causes import CAUSES
from .function_causes import FUNCTION_ABSENCES, FUNCTION_CAUSES
from .function_table import FUNCTION_DIVERGENCES, FunctionRow
from .functions import files, functions
from .peers import version_text
from .registry import ERROR, KINDS
from .tables import code_text, markdown

#: So many files are named in a cell; of more, the number is given.
_NAMED = 12
#: Files of ops whose results are boolean.
_BOOLEAN = ("chlo_broadcast_compare", "chlo_is_inf", "chlo_is_neg_inf", "chlo_is_pos_inf", "compare", "is_finite")
_FORMATS = sorted(FORMATS, key=len, reverse=True)


def summary() -> str:
    """The number of functions that pass on each peer."""
    versions, rows = FUNCTION_DIVERGENCES.load()
    total = sum(len(functions(f)) for f in files())
    by_ml_dtypes = "those of elementwise ops"
    lines = []
    for peer, title in (("xla", "XLA"), ("reference", "reference"), ("ml_dtypes", "ml_dtypes"), ("upcast", "`upcast`")):
        mine = [r for r in rows if r.peer == peer]
        silent = {(r.file, f) for r in mine if not r.values for f in r.functions}
        wrong = {(r.file, f) for r in mine if r.values for f in r.functions}
        passes = f"{total - len(silent | wrong):,} of {total:,}"
        passes = f"the rest of {by_ml_dtypes}" if peer == "ml_dtypes" else passes
        lines.append([title, version_text(peer, versions), passes, *_counts(wrong, silent)])
    return markdown(["", "version", "functions that pass", "give another result", "give none"], lines)


def _counts(*groups: set[tuple[str, str]]) -> list[str]:
    return [f"{len(g):,} in {len({file for file, _ in g})} files" if g else "none" for g in groups]


def of_peer(peer: str) -> Callable[[], str]:
    """The section of a peer."""

    def section() -> str:
        by_cause: dict[str, list[FunctionRow]] = defaultdict(list)
        for row in FUNCTION_DIVERGENCES.load()[1]:
            if row.peer == peer:
                by_cause[row.cause].append(row)
        parts = [_rows_of(cause, by_cause[cause]) for cause in FUNCTION_CAUSES if cause in by_cause]
        shared = [c for c in by_cause if c in CAUSES]
        if shared:
            lines = [[CAUSES[c].title, _files(by_cause[c])] for c in CAUSES if c in shared]
            head = "#### For the causes above\n\n"
            parts.append(head + markdown(["cause", "files, and how many functions of each"], lines))
        missing = [a for a in FUNCTION_ABSENCES if a.peer == peer and a.name in by_cause]
        lines_of = [
            f"- {a.title}{' (an error of the peer)' * (a.kind == ERROR)}: {a.why} {_files(by_cause[a.name])}."
            for a in missing
        ]
        if lines_of:
            parts.append("\n".join(["#### No result", "", *lines_of]))
        return "\n\n".join(parts) or "None."

    return section


def _rows_of(name: str, rows: list[FunctionRow]) -> str:
    cause = FUNCTION_CAUSES[name]
    kind = KINDS[cause.kind]
    lines = [f"#### {cause.title}", "", f"*{kind[0].upper()}{kind[1:]}.* {cause.why}", ""]
    farthest = max(r.ulp for r in rows)
    if farthest:
        lines += [f"At most {farthest} ULP from the exact result.", ""]
    cells = [[f"`{r.file}`", _functions(r), _example(r)] for r in sorted(rows, key=lambda r: r.file)]
    return "\n".join([*lines, markdown(["file", "functions, and how many values", "for example"], cells)])


def _functions(row: FunctionRow) -> str:
    named = list(zip(row.functions, row.values, strict=True))
    lines_of = ", ".join(f"{f} {n:,}" for f, n in named[:_NAMED])
    rest = named[_NAMED:]
    return lines_of + (f" and {sum(n for _, n in rest):,} in {len(rest)} more" if rest else "")


def _example(row: FunctionRow) -> str:
    element = "i1" if row.file in _BOOLEAN else _format(row.functions[0])
    operands = ", ".join(f"`0x{c:02X}`" for c in row.operands)
    of = f"({operands})" if operands else f"[{row.place}]"
    return f"{row.functions[0]}: {of} gives {_code(row.got, element)}, exact {_code(row.expected, element)}"


def _code(code: int, element: str | None) -> str:
    return f"`0x{code:02X}`" if element is None else code_text(code, ELEMENT_TYPES[element])


def _format(function: str) -> str | None:
    """The format of the results of a function whose name has only one."""
    result, rest = [], function
    for name in _FORMATS:
        result += [name] * rest.count(name)
        rest = rest.replace(name, "")
    return result[0] if len(result) == 1 else None


def _files(rows: Iterable[FunctionRow]) -> str:
    result = sorted((r.file, len(r.functions)) for r in rows)
    if len(result) <= _NAMED:
        return ", ".join(f"`{file}` {n}" for file, n in result)
    return f"{sum(n for _, n in result):,} functions in {len(result)} files"


SECTIONS: dict[str, Callable[[], str]] = {
    "programs": summary,
    **{f"programs of {peer}": of_peer(peer) for peer in ("xla", "reference", "ml_dtypes", "upcast")},
}
