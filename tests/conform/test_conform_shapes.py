"""Faults of programs that the forms, the conversions and the chains are there for: each is found, by the right forms.

What is said of a fault has to be right, or nothing: each names the sentences that would be.
"""

import dataclasses
import re

import numpy as np
import pytest

from minihlo.interp.conform.cases.cases import cases
from minihlo.interp.conform.cases.forms import LAYOUTS, SIZES, forms
from minihlo.interp.conform.result import CRASH, FAIL, PASS

from ..jaxlib_versions import VERSION
from . import planted
from .conform_shapes_planted import (
    Run,
    folded,
    in_f32,
    last_partial_vector,
    of_rank,
    of_results,
    of_size,
    results,
    rewritten,
    run,
    via,
    without_step,
)


@dataclasses.dataclass(frozen=True)
class Planted:
    run: Run
    signature: str
    #: The forms that fail, of those that are tried.
    wrong: str
    #: Those that are tried and right.
    right: str = "array"
    #: What may be said.
    sentences: str = ""
    verdict: str = FAIL


_RANK_2 = " ".join(f for f, layout in LAYOUTS.items() if len(layout.shape) == 2)
_ADD, _FN = "add.f8E5M2", "f8E4M3FN"
_LAID = "|only with operands that are .*|only in .*dimensions.*|only in arrays of two dimensions.*"
_FOLDED = "only as constants, which are folded.*"
_UNROUNDED = "|the result of .* is not rounded to .*|no result is rounded to .*"
_TWICE = "the result is rounded twice, to (f32|f64|bf16) first.*"

FAULTS: dict[str, Planted] = {
    "a transposed operand is read as it lies": Planted(
        rewritten(r"stablehlo\.transpose (%\w+), dims = \[1, 0\]", r"stablehlo.reshape \1"),
        _ADD,
        "transposed",
        "array rank-2 reversed",
    ),
    "one of two reversed dimensions is not": Planted(
        rewritten(r"dims = \[0, 1\]", "dims = [0]"), _ADD, "reversed", "array rank-2 transposed"
    ),
    "the reversed operand is not reversed": Planted(
        rewritten(r"stablehlo\.reverse (%\w+), dims = \[0, 1\]", r"stablehlo.reshape \1"), "negate.f8E4M3FN", "reversed"
    ),
    "the steps of a slice are taken for 1": Planted(
        rewritten(r"\[1:18:2, 2:35:2\]", "[1:10:1, 2:19:1]"), _ADD, "sliced", "array rank-2 unaligned"
    ),
    "a slice begins one element late": Planted(
        rewritten(r"2:35:2\]", "3:36:2]"), "multiply.f8E4M3FN", "sliced", "array"
    ),
    "a row that is broadcast is read backwards": Planted(
        rewritten(
            r"(%\w+) = stablehlo\.broadcast_in_dim (%\w+), dims = \[1\] : \((\S+)\)",
            r"\1r = stablehlo.reverse \2, dims = [0] : \3" + "\n"
            r"\1 = stablehlo.broadcast_in_dim \1r, dims = [1] : (\3)",
        ),
        _ADD,
        "rows",
        "array columns broadcast",
    ),
    "a column that is broadcast is its first element": Planted(
        rewritten(
            r"(%\w+) = stablehlo\.broadcast_in_dim (%\w+), dims = \[0\] : \((tensor<9x(\w+)>)\)",
            r"\1s = stablehlo.slice \2 [0:1] : (\3) -> tensor<1x\4>"
            "\n"
            r"  \1 = stablehlo.broadcast_in_dim \1s, dims = [0] : (tensor<1x\4>)",
        ),
        _ADD,
        "columns",
        "array rows broadcast",
    ),
    "the last column of two dimensions": Planted(
        of_rank(2, lambda r: np.s_[:, -1]), "multiply.f8E4M3FN", _RANK_2, "array rank-3 size-129"
    ),
    "the last element of three dimensions": Planted(
        of_rank(3, lambda r: np.s_[-1, -1, -1]), "multiply.f8E5M2", "rank-3", "array rank-2"
    ),
    "scalars": Planted(of_rank(0, lambda r: ()), "sqrt.f8E4M3FN", "rank-0", "array size-1"),
    "the last partial vector": Planted(
        of_results(last_partial_vector, "multiply"),
        "multiply.f8E4M3FN",
        "size-17 size-31 size-33 size-127 size-129 size-1000",
        "size-7 size-8 size-16 size-64 size-128",
        ".*last.*|only in arrays of .*|each is one ULP off",
    ),
    "arrays of 16": Planted(
        of_results(of_size(16)), "divide.f8E5M2", "size-16", "array size-15 size-17", "only in arrays of 16.*"
    ),
    "arrays of 128": Planted(
        of_results(of_size(128)), "maximum.f8E4M3", "size-128", "array size-127 size-129", "only in arrays of 128.*"
    ),
    "nothing is one element": Planted(
        of_results(lambda r: np.zeros(1, r.dtype) if not r.size else r), _ADD, "size-0", "size-1", verdict=CRASH
    ),
    "two dimensions come back as one": Planted(
        of_results(lambda r: r.reshape(-1)), _ADD, "rank-2 rank-3 rows rank-0", "array size-7", verdict=CRASH
    ),
    "rows and columns are exchanged": Planted(
        of_results(lambda r: r.T if r.ndim == 2 else r), _ADD, _RANK_2, "array rank-3", verdict=CRASH
    ),
    "a dot's result is flat": Planted(
        of_results(lambda r: r.reshape(-1)), "dot_general.f8E5M2", "length-8 transposed", "", verdict=CRASH
    ),
    "f64 to bf16 by way of f32": Planted(via("f64", "f32", "bf16"), "convert.f64.bf16", "array constant", "", _TWICE),
    "f64 to f16 by way of f32": Planted(via("f64", "f32", "f16"), "convert.f64.f16", "array constant", "", _TWICE),
    "i64 to bf16 by way of f32": Planted(via("i64", "f32", "bf16"), "convert.i64.bf16", "array", "", _TWICE),
    "i64 to f32 by way of f64": Planted(via("i64", "f64", "f32"), "convert.i64.f32", "array", "", _TWICE),
    "ui64 to f32 by way of i64": Planted(
        via("ui64", "i64", "f32"), "convert.ui64.f32", "array", "", "|all wrong results are negative"
    ),
    "f32 to f16 by way of bf16": Planted(via("f32", "bf16", "f16"), "convert.f32.f16", "array size-64", "", _TWICE),
    "i64 to i32 by way of f32": Planted(via("i64", "f32", "i32"), "convert.i64.i32", "array", ""),
    "f64 to i32 by way of f32": Planted(via("f64", "f32", "i32"), "convert.f64.i32", "array", "", "|" + _TWICE),
    "constants lose the sign of zero": Planted(
        folded(lambda r: np.where(r == 0x80, 0, r).astype(r.dtype)), "floor.f8E3M4", "constant", sentences=_FOLDED
    ),
    "constants of one code": Planted(
        folded(lambda r: np.where(r == 0x30, 0x31, r).astype(r.dtype)),
        "round_nearest_even.f8E3M4",
        "constant",
        sentences=_FOLDED,
    ),
    "constants that are compared": Planted(
        folded(lambda r: r ^ (np.arange(r.size) == 5)), "compare_GE.f8E4M3FN", "constant", sentences=_FOLDED
    ),
    "bf16 in between is left out": Planted(
        without_step("bf16"), "chain_via_bf16.f32.f8E4M3FN", "array", "", _UNROUNDED
    ),
    "f32 in between is left out": Planted(without_step("f32"), "chain_via_f32.f64.f8E5M2", "array", "", _UNROUNDED),
    "numbers are not held to the range": Planted(
        rewritten(
            r'"stablehlo\.clamp"\((%\w+), (%\w+), (%\w+)\)\s*: \((\S+), (\S+), \S+\) -> \S+',
            r"stablehlo.reshape \2 : (\5) -> \5",
        ),
        "chain_scale_clamp_convert.f32.f8E4M3FN",
        "array",
        "",
        "|all wrong results are NaN.*",
    ),
    "bf16 is f32": Planted(in_f32, "chain_multiply_add_in_bf16.f8E4M3FN", "array", "", _UNROUNDED),
    "the imaginary part is zero": Planted(
        rewritten(r'"stablehlo\.imag"\((%\w+)\)\s*: \((\S+)\) -> (\S+)', r"stablehlo.constant dense<0.0> : \3"),
        "chain_complex_imag.f64.f32",
        "array",
        "",
        "|all wrong results are zero|every result is 0x00000000, whatever the operands",
    ),
    "products of transposed arrays": Planted(
        of_results(lambda r: r[::-1] if r.shape == (12, 12) else r), "dot_general.f8E4M3FN", "transposed", "length-8"
    ),
    "every batch of products is the first": Planted(
        of_results(lambda r: np.stack([r[0]] * len(r)) if r.ndim == 3 else r),
        "dot_general.f8E5M2.f32",
        "rank-3",
        "length-8",
    ),
    "sums along a middle dimension lose the last term": Planted(
        rewritten(
            r"(%\w+) = stablehlo\.reduce\((%\w+) init: (%\w+)\) applies stablehlo\.add "
            r"across dimensions = \[1\] : \(tensor<2x17x(\d+)x(\w+)>, (\S+)\)",
            r"\1s = stablehlo.slice \2 [0:2, 0:16, 0:\4] : (tensor<2x17x\4x\5>) -> tensor<2x16x\4x\5>"
            "\n"
            r"  \1 = stablehlo.reduce(\1s init: \3) applies stablehlo.add across dimensions = [1] : "
            r"(tensor<2x16x\4x\5>, \6)",
        ),
        "reduce_add.f8E4M3FN",
        "rank-3",
        "length-17 transposed",
    ),
    "the largest of columns starts from zero": Planted(
        rewritten(r'dense<"0xFC">(?=[\s\S]*dimensions = \[0\])', 'dense<"0x00">'),
        "reduce_maximum.f8E5M2",
        "transposed",
        "length-17",
        "|.*rows.*",
    ),
    "a window's features are read backwards": Planted(
        of_results(lambda r: r[..., ::-1] if r.ndim == 4 else r),
        "convolution.f8E4M3FN.f32",
        "rank-3",
        "length-8 transposed",
    ),
    "columns are sorted from the end": Planted(
        lambda text, arrays: [r[:, ::-1] if "dimension = 0" in text else r for r in run(text, arrays)],
        "sort.f8E4M3FN",
        "transposed",
        "length-17 rank-3",
        "in descending order",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found(name: str) -> None:
    planted = FAULTS[name]
    wrong, right = set(planted.wrong.split()), set(planted.right.split())
    found = results(planted.run, planted.signature, sorted(wrong | right))
    verdicts = {form: r.verdict for form, r in found.items()}
    assert {f for f, v in verdicts.items() if v == planted.verdict} == wrong, verdicts
    assert {f for f, v in verdicts.items() if v not in (FAIL, CRASH)} == right, verdicts
    for form in wrong:
        said = found[form].diagnosis
        assert re.fullmatch(f"(only in the whole array)?|{planted.sentences}|{_LAID}", said), (form, said)


def test_what_is_said_of_a_wrong_shape() -> None:
    found = results(of_results(lambda r: r.reshape(-1)), _ADD, ["rank-2"])
    assert found["rank-2"].message == "the result of add.f8E5M2: expected shape [9, 17], got [153]"


def test_without_a_fault_every_form_passes() -> None:
    for signature in ("add.f8E4M3FN", "convert.f64.bf16", "chain_dequantize_add_quantize.f4E2M1FN"):
        found = results(run, signature, [])
        assert {r.verdict for r in found.values()} == {PASS}
        assert found.keys() == set(forms(planted.case_of(signature), 1))
    assert set(SIZES) | set(LAYOUTS) <= results(run, "add.f8E4M3FN", []).keys()


def test_constants_are_asked_at_level_1() -> None:
    asked = [c for c in cases(1) if c.has_elements and c.op != "type"]
    assert len(asked) > 1000
    assert not [c.signature for c in asked if "constant" not in forms(c, 1)]


def test_xla_folds_otherwise_than_it_computes() -> None:
    """Faults of XLA's folding at jax 0.10.2, which its compiled code does not have; 0.12 has two of them no more."""
    from minihlo.interp.backends import backend

    pytest.importorskip("jax")
    mended = ("logistic.f8E8M0FNU", "rsqrt.f8E8M0FNU") if VERSION >= (0, 12) else ()
    made = backend("jax:cpu")
    try:
        for signature in ("round_nearest_even.f8E3M4", "sign.f4E2M1FN", "logistic.f8E8M0FNU", "rsqrt.f8E8M0FNU"):
            of = (planted.run(made, signature, [form], backend="jax:cpu") for form in ("array", "constant"))
            found = {r.form: r.verdict for (r,) in of}
            assert found["constant"] == (PASS if signature in mended else FAIL), signature
            assert found["array"] != CRASH, signature
    finally:
        made.close()
