"""The recorded differences of one implementation as a grid: an operation a row, a format a column."""

from __future__ import annotations

from collections import defaultdict

from minihlo.interp.conform.cases.case import Case
from minihlo.ops.minifloat.formats import MINIFLOATS

from ..crosscheck.causes import CAUSES, absence_of
from ..crosscheck.compare import list_cases
from ..crosscheck.registry import ACCURACY, ERROR, OPEN
from ..crosscheck.table import DIVERGENCES
from .svg import WIDTH, Picture

PEER = "xla"
_AGREES, _ABSENT = "agrees", "absent"
#: From worst to best: a cell has the worst of its cases. The colour, the sign and the meaning of each.
_LOOKS = {
    ERROR: ("red", "×", "a result is wrong"),
    OPEN: ("blue", "○", "another choice where the format leaves it open"),
    ACCURACY: ("green", "~", "less accurate, which StableHLO permits"),
    _AGREES: ("quiet", "", "every result is the exact one"),
    _ABSENT: ("page", "–", "no result: the type is not supported"),
}
_LEFT, _TOP, _CELL = 200, 150, 26


def grid() -> dict[str, dict[str, str]]:
    """The verdict of each operation on each format."""
    _, rows = DIVERGENCES.load()
    kinds: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    for row in rows:
        if row.peer == PEER:
            kinds[row.op, row.operand, row.result].add(CAUSES[row.cause].kind)
    cells: dict[str, dict[str, set[str]]] = defaultdict(lambda: defaultdict(set))
    for case in list_cases():
        is_absent = absence_of(PEER, case.signature) is not None
        looks = {_ABSENT} if is_absent else kinds[case.name, case.operands[0], case.result] or {_AGREES}
        for name, column in _places(case):
            cells[name][column] |= looks
    order = list(_LOOKS)
    return {
        name: {f: min(result, key=order.index) for f, result in columns.items()}
        for name, columns in sorted(cells.items())
    }


def _places(case: Case) -> list[tuple[str, str]]:
    """The cells that a case belongs to."""
    if case.op == "convert":
        ends = [("convert from", case.operands[0]), ("convert to", case.result)]
        return [(name, element) for name, element in ends if element in MINIFLOATS]
    is_total = ("compare_type", "TOTALORDER") in case.attributes
    return [(f"{case.op}, total order" if is_total else case.op, case.operands[0])]


def verdicts() -> str:
    versions, _ = DIVERGENCES.load()
    cells = grid()
    usual = {f: _ABSENT if any(row[f] == _ABSENT for row in cells.values()) else _AGREES for f in MINIFLOATS}
    shown = {name: row for name, row in cells.items() if row != usual}
    bottom = _TOP + _CELL * (len(shown) + 1)
    picture = Picture(
        bottom + 22 * len(_LOOKS) + 24,
        f"XLA's CPU compiler (jaxlib {versions['jaxlib']}) beside the exact results",
        "A grid with a row for each operation and a column for each format. Each cell says whether every result is "
        "exact, less accurate, another choice, or wrong.",
    )
    picture.text(12, 24, "XLA's CPU compiler")
    picture.text(12, 44, f"jaxlib {versions['jaxlib']}", colour="faint")
    width = (WIDTH - 8 - _LEFT) / len(MINIFLOATS)
    for i, name in enumerate(MINIFLOATS):
        picture.text(_LEFT + width * (i + 0.5) + 5, _TOP - 8, name, turn=-90)
    left_out = len(cells) - len(shown)
    for i, (name, row) in enumerate([*shown.items(), (f"{left_out} other operations", usual)]):
        top = _TOP + _CELL * i
        picture.text(_LEFT - 10, top + 19, name, anchor="end")
        for j, element in enumerate(MINIFLOATS):
            colour, sign, meaning = _LOOKS[row[element]]
            picture.rectangle(
                _LEFT + width * j + 1, top + 1, width - 2, _CELL - 2, colour, f"{name}, {element}: {meaning}"
            )
            if sign:
                ink = "faint" if colour == "page" else "page"
                picture.text(_LEFT + width * (j + 0.5), top + 19, sign, anchor="middle", colour=ink)
    legend = [(c if c != "page" else "quiet", s, m) for c, s, m in _LOOKS.values()]
    picture.legend(12, bottom + 16, legend)
    return str(picture)
