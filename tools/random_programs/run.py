"""One program: run here, run by the peers, compared step by step."""

from __future__ import annotations

import collections
import dataclasses
import re
import traceback
from collections.abc import Mapping, Sequence

import numpy as np

from minihlo import interp
from minihlo.interp.backends import BackendError
from minihlo.interp.judging.equality import equal_values as same
from minihlo.interp.judging.record import WRONG

from .builder import random_program
from .compare import Case
from .known import ALONE, FUSED, KNOWN, LACKS, first, known_failing
from .peers import Peer
from .program import Module, Program, Step, Value, codes, cut_steps, snippet

Counter = collections.Counter[str]


@dataclasses.dataclass(frozen=True)
class Finding:
    """A finding of a comparison. Findings of one `kind` and `subject` are reported once."""

    kind: str  #: "crash", "inconsistent" (both ours), "difference", "whole", "refused", "died" or "slow"
    subject: str
    text: str
    program: str


@dataclasses.dataclass
class Tally:
    """A description of the run, for the report."""

    programs: int = 0
    steps: Counter = dataclasses.field(default_factory=collections.Counter)
    compared: Counter = dataclasses.field(default_factory=collections.Counter)  #: elements, by peer
    wholes: Counter = dataclasses.field(default_factory=collections.Counter)  #: exact programs that agree, by peer
    explained: Counter = dataclasses.field(default_factory=collections.Counter)  #: elements, by peer and reason
    left_out: Counter = dataclasses.field(default_factory=collections.Counter)  #: steps, by peer and reason
    findings: list[Finding] = dataclasses.field(default_factory=list)

    def add(self, other: Tally) -> None:
        self.programs += other.programs
        for name in ("steps", "compared", "wholes", "explained", "left_out"):
            getattr(self, name).update(getattr(other, name))
        self.findings += other.findings


def ours(module: Module, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Our results of a module."""
    return interp.load(module.named())(*arrays)


class Checker:
    """Checks programs and keeps the tally."""

    def __init__(self, peers: Sequence[Peer]) -> None:
        self.peers = peers
        self.tally = Tally()

    def check(self, program: Program, label: str) -> None:
        self.tally.programs += 1
        self.tally.steps.update(s.short for s in program.steps)
        values = self._ours(program, label)
        if values is None:
            return
        for peer in self.peers:
            if self._steps(peer, program, values, label):
                self._whole(peer, program, values, label)

    # -- ours ----------------------------------------------------------------------------------------------------------

    def _ours(self, program: Program, label: str) -> dict[Value, np.ndarray] | None:
        """Every value, computed here in three ways that must agree to the bit. None where that fails."""
        values = dict(zip(program.arguments, program.arrays, strict=True))
        every = [v for s in program.steps for v in s.results]
        everything = program.module(everything=True)
        try:
            values.update(zip(every, ours(everything, program.arrays), strict=True))
            whole = ours(program.module(), program.arrays)
            module, inputs = cut_steps(program.steps)
            alone = ours(module, [values[v] for v in inputs])
        except Exception as error:  # whatever it is, it is a crash of ours
            last = traceback.extract_tb(error.__traceback__)[-1]
            subject = f"{type(error).__name__} {_without_places(str(error))}"
            text = f"{type(error).__name__}: {error} ({last.filename}:{last.lineno})"
            self._found("crash", subject, text, everything.named(), label)
            return None
        for how, result in (
            ("whole program", zip(program.outputs, whole, strict=True)),
            ("steps alone", zip(every, alone, strict=True)),
        ):
            for value, array in result:
                if not _identical(values[value], array):
                    step = next(s for s in program.steps if value in s.results)
                    text = f"{values[value]!r} by itself, {array!r} in the {how}"
                    self._found("inconsistent", f"{how} {step.short}", text, program.module().named(), label)
        return values

    # -- a peer --------------------------------------------------------------------------------------------------------

    def _steps(self, peer: Peer, program: Program, values: Mapping[Value, np.ndarray], label: str) -> bool:
        """Compares every step; True where all of them were run and agree exactly."""
        together, alone, is_exact = [], [], True
        for step in program.steps:
            lack = first(LACKS, peer.name, step)
            if lack:
                self.tally.left_out[f"{peer.name}: {lack.why}"] += 1
                is_exact = False
            elif ALONE[peer.name](step):
                alone.append([step])
                is_exact = False
            else:
                together.append(step)
        modules, failed, many = [m for m in (*alone, together) if m], 0, ""
        while modules:
            steps = modules.pop()
            results = self._asked(peer, *cut_steps(steps), values)
            if not isinstance(results, BackendError):
                is_exact &= self._compared(peer, steps, values, results, label)
                continue
            is_exact = False
            if len(steps) > 1:
                modules += [[s] for s in steps]
                many = results.text
            else:
                failed += 1
                self._failed(peer, steps[0], values, results, label)
        if many and not failed:
            # A peer that damages its memory may die of several steps and survive each.
            known = next((k for s in together if (k := known_failing(peer.name, s, many))), None)
            if known is not None:
                self.tally.left_out[f"{peer.name}: {known.why}"] += 1
                return is_exact
            text = f"the steps together fail, each by itself does not: {many}"
            self._found("whole", f"{peer.name} steps together", text, cut_steps(together)[0].named(), label)
        return is_exact

    def _asked(
        self, peer: Peer, module: Module, inputs: Sequence[Value], values: Mapping[Value, np.ndarray]
    ) -> list[np.ndarray] | BackendError:
        """The answer of a peer; asked again if it died, since it may have died of an earlier program."""
        results = peer.run(module, [values[v] for v in inputs])
        if isinstance(results, BackendError) and results.how == "died":
            results = peer.run(module, [values[v] for v in inputs])
            if not isinstance(results, BackendError):
                self.tally.left_out[f"{peer.name}: died, and not when asked again"] += 1
        return results

    def _failed(
        self, peer: Peer, step: Step, values: Mapping[Value, np.ndarray], how: BackendError, label: str
    ) -> None:
        known = known_failing(peer.name, step, how.text)
        if known:
            self.tally.left_out[f"{peer.name}: {known.why}"] += 1
            return
        types = " ".join(dict.fromkeys(str(t) for t in step.elements))
        subject = f"{peer.name} {step.short} ({types}): {_without_places(how.text)[:80]}"
        self._found(how.how, subject, how.text, snippet(step, values), label)

    def _compared(
        self,
        peer: Peer,
        steps: Sequence[Step],
        values: Mapping[Value, np.ndarray],
        results: list[np.ndarray],
        label: str,
    ) -> bool:
        result, is_same = iter(results), True
        for step in steps:
            for index in range(len(step.results)):
                is_same &= self._result(peer, step, index, values, next(result), label)
        return is_same

    def _result(
        self, peer: Peer, step: Step, index: int, values: Mapping[Value, np.ndarray], theirs: np.ndarray, label: str
    ) -> bool:
        mine = values[step.results[index]]
        self.tally.compared[peer.name] += mine.size
        if (theirs.shape, theirs.dtype) != (mine.shape, mine.dtype):
            text = f"ours {mine.dtype}{mine.shape}, theirs {theirs.dtype}{theirs.shape}"
            self._found("difference", f"{peer.name} {step.short} type", text, snippet(step, values), label)
            return False
        left = ~same(mine, theirs)
        if not left.any():
            return _identical(mine, theirs)  # else the program may distinguish one NaN from another

        def again(inputs: Sequence[np.ndarray], other: Step = step) -> list[np.ndarray]:
            module, names = cut_steps([other])
            return ours(module, [dict(zip(other.inputs, inputs, strict=True))[n] for n in names])

        case = Case(peer.name, step, tuple(values[v] for v in step.inputs), index, mine, theirs, again)
        with np.errstate(all="ignore"):
            judged = case.judge_step()
        right = left & (judged.grades != WRONG)
        if right.any():
            why = ", ".join(n.identifier for n in judged.notes) or "within what rounding does to the steps of an op"
            self.tally.explained[f"{peer.name}: {why}"] += int(right.sum())
            left &= ~right
            if not left.any():
                return False
        for known in KNOWN:
            if peer.name in known.peers and known.applies(step):
                with np.errstate(all="ignore"):
                    explained = left & known.explains(case)
                if explained.any():
                    self.tally.explained[f"{peer.name}: {known.why}"] += int(explained.sum())
                    left &= ~explained
                    if not left.any():
                        return False
        types = " ".join(dict.fromkeys(str(t) for t in step.elements))
        subject = f"{peer.name} {step.short} ({types})"
        text = "\n".join([describe(case, left), *(f"  {n}" for n in judged.notes)])
        self._found("difference", subject, text, snippet(step, values), label)
        return False

    def _whole(self, peer: Peer, program: Program, values: Mapping[Value, np.ndarray], label: str) -> None:
        """A program all of whose steps agree exactly must agree exactly as a whole.

        Constants go in as arguments: else the peer's own constant folding would be tried, and not the program.
        """
        module, arguments = program.without_constants()
        results = self._asked(peer, module, arguments, values)
        text = program.module().named()
        if isinstance(results, BackendError):
            subject = f"{peer.name} whole: {_without_places(results.text)[:60]}"
            self._found(results.how, subject, results.text, text, label)
            return
        self.tally.wholes[peer.name] += 1
        for value, array in zip(program.outputs, results, strict=True):
            if not same(values[value], array).all():
                step = next(s for s in program.steps if value in s.results)
                fused = first(FUSED, peer.name, step)
                if fused is not None:
                    self.tally.explained[f"{peer.name}: {fused.why}"] += int((~same(values[value], array)).sum())
                    continue
                self._found("whole", f"{peer.name} {step.short}", f"{values[value]!r} {array!r}", text, label)

    def _found(self, kind: str, subject: str, text: str, program: str, label: str) -> None:
        self.tally.findings.append(Finding(kind, subject, f"[{label}] {text}", program))


def check_all(seed: int, indices: range, peers: Sequence[str]) -> Tally:
    """Programs number `indices` of a seed, against the peers."""
    checker = Checker([Peer(name) for name in peers])
    try:
        for index in indices:
            checker.check(random_program(seed, index), f"{seed}:{index}")
    finally:
        for peer in checker.peers:
            peer.close()
    return checker.tally


def check_share(share: tuple[int, range, Sequence[str]]) -> Tally:
    """The same for map functions of one argument."""
    return check_all(*share)


def describe(case: Case, left: np.ndarray) -> str:
    """The first differing elements, and the inputs there where the inputs have the result's shape."""
    lines = [f"{int(left.sum())} of {left.size} elements"]
    for place in np.argwhere(left)[:3]:
        at = tuple(int(i) for i in place)
        inputs = [_one(x, at if x.shape == left.shape else ()) for x in case.inputs if x.shape in (left.shape, ())]
        lines.append(
            f"  at {list(at)}: ours {_one(case.ours, at)} theirs {_one(case.theirs, at)} of {'; '.join(inputs)}"
        )
    return "\n".join(lines)


def _one(x: np.ndarray, at: tuple[int, ...]) -> str:
    cell = x[(*at, ...)]
    return f"{cell}" if x.dtype.kind in "biuc" else f"{cell}=0x{int(codes(cell)):X}"


def _identical(x: np.ndarray, y: np.ndarray) -> bool:
    return (x.shape, x.dtype, x.tobytes()) == (y.shape, y.dtype, y.tobytes())


def _without_places(text: str) -> str:
    return re.sub(r"(0x)?\d+", "N", re.sub(r"%\w+|'[^']*'|\"[^\"]*\"|<string>:\S+", "…", text))[:160]
