"""What a peer does not have at all: no result is a third thing beside a right and a wrong one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from minihlo.interp.backends.functions import NUMPY
from minihlo.ops.minifloat.formats import MINIFLOATS

from ..dialects import is_registered
from .cases import Case, elementwise

_SIX_BITS = ("f6E2M3FN", "f6E3M2FN")
_OPS = [name for name, _, _ in elementwise() if " " not in name]
_NOT_IN_NUMPY = [name for name in _OPS if name not in NUMPY]
#: Ops of ours that the StableHLO of this jaxlib does not have.
_UNKNOWN = [name for name in _OPS if not is_registered(f"stablehlo.{name}")]
_INT4 = {"i4", "ui4"}


def _is_no_cast(types: set[str]) -> bool:
    others = types - {"f8E8M0FNU"}
    return bool(len(others) == 1 and others <= {*MINIFLOATS, "i2", "ui2", *_INT4}) or (
        "f6E2M3FN" in types and bool(types & _INT4)
    )


@dataclasses.dataclass(frozen=True)
class Absence:
    """A group of cases that a peer refuses, or dies of."""

    peer: str
    what: str
    why: str
    covers: Callable[[Case], bool]


ABSENCES = (
    Absence(
        "xla",
        "every op and conversion of f6E2M3FN and f6E3M2FN",
        "XLA has no 6-bit types: its CPU compiler refuses such a program, and some end the process.",
        lambda case: case.operand in _SIX_BITS or case.result in _SIX_BITS,
    ),
    Absence(
        "ml_dtypes",
        f"{', '.join(_NOT_IN_NUMPY)}, and compare with TOTALORDER",
        "numpy has no such function.",
        lambda case: case.op in _NOT_IN_NUMPY or case.op.endswith("TOTALORDER"),
    ),
    Absence(
        "ml_dtypes",
        "conversions between f8E8M0FNU and the other types of up to 8 bits that numpy itself has not, and between "
        "f6E2M3FN and 4-bit integers",
        "ml_dtypes has no cast between them.",
        lambda case: case.op == "convert" and _is_no_cast({case.operand, case.result}),
    ),
    *(
        Absence(
            peer, ", ".join(_UNKNOWN), "The StableHLO of this jaxlib has no such op.", lambda case: case.op in _UNKNOWN
        )
        for peer in ("xla", "reference")
        if _UNKNOWN
    ),
)


def is_absent(peer: str, case: Case) -> bool:
    """Whether the peer is known to give no result."""
    return any(a.peer == peer and a.covers(case) for a in ABSENCES)
