"""Random numbers: rng_bit_generator's counter-based generators, bit for bit as XLA's, and rng.

Both generators are those of J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel random numbers: as easy as 1, 2, 3"
(SC 2011). The specification leaves open how the state becomes key and counters, and in which order the words make up
the output; both are XLA's.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator

import numpy as np

from ..cast import array_of, cast, wrap
from ..op import Accuracy, Call, Run, UnsupportedOpError, op
from ..require import require
from ..tables import BLOCK
from ..types import ELEMENT_TYPES, ElementType, Kind

_U32, _U64 = np.uint32, np.uint64
_MASK64, _MASK128 = (1 << 64) - 1, (1 << 128) - 1

_THREEFRY_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_THREEFRY_PARITY = 0x1BD11BDA
_PHILOX_ROUNDS = 10
_PHILOX_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_PHILOX_WEYL = (0x9E3779B9, 0xBB67AE85)

_PART = BLOCK // 8  # counters that are encrypted at a time, in some eight arrays

#: Makes an output of the first and the second words of consecutive counters.
Arrange = Callable[[np.ndarray, np.ndarray], np.ndarray]


def threefry2x32(key: tuple[int, int], x0: np.ndarray, x1: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Threefry-2x32 of 20 rounds: the counters (x0, x1), two arrays of uint32, encrypted with a key of two words."""
    keys = (*key, key[0] ^ key[1] ^ _THREEFRY_PARITY)
    x0, x1 = x0 + _U32(keys[0]), x1 + _U32(keys[1])
    for i in range(5):
        for rotation in _THREEFRY_ROTATIONS[i % 2]:
            x0 += x1
            x1 = (x1 << _U32(rotation) | x1 >> _U32(32 - rotation)) ^ x0
        x0 += _U32(keys[(i + 1) % 3])
        x1 += _U32((keys[(i + 2) % 3] + i + 1) & 0xFFFFFFFF)
    return x0, x1


def philox4x32(key: tuple[int, int], x: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    """Philox-4x32 of 10 rounds: the counters `x`, four arrays of uint32, encrypted with a key of two words."""
    k0, k1 = key
    x0, x1, x2, x3 = x
    for _ in range(_PHILOX_ROUNDS):
        low0, high0 = _halves(x0 * _U64(_PHILOX_MULTIPLIERS[0]))
        low1, high1 = _halves(x2 * _U64(_PHILOX_MULTIPLIERS[1]))
        x0, x1, x2, x3 = high1 ^ x1 ^ _U32(k0), low1, high0 ^ x3 ^ _U32(k1), low0
        k0, k1 = (k0 + _PHILOX_WEYL[0]) & 0xFFFFFFFF, (k1 + _PHILOX_WEYL[1]) & 0xFFFFFFFF
    return x0, x1, x2, x3


def _halves(u64: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The low and the high halves of 64-bit integers."""
    return u64.astype(_U32), (u64 >> _U64(32)).astype(_U32)


def _words(number: int) -> tuple[int, int]:
    return number & 0xFFFFFFFF, number >> 32


def threefry_words(key: int, counter: int, count: int) -> np.ndarray:
    """The words of `count` consecutive counters, as an array of shape (2, count)."""
    counters = (_U64(counter) + part for part in _parts(count))  # modulo 2**64
    return np.concatenate([threefry2x32(_words(key), *_halves(c)) for c in counters], 1)


def philox_words(key: int, counter: int, count: int) -> np.ndarray:
    """The words of `count` consecutive counters of 128 bits, as an array of shape (count, 4)."""
    low, high = _U64(counter & _MASK64), _U64(counter >> 64)
    counters = ((low + part, high + (low + part < low)) for part in _parts(count))  # with the carry
    words = (philox4x32(_words(key), (*_halves(lows), *_halves(highs))) for lows, highs in counters)
    return np.concatenate([np.stack(w, 1) for w in words])


def _parts(count: int) -> Iterator[np.ndarray]:
    """The numbers below `count`, in arrays that fit the cache."""
    return (np.arange(i, min(i + _PART, count), dtype=_U64) for i in range(0, max(count, 1), _PART))


def _join(low: np.ndarray, high: np.ndarray) -> np.ndarray:
    return low | (high.astype(_U64) << _U64(32))


@op("rng_bit_generator", "ui64", operands=1)
def rng_bit_generator(call: Call) -> Run:
    """Random bits that depend on the state alone, and the state that follows.

    The state is a key and a counter. `THREE_FRY` is Threefry-2x32 of 20 rounds, `PHILOX` and `DEFAULT` are Philox-4x32
    of 10 rounds. Elements of fewer than 32 bits are the low bits of 32. Every bit pattern occurs: floats may be NaN.

    (C1) the states have one type. (C2) the state has 2 elements, for `PHILOX` 2 or 3.
    """
    algorithm, state, element = call.attribute("rng_algorithm"), call.tensor(), call.result(1).element
    sizes = {"THREE_FRY": (2,), "PHILOX": (2, 3), "DEFAULT": (2, 3)}.get(algorithm)
    if sizes is None:
        raise UnsupportedOpError(f"expected an rng_algorithm of DEFAULT, THREE_FRY, PHILOX, got {algorithm!r}")
    require(call.result() == state, f"the states are {state} and {call.result()} (expected the same type)")
    (size,) = state.shape if len(state.shape) == 1 else (0,)
    require(size in sizes, f"the state of {algorithm} is {state} (expected {' or '.join(map(str, sizes))} elements)")
    allowed = element.is_integer or element.is_float
    require(allowed, f"the output is {call.result(1)} (expected of integers or floats)")
    return (_threefry if algorithm == "THREE_FRY" else _philox)(call.shape(1), element)


def _threefry(shape: tuple[int, ...], element: ElementType) -> Run:
    # The two words of a counter are one element, or two that lie side by side.
    half, arrange = _side_by_side(shape)
    if element.bits == 64:
        half, arrange = shape, lambda low, high: _join(low, high).reshape(shape)
    count = math.prod(half)

    def kernel(state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        key, counter = state.tolist()
        words = arrange(*threefry_words(key, counter, count))
        return np.array([key, (counter + count) & _MASK64], _U64), _as_element(words, element)

    return kernel


def _side_by_side(shape: tuple[int, ...]) -> tuple[tuple[int, ...], Arrange]:
    """The shape of the counters for an output of this shape, and how their words make it up.

    The words are neighbours along the first dimension of even size, or else the largest, whose last is then left out.
    """
    if not shape:
        return (), lambda low, _: low.reshape(())
    split = next((d for d, n in enumerate(shape) if n % 2 == 0), shape.index(max(shape)))
    half = tuple((n + 1) // 2 if d == split else n for d, n in enumerate(shape))
    whole = tuple(2 * n if d == split else n for d, n in enumerate(half))
    cut = tuple(slice(n) for n in shape)
    return half, lambda low, high: np.stack((low.reshape(half), high.reshape(half)), split + 1).reshape(whole)[cut]


def _philox(shape: tuple[int, ...], element: ElementType) -> Run:
    size = math.prod(shape)
    per_counter = 2 if element.bits == 64 else 4
    count = -(-size // per_counter)

    def kernel(state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        key, *counter = state.tolist()
        # A state of two elements is the key, which is also the high half of the counter, and the low half.
        low, high = counter if len(counter) == 2 else (counter[0], key)
        words = philox_words(key, low | high << 64, count)
        after = ((low | high << 64) + count) & _MASK128
        following = np.array([key, after & _MASK64, after >> 64][: len(state)], _U64)
        if element.bits == 64:
            words = _join(words[:, 0::2], words[:, 1::2])
        return following, _as_element(words.ravel()[:size], element).reshape(shape)

    return kernel


def _as_element(words: np.ndarray, element: ElementType) -> np.ndarray:
    """The low bits of words, as codes of the element type."""
    if element.is_integer:
        return wrap(words, element)
    if element.bits < 8:
        words = words & _U32((1 << element.bits) - 1)
    return array_of(words.astype(element.format.code_dtype), element.format)


_F64 = ELEMENT_TYPES["f64"]


@op(
    "rng",
    "bool integer float",
    values="numbers",
    operands=3,
    accuracy=Accuracy("random"),
    has_effects=True,  # it draws from the run's stream
)
def rng(call: Call) -> Run:
    """Random numbers from the run's stream: uniform from a up to but without b, or normal with mean a and deviation b.

    Floats are drawn in f64 and rounded once; where that makes a uniform one b, it is the largest number below b. Where
    a is not below b, all are a.

    (C1) one element type. (C2) `NORMAL` takes floats. (C3) the result has the shape given.
    """
    element, distribution = call.tensor().element, call.attribute("rng_distribution")
    for t in (call.tensor(), call.tensor(1)):
        require(t.shape == () and t.element == element, f"a and b are {call.tensor()} and {t} (expected scalars)")
    require(call.result().element == element, f"the result is {call.result()} (expected of {element})")
    given = call.tensor(2)
    require(len(given.shape) == 1 and given.element.is_integer, f"shape is {given} (expected a list of integers)")
    rank = len(call.result().shape)
    fits = given.shape[0] in (None, rank)
    require(fits, f"shape is {given} (expected {rank} elements, as {call.result()} dimensions)")
    fits = distribution in ("UNIFORM", "NORMAL")
    require(fits, f"expected an rng_distribution of UNIFORM or NORMAL, got {distribution!r}")
    require(distribution == "UNIFORM" or element.is_float, f"expected floats for NORMAL, got {element}")
    is_normal = distribution == "NORMAL"
    draw = functools.partial(_draw_floats, call, element, is_normal)
    draw = draw if element.is_float else functools.partial(_draw_integers, call, element)

    def kernel(a: np.ndarray, b: np.ndarray, shape: np.ndarray) -> np.ndarray:
        size = tuple(shape.tolist())
        fits = min(size, default=0) >= 0 and call.result().admits(size)
        require(fits, f"shape is {list(size)}, which does not fit the result {call.result()}")
        return draw(np.asarray(a), np.asarray(b), size)

    return kernel


def _draw_integers(
    call: Call, element: ElementType, a: np.ndarray, b: np.ndarray, shape: tuple[int, ...]
) -> np.ndarray:
    low, high = int(a), int(b)
    if low >= high - 1:
        return np.full(shape, low, element.dtype)
    wide = np.int64 if element.kind is Kind.SIGNED else np.uint64
    return np.asarray(call.random.generator.integers(low, high, shape, wide)).astype(element.dtype)


def _draw_floats(
    call: Call, element: ElementType, is_normal: bool, a: np.ndarray, b: np.ndarray, shape: tuple[int, ...]
) -> np.ndarray:
    policy = call.policy.for_results(element)
    low, high = (float(cast(v, element, _F64, policy)) for v in (a, b))  # or mean and deviation
    if is_normal:
        x = call.random.generator.standard_normal(shape) * high + low
        return cast(np.asarray(x), _F64, element, policy, call.random.draws(policy))
    if not low < high:
        return np.full(shape, math.nan if math.isnan(low) or math.isnan(high) else low).astype(element.dtype)
    u = np.asarray(call.random.generator.random(shape))
    x = np.asarray(low * (1 - u) + high * u)  # not low + u * (high - low), whose difference can overflow
    result = cast(np.maximum(x, low), _F64, element, policy, call.random.draws(policy))
    reached = np.asarray(cast(result, element, _F64, policy) >= high)
    return np.where(reached, np.nextafter(b, a), result) if reached.any() else result
