"""Pairs of faults in a backend, of which one is harmless: its error is rounded away, or not looked at.

Each pair is a program, the harmless fault and the harmful one; a fault is an op, by what its text holds, and a change
of its result's codes. The harmless ones are harmless by construction, which the tests check by running them alone.
"""

import dataclasses
import re
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from minihlo import interp
from minihlo.interp.backends import Minihlo

F8, E5M2, FNUZ, BF16 = jnp.float8_e4m3fn, jnp.float8_e5m2, jnp.float8_e4m3fnuz, jnp.bfloat16
OWN = Minihlo("minihlo", interp.Policy(accumulate="exact"))

Change = Callable[[np.ndarray], np.ndarray]


def up(codes: int, at: Any = ...) -> Change:
    """Some elements are so many codes larger in magnitude."""

    def change(x: np.ndarray) -> np.ndarray:
        x = np.array(x)
        x[at] += x.dtype.type(codes)
        return x

    return change


def put(code: int, at: Any = ...) -> Change:
    """Some elements have this code."""

    def change(x: np.ndarray) -> np.ndarray:
        x = np.array(x)
        x[at] = x.dtype.type(code)
        return x

    return change


NAN, INF, ONE = 0x7FC00000, 0x7F800000, 0x3F800000  # f32


@dataclasses.dataclass
class Faulty:
    """minihlo, with faults in the ops whose text matches."""

    faults: Sequence[tuple[str, Change]]
    name: str = "faulty"

    def evaluate(self, text: str, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        results = OWN.evaluate(text, arrays)
        for op, change in self.faults:
            if re.search(op, text):
                results = [change(results[0]), *results[1:]]
        return results


@dataclasses.dataclass(frozen=True)
class Pair:
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    harmless: tuple[str, Change]
    harmful: tuple[str, Change]
    measure: Any = "norm"


X = np.linspace(-3, 3, 24, dtype=np.float32).reshape(4, 6) + np.float32(0.01)
W = np.cos(np.arange(12, dtype=np.float32)).reshape(6, 2)


def narrow(x: Any, t: Any = F8) -> Any:
    return x.astype(t).astype(jnp.float32)


def elementwise(x: Any) -> Any:
    return jnp.exp(narrow(jnp.sin(x)))


def product(x: Any, w: Any) -> Any:
    return jnp.sin(narrow(x @ w))


def harmful_product(x: Any, w: Any) -> Any:
    return narrow(jnp.tanh(x)) @ w


def reduction(x: Any) -> Any:
    return narrow(x.sum(1), E5M2) * jnp.cos(x[:, 0])


def conversion(x: Any) -> Any:
    return jnp.maximum(narrow(x), 1.0) + x.astype(BF16).astype(jnp.float32)


def in_scan(x: Any) -> Any:
    def step(c: Any, row: Any) -> Any:
        return narrow(jnp.tanh(c) + jnp.sin(row)), None

    return jax.lax.scan(step, x[0], x)[0] - jnp.cos(x[1])


def in_while(x: Any) -> Any:
    return jax.lax.fori_loop(0, 5, lambda _, c: narrow(jnp.sin(c)) + jnp.cos(c), x)


def in_branch(x: Any) -> Any:
    y = jax.lax.cond(x[0, 0] < 0, lambda v: narrow(jnp.exp(v)), jnp.log, x)
    return y * jnp.sin(x)


def not_taken(x: Any) -> Any:
    y = jnp.tanh(x)
    return jax.lax.cond(x[0, 0] < 0, lambda v: jnp.cos(v[0]), lambda v: jnp.sin(v[1]), (x, y))


def selected(x: Any) -> Any:
    return jnp.where(x > 0, jnp.log(jnp.abs(x)), jnp.cos(x))


def masked_nan(x: Any) -> Any:
    y = jnp.log(x)  # NaN of the negative ones
    return jnp.where(x > 0, y, 0.0) + jnp.exp(x)


def attention(x: Any, w: Any) -> Any:
    scores = (x @ w) @ (x @ w).T
    return narrow(jax.nn.softmax(scores)) @ jnp.tanh(x)


def twice(x: Any) -> Any:
    @jax.jit
    def inner(v: Any) -> Any:
        return jnp.cbrt(v)

    return narrow(inner(x)) + narrow(inner(x + 1))


def updated(x: Any) -> Any:
    y = jnp.tanh(x)
    return y.at[1].set(0.0) + jnp.zeros_like(x).at[2].set(jnp.cos(x[2]))


def underflow(x: Any) -> Any:
    small = jnp.exp(x - 20)  # nothing beside 1 in f32
    return (1.0 + small) * jnp.sin(x)


#: Words in a one-op program: arguments are codes, so `convert` and `bitcast_convert` differ.
PAIRS = {
    "elementwise": Pair(elementwise, (X,), (r"\.sine", up(1)), (r"\.exponential ", up(1 << 12))),
    "dot, harmless": Pair(product, (X, W), (r"\.dot_general", up(1)), (r"\.sine", up(1 << 14))),
    "dot, harmful": Pair(harmful_product, (X, W), (r"\.tanh", up(1)), (r"\.dot_general", up(1 << 10))),
    "reduce, harmless": Pair(reduction, (X,), (r"\.reduce\(", up(1)), (r"\.cosine", up(1 << 9))),
    "convert": Pair(conversion, (X,), (r"\.convert .*f32.*f8", up(1, (0, 0))), (r"\.convert .*f32.*bf16", up(1))),
    "in a scan": Pair(in_scan, (X,), (r"\.sine", up(1)), (r"\.cosine", up(1 << 16, 3))),
    "in a loop": Pair(in_while, (X,), (r"\.sine", up(1)), (r"\.cosine", up(1 << 13))),
    "in a branch": Pair(in_branch, (X,), (r"\.exponential ", up(1)), (r"\.sine", up(1 << 11, (1, 1)))),
    "what another branch uses": Pair(not_taken, (X,), (r"\.tanh", up(1 << 15)), (r"\.sine|\.cosine", up(1 << 15))),
    "what is not selected": Pair(selected, (X,), (r"\.log ", put(ONE, X <= 0)), (r"\.cosine", put(ONE, (0, 1)))),
    "NaN that is masked": Pair(masked_nan, (X,), (r"\.log ", put(INF, X < 0)), (r"\.exponential ", put(NAN, (3, 3)))),
    "attention": Pair(attention, (X, W), (r"\.divide", up(1)), (r"\.tanh", up(1 << 16, 0))),
    "a function called twice": Pair(twice, (X,), (r"\.cbrt", up(1)), (r"\.add", up(1 << 12, (2, 2)))),
    "overwritten": Pair(updated, (X,), (r"\.tanh", put(NAN, 1)), (r"\.cosine", up(1 << 19))),
    "absorbed by a sum": Pair(underflow, (X,), (r"\.exponential ", up(1 << 20)), (r"\.sine", up(1))),
}
