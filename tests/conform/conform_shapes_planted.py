"""A backend of programs with planted faults: wrong for some shapes, layouts, constants or chains only."""

import re
from collections.abc import Callable, Sequence

import numpy as np

from minihlo.interp.conform.cases.data import parts
from minihlo.interp.conform.cases.forms import forms
from minihlo.interp.conform.result import CaseResult
from minihlo.interp.conform.tester import Spec, Tester
from minihlo.interp.conform.verdicts.forms import across_forms
from minihlo.interp.conform.verdicts.outcome import Settings, merge_parts

from .planted import Arrays, Programs, Run, case_of
from .planted import evaluate as run


def results(fault: Run, signature: str, only: Sequence[str]) -> dict[str, CaseResult]:
    """The results of a case by form: in some forms, or all those of level 1."""
    case, subject, found = case_of(signature), Tester(Programs(fault), Settings("planted")), []
    for form in only or forms(case, 1):
        each = [subject.run([Spec(case, form, i)])[0] for i in range(parts(case, form, 1))]
        whole = each[0]
        for other in each[1:]:
            whole = merge_parts(whole, other, 5)
        found.append(whole)
    return {r.form: r for r in across_forms(found)}


def rewritten(pattern: str, new: str) -> Run:
    """Another program, by a regular expression; it has to be in one."""
    return lambda text, arrays: run(re.sub(pattern, new, text), arrays)


def of_results(change: Callable[[np.ndarray], np.ndarray], op: str = "") -> Run:
    """Results that are changed, in programs with an op."""

    def fault(text: str, arrays: Arrays) -> list[np.ndarray]:
        found = run(text, arrays)
        return [change(r) for r in found] if f'"stablehlo.{op}"' in text or not op else found

    return fault


def of_rank(rank: int, places: Callable[[np.ndarray], object]) -> Run:
    """The last bit of some results is wrong in arrays of so many dimensions."""

    def change(r: np.ndarray) -> np.ndarray:
        if r.ndim == rank:
            flipped = r.copy()
            flipped[places(r)] ^= 1
            return flipped
        return r

    return of_results(change)


def via(source: str, between: str, target: str) -> Run:
    """A conversion by way of another type."""
    pattern = rf'(%\w+) = "stablehlo\.convert"\((%\w+)\)\s*: \(tensor<(\d+x)?{source}>\) -> tensor<(\d+x)?{target}>'
    return rewritten(
        pattern,
        rf"\1b = stablehlo.convert \2 : (tensor<\3{source}>) -> tensor<\3{between}>"
        "\n  "
        rf"\1 = stablehlo.convert \1b : (tensor<\3{between}>) -> tensor<\3{target}>",
    )


def without_step(between: str) -> Run:
    """Two conversions, one after the other, are one."""
    pattern = (
        rf'(%\w+) = "stablehlo\.convert"\((%\w+)\)\s*: \((\S+)\) -> tensor<(\d+x)?{between}>\s+'
        r'(%\w+) = "stablehlo\.convert"\(\1\)\s*: \(\S+\) -> (\S+)'
    )
    return rewritten(pattern, r'\5 = "stablehlo.convert"(\2) : (\3) -> \6')


def in_f32(text: str, arrays: Arrays) -> list[np.ndarray]:
    """What is between conversions to bf16 and from it is f32."""
    text = re.sub(r"(%\w+) = stablehlo\.constant dense<\"0x963F\"> : tensor<bf16>", r"\1 = stablehlo.constant "
                  r"dense<1.171875> : tensor<f32>", text)  # fmt: skip
    return run(text.replace("bf16", "f32"), arrays)


def last_partial_vector(r: np.ndarray) -> np.ndarray:
    n, flat = r.size % 16, r.reshape(-1).copy()
    if r.size > 16 and n:
        flat[-n:] ^= 1
    return flat.reshape(r.shape)


def of_size(n: int) -> Callable[[np.ndarray], np.ndarray]:
    return lambda r: r ^ 1 if r.size == n else r


_CONSTANT = re.compile(r'stablehlo\.constant dense<"0x[0-9A-F]{8,}">')


def folded(change: Callable[[np.ndarray], np.ndarray]) -> Run:
    def fault(text: str, arrays: Arrays) -> list[np.ndarray]:
        found = run(text, arrays)
        return [change(r) for r in found] if _CONSTANT.search(text) else found

    return fault
