"""Runs that are repeated: what is intermittent, what is of a place, and a crash that is not a type's fault."""

import numpy as np
import pytest

from minihlo.interp.backends import BackendError
from minihlo.interp.conform import tester
from minihlo.interp.conform.result import CRASH, FAIL, PASS, UNSUPPORTED
from minihlo.interp.conform.verdicts.outcome import Settings
from minihlo.interp.judging.diagnosis import NONE, Diagnosis, common, is_of_places, of_sizes, of_start, of_tail
from minihlo.interp.judging.table import cause

from .planted import Programs, case_of, evaluate


class Counted(Programs):
    """minihlo, but for what `before` does to a call: it gets the number of the call, and may raise."""

    def __init__(self, before, after=lambda _call, results: results) -> None:
        super().__init__(self.count)
        self.before, self.after, self.calls = before, after, 0

    def count(self, text: str, arrays=()) -> list[np.ndarray]:
        self.calls += 1
        self.before(self.calls, text)
        return self.after(self.calls, evaluate(text, arrays))


def run(backend: Counted, *signatures: str):
    return tester.Tester(backend, Settings("planted")).run([tester.Spec(case_of(s), "array") for s in signatures])


SUMS = ("add.f8E5M2", "subtract.f8E5M2", "multiply.f8E5M2")


def test_a_crash_of_the_first_program_alone() -> None:
    def dies_once(call: int, _text: str) -> None:
        if call == 1:
            raise BackendError("died", "the first one")

    assert {r.verdict for r in run(Counted(dies_once), *SUMS)} == {PASS}


def test_a_type_whose_probe_dies_while_its_ops_do_not() -> None:
    """The probe has no op; programs with one are right."""

    def dies_without_an_op(_call: int, text: str) -> None:
        if '"stablehlo.' not in text:
            raise BackendError("died", "an identity")

    assert {r.verdict for r in run(Counted(dies_without_an_op), *SUMS)} == {PASS}


def test_a_type_of_which_everything_dies_is_given_up() -> None:
    def dies(_call: int, _text: str) -> None:
        raise BackendError("died", "always")

    ops = ["abs", "add", "ceil", "divide", "floor", "maximum", "minimum", "multiply", "negate", "sign"]
    backend = Counted(dies)
    found = run(backend, *(f"{op}.f8E5M2" for op in ops))
    assert {r.verdict for r in found} == {UNSUPPORTED}
    assert all("dies of f8E5M2" in r.message for r in found)
    assert all(r.command.endswith("--case type.f8E5M2 --form array") for r in found)
    assert backend.calls < 12


def test_one_op_that_works_is_not_lost_with_the_others() -> None:
    def dies(_call: int, text: str) -> None:
        if '"stablehlo.negate"' not in text or text.count('"stablehlo.') > 1:
            raise BackendError("died", "all but negate alone")

    found = run(Counted(dies), "add.f8E5M2", "negate.f8E5M2", "multiply.f8E5M2")
    assert [r.verdict for r in found] == [CRASH, PASS, CRASH]


def test_a_second_run_that_is_wrong() -> None:
    """The first run of each program is right; one of some is run again."""
    seen: dict[int, int] = {}

    def wrong_later(_call: int, results: list[np.ndarray]) -> list[np.ndarray]:
        size = sum(r.size for r in results)
        seen[size] = seen.get(size, 0) + 1
        return [r ^ 1 for r in results] if seen[size] > 1 and size > 2 else results

    (found,) = run(Counted(lambda *_: None, wrong_later), "add.f8E5M2")
    assert found.verdict == FAIL
    assert found.diagnosis.startswith("intermittent: in 3 of 4 runs")


def test_a_second_run_that_dies() -> None:
    def dies_later(call: int, text: str) -> None:
        if call == 3 and "add" in text:  # after the probe and the first run
            raise BackendError("died", "now and then")

    (found,) = run(Counted(dies_later), "add.f8E5M2")
    assert (found.verdict, found.message) == (CRASH, "in one of two runs: now and then")


@pytest.mark.parametrize(
    ("where", "n", "expected"),
    [
        (slice(15, None, 16), 1000, cause("lane", 15, 16)),
        (slice(0, None, 4), 64, cause("lane", 0, 4)),
        ([15, 47, 159, 303, 911], 1000, cause("lane", 15, 16)),
        ([5, 300], 1000, NONE),
        (slice(-1, None), 64, of_tail(1)),
        (slice(-3, None), 64, of_tail(3)),
        (slice(512, None), 1000, of_start(512)),
        ([1, 5, 7, 100, 800], 1000, NONE),
        (slice(None), 64, NONE),
    ],
)
def test_places(where, n: int, expected: Diagnosis) -> None:
    failing = np.zeros(n, bool)
    failing[where] = True
    assert common(failing, ~failing) == expected


def test_what_is_left_open_is_neither_right_nor_wrong() -> None:
    failing, right = np.zeros(64, bool), np.ones(64, bool)
    failing[15::16] = True
    failing[31] = False
    right[15::16] = False
    assert common(failing, right) == cause("lane", 15, 16)
    right[31] = True
    assert not common(failing, right)


@pytest.mark.parametrize(
    ("tails", "expected"),
    [
        ({1: 1, 7: 7, 64: 0, 1000: 8, 65536: 0}, "only the last partial vector, if vectors have 16 or 32 elements"),
        ({1: 1, 7: 3, 64: 0, 1000: 0, 65536: 0}, "only the last partial vector, if vectors have 4 elements"),
        ({1: 1, 7: 1, 64: 1, 1000: 1}, "only the last element of the arrays of 7, 64, 1000"),
        ({1: 0, 7: 0, 64: 0, 1000: 488, 65536: 65024}, of_start(512).sentence),
        ({1: 0, 64: 0}, ""),
        ({1: 0, 7: 2, 64: 5, 1000: 9}, ""),
    ],
)
def test_arrays_of_several_sizes(tails: dict[int, int], expected: str) -> None:
    assert of_sizes(tails).sentence == expected


def test_errors_that_move_with_their_operands_are_of_no_place() -> None:
    random = np.random.default_rng(3)
    failing = random.random(100) < 0.2
    order = random.permutation(100)
    assert not is_of_places(failing, failing[order], order)
    assert is_of_places(failing, failing, order)
