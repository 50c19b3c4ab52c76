"""Loops that run along a transition table give the bits that their turns give; all others run turn by turn."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from minihlo import interp
from minihlo.interp import machine
from minihlo.interp.compile import planner
from minihlo.interp.compile.executors.scan import ScanRunner
from minihlo.ops.engine import compiled
from minihlo.ops.engine.speed import NONE, Speed
from minihlo.ops.engine.transitions import TransitionTable
from minihlo.ops.policy import Policy
from minihlo.ops.types import ELEMENT_TYPES

from ..conftest import Tune, tuned

N, WIDTH = 9, 5
POLICIES = (Policy(), Policy(rounding="toward_zero", overflow="saturate"), Policy(arithmetic="upcast"))
#: What makes the next state %n of the state %c and the row %x, and what is put aside, %y.
BODIES = {
    "sum": "%n = stablehlo.add %c, %x : C\n %y = stablehlo.negate %n : C",
    "decay": """%h = stablehlo.constant dense<0.75> : C
      %m = stablehlo.multiply %c, %h : C
      %n = stablehlo.add %m, %x : C
      %y = stablehlo.multiply %c, %x : C""",
    "old": "%n = stablehlo.maximum %c, %x : C\n %y = stablehlo.add %c, %c : C",
    "wide": """%cw = stablehlo.convert %c : (C) -> F
      %xw = stablehlo.convert %x : (C) -> F
      %s = stablehlo.subtract %cw, %xw : F
      %t = stablehlo.tanh %s : F
      %n = stablehlo.convert %t : (F) -> C
      %y = stablehlo.convert %s : (F) -> C""",
    "chosen": """%p = stablehlo.compare GT, %c, %x : (C, C) -> tensor<5xi1>
      %d = stablehlo.divide %c, %x : C
      %n = stablehlo.select %p, %d, %x : tensor<5xi1>, C
      %y = stablehlo.abs %n : C""",
}
#: The number of the row that is taken in turn %i, and of the one that is written.
PLACES = {
    "first to last": "%r = stablehlo.add %i, %zero : tensor<i32>\n %w = stablehlo.add %zero, %i : tensor<i32>",
    "last to first": """%r = stablehlo.subtract %last, %i : tensor<i32>
      %w = stablehlo.subtract %last, %i : tensor<i32>""",
    "from the end below zero": """%z = stablehlo.compare LT, %i, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %e = stablehlo.add %i, %rows : tensor<i32>
      %r = stablehlo.select %z, %e, %i : tensor<i1>, tensor<i32>
      %w = stablehlo.convert %i : (tensor<i32>) -> tensor<i32>""",
    "by another count": """%r = stablehlo.convert %k : (tensor<i32>) -> tensor<i32>
      %w = stablehlo.subtract %k, %one : tensor<i32>""",
}


def scan(t: str, body: str, places: str, *, start: int = 0, rows: int = N, limit: int = N) -> str:
    """A loop over the rows of %xs that carries %c, puts all %y aside in %ys and all states in %cs."""
    text = f"""
    func.func @main(%c0: C, %xs: X, %ys0: X, %cs0: X) -> (C, X, X, tensor<i32>, tensor<i32>) {{
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %last = stablehlo.constant dense<{rows - 1}> : tensor<i32>
      %rows = stablehlo.constant dense<{rows}> : tensor<i32>
      %start = stablehlo.constant dense<{start}> : tensor<i32>
      %l:6 = stablehlo.while(%i = %start, %k = %one, %c = %c0, %xx = %xs, %ys = %ys0, %cs = %cs0)
        : tensor<i32>, tensor<i32>, C, X, X, X
      cond {{
        %limit = stablehlo.constant dense<{limit}> : tensor<i32>
        %go = stablehlo.compare LT, %i, %limit : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %go : tensor<i1>
      }} do {{
        {places}
        %row = stablehlo.dynamic_slice %xx, %r, %zero, sizes = [1, 5] : (X, tensor<i32>, tensor<i32>) -> R
        %x = stablehlo.reshape %row : (R) -> C
        {body}
        %yr = stablehlo.broadcast_in_dim %y, dims = [1] : (C) -> R
        %nr = stablehlo.reshape %n : (C) -> R
        %ny = stablehlo.dynamic_update_slice %ys, %yr, %w, %zero : (X, R, tensor<i32>, tensor<i32>) -> X
        %nc = stablehlo.dynamic_update_slice %cs, %nr, %w, %zero : (X, R, tensor<i32>, tensor<i32>) -> X
        %ni = stablehlo.add %i, %one : tensor<i32>
        %nk = stablehlo.add %one, %k : tensor<i32>
        stablehlo.return %ni, %nk, %n, %xx, %ny, %nc : tensor<i32>, tensor<i32>, C, X, X, X
      }}
      return %l#2, %l#4, %l#5, %l#0, %l#1 : C, X, X, tensor<i32>, tensor<i32>
    }}"""
    for name, full in (("C", f"tensor<5x{t}>"), ("X", f"tensor<{rows}x5x{t}>"), ("R", f"tensor<1x5x{t}>")):
        text = text.replace(f": {name}", f": {full}").replace(f", {name}", f", {full}").replace(f"({name}", f"({full}")
        text = text.replace(f"-> {name}", f"-> {full}")
    return text.replace(": F", ": tensor<5xf32>").replace("(F", "(tensor<5xf32>").replace("-> F", "-> tensor<5xf32>")


def arguments(t: str, rows: int = N) -> list[np.ndarray]:
    rng, element = np.random.default_rng(7), ELEMENT_TYPES[t]
    shapes = ((WIDTH,), (rows, WIDTH), (rows, WIDTH), (rows, WIDTH))
    return [rng.integers(0, 1 << element.bits, s, np.uint8).view(element.dtype) for s in shapes]


@pytest.fixture
def walked(monkeypatch: pytest.MonkeyPatch, tune: Tune) -> list[int]:
    """A table is made for any step; gives the numbers of turns that were made at once."""
    tune(transition_worth=0)
    found: list[int] = []
    real = TransitionTable.along

    def along(self: TransitionTable, starts: Any, rows: np.ndarray, kept: Any = None) -> np.ndarray:
        found.append(len(rows))
        return real(self, starts, rows, kept)

    monkeypatch.setattr(TransitionTable, "along", along)
    return found


def both(text: str, arrays: list[np.ndarray], policy: Policy) -> tuple[list[bytes], list[bytes]]:
    """What a program gives turn by turn and as it likes."""
    program = interp.load(text).program
    told = []
    for speed in (NONE, Speed()):
        plan = planner.plan(program, policy=policy, speed=tuned(speed))
        told.append([np.asarray(r).tobytes() for r in machine.run(plan, arrays)])
    return told[0], told[1]


@pytest.mark.parametrize("body", BODIES)
@pytest.mark.parametrize("t", ["f8E4M3FNUZ", "f8E5M2", "f8E8M0FNU", "f6E3M2FN", "f4E2M1FN"])
def test_walks_give_the_bits_of_turns(t: str, body: str, walked: list[int]) -> None:
    text, arrays = scan(t, BODIES[body], PLACES["first to last"]), arguments(t)
    before = [a.tobytes() for a in arrays]
    for policy in POLICIES:
        wanted, found = both(text, arrays, policy)
        assert found == wanted, policy
    assert walked == [N] * len(POLICIES)
    assert [a.tobytes() for a in arrays] == before


@pytest.mark.parametrize("places", PLACES)
def test_rows_come_from_many_places(places: str, walked: list[int]) -> None:
    limit = N - 1 if places == "by another count" else N
    wanted, found = both(
        scan("f8E4M3FN", BODIES["decay"], PLACES[places], limit=limit), arguments("f8E4M3FN"), Policy()
    )
    assert (found, walked) == (wanted, [limit])


@pytest.mark.parametrize(
    ("places", "settings"),
    [
        ("first to last", {"limit": N + 3}),  # the last rows are taken several times
        ("first to last", {"start": -2}),
        ("from the end below zero", {"start": -2}),
        ("last to first", {"limit": N + 1}),
        ("first to last", {"start": N}),
        ("first to last", {"limit": -(2**31)}),
        ("by another count", {"start": -(2**31), "limit": -(2**31) + N}),
    ],
)
def test_where_rows_are_missing_turns_are_made_one_by_one(
    places: str, settings: dict[str, int], walked: list[int]
) -> None:
    text = scan("f8E4M3FN", BODIES["decay"], PLACES[places], **settings)
    wanted, found = both(text, arguments("f8E4M3FN"), Policy())
    assert (found, walked) == (wanted, [])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("%x = stablehlo.reshape %row", "%u = stablehlo.reshape %row"),  # and reversed
        ("%n = stablehlo.add %m, %x", "%n = stablehlo.add %m, %c0"),  # no row, and an array from outside
        ("compare LT", "compare LE"),
        ("stablehlo.add %one, %k", "stablehlo.multiply %one, %k"),
        ("stablehlo.while(%i = %start", "stablehlo.while(%i = %start"),
        (
            "%x = stablehlo.reshape %row : (tensor<1x5xf8E4M3FN>)",
            "%x = stablehlo.reshape %other : (tensor<1x5xf8E4M3FN>)",
        ),
    ],
    ids=["reversed", "outside", "LE", "no count", "same", "two rows"],
)
def test_what_is_no_scan_is_not_taken_for_one(old: str, new: str, walked: list[int]) -> None:
    text = scan("f8E4M3FN", BODIES["decay"], PLACES["first to last"])
    assert old in text
    text = text.replace(old, new)
    c = "tensor<5xf8E4M3FN>"
    text = text.replace(
        f"%u = stablehlo.reshape %row : (tensor<1x5xf8E4M3FN>) -> {c}",
        f"""
        %u = stablehlo.reshape %row : (tensor<1x5xf8E4M3FN>) -> {c}
        %x = stablehlo.reverse %u, dims = [0] : {c}""",
    )
    text = text.replace(
        "%x = stablehlo.reshape %other",
        """
        %o = stablehlo.dynamic_slice %xx, %k, %zero, sizes = [1, 5]
          : (tensor<9x5xf8E4M3FN>, tensor<i32>, tensor<i32>) -> tensor<1x5xf8E4M3FN>
        %other = stablehlo.add %row, %o : tensor<1x5xf8E4M3FN>
        %x = stablehlo.reshape %other""",
    )
    wanted, found = both(text, arguments("f8E4M3FN"), Policy())
    assert found == wanted
    assert walked == ([N] if old == new else [])


def test_counts_that_overflow_are_left_to_turns(walked: list[int]) -> None:
    text = scan("f8E5M2", BODIES["sum"], PLACES["first to last"]).replace("%k = %one", "%k = %huge")
    text = text.replace("%start =", "%huge = stablehlo.constant dense<2147483640> : tensor<i32>\n %start =")
    wanted, found = both(text, arguments("f8E5M2"), Policy())
    assert (found, walked) == (wanted, [])


@pytest.mark.parametrize("size", [(300, 3), (40, 30), (30, 300)])
@pytest.mark.parametrize("is_compiled", [False, True])
@pytest.mark.parametrize("is_kept", [False, True])
def test_all_ways_to_walk(size: tuple[int, int], is_compiled: bool, is_kept: bool, tune: Tune) -> None:
    if is_compiled:
        if not compiled.is_available():
            pytest.skip("numba is not installed")
        tune(compiled_from=1)
        tune(compiled_worth=0)
    rng, element = np.random.default_rng(1), ELEMENT_TYPES["ui8"]
    table = rng.integers(0, 256, (256, 256), np.uint8)
    rows, starts = rng.integers(0, 256, size, np.uint8), rng.integers(0, 256, size[1], np.uint8)
    kept = np.zeros(size, np.uint8)
    found = TransitionTable(lambda total, x: table[total, x], element, element).along(
        starts, rows, kept if is_kept else None
    )
    totals = starts
    for i, row in enumerate(rows):
        totals = table[totals, row]
        assert not is_kept or (kept[i] == totals).all()
    assert (found == totals).all()


@pytest.mark.parametrize("size", [(1000, 64), (997, 30), (9001, 1), (519, 128), (640, 90)])
@pytest.mark.parametrize("forgets", [True, False])
@pytest.mark.parametrize("is_kept", [False, True])
def test_long_walks_in_pieces(
    size: tuple[int, int], forgets: bool, is_kept: bool, monkeypatch: pytest.MonkeyPatch, tune: Tune
) -> None:
    """An average that moves forgets where it came from; a sum of bytes never does."""
    tune(compiled_from=1 << 60)
    whole: list[int] = []
    for way in ("one_by_one", "together"):
        real = getattr(TransitionTable, way)

        def noted(self: TransitionTable, starts: Any, rows: Any, kept: Any, real: Any = real) -> Any:
            whole.append(len(rows))
            return real(self, starts, rows, kept)

        monkeypatch.setattr(TransitionTable, way, noted)
    total, x = np.mgrid[:256, :256]
    table = ((total * 3 + x) // 4 if forgets else (total + x) % 256).astype(np.uint8)
    rng = np.random.default_rng(2)
    rows, starts = rng.integers(0, 256, size, np.uint8), rng.integers(0, 256, size[1], np.uint8)
    kept = np.zeros(size, np.uint8)
    walked = TransitionTable(lambda total, x: table[total, x], ELEMENT_TYPES["ui8"], ELEMENT_TYPES["ui8"])
    for _ in range(2):
        whole.clear()
        found = walked.along(starts, rows, kept if is_kept else None)
        totals = starts
        for i, row in enumerate(rows):
            totals = table[totals, row]
            assert not is_kept or (kept[i] == totals).all()
        assert (found == totals).all()
    assert (max(whole) == len(rows)) is not forgets
    assert forgets or whole == [len(rows)]  # what did not run together is not tried again at once


@pytest.mark.parametrize("rows", [3000, 2100, 2048])
def test_walks_too_long_to_be_laid_out_at_once(rows: int, tune: Tune) -> None:
    tune(compiled_from=1 << 60)
    tune(piece_elements=1 << 15)
    rng = np.random.default_rng(3)
    codes, starts = rng.integers(0, 256, (rows, 16), np.uint8), rng.integers(0, 256, 16, np.uint8)
    kept = np.zeros_like(codes)
    t = ELEMENT_TYPES["ui8"]
    found = TransitionTable(lambda total, x: (total // 2 + x // 2).astype(np.uint8), t, t).along(starts, codes, kept)
    total = starts
    for row, state in zip(codes, kept, strict=True):
        total = total // 2 + row // 2
        assert (state == total).all()
    assert (found == total).all()


def test_a_scan_is_named_in_the_plan() -> None:
    plan = interp.load(scan("f8E5M2", BODIES["sum"], PLACES["first to last"])).plan()
    (chosen,) = [c for c in plan.chosen if c.label == "scan"]
    reason = "transition table of 65,536 entries: 9 turns at most over tensor<9x5xf8E5M2>"
    assert (chosen.decision.executor, chosen.decision.reason) == ("scan", reason)
    assert [o.name for o in chosen.operations] == ["stablehlo.while"]
    assert sum(isinstance(v, ScanRunner) for v in plan.entry.__globals__.values()) == 1
