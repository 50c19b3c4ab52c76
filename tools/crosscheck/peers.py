"""The peers: backends of the conformance tester, with the package whose version their results depend on."""

from __future__ import annotations

import dataclasses
import functools
import importlib.metadata
from collections.abc import Callable, Iterable, Mapping

import numpy as np
from jaxlib.mlir.dialects import stablehlo

from minihlo.interp.backends import Backend, ChildBackend, backend

Codes = np.ndarray
_SECONDS = 60.0
#: XLA's code depends on the instructions that the processor has. Excess precision would leave out conversions.
_XLA_FLAGS = "--xla_cpu_max_isa=AVX2 --xla_allow_excess_precision=false"


def _xla() -> Backend:
    flags = {"JAX_PLATFORMS": "cpu", "JAX_ENABLE_X64": "1", "XLA_FLAGS": _XLA_FLAGS}
    return ChildBackend("jax:cpu", flags, _SECONDS)


def _reference() -> Backend:
    return ChildBackend("reference", seconds=_SECONDS)


@dataclasses.dataclass(frozen=True)
class Peer:
    """Another implementation."""

    name: str
    title: str
    package: str  #: the one whose version its results depend on
    start: Callable[[], Backend]
    cases: str = "*"  #: which cases it is compared on: a pattern of signatures
    is_in_programs: bool = True  #: whether the functions of mlir_tests/ are run on it

    @functools.cached_property
    def version(self) -> str | None:
        """The version of its package; None if it is not installed."""
        try:
            return importlib.metadata.version(self.package)
        except importlib.metadata.PackageNotFoundError:
            return None


#: Double rounding shows in conversions from these; that is what the peers of tensors and models are compared on.
_WIDE = "convert.*64.*f16"

PEERS: dict[str, Peer] = {
    p.name: p
    for p in (
        Peer("xla", "XLA's CPU compiler", "jaxlib", _xla),
        Peer(
            "reference",
            "StableHLO's reference interpreter",
            "jaxlib",
            _reference,
        ),
        Peer("ml_dtypes", "ml_dtypes", "ml_dtypes", lambda: backend("ml_dtypes")),
        Peer("torch", "PyTorch", "torch", lambda: backend("torch:cpu"), _WIDE, False),
        Peer("onnx", "ONNX's reference evaluator", "onnx", lambda: backend("onnx"), _WIDE, False),
        Peer("upcast", "minihlo, arithmetic `upcast`", "ml_dtypes", lambda: backend("minihlo:upcast")),
    )
}


@functools.cache
def backend_of(name: str) -> Backend:
    """The backend of a peer; `direct` is minihlo itself."""
    return backend("minihlo") if name == "direct" else PEERS[name].start()


def installed(names: Iterable[str]) -> dict[str, str]:
    """The versions of the packages that the results of peers depend on, and of the StableHLO that jaxlib carries."""
    packages = {PEERS[name].package: PEERS[name].version for name in names}
    carried = {"stablehlo": stablehlo.get_current_version()} if "jaxlib" in packages else {}
    return {**{package: version for package, version in packages.items() if version is not None}, **carried}


def version_text(peer: str, versions: Mapping[str, str]) -> str:
    """The version that a table is about, of versions as `installed` gives them."""
    package = PEERS[peer].package
    text = f"{package} {versions[package]}"
    return f"{text} (StableHLO {versions['stablehlo']})" if package == "jaxlib" and "stablehlo" in versions else text
