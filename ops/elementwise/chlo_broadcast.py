"""CHLO's broadcast_* ops: elementwise ops whose operands are first repeated to a common shape."""

from __future__ import annotations

import numpy as np

from ..op import Call, Op, OpError, Run, full_name, lookup, register
from ..require import require
from ..types import TensorType

#: Of each of these there is a broadcast_* op; those of CHLO have their dialect written.
_NAMES = (
    *("add", "and", "atan2", "compare", "complex", "divide", "maximum", "minimum", "multiply", "or", "power"),
    *("remainder", "select", "shift_left", "shift_right_arithmetic", "shift_right_logical", "subtract", "xor"),
    *("chlo.next_after", "chlo.polygamma", "chlo.zeta"),
)


def _declare(op: Op) -> None:
    def bind(call: Call) -> Run:
        tensors = [call.tensor(i) for i in range(len(call.operands))]
        rank = max(len(t.shape) for t in tensors)
        given = call.attributes.get("broadcast_dimensions")
        places = [_places(t, rank, given) for t in tensors]
        result = call.result()
        for d, size in enumerate(result.shape):  # the sizes in each dimension must be equal, or 1
            sizes = {t.shape[p.index(d)] for t, p in zip(tensors, places, strict=True) if d in p} - {None, 1}
            fits = len(sizes) <= 1 and (size is None or not sizes - {size})
            require(fits, f"expected operands that broadcast to {result}, got {', '.join(map(str, tensors))}")
        attributes = {name: value for name, value in call.attributes.items() if name != "broadcast_dimensions"}
        types = [TensorType(result.shape, t.element) for t in tensors]
        kernel = op.function(call.like(op.name, types, call.results, **attributes))
        if all(t.is_static and t.shape == result.shape for t in tensors):
            return kernel

        def run(*values: np.ndarray) -> np.ndarray:
            return kernel(*np.broadcast_arrays(*(_spread(x, p, rank) for x, p in zip(values, places, strict=True))))

        return run

    name = op.name.rpartition(".")[2]
    bind.__doc__ = f"`{name}` of operands that are broadcast to one shape. {op.summary}"
    record = Op(f"chlo.broadcast_{name}", bind, op.types, op.values, op.accuracy, op.operands, bind.__doc__)
    register(record)


def _places(t: TensorType, rank: int, given: object) -> tuple[int, ...]:
    """The dimension of the result that each dimension of an operand is; by default the last ones."""
    own = len(t.shape)
    if given is None or own == rank:
        return tuple(range(rank - own, rank))
    places = tuple(int(d) for d in np.ravel(given))  # pyright: ignore[reportArgumentType, reportCallIssue]
    if len(places) != own or any(not 0 <= d < rank for d in places) or sorted(set(places)) != list(places):
        raise OpError(f"expected {own} broadcast_dimensions of 0 to {rank - 1}, ascending, for {t}, got {list(places)}")
    return places


def _spread(x: np.ndarray, places: tuple[int, ...], rank: int) -> np.ndarray:
    shape = [1] * rank
    for d, size in zip(places, x.shape, strict=True):
        shape[d] = size
    return x.reshape(shape)


for _name in _NAMES:
    _op = lookup(_name)  # this imports the modules that declare them
    assert _op is not None, full_name(_name)
    _declare(_op)
