"""The report's drawings of accumulators: which bits of a product are kept, the steps, and what is said of them."""

import html as html_text
import itertools
import re

from minihlo.interp.conform.report import html
from minihlo.interp.conform.result import DIVERGENT, AccumulatorFacts, CaseResult, Report, Run
from minihlo.ops.accumulators.record import DROPS, PLACES

HOPPER = AccumulatorFacts("h100.wgmma", "f32:13", 13, 32, "zero", record="step=32,bits=13,keep=f32:13")


def case(accumulator: AccumulatorFacts | None, signature: str = "dot_general.f8E4M3FN") -> CaseResult:
    types = ["f8E4M3FN", "f8E4M3FN"], "f8E4M3FN"
    return CaseResult(
        signature,
        "array",
        "dot_general",
        *types,
        "dot",
        "f8E4M3FN",
        DIVERGENT,
        model="as a chip",
        accumulator=accumulator,
    )


def drawing(accumulator: AccumulatorFacts) -> str:
    return html.render("accumulators.html#drawing", accumulator=accumulator, case=case(accumulator))


def words(accumulator: AccumulatorFacts) -> str:
    return html.render("accumulators.html#words", a=accumulator)


def rows(picture: str) -> list[tuple[str, int, int]]:
    """The label of each row, and how many of its bits are kept and dropped."""
    parts = re.split(r'<text [^>]*class="tick end">([^<]*)</text>', picture)[1:]
    return [(a, b.count("bit kept"), b.count("bit dropped")) for a, b in zip(parts[::2], parts[1::2], strict=True)]


def test_bits_of_products_are_kept_down_to_the_last_place() -> None:
    """A product of two f8E4M3FN has 8 significant bits; the places 0 to 13 are kept."""
    *products, (k, _, _) = rows(drawing(HOPPER).partition("<figcaption")[0])
    assert products == [
        ("the largest", 8, 0),
        ("2^-3 of it", 8, 0),
        ("2^-6 of it", 8, 0),
        ("2^-9 of it", 5, 3),
        ("2^-12 of it", 2, 6),
        ("2^-13 of it", 1, 7),
        ("2^-15 of it", 0, 8),
    ]
    assert k == "the first 64 of k"
    assert drawing(HOPPER).count('class="step"') == 2


def test_exact_sums_drop_nothing() -> None:
    exact = AccumulatorFacts("exact", "exact", None, 0, order="in any order", then="f16")
    picture = drawing(exact).partition("<figcaption")[0]
    assert "dropped" not in picture
    assert "bit kept" in picture
    assert words(exact) == (
        "Sums are exact. All products are summed at once, in any order. "
        "It is rounded to f16 before it becomes a result."
    )


def test_words() -> None:
    assert words(HOPPER) == (
        "13 fraction bits are kept below the largest exponent. Lower bits are truncated toward zero. "
        "A step sums 32 products, in order; the running sum is aligned with them. "
        "Between steps the sum is kept in f32 of 13 fraction bits."
    )


def test_there_are_words_for_every_fact_of_a_record() -> None:
    for drop, c in itertools.product(DROPS, PLACES):
        assert words(AccumulatorFacts("a", "f32", 24, 8, drop, c=c)).count(". ") == 3


def test_each_accumulator_stands_once_with_its_types() -> None:
    cases = [case(HOPPER), case(HOPPER, "dot_general.f8E5M2"), case(None, "add.f8E5M2")]
    section = (
        html.page(Report(Run("it", 1), cases)).partition('<section id="accumulators">')[2].partition("</section>")[0]
    )
    assert section.count("<article>") == 1
    assert "dot_general.f8E5M2" in section
    assert "add" not in section
    assert "--accumulate 'step=32,bits=13,keep=f32:13'" in html_text.unescape(section)
    assert "Sums of products" not in html.page(Report(Run("it", 1), [case(None)]))
