"""Verdicts on quantize and dequantize: each block is right, a known choice at an open point, or wrong.

A choice explains a block only if it gives the same codes. If blocks are wrong, a fault is named if it reproduces
them and all blocks that are right; otherwise the diagnosis states whether scales or elements are wrong, and in which
blocks.
"""

from __future__ import annotations

import dataclasses
from collections import Counter

import numpy as np

from ...judging.record import NONE, OPEN, WRONG, Diagnosis
from ...judging.table import cause
from ...oracle import blocks as oracle
from ...oracle.formats import FORMATS
from ..block_parts import BlockPart
from ..cases.case import OWN
from ..result import OPEN as LEFT_OPEN
from ..result import CaseResult
from . import outcome
from .block_choices import CHOICES
from .block_faults import faults, partial
from .judge import FAR, Judgement
from .outcome import Settings

#: Number of faults that may explain wrong blocks together.
_MOST_FAULTS = 3
#: The error of a wrong code without a distance.
_WRONG = 1


def result_of(part: BlockPart, got: np.ndarray, settings: Settings) -> CaseResult:
    """The result of a case."""
    found = _Blocks(part, got)
    judged = found.judged
    is_bad = bool((judged.verdicts == WRONG).any())
    why = found.diagnosis() if is_bad else NONE
    points: dict[str, dict[str, int]] = {}
    for (point, name), count in found.chosen.items():
        points.setdefault(point, {})[name] = count
    known = {"open_points": points, "choices": [found.sentences[point, name] for point, name in found.chosen]}
    known |= {"diagnosis": why.sentence, "causes": list(why.causes)}
    return outcome.of_part(part, judged, got, part.expected, settings, 0 if is_bad else None, **known)


class _Blocks:
    """A part, its results, and the judgement of each block."""

    def __init__(self, part: BlockPart, got: np.ndarray) -> None:
        self.part, self.got = part, got
        self.of_block = part.block_of
        self.count = int(self.of_block.max(initial=-1)) + 1
        self.chosen: Counter[tuple[str, str]] = Counter()
        self.sentences: dict[tuple[str, str], str] = {}
        self.right = self._right_by_rule()
        self.is_right = self._blocks(got == self.right)
        self.is_open = np.zeros(self.count, bool)
        self._choose()

    def _right_by_rule(self) -> np.ndarray:
        """The right codes; for a backend with a rule of its own those of the rule that explains most blocks."""
        part = self.part
        if part.facts.get("scale") != OWN:
            return self._without_negative_zero(part.expected)
        rules = part.block.rules if part.block.has_power_scale else ("nearest", "rceil")
        with np.errstate(all="ignore"):
            by_rule = {r: part.of(oracle.quantize(part.numbers, part.block, r)) for r in rules}
        by_rule = {r: self._without_negative_zero(codes) for r, codes in by_rule.items()}
        best = max(by_rule, key=lambda r: int(self._blocks(self.got == by_rule[r]).sum()))
        differs = ~self._blocks(by_rule[best] == by_rule[rules[0]]) & self._blocks(self.got == by_rule[best])
        self.own = best
        if differs.any():
            self._note("scale-rule", best, f"the scale of a block: by the rule {best}", int(differs.sum()))
        return by_rule[best]

    own = ""

    def _without_negative_zero(self, codes: np.ndarray) -> np.ndarray:
        """The right codes, with +0 for -0 if the backend has no -0 among all its elements."""
        part = self.part
        if part.case.op != "quantize" or part.block.fmt is None:
            return codes
        n, minus = int(np.prod(part.shape)), part.block.fmt.sign_bit
        expected = codes[:n] == minus
        if not expected.any() or (self.got[:n] == minus).any():
            return codes
        self._lacks_minus = True
        changed = codes.copy()
        changed[:n][expected] = 0
        return changed

    _lacks_minus = False

    def _blocks(self, equal: np.ndarray) -> np.ndarray:
        """Tests which blocks have all codes equal; codes that belong to all blocks count in each."""
        if not equal[self.of_block < 0].all():
            return np.zeros(self.count, bool)
        unlike = np.bincount(self.of_block[(self.of_block >= 0) & ~equal], minlength=self.count)
        return unlike == 0

    def _note(self, point: str, name: str, sentence: str, count: int) -> None:
        self.chosen[point, name] += count
        self.sentences[point, name] = sentence

    def _choose(self) -> None:
        """Finds the choice that explains each block that is not right."""
        part = self._of_own_rule()
        self._choose_elements_of_nan()
        for choice in CHOICES:
            left = ~self.is_right & ~self.is_open
            codes = choice.compute(part) if left.any() else None
            if codes is None:
                continue
            explained = left & self._blocks(self.got == self._without_negative_zero(codes))
            if explained.any():
                self.is_open |= explained
                self._note(choice.point, choice.identifier, choice.sentence, int(explained.sum()))
        if self._lacks_minus and (self.is_right | self.is_open).any():
            zeros = part.expected != self._without_negative_zero(part.expected)
            self._note("negative-zero", "plus-zero", "-0 becomes +0", len(np.unique(self.of_block[zeros])))

    def _choose_elements_of_nan(self) -> None:
        """Finds blocks whose scale is rightly NaN, so that any elements give NaN."""
        part = self.part
        if part.case.op != "quantize":
            return
        start, count = int(np.prod(part.shape)), self.count
        given, right = (codes[start : start + count] for codes in (self.got, self.right))
        nan = part.block.scale_fmt.is_nan(right) & (given == right) & ~self.is_right
        self.is_open |= nan
        x = part.block.each(part.numbers).reshape(count, -1)
        for point, where in (("block-with-nan", np.isnan(x)), ("block-with-infinity", ~np.isnan(x) & np.isinf(x))):
            is_point = nan & where.any(axis=1) & (point == "block-with-nan" or ~np.isnan(x).any(axis=1))
            if is_point.any():
                self._note(point, "elements", "the scale is NaN, and elements are numbers", int(is_point.sum()))

    def _of_own_rule(self) -> BlockPart:
        """The part, with the backend's own rule."""
        if not self.own:
            return self.part
        facts = tuple((k, self.own if k == "scale" else v) for k, v in self.part.case.attributes)
        return dataclasses.replace(self.part, case=dataclasses.replace(self.part.case, attributes=facts))

    @property
    def is_wrong(self) -> np.ndarray:
        """Tests which blocks are wrong."""
        return ~self.is_right & ~self.is_open

    @property
    def judged(self) -> Judgement:
        """The judgement of each code; no code is at a distance."""
        differs = self.got != self.part.expected
        wrong = np.append(self.is_wrong, True)[self.of_block] & (self.got != self.right)
        grades, errors = (np.select([wrong, differs], by, 0) for by in ([WRONG, OPEN], [_WRONG, LEFT_OPEN]))
        return Judgement(grades, errors.astype(np.int8), np.full(len(self.got), FAR), {}, self.right)

    # -- wrong blocks --------------------------------------------------------------------------------------------------

    def diagnosis(self) -> Diagnosis:
        """An explanation of the wrong blocks."""
        wrong, right = self.is_wrong, self.is_right
        if not self.got.any() and self.right.any():
            return cause("zeros")
        part, found = self._of_own_rule(), []
        left = wrong.copy()
        for fault in faults():
            codes = fault.compute(part)
            hits = ~right if codes is None else self._blocks(self.got == self._without_negative_zero(codes))
            if codes is None or (right & ~hits).any() or not (left & hits).any():
                continue
            if (left <= hits).all() and not found:
                return fault.diagnosis()
            if len(found) < _MOST_FAULTS:
                found.append(fault)
                left &= ~hits
        explained = Diagnosis("; ".join(f.sentence for f in found), tuple(f.identifier for f in found))
        rest = self._common(left) if left.any() else NONE
        return explained.join(rest or cause("other-blocks")) if found and left.any() else rest or explained

    def _common(self, wrong: np.ndarray) -> Diagnosis:
        """A property of wrong blocks that no fault explains."""
        part = self.part
        elements = int(np.prod(part.shape))
        flat, shape = self.got[:elements], part.shape
        if self._is_half_missing(flat):
            return cause("half-missing")
        if len(part.outputs) == 3 and not np.isfinite(FORMATS["f32"].decode(self.got[-1:])[0]):
            return cause("tensor-scale")
        is_quantize = part.case.op == "quantize"
        if is_quantize and part.block.each(np.isnan(part.numbers)).any(axis=-1).ravel()[wrong].all():
            return cause("nan-block-not-nan")
        if not is_quantize and np.isnan(oracle.factors(part.arrays[1], part.block)).ravel()[wrong].all():
            return cause("nan-scale-not-nan")
        last = partial(part.block, shape).ravel()
        if last.any() and not (wrong & ~last).any():
            return cause("partial-blocks")
        if not is_quantize:
            return NONE
        of_scales = (np.arange(len(self.got)) >= elements) & (self.of_block >= 0)
        off = np.append(wrong, False)[self.of_block] & of_scales & (self.got != self.right)
        if not off.any():
            return cause("elements")
        given = part.parts_of(self.got)
        with np.errstate(all="ignore"):
            tensor = given[2].astype(np.uint32) if len(given) > 2 else None
            as_given = oracle.elements(
                part.numbers, given[1].astype(part.block.scale_fmt.code_dtype), part.block, tensor
            )
        differ = part.block.each(given[0] != as_given).any(axis=-1).ravel()
        return cause("scales-and-elements" if differ[wrong].any() else "scales")

    def _is_half_missing(self, flat: np.ndarray) -> bool:
        is_right, at = flat == self.right[: len(flat)], np.arange(len(flat))
        parts = at < len(flat) // 2, at >= len(flat) // 2, at % 2 == 0
        return any(not flat[~there].any() and is_right[there].all() for there in parts)
