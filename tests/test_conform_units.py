"""Backends that form products wrongly, or as real units do: each is wrong or told by name, and never right."""

from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from minihlo.interp.backends import Minihlo, backend
from minihlo.interp.backends.operation import Operation
from minihlo.interp.conform import tester
from minihlo.interp.conform.cases.cases import cases, forms
from minihlo.interp.conform.result import DIVERGENT, FAIL, PASS, CaseResult
from minihlo.interp.conform.verdicts.outcome import Settings
from minihlo.interp.oracle.formats import FORMATS
from minihlo.interp.oracle.rounding import TOWARD_ZERO, Exact, encode
from minihlo.interp.oracle.sums import exact_sums
from minihlo.ops.accumulators.record import Accumulator
from minihlo.ops.accumulators.sums import dots
from minihlo.ops.policy import Policy

Codes = np.ndarray
#: Gets the rows of both operands, [results, k] of codes, and the types; gives the sums.
Sums = Callable[[Codes, Codes, tuple[str, ...], str], Exact]
FEW = ("length-3", "length-8", "length-64", "length-1000", "transposed", "reversed")


def terms(x: Codes, y: Codes, types: Sequence[str]) -> np.ndarray:
    with np.errstate(all="ignore"):
        return FORMATS[types[0]].decode(x) * FORMATS[types[1]].decode(y)


def exact(x: Codes, y: Codes, types: Sequence[str], *_: str) -> Exact:
    return exact_sums(terms(x, y, types))


def rows(operation: Operation, arrays: Sequence[Codes]) -> tuple[Codes, Codes, tuple[int, ...]]:
    """The operands of each result, and the shape of the results."""
    x, y = arrays
    if operation.op == "dot_general":
        shape = (*x.shape[:-1], y.shape[-1])
        return np.repeat(x, y.shape[1], axis=0), np.tile(y.T, (len(x), 1)), shape
    window = y.shape[0]
    width = x.shape[1] - window + 1
    places = np.stack([x[:, i : i + window].reshape(len(x), -1) for i in range(width)], axis=1)
    flat, kernel = places.reshape(-1, places.shape[-1]), y.reshape(-1, y.shape[-1])
    return (
        np.repeat(flat, kernel.shape[1], axis=0),
        np.tile(kernel.T, (len(flat), 1)),
        (len(x), width, y.shape[-1]),
    )


class Backend:
    """Products as a function forms their sums, and as another changes the results."""

    takes = "operations"
    name = "planted"
    seconds = 60.0

    def __init__(self, sums: Sums = exact, change: Callable[[Codes], Codes] | None = None, through: str = "") -> None:
        self.sums, self.change, self.through = sums, change, through

    def operate(self, operation: Operation, arrays: Sequence[Codes]) -> Codes:
        x, y, shape = rows(operation, arrays)
        sums = self.sums(x, y, operation.operands, operation.result)
        if self.through:
            fmt = FORMATS[self.through]
            sums = Exact.of(fmt.decode(encode(fmt, sums)[0]))
        with np.errstate(all="ignore"):
            found = encode(FORMATS[operation.result], sums)[0].reshape(shape)
        return found if self.change is None else self.change(found)

    def close(self) -> None:
        pass


def run(backend: Any, signature: str, only: Sequence[str] = FEW) -> list[CaseResult]:
    (case,) = (c for c in cases(2) if c.signature == signature)
    found = tester.Tester(backend, Settings("planted"))
    return found.run([tester.Spec(case, form) for form in forms(case, 2, "operations") if form in only])


def verdicts(found: Sequence[CaseResult]) -> dict[str, str]:
    return {r.form: r.verdict for r in found}


# -- faults ------------------------------------------------------------------------------------------------------------


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
    "results above 100 are zero": (
        Backend(change=beyond(100, "f8E4M3FN")),
        "dot_general.f8E4M3FN",
        ("length-3", "length-8", "length-64", "length-1000", "transposed", "reversed"),
        "",
    ),
    "results of an f4 convolution are zero": (
        Backend(change=np.zeros_like),
        "convolution.f4E2M1FN",
        ("length-3", "length-8", "length-64", "length-1000", "transposed"),
        "every result is zero",
    ),
    "all is zero": (
        Backend(change=np.zeros_like),
        "dot_general.f4E2M1FN.bf16",
        ("length-3", "length-8", "length-64", "length-1000", "transposed", "reversed"),
        "every result is zero",
    ),
    "half of k is missing": (
        Backend(without(all_but(lambda k: (k >= (len(k) + 1) // 2) & (len(k) >= 64)))),
        "dot_general.f6E3M2FN.f32",
        ("length-64", "length-1000"),
        "the second half of the terms is left out",
    ),
    "half of the results are missing": (
        Backend(change=lambda r: np.concatenate([r[: len(r) // 2], 0 * r[len(r) // 2 :]])),
        "dot_general.f8E4M3FN.f32",
        ("length-3", "length-8", "length-64", "length-1000", "transposed", "reversed"),
        "",
    ),
    "a row off": (
        Backend(change=lambda r: np.roll(r, 1, 0)),
        "dot_general.f8E5M2",
        ("length-3", "length-8", "length-64", "length-1000", "transposed", "reversed"),
        "",
    ),
    "f8E5M2 is read as f8E4M3FN in the second operand": (
        Backend(read_as("f8E4M3FN")),
        "dot_general.f8E4M3FN.f8E5M2.f32",
        ("length-3", "length-8", "length-64", "length-1000", "transposed", "reversed"),
        "",
    ),
    "the order of k is another on the right": (
        Backend(lambda x, y, types, _: exact(x, y[:, ::-1], types)),
        "dot_general.f8E4M3FN.f32",
        ("length-3", "length-8", "length-64", "length-1000", "transposed", "reversed"),
        "",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
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
    class Rolled:
        """Batches of the second operand are those before."""

        name, seconds, packages = "planted", 60.0, ()

        def evaluate(self, text: str, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
            found = Minihlo("minihlo", Policy()).evaluate(
                text, [np.roll(a, 1, 0) if self.is_right(a) else a for a in arrays]
            )
            return [np.array(r) for r in found]

        def is_right(self, x: np.ndarray) -> bool:
            return x.ndim == 3 and x.shape[1] == 17

        def close(self) -> None:
            pass

    (result,) = run_programs(Rolled(), "dot_general.f8E4M3FN.f32", ("rank-3",))
    assert result.verdict == FAIL


def run_programs(backend: Any, signature: str, only: Sequence[str]) -> list[CaseResult]:
    (case,) = (c for c in cases(2) if c.signature == signature)
    found = tester.Tester(backend, Settings("planted"))
    return found.run([tester.Spec(case, form) for form in only])


# -- what is no fault --------------------------------------------------------------------------------------------------


def test_exact_sums_are_right() -> None:
    for signature in ("dot_general.f8E5M2.f32", "convolution.f4E2M1FN", "dot_general.f8E4M3FN.f8E5M2.f16"):
        assert set(verdicts(run(Backend(), signature)).values()) == {PASS}


@pytest.mark.parametrize(
    ("through", "signature"),
    [("f16", "dot_general.f8E4M3FN"), ("f16", "convolution.f8E5M2"), ("bf16", "dot_general.f8E4M3FNUZ")],
)
def test_double_rounding_is_told(through: str, signature: str) -> None:
    found = run(Backend(through=through), signature)
    assert DIVERGENT in verdicts(found).values()
    for result in found:
        assert result.verdict in (PASS, DIVERGENT)
        if result.verdict == DIVERGENT:
            assert result.model == f"exact, then rounded to {through}"


def truncated(x: Codes, y: Codes, types: tuple[str, ...], _: str) -> Exact:
    f32 = FORMATS["f32"]
    return Exact.of(f32.decode(encode(f32, exact(x, y, types), TOWARD_ZERO)[0]))


@pytest.mark.parametrize(
    "signature", ["dot_general.f8E5M2.f32", "dot_general.f8E4M3FN", "convolution.f8E5M2", "dot_general.f8E4M3FN.f16"]
)
def test_sums_that_are_cut_off_to_f32_are_told(signature: str) -> None:
    found = run(Backend(truncated), signature)
    assert {r.model for r in found if r.verdict == DIVERGENT} == {"exact, then cut off toward zero to f32"}
    assert FAIL not in verdicts(found).values()


def cut_at_each_step(x: Codes, y: Codes, types: tuple[str, ...], _: str) -> Exact:
    """A sum in order in f32 that is cut off toward zero at each step, in fractions."""
    f32, products = FORMATS["f32"], terms(x, y, types)
    total = np.zeros(len(products))
    with np.errstate(all="ignore"):
        for k in range(products.shape[1]):
            pair = exact_sums(np.stack([total, products[:, k]], axis=1))
            total = f32.decode(encode(f32, pair, TOWARD_ZERO)[0])
    return Exact.of(total)


def test_sums_that_are_cut_off_at_each_step_are_told() -> None:
    found = run(Backend(cut_at_each_step), "dot_general.f8E5M2.f32")
    models = {r.model for r in found if r.verdict == DIVERGENT}
    assert models == {"accumulated, cut off toward zero at each step, in f32 in order"}


def in_f32(order: Callable[[int], np.ndarray]) -> Sums:
    def sums(x: Codes, y: Codes, types: tuple[str, ...], _: str) -> Exact:
        products = terms(x, y, types).astype(np.float32)
        total = np.zeros(len(products), np.float32)
        with np.errstate(all="ignore"):
            for k in order(products.shape[1]):
                total = total + products[:, k]
        return Exact.of(total.astype(np.float64))

    return sums


def test_sums_in_f32_are_told_with_their_order() -> None:
    found = run(Backend(in_f32(np.arange)), "dot_general.f8E5M2.f32")
    assert {r.model for r in found if r.verdict == DIVERGENT} == {"accumulated in f32 in order"}
    shuffled = Backend(in_f32(lambda k: np.random.default_rng(0).permutation(k)))
    found = run(shuffled, "dot_general.f8E5M2.f32")
    assert {r.model for r in found if r.verdict == DIVERGENT} == {"accumulated in f32, in an order of its own"}


def negative_zeros(codes: Codes) -> Codes:
    return np.where(codes == 0, 0x80, codes).astype(codes.dtype)


@pytest.mark.parametrize("signature", ["dot_general.f16.f32", "dot_general.bf16.f32", "convolution.f16.f32"])
def test_nan_where_an_infinity_is_right_is_no_matter_of_order(signature: str) -> None:
    """Infinities come of infinite operands, or of sums that overflow in one direction: none of these are NaN."""
    fmt = FORMATS["f32"]

    def nan(codes: Codes) -> Codes:
        return np.where(np.isinf(fmt.decode(codes)), fmt.nan_code, codes).astype(codes.dtype)

    found = run(Backend(change=nan), signature)
    assert {r.verdict for r in found} == {FAIL}, verdicts(found)


@pytest.mark.parametrize("signature", ["dot_general.f16.f32", "dot_general.bf16.f32", "convolution.f16.f32"])
def test_sums_that_cancel_are_not_negative_zeros(signature: str) -> None:
    fmt = FORMATS["f32"]

    def negative(codes: Codes) -> Codes:
        return np.where(fmt.decode(codes) == 0, codes | fmt.sign_bit, codes).astype(codes.dtype)

    found = verdicts(run(Backend(change=negative), signature))
    assert found["length-8"] == found["length-64"] == found["length-1000"] == FAIL, found


@pytest.mark.parametrize("signature", ["dot_general.bf16.f32", "dot_general.f16"])
def test_any_order_in_f32_is_one_though_sums_overflow(signature: str) -> None:
    """Large products of both signs are NaN in some orders, and infinite or finite in others."""
    random = np.random.default_rng(5)

    def shuffled(x: Codes, y: Codes, types: tuple[str, ...], _: str) -> Exact:
        order = random.permutation(x.shape[1])
        with np.errstate(all="ignore"):
            products = terms(x, y, types)[:, order].astype(np.float32)
            return Exact.of(np.add.accumulate(products, axis=1, dtype=np.float32)[:, -1].astype(np.float64))

    assert FAIL not in verdicts(run(Backend(shuffled), signature)).values()


def test_a_zero_of_the_wrong_sign_is_no_matter_of_order() -> None:
    found = verdicts(run(Backend(change=negative_zeros), "dot_general.f8E4M3FN", ("length-1", "length-3")))
    assert found["length-3"] == FAIL, found


def changed(position: Callable[[int], int], fault: str) -> Sums:
    """f32 in a shuffled order, with one product of k left out, taken twice or formed with its neighbour's operand."""

    def sums(x: Codes, y: Codes, types: tuple[str, ...], result: str) -> Exact:
        k = x.shape[1]
        order, at = np.random.default_rng(k).permutation(k), position(k)
        if fault == "swapped":
            x = x.copy()
            x[:, [at, at - 1]] = x[:, [at - 1, at]]
        order = {"dropped": order[order != at], "doubled": np.append(order, at), "swapped": order}[fault]
        return in_f32(lambda _: order)(x, y, types, result)

    return sums


def check_one_product(signature: str, fault: str, position: Callable[[int], int]) -> None:
    """In 1,000 products the bound on the error of f32 is larger than one of them in most rows, and not in all."""
    (result,) = run(Backend(changed(position, fault)), signature, ("length-1000",))
    assert result.verdict == FAIL, result.model


@pytest.mark.parametrize("fault", ["dropped", "doubled", "swapped"])
def test_one_product_of_a_long_sum_is_no_matter_of_order(fault: str) -> None:
    check_one_product("dot_general.f16.f32", fault, lambda k: k // 3)


@pytest.mark.exhaustive
@pytest.mark.parametrize("fault", ["dropped", "doubled", "swapped"])
@pytest.mark.parametrize("signature", ["dot_general.f8E4M3FN.f32", "dot_general.f8E5M2.f32"])
def test_no_product_of_a_long_sum_is_a_matter_of_order(signature: str, fault: str) -> None:
    for position in (lambda k: 0, lambda k: k - 1):
        check_one_product(signature, fault, position)


def test_an_order_that_is_never_the_same_is_told() -> None:
    random = np.random.default_rng(0)
    found = run(Backend(in_f32(lambda k: random.permutation(k))), "dot_general.f8E5M2.f32")
    told = [r for r in found if "nondeterministic" in r.causes]
    assert told
    assert all(r.verdict == DIVERGENT and "not the same in two runs" in r.model for r in told)


def test_two_shapes_that_need_different_records_are_told() -> None:
    wide, narrow = Accumulator(32, bits=25, keep="f32", rounding="toward_zero"), HOPPER

    def sums(x: Codes, y: Codes, types: tuple[str, ...], _: str) -> Exact:
        record = narrow if x.shape[1] >= 64 else wide
        return Exact.of(dots(record, x, y, *types).astype(np.float64))

    found = {r.form: r for r in run(Backend(sums), "dot_general.f8E5M2.f32")}
    assert found["length-1000"].verdict == found["transposed"].verdict == DIVERGENT
    assert "other shapes need another record" in found["length-1000"].model
    assert "h100.wgmma" in found["length-1000"].model.partition(";")[0]
    assert "h100.wgmma" in found["transposed"].model.partition(";")[2]


# -- units -------------------------------------------------------------------------------------------------------------


HOPPER = Accumulator(32, bits=13, keep="f32:13", rounding="toward_zero", least=-133, nan="ones")


def aligned(step: int, bits: int, kept: int, promoted: int = 0) -> Sums:
    """A unit of NVIDIA's a second time, in Python's fractions, from the published description: products and the sum so
    far are cut off below so many bits of the largest exponent, added, and cut off to so many bits. With `promoted`
    these sums begin from zero after so many products, and are added up in f32.
    """

    def exponent(value: Fraction) -> int:
        found = abs(value).numerator.bit_length() - abs(value).denominator.bit_length()
        return found if abs(value) >= Fraction(2) ** found else found - 1

    def cut(value: Fraction, unit: Fraction) -> Fraction:
        whole = abs(value) // unit
        return unit * (whole if value >= 0 else -whole)

    def factor(value: float, fmt: Any) -> tuple[Fraction, int]:
        exact = Fraction(value)
        return exact, max(exponent(exact), fmt.min_exponent) if exact else 0

    def one(x: Sequence[float], y: Sequence[float], formats: Sequence[Any]) -> float:
        outer, total = np.float32(0), Fraction(0)
        for first in range(0, len(x), step):
            if promoted and first % promoted == 0 and first:
                outer, total = np.float32(outer + np.float32(float(total))), Fraction(0)
            of = [(Fraction(total), exponent(total))] if total else []
            for a, b in zip(x[first : first + step], y[first : first + step], strict=True):
                (p, e), (q, f) = factor(a, formats[0]), factor(b, formats[1])
                of += [(p * q, e + f)] if p * q else []
            if not of:
                continue
            unit = Fraction(2) ** (max(e for _, e in of) - bits)
            total = sum((cut(v, unit) for v, _ in of), Fraction(0))
            total = cut(total, Fraction(2) ** (exponent(total) - kept)) if total else total
        return float(outer + np.float32(float(total))) if promoted else float(total)

    def sums(x: Codes, y: Codes, types: tuple[str, ...], _: str) -> Exact:
        formats = [FORMATS[t] for t in types]
        a, b = (f.decode(c) for f, c in zip(formats, (x, y), strict=True))
        with np.errstate(all="ignore"):
            special = (a * b).sum(axis=1)
        found = [
            s if not np.isfinite(s) else one(p, q, formats)
            for s, p, q in zip(special.tolist(), a.tolist(), b.tolist(), strict=True)
        ]
        return Exact.of(np.array(found))

    return sums


def record(name: Accumulator) -> Sums:
    return lambda x, y, types, _: Exact.of(dots(name, x, y, *types).astype(np.float64))


_CDNA3 = Accumulator(
    16, bits=24, even_odd=True, c="joined", sum_bits=31, c_bits=24, c_reach=25, join="floor", product_limit=128
)
UNITS: dict[str, tuple[Sums, str, str]] = {
    "Hopper": (aligned(32, 13, 13), "dot_general.f8E4M3FN.f32", "h100.wgmma"),
    "Hopper, mixed": (aligned(32, 13, 13), "dot_general.f8E4M3FN.f8E5M2.f32", "h100.wgmma"),
    "Hopper, convolution": (aligned(32, 13, 13), "convolution.f8E5M2.f32", "h100.wgmma"),
    "Hopper, into f8": (record(HOPPER), "dot_general.f8E4M3FN", "h100.wgmma"),
    "Hopper, f16": (aligned(16, 25, 23), "dot_general.f16.f32", "h100.mma"),
    "Volta, into f16, with sums that round to -0": (
        record(Accumulator(4, bits=23, keep="f16", least=-19, nan="ones")), "dot_general.f16", "v100.mma",
    ),
    "Ada": (aligned(16, 13, 13), "dot_general.f8E5M2.f32", "ada.mma"),
    "Ampere, bf16 into bf16": (
        record(Accumulator(8, bits=24, keep="f32", rounding="toward_zero", least=-132, nan="ones")),
        "dot_general.bf16",
        "a100.mma",
    ),
    "Blackwell": (
        record(Accumulator(32, bits=25, c="after", keep="f32", rounding="toward_zero", least=-133, nan="ones")),
        "dot_general.f8E4M3FN.f32",
        "b200.mma",
    ),
    "CDNA3": (record(_CDNA3), "dot_general.f8E4M3FNUZ.f32", "cdna3.mfma"),
    "blocks of 128 in f32": (
        aligned(32, 13, 13, 128), "dot_general.f8E4M3FN.f32", "h100.wgmma, h200.wgmma, in f32 after every 128 products"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", UNITS)
def test_a_unit_is_told_by_name(name: str) -> None:
    sums, signature, told = UNITS[name]
    only = ("length-8", "length-64", "transposed") if "blocks" not in name else ("length-1000",)
    found = run(Backend(sums), signature, only)
    assert set(verdicts(found).values()) <= {PASS, DIVERGENT}, [(r.form, r.model) for r in found]
    models = {r.model for r in found if r.verdict == DIVERGENT}
    assert models
    assert all(told in m for m in models), models
    assert all(r.accumulator and r.accumulator.record for r in found if r.verdict == DIVERGENT)


def test_a_record_that_is_given_explains() -> None:
    given = Accumulator(12, bits=9, keep="f32:11", rounding="toward_zero")
    case = next(c for c in cases(2) if c.signature == "dot_general.f8E4M3FN.f32")
    specs = [tester.Spec(case, form) for form in ("length-8", "length-64", "transposed")]
    settings = Settings("planted", accumulators=(given.to_text(),))
    found = tester.Tester(Backend(record(given)), settings).run(specs)
    assert {r.verdict for r in found} <= {PASS, DIVERGENT}
    assert {r.model for r in found if r.verdict == DIVERGENT} == {f"summed as the given record: {given.to_text()}"}
    assert FAIL in verdicts(run(Backend(record(given)), case.signature, ("length-64", "transposed"))).values()


def test_xla_on_cpus_rounds_sums_of_f8_twice() -> None:
    """To f16 and then to the format, which was measured on dense operands: never PASS, and no fault of sums."""
    made = backend("jax:cpu")
    try:
        found = run_programs(made, "dot_general.f8E4M3FN", ("length-64",))
    finally:
        made.close()
    assert [(r.verdict, r.model) for r in found] == [(DIVERGENT, "exact, then rounded to f16")]
