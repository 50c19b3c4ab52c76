"""What a peer does not have in whole programs: functions of mlir_tests/ that give no result there."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable

from ..dialects import is_registered
from ..mlir_tests import catalog
from .functions import Function
from .registry import ERROR

#: The kind of a divergence that is no result at all.
ABSENT = "absent"


@dataclasses.dataclass(frozen=True)
class FunctionAbsence:
    """Functions that a peer refuses or dies of.

    Of those in a file the first is tried, which has to fail with a message in which `says` is found: ops are refused by
    name, whatever the types. Where `tried` names files, only in these is one tried.
    """

    name: str
    peer: str
    kind: str
    title: str
    why: str
    says: str  #: a regular expression
    covers: Callable[[Function], bool]
    tried: tuple[str, ...] | None = None


def _holds(*ops: str) -> Callable[[Function], bool]:
    """Whether the text of a function has one of these ops, or of a dialect that ends in a dot any."""
    names = "|".join(re.escape(op) + ("" if op.endswith(".") else r"\b(?!_)") for op in ops)
    pattern = re.compile(rf"(?<![\w.#])(?:{names})")
    return lambda function: pattern.search(function.chunk.text) is not None


def _is_newer(function: Function) -> bool:
    """Whether the file is of an op that this jaxlib does not know."""
    name = catalog.files()[catalog.FOLDER / f"interpret_{function.file}.mlir"]
    return name.startswith(("stablehlo.", "chlo.")) and not is_registered(name)


_NO_REFERENCE = (
    *("create_token", "async_start", "batch_norm_grad", "batch_norm_inference", "batch_norm_training", "broadcast"),
    *("cholesky", "cross-replica-sum", "dot", "einsum", "real_dynamic_slice", "rng", "set_dimension_size"),
    *("torch_index_select", "unary_einsum"),
)
_NO_XLA = ("stablehlo.dynamic_conv", "stablehlo.unary_einsum", "stablehlo.uniform_quantize")
_NO_XLA = (*_NO_XLA, "stablehlo.uniform_dequantize", "chlo.ragged_dot")


FUNCTION_ABSENCES = (
    FunctionAbsence(
        "op-newer-than-the-peer-StableHLO",
        "reference",
        ABSENT,
        "collective_reduce is not there yet",
        "jaxlib 0.10.2 carries StableHLO 1.17, which does not know the op.",
        "does not know the op",
        _is_newer,
    ),
    FunctionAbsence(
        "op-newer-than-XLAs-StableHLO",
        "xla",
        ABSENT,
        "collective_reduce is not there yet",
        "jaxlib 0.10.2 carries StableHLO 1.17, which does not know the op.",
        "does not know the op",
        _is_newer,
    ),
    FunctionAbsence(
        "op-not-evaluated",
        "reference",
        ABSENT,
        "Ops that the reference interpreter does not evaluate",
        f"It ends the process at one: all of CHLO, and of StableHLO {', '.join(_NO_REFERENCE)}.",
        r"Unsupported op|is unsupported at the moment",
        _holds("chlo.", *(f"stablehlo.{op}" for op in _NO_REFERENCE)),
    ),
    FunctionAbsence(
        "quantized-types-not-evaluated",
        "reference",
        ABSENT,
        "Quantized types",
        "The reference interpreter knows none: programs go through a pass that turns them into integers first.",
        "interpreter failed",
        _holds("stablehlo.uniform_quantize", "stablehlo.uniform_dequantize"),
    ),
    FunctionAbsence(
        "probes-need-files",
        "reference",
        ABSENT,
        "interpreter.probe ends the process",
        "It writes files to a folder that cannot be named from Python, and knows none for types of less than 16 bits.",
        "Error evaluating function|Unknown type",
        _holds("interpreter.probe"),
    ),
    FunctionAbsence(
        "sums-of-nothing",
        "reference",
        ERROR,
        "dot_general that contracts a dimension of size 0 ends the process",
        "The result is zero by the specification. It looks for a first product.",
        "Incompatible index and shape found while flattening index",
        lambda f: f.file == "dot_general" and re.search(r"\(tensor<\d+x0x\w+>, tensor<0x", f.chunk.text) is not None,
    ),
    FunctionAbsence(
        "no-6-bit-types",
        "xla",
        ABSENT,
        "f6E2M3FN and f6E3M2FN",
        "XLA has no 6-bit types: its CPU compiler refuses a program that has them, and some end the process.",
        "RET_CHECK failure|F6E2M3FN|failed to legalize",
        lambda function: "f6E" in function.chunk.text,
        tried=("abs",),
    ),
    FunctionAbsence(
        "no-such-op",
        "xla",
        ABSENT,
        "Ops that XLA's CPU compiler does not take",
        "StableHLO's dynamic_conv, unary_einsum, uniform_quantize and uniform_dequantize have no counterpart in HLO as "
        "they are here, and ragged_dot has none on the CPU.",
        "op can't be translated to XLA HLO|is not supported by XLA:CPU",
        _holds(*_NO_XLA),
    ),
    FunctionAbsence(
        "no-expansion",
        "xla",
        ABSENT,
        "chlo.bessel_i1e and chlo.erfc of types of eight bits and less",
        "Their expansions are for f16, bf16, f32 and f64; of smaller types JAX's own lowering converts first.",
        "failed to legalize operation",
        lambda f: f.file in ("chlo_bessel_i1e", "chlo_erfc") and re.search(r"_b?f16", f.name) is None,
    ),
    FunctionAbsence(
        "programs-of-several-processes",
        "xla",
        ABSENT,
        "Processes, tokens and probes of the interpreters' own dialect",
        "interpreter.run_parallel and interpreter.probe are how StableHLO's interpreters test what processes do; "
        "XLA is given such programs by other means.",
        "op unsupported op for export to XLA",
        _holds("interpreter.run_parallel", "interpreter.probe"),
    ),
    FunctionAbsence(
        "nobody-at-the-other-end",
        "xla",
        ABSENT,
        "outfeed waits for somebody to read",
        "The test of after_all sends a value out. On XLA such a program waits for ever; it is not tried.",
        "",
        _holds("stablehlo.outfeed"),
        tried=(),
    ),
    FunctionAbsence(
        "no-random-minifloats",
        "xla",
        ERROR,
        "rng of a type of eight bits and less ends the process",
        "A check of XLA's says that 16-bit types are the smallest there are.",
        r"Check failed: primitive_type == F16",
        lambda f: f.file == "rng" and re.search(r"_b?f16", f.name) is None,
    ),
    FunctionAbsence(
        "sums-of-4-bit-numbers-in-f32",
        "xla",
        ERROR,
        "dot_general of f4E2M1FN with a result in f32 is refused",
        "A pass of XLA's converts the operands, and the layout of 4-bit elements stays on what is f32 then.",
        "does not support custom element sizes",
        lambda f: f.file == "dot_general" and re.search(r"f4E2M1FN>\) -> tensor<[\dx]*f32>", f.chunk.text) is not None,
    ),
)


def absence_of(peer: str, function: Function) -> FunctionAbsence | None:
    """The first reason for which a peer is known to give no result."""
    return next((a for a in FUNCTION_ABSENCES if a.peer == peer and a.covers(function)), None)
