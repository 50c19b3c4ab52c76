"""The peers: what each gives for a batch of cases, as codes."""

from __future__ import annotations

import dataclasses
import functools
import importlib.metadata
from collections.abc import Sequence

import numpy as np

from minihlo.interp.backends import Backend, BackendError, ChildBackend, backend, ml_dtypes
from minihlo.interp.backends.operation import Operation

from .cases import Case, decoded, encoded, program

Codes = np.ndarray


@dataclasses.dataclass(frozen=True)
class Peer:
    """Another implementation. `package` is the one whose version its results depend on."""

    name: str
    title: str
    package: str

    @functools.cached_property
    def version(self) -> str:
        return importlib.metadata.version(self.package)


UPCAST = Peer("upcast", "minihlo `upcast`", "ml_dtypes")
XLA = Peer("xla", "XLA CPU", "jaxlib")
REFERENCE = Peer("reference", "StableHLO reference interpreter", "jaxlib")
ML_DTYPES = Peer("ml_dtypes", "ml_dtypes", "ml_dtypes")
PEERS = {p.name: p for p in (UPCAST, XLA, REFERENCE, ML_DTYPES)}

_SECONDS = 5.0
#: XLA's code depends on the instructions the processor has. Excess precision would leave out conversions.
_XLA_FLAGS = "--xla_cpu_max_isa=AVX2 --xla_allow_excess_precision=false"


@functools.cache
def backend_of(name: str) -> Backend:
    """The backend that runs programs for a peer (ours is `direct`)."""
    match name:
        case "direct":
            return backend("minihlo")
        case "upcast":
            return backend("minihlo:upcast")
        case "xla":
            flags = {"JAX_PLATFORMS": "cpu", "JAX_ENABLE_X64": "1", "XLA_FLAGS": _XLA_FLAGS}
            return ChildBackend("jax:cpu", flags, _SECONDS)
        case "reference":
            return ChildBackend("reference", seconds=_SECONDS)
    raise ValueError(name)


def results(peer: str, cases: Sequence[Case], operands: Sequence[Codes]) -> list[Codes | BackendError]:
    """The codes each case gives on operands given as codes, or why there are none.

    All cases run in one program; where that fails, each in one of its own.
    """
    if peer == "ml_dtypes":
        return [_ml_dtypes(case, operands) for case in cases]
    sent = [encoded(x, cases[0].operand_type) for x in operands]
    try:
        found = backend_of(peer).evaluate(program(cases, len(operands[0])), sent)
    except BackendError as error:
        if len(cases) == 1:
            return [error]
        return [results(peer, [case], operands)[0] for case in cases]
    return [decoded(r, case.result_type) for r, case in zip(found, cases, strict=True)]


def _ml_dtypes(case: Case, operands: Sequence[Codes]) -> Codes | BackendError:
    name, *words = case.op.split()
    attributes = dict(zip(("comparison_direction", "compare_type"), words, strict=False))
    try:
        return ml_dtypes.operate(Operation(name, (case.operand,) * case.arity, case.result, attributes), operands)
    except BackendError as error:
        return error
    except TypeError as error:
        return BackendError("refused", str(error))
