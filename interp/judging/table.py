"""The table of causes: for each identifier the one sentence that reports have.

`cause` makes a diagnosis of a row. Numbers follow the identifier, as in `lane:15:16`, and are `{0}`, `{1}` … in the
sentence; words have names there. Faults that compute results have their sentences in their own records (`faults`, and
`conform.verdicts.block_faults`), open points of formats in `ops.minifloat.open_points`.
"""

from __future__ import annotations

from .record import Diagnosis

#: Properties that failing elements share, without a fault that explains them.
DESCRIPTIONS = {
    "one-operand": "only where {name} is {code}",
    "operands-alike": "{which} {what}",
    "results-alike": "all wrong results are {what}",
    "expected-alike": "all wrong results should be {what}",
    "no-codes": "all wrong results are no codes of {element}",
    "sign": "only the sign is wrong",
    "factor": "every wrong result is {ratio:g} times what it should be",
    "one-ulp": "each is one ULP {which}",
    "rows-alike": "only rows with {what}",
}
#: Where failures occur; these do not name a fault.
CIRCUMSTANCES = {
    "only-in-forms": "{where}",
    "only-in-arrays": "only in arrays, not alone",
    "only-in-whole-array": "only in the whole array",
    "only-with-other-ops": "only in a program with other ops",
}
#: Faults that are seen in results without a model that computes them.
FAULTS = {
    # positions
    "places": "failures depend on the positions of elements",
    "last-elements": "only the last {which} of the array",
    "last-elements-of-sizes": "only the last {which} of the arrays of {sizes}",
    "last-partial-vector": "only the last partial vector, if vectors have {elements} elements",
    "from-element": "only from element {0:,} on",
    "lane": "only in lane {0} of {1}: at places i with i mod {1} = {0}",
    "index": "all wrong results are at index {1} of dimension {0}",
    "lane-of-dimension": "all wrong results are at indices of dimension {0} that are {1} modulo {2}",
    "half": "all wrong results are in the {1} half of dimension {0}",
    "half-missing": "half of the results are missing: they are zero",
    "result-off-by-one": "each result is in the place of its neighbour",
    "shifted": "each result is that of the {where} index of dimension {0}",
    # runs
    "intermittent": "intermittent: in {runs} {share} of the results are wrong{rest}",
    # results
    "zeros": "every result is zero",
    "constant-result": "every result is {result}, whatever the operands",
    "written-as": "results are written as {0}, and not as {element}",
    "zero-signs": "zeros have the wrong sign",
    # roundings that are left out
    "not-rounded-before-convert": "the result is not rounded to the format before it is converted to f32",
    "not-rounded-before-next": "the result is not rounded to the format before the next op{instead}",
    "operand-not-rounded": "as if the result of {name} ({where}) had not been rounded before",
    # operands
    "read-as": "{subject} read as {names}, and not as {element}",
    "transposed": "operand {0} is transposed",
    "batch": "operand 0 is taken from {which} batch",
    "kernel-reversed": "the kernel is reversed",
    "kernel-group": "the kernel of {which} group of features is taken",
    "initial-value": "the initial value is {0:g}, and not as given",
    # terms of sums
    "without-last": "the last term is left out",
    "without-first": "the first term is left out",
    "without-lane": "every term is left out whose index modulo {1} is {0}",
    "without-rest": "the last {count} terms are left out, which fill no {0} lanes",
    "without-second-half": "the second half of the terms is left out",
    # sorts
    "sort-other-elements": "rows have other elements after they are sorted",
    "sort-descending": "in descending order",
    "sort-codes": "the codes are sorted {how}",
    "sort-zeros-equal": "-0 and +0 count as equal",
    "sort-nan-inside": "NaN is neither first nor last",
    "sort-nan-first": "every NaN comes first, regardless of its sign",
    "sort-nan-last": "every NaN comes last, regardless of its sign",
    "sort-small-equal": "numbers from -{most} to {most} count as equal",
    "sort-range-equal": "numbers of one sign and of sizes from {least} to {most} count as equal",
    # blocks
    "wrong-axis": "blocks lie along the other axis",
    "other-blocks": "other blocks are wrong too",
    "tensor-scale": "the scale of the tensor is not finite, as one of its numbers",
    "nan-block-not-nan": "a block with NaN does not become NaN",
    "nan-scale-not-nan": "a block whose scale is NaN does not give NaN",
    "partial-blocks": "only blocks that are not full are wrong",
    "elements": "the scales are right, and elements are wrong",
    "scales": "scales are wrong, and the elements are those of the scales",
    "scales-and-elements": "scales and elements are wrong",
    "scaled-beyond-range": "{rounded}, and some are beyond its range",
}
#: Results that the operation leaves open, and not a format.
OPEN_POINTS = {
    "overflow": "a result beyond the largest number",
    "infinite-result": "an infinite result",  # of formats with a NaN; the others have a row of their own
    "above-largest": "a number above the largest that is nearest to it, in a format of one significant bit",
    "signs-of-zeros": "the sign of a zero (the larger or smaller of +0 and -0; sign of -0)",
    "nan-order": "the place of the NaN without sign in the total order",
    "beyond-integer": "the integer that NaN, or a number beyond the type's range, is converted to",
    "integer-beyond-integer": "an integer beyond the integer type",
    "integer-division": "integer division by zero, and of the smallest integer by -1",
    "integer-power": "a power that the integer type does not hold, which the implementation defines",
    "complex-not-finite": "the parts of a complex number that is not finite",
    "order-of-equals": "the order of equal elements, as the sort is not stable",
    "no-order": "the comparator is no order of these values: only the elements are judged",
    "no-associativity": "the body does not associate these values, and in another order it gives other results",
    "last-update": "the order of several updates of one element",
    "initial-values": "how often the initial value is taken, which the specification leaves open",
    "implementation": "the result is implementation-defined",
    "policies": "the two policies give different results",
    "flushed": "subnormal numbers are taken as zero",
}
#: Results that are near enough.
LIMITS = {
    "faithful": "one of the numbers next to the exact one, as if it was rounded to f16 first",
    "subnormal-flushed": "a subnormal result is flushed to zero",
    "near": "within {limit} ULP, and no standard asks for more",
    "near-complex": "within {limit} ULP of the number's length",
    "steps": "not judged: each of its steps is rounded, as the implementation chooses",
    "may-overflow": "it may overflow on the way",
    "like-steps": "as near, everywhere, as sums that are rounded to {element} at each step, in an order of their own",
    "like-units": "as near, everywhere, as sums that are formed in units of fewer bits than f32, in an order of "
    "their own",
    "operands-tf32": "as of operands rounded to TF32, which the default precision permits",
    "operands-tf32-toward-zero": "as of operands rounded to TF32, towards zero, which the default precision permits",
    "operands-bf16": "as of operands rounded to bf16, which the default precision permits",
}
SENTENCES = DESCRIPTIONS | CIRCUMSTANCES | FAULTS | OPEN_POINTS | LIMITS

#: Faults that are one decision of a backend with several symptoms: the cause, its sentence, the identifiers.
GROUPS: tuple[tuple[str, str, frozenset[str]], ...] = (
    ("sort-not-total", "sort does not order NaN and the two zeros, as TOTALORDER does",
     frozenset({"sort-zeros-equal", "sort-nan-inside"})),
    ("subnormals-flushed", "subnormal numbers are flushed to zero",
     frozenset({"subnormal-operands-flushed", "subnormal-results-flushed", "subnormals-flushed",
                "subnormals-flushed-to-plus-zero", "f32-subnormals-flushed"})),
)  # fmt: skip


def cause(identifier: str, *numbers: object, **words: object) -> Diagnosis:
    """The diagnosis of a row of the table. Raises KeyError if there is no such row."""
    texts = (f"{n:g}" if isinstance(n, float) else str(n) for n in numbers)
    return Diagnosis(SENTENCES[identifier].format(*numbers, **words), (":".join([identifier, *texts]),))
