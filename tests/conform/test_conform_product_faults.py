"""Products with a planted fault are wrong: terms that are left out, exchanged or read as another type."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from minihlo.interp.conform.result import FAIL, PASS
from minihlo.interp.oracle.formats import FORMATS
from minihlo.interp.oracle.rounding import Exact

from ..thinned import rotated
from .planted import Arrays, Programs, evaluate
from .products_planted import FEW, Backend, Codes, Sums, exact, run, verdicts


def without(keep: Callable[[int], Any]) -> Sums:
    """Without the products at some positions of k."""

    def sums(x: Codes, y: Codes, types: tuple[str, ...], _: str) -> Exact:
        kept = np.arange(x.shape[1])[keep(x.shape[1])]
        return exact(x[:, kept], y[:, kept], types)

    return sums


def all_but(fault: Callable[[np.ndarray], Any]) -> Callable[[int], Any]:
    return lambda k: ~np.asarray(fault(np.arange(k)), bool)


def beyond(limit: float, result: str) -> Callable[[Codes], Codes]:
    fmt = FORMATS[result]

    def change(codes: Codes) -> Codes:
        with np.errstate(invalid="ignore"):
            return np.where(np.abs(fmt.decode(codes)) > limit, 0, codes).astype(codes.dtype)

    return change


def read_as(other: str) -> Sums:
    return lambda x, y, types, _: exact(x, y, (types[0], other))


def written(change: Callable[[np.ndarray], np.ndarray]) -> Sums:
    """Exact sums that are changed before they are rounded."""

    def sums(x: Codes, y: Codes, types: tuple[str, ...], _: str) -> Exact:
        with np.errstate(invalid="ignore"):
            return Exact.of(change(exact(x, y, types).value))

    return sums


def of_eight_bits(toward: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
    """As bf16 has them; no sum here is subnormal there."""

    def change(total: np.ndarray) -> np.ndarray:
        mantissa, exponent = np.frexp(total)
        return np.ldexp(toward(mantissa * 256), exponent - 8)

    return change


FAULTS: dict[str, tuple[Backend, str, tuple[str, ...], str]] = {
    "the last of 1,000 products is forgotten": (
        Backend(without(lambda k: slice(k - 1 if k == 1000 else k))),
        "dot_general.f8E4M3FN.f32",
        ("length-1000",),
        "the last term is left out",
    ),
    "the last of 1,000 products is forgotten, into f8": (
        Backend(without(lambda k: slice(k - 1 if k == 1000 else k))),
        "dot_general.f8E4M3FN",
        ("length-1000",),
        "the last term is left out",
    ),
    "one lane of 16 is dropped": (
        Backend(without(all_but(lambda k: (k % 16 == 5) & (len(k) >= 64)))),
        "dot_general.f8E5M2.f32",
        ("length-64", "length-1000"),
        "",
    ),
    "one lane of 16 is dropped, into f8": (
        Backend(without(all_but(lambda k: (k % 16 == 15) & (len(k) >= 64)))),
        "dot_general.f8E4M3FNUZ",
        ("length-64", "length-1000"),
        "every term is left out whose index modulo 16 is 15",
    ),
    "results above 100 are zero": (Backend(change=beyond(100, "f8E4M3FN")), "dot_general.f8E4M3FN", FEW, ""),
    "results of an f4 convolution are zero": (
        Backend(change=np.zeros_like),
        "convolution.f4E2M1FN",
        FEW[:-1],
        "every result is zero",
    ),
    "all is zero": (Backend(change=np.zeros_like), "dot_general.f4E2M1FN.bf16", FEW, "every result is zero"),
    "half of k is missing": (
        Backend(without(all_but(lambda k: (k >= (len(k) + 1) // 2) & (len(k) >= 64)))),
        "dot_general.f6E3M2FN.f32",
        ("length-64", "length-1000"),
        "the second half of the terms is left out",
    ),
    "bf16 is cut off": (
        Backend(written(of_eight_bits(np.trunc))),
        "dot_general.f8E4M3FN.bf16",
        FEW,
        "results are rounded toward zero, and not to nearest even",
    ),
    "bf16 is rounded up": (
        Backend(written(of_eight_bits(np.ceil))),
        "dot_general.f8E4M3FN.bf16",
        FEW,
        "results are rounded up, and not to nearest even",
    ),
    "f16 saturates": (
        Backend(written(lambda x: np.clip(x, -65504, 65504))),
        "dot_general.f8E4M3FN.f16",
        FEW[1:-1],
        "results beyond the largest number become the largest number",
    ),
    "half of the results are missing": (
        Backend(change=lambda r: np.concatenate([r[: len(r) // 2], 0 * r[len(r) // 2 :]])),
        "dot_general.f8E4M3FN.f32",
        FEW,
        "",
    ),
    "a row off": (Backend(change=lambda r: np.roll(r, 1, 0)), "dot_general.f8E5M2", FEW, ""),
    "f8E5M2 is read as f8E4M3FN in the second operand": (
        Backend(read_as("f8E4M3FN")),
        "dot_general.f8E4M3FN.f8E5M2.f32",
        FEW,
        "",
    ),
    "the order of k is another on the right": (
        Backend(lambda x, y, types, _: exact(x, y[:, ::-1], types)),
        "dot_general.f8E4M3FN.f32",
        FEW,
        "",
    ),
}


@pytest.mark.parametrize("name", rotated(FAULTS, every=2))
def test_a_gross_fault_is_wrong(name: str) -> None:
    backend, signature, wrong, diagnosis = FAULTS[name]
    found = run(backend, signature)
    assert {form for form, v in verdicts(found).items() if v == FAIL} == set(wrong), verdicts(found)
    for result in found:
        if result.verdict == FAIL:
            assert result.failures
            assert result.model.startswith("no known way to form sums explains the results")
            assert result.diagnosis == diagnosis
        else:
            assert result.verdict == PASS


def test_a_batch_index_that_is_off_by_one_is_wrong() -> None:
    def batches_before(text: str, arrays: Arrays) -> list[np.ndarray]:
        is_right = [x.ndim == 3 and x.shape[1] == 17 for x in arrays]
        return evaluate(text, [np.roll(x, 1, 0) if r else x for x, r in zip(arrays, is_right, strict=True)])

    (result,) = run(Programs(batches_before), "dot_general.f8E4M3FN.f32", ("rank-3",))
    assert result.verdict == FAIL
