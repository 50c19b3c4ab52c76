"""What failing results are said to have in common."""

import numpy as np

from minihlo.interp.conform import diagnosis
from minihlo.interp.conform.cases import SIZES, Case
from minihlo.interp.conform.elementwise import Part
from minihlo.interp.conform.judge import Judged
from minihlo.interp.conform.result import FAIL, CaseResult


def test_what_fails_anywhere_may_stand_at_the_end_by_chance() -> None:
    def part(form: str, failing: list[int]) -> tuple[Part, Judged, np.ndarray]:
        n = SIZES[form]
        codes = np.resize(np.arange(0x30, 0x50, dtype=np.uint8), n)
        made = Part(Case("negate", ("f8E4M3FN",), "f8E4M3FN"), form, (codes,))
        got = made.expected.codes.copy()
        got[failing] ^= 1
        return made, made.judge(got, 4, False)[0], got

    assert diagnosis.explain(*part("size-7", [6])) != "only the last element of the array"
    assert diagnosis.explain(*part("size-64", [63])) == "only the last element of the array"
    told = [("array", "the operand is"), ("size-64", "only the last element of the array")]
    cases = [
        CaseResult("a", form, "a", [], "", "", "", FAIL, counts={FAIL: 5 - 4 * i}, diagnosis=why)
        for i, (form, why) in enumerate(told)
    ]
    assert [c.diagnosis for c in diagnosis.across_forms(cases)] == ["the operand is"] * 2
