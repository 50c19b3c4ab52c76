"""Sums of products that differ from the exact ones are named by how they are formed, and no fault hides as an order."""

import itertools
from collections.abc import Callable

import numpy as np
import pytest

from minihlo.interp.conform.result import DIVERGENT, FAIL, PASS
from minihlo.interp.oracle.formats import FORMATS
from minihlo.interp.oracle.rounding import TOWARD_ZERO, Exact, encode
from minihlo.interp.oracle.sums import exact_sums

from ..thinned import thinned
from .products_planted import Backend, Codes, Sums, exact, in_f32, run, terms, verdicts


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


def test_sums_in_f32_are_told_with_their_order() -> None:
    found = run(Backend(in_f32(np.arange)), "dot_general.f8E5M2.f32")
    assert {r.model for r in found if r.verdict == DIVERGENT} == {"accumulated in f32 in order"}
    shuffled = Backend(in_f32(lambda k: np.random.default_rng(0).permutation(k)))
    found = run(shuffled, "dot_general.f8E5M2.f32")
    assert {r.model for r in found if r.verdict == DIVERGENT} == {"accumulated in f32, in an order of its own"}


def negative_zeros(codes: Codes) -> Codes:
    return np.where(codes == 0, 0x80, codes).astype(codes.dtype)


@pytest.mark.parametrize("signature", ["dot_general.f16.f32", "dot_general.bf16.f32", "convolution.f16.f32"])
def test_nan_for_infinity_is_wrong(signature: str) -> None:
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


@pytest.mark.parametrize(
    ("signature", "fault", "at"),
    thinned(
        [
            *itertools.product(["dot_general.f16.f32"], ("dropped", "doubled", "swapped"), [1 / 3]),
            *itertools.product(
                ("dot_general.f8E4M3FN.f32", "dot_general.f8E5M2.f32"), ("dropped", "doubled", "swapped"), (0, 1)
            ),
        ],
        lambda signature, fault, at: at == 1 / 3 and fault != "doubled",
    ),
)
def test_no_product_of_a_long_sum_is_a_matter_of_order(signature: str, fault: str, at: float) -> None:
    """In 1,000 products the bound on the error of f32 is larger than one of them in most rows, and not in all."""
    (result,) = run(Backend(changed(lambda k: int((k - 1) * at), fault)), signature, ("length-1000",))
    assert result.verdict == FAIL, result.model


def test_an_order_that_is_never_the_same_is_told() -> None:
    random = np.random.default_rng(0)
    found = run(Backend(in_f32(lambda k: random.permutation(k))), "dot_general.f8E5M2.f32")
    told = [r for r in found if "nondeterministic" in r.causes]
    assert told
    assert all(r.verdict == DIVERGENT and "not the same in two runs" in r.model for r in told)
