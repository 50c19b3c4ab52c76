"""Random bits are those of the published algorithms and of XLA; random numbers lie where, and as, they should."""

import jax
import numpy as np
import pytest

from minihlo import interp
from minihlo.interp.errors import ExecutionError, ProgramError
from minihlo.ops.policy import Policy
from minihlo.ops.programs.random import philox4x32, threefry2x32
from minihlo.ops.types import element_type

from ..run_op import FLOATS, codes, from_codes

LAST = 2**64 - 1
ALGORITHMS = {
    "THREE_FRY": jax.lax.RandomAlgorithm.RNG_THREE_FRY,
    "PHILOX": jax.lax.RandomAlgorithm.RNG_PHILOX,
    "DEFAULT": jax.lax.RandomAlgorithm.RNG_DEFAULT,
}
#: Scalars, odd sizes, ties between the largest, no elements, and (70,001) several blocks with a rest.
SHAPES = [(), (1,), (5,), (0,), (3, 0), (3, 4), (3, 5), (5, 5), (7, 3, 5), (2, 3, 3), (70_001,)]
#: The shapes of each algorithm that are tried in every run: no elements, one, an odd number, and more than a block.
TRIED = {
    "THREE_FRY": [(), (5,), (3, 0), (3, 5), (70_001,)],
    "PHILOX": [(1,), (0,), (3, 4), (7, 3, 5), (70_001,)],
    "DEFAULT": [(5, 5)],
}
WIDTHS = (8, 16, 32, 64)


def bits(algorithm: str, state: list[int], shape: tuple[int, ...], element: str) -> list[np.ndarray]:
    states, output = f"tensor<{len(state)}xui64>", f"tensor<{'x'.join(map(str, (*shape, element)))}>"
    program = f"""func.func @main(%s: {states}) -> ({states}, {output}) {{
      %r:2 = "stablehlo.rng_bit_generator"(%s) {{rng_algorithm = #stablehlo<rng_algorithm {algorithm}>}}
        : ({states}) -> ({states}, {output})
      return %r#0, %r#1 : {states}, {output}
    }}"""
    return interp.load(program)(np.array(state, np.uint64))


ONES = 0xFFFFFFFF
PI = [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344, 0xA4093822, 0x299F31D0]


def words(*values: int) -> tuple[np.ndarray, ...]:
    return tuple(np.array([v], np.uint32) for v in values)


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ([0, 0], (0, 0), [0x6B200159, 0x99BA4EFE]),
        ([ONES, ONES], (ONES, ONES), [0x1CB996FC, 0xBB002BE7]),
        (PI[:2], (PI[2], PI[3]), [0xC4923A9C, 0x483DF7A0]),
    ],
)
def test_threefry_known_answers(counter: list[int], key: tuple[int, int], expected: list[int]) -> None:
    assert [int(w[0]) for w in threefry2x32(key, *words(*counter))] == expected


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ([0] * 4, (0, 0), [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        ([ONES] * 4, (ONES, ONES), [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
        (PI[:4], (PI[4], PI[5]), [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]),
    ],
)
def test_philox_known_answers(counter: list[int], key: tuple[int, int], expected: list[int]) -> None:
    assert [int(w[0]) for w in philox4x32(key, words(*counter))] == expected


@pytest.mark.parametrize(
    ("algorithm", "shape"),
    [pytest.param(a, s, marks=[] if s in TRIED[a] else [pytest.mark.exhaustive]) for a in ALGORITHMS for s in SHAPES],
    ids=str,
)
def test_bits_are_those_of_xla(algorithm: str, shape: tuple[int, ...]) -> None:
    def of_all_widths(state: jax.Array) -> list[list[jax.Array]]:
        how = ALGORITHMS[algorithm]
        return [jax.lax.rng_bit_generator(state, shape, f"uint{n}", algorithm=how) for n in WIDTHS]

    with jax.enable_x64(True):
        xla = jax.jit(of_all_widths)
        for state in ([1, 2], [0, 0], [5, LAST - 1], [LAST, LAST]):  # counters that wrap too
            for n, expected in zip(WIDTHS, xla(np.array(state, np.uint64)), strict=True):
                for ours, theirs in zip(bits(algorithm, state, shape, f"ui{n}"), expected, strict=True):
                    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
                    assert np.array_equal(ours, theirs)


#: What XLA's CPU compiler (jaxlib 0.10.2) gives for the state 1, 2, 3 (or 1, 2) and five elements: the state that
#: follows, and the low 16 bits of five elements of up to 32 bits, of which narrower ones are the low bits.
MEASURED = {
    ("THREE_FRY", 2): ([1, 5], [59732, 54587, 37587, 20483, 3027]),
    ("PHILOX", 2): ([1, 4], [42825, 48104, 9175, 9433, 9214]),
    ("PHILOX", 3): ([1, 4, 3], [59210, 12518, 62469, 39574, 23787]),
    ("DEFAULT", 3): ([1, 4, 3], [59210, 12518, 62469, 39574, 23787]),
}


@pytest.mark.parametrize(("algorithm", "size"), MEASURED)
@pytest.mark.parametrize("element", ["i2", "ui4", "i8", "ui16", *(str(t) for t in FLOATS if t.bits <= 16)])
def test_bits_of_narrow_types(algorithm: str, size: int, element: str) -> None:
    following, low = MEASURED[algorithm, size]
    state, output = bits(algorithm, [1, 2, 3][:size], (5,), element)
    assert state.tolist() == following
    mask = (1 << element_type(element).bits) - 1
    assert output.dtype == element_type(element).dtype
    assert [int(c) & mask for c in codes(output)] == [w & mask for w in low]
    if element_type(element).is_float:
        assert codes(output).max() <= mask  # bits beyond the type stay clear


@pytest.mark.parametrize("integer", ["i64", "f64"])
def test_bits_of_wide_types(integer: str) -> None:
    # The specification's own example, whose state was 1, 2.
    expected = [9236835810183407956, 16087790271692313299, 18212823393184779219, 2658481902456610144]
    state, output = bits("THREE_FRY", [1, 2], (2, 2), integer)
    assert (state.tolist(), codes(output).ravel().tolist()) == ([1, 6], expected)
    # XLA's CPU compiler, jaxlib 0.10.2
    state, output = bits("PHILOX", [1, 2, 3], (3,), integer)
    assert codes(output).tolist() == [5869932932755744586, 13107052260063114245, 8234580641674714347]
    assert state.tolist() == [1, 4, 3]


def test_counters_of_three_words_carry() -> None:
    state, _ = bits("PHILOX", [7, LAST - 1, 41], (9,), "ui32")
    assert state.tolist() == [7, 1, 42]
    state, _ = bits("PHILOX", [7, LAST, LAST], (4,), "ui32")
    assert state.tolist() == [7, 0, 0]


@pytest.mark.parametrize(
    ("algorithm", "size", "element", "message"),
    [
        ("THREE_FRY", 3, "ui32", "expected 2 elements"),
        ("PHILOX", 4, "ui32", "expected 2 or 3 elements"),
        ("DEFAULT", 1, "ui32", "expected 2 or 3 elements"),
        ("PHILOX", 2, "i1", "must be"),
        ("PHILOX", 2, "complex<f32>", "must be"),
    ],
)
def test_bits_errors(algorithm: str, size: int, element: str, message: str) -> None:
    with pytest.raises(ProgramError, match=message):
        bits(algorithm, [1] * size, (2,), element)


def numbers(kind: str, a: np.ndarray, b: np.ndarray, shape: list[int], element: str, seed: int = 0) -> list[np.ndarray]:
    """Two results in one program."""
    t, result = f"tensor<{element}>", f"tensor<{'x'.join(map(str, (*shape, element)))}>"
    sizes = f"dense<{shape}> : tensor<{len(shape)}xi64>" if shape else "dense<> : tensor<0xi64>"
    ops = "\n".join(
        f'%{r} = "stablehlo.rng"(%a, %b, %s) {{rng_distribution = #stablehlo<rng_distribution {kind}>}}'
        f" : ({t}, {t}, tensor<{len(shape)}xi64>) -> {result}"
        for r in "xy"
    )
    program = f"""func.func @main(%a: {t}, %b: {t}) -> ({result}, {result}) {{
      %s = stablehlo.constant {sizes}
      {ops}
      return %x, %y : {result}, {result}
    }}"""
    results = interp.load(program)(a, b, policy=Policy(seed=seed))
    for r in results:
        assert (r.dtype, r.shape) == (element_type(element).dtype, tuple(shape))
    return results


def scalar(value: float, element: str) -> np.ndarray:
    return np.array(value).astype(element_type(element).dtype)


def test_numbers_depend_on_the_seed_alone() -> None:
    a, b = scalar(0, "f32"), scalar(1, "f32")
    x, y = numbers("UNIFORM", a, b, [100], "f32")
    again, _ = numbers("UNIFORM", a, b, [100], "f32")
    other, _ = numbers("UNIFORM", a, b, [100], "f32", seed=1)
    assert np.array_equal(x, again)
    assert not np.array_equal(x, y)
    assert not np.array_equal(x, other)


@pytest.mark.parametrize("element", ["i2", "i4", "ui4", "i8", "ui8", "i16", "ui32", "i64", "ui64"])
def test_uniform_integers(element: str) -> None:
    low = 0 if element.startswith("u") else -2
    x, _ = numbers("UNIFORM", scalar(low, element), scalar(1, element), [200], element)
    assert set(x.astype(int).tolist()) == set(range(low, 1))


def test_uniform_integers_of_the_whole_range() -> None:
    x, _ = numbers("UNIFORM", scalar(0, "ui64"), np.array(LAST, np.uint64), [1000], "ui64")
    assert (x > 2**63).mean() == pytest.approx(0.5, abs=0.1)
    x, _ = numbers("UNIFORM", np.array(-(2**63)), np.array(2**63 - 1), [1000], "i64")
    assert (x < 0).mean() == pytest.approx(0.5, abs=0.1)


def test_uniform_booleans() -> None:
    x, _ = numbers("UNIFORM", np.array(False), np.array(True), [9], "i1")
    assert not x.any()  # all that is from false up to but without true


@pytest.mark.parametrize("element", [str(t) for t in FLOATS])
def test_uniform_floats(element: str) -> None:
    """Every number from 1 up to 4 occurs in the narrow types, and 4 never does."""
    x, _ = numbers("UNIFORM", scalar(1, element), scalar(4, element), [20_000], element)
    values = x.astype(np.float64)
    assert values.min() >= 1
    assert values.max() < 4
    # In f4E2M1FN 1, 1.5, 2 and 3 are nearest to 1/4, 1/2, 3/4 and 3/2 of the interval; in f8E8M0FNU there are 1 and 2.
    expected = {"f4E2M1FN": 7 / 3, "f8E8M0FNU": 11 / 6}.get(element, 2.5)
    assert values.mean() == pytest.approx(expected, abs=0.05)
    if element_type(element).bits <= 8:
        first, last = (int(codes(scalar(v, element))) for v in (1, 4))
        assert set(codes(x).tolist()) == set(range(first, last))


@pytest.mark.parametrize("element", ["f6E2M3FN", "f8E4M3FN", "f8E4M3FNUZ", "f8E5M2", "f16", "f32", "f64"])
def test_uniform_floats_below_zero_and_one_apart(element: str) -> None:
    sign = element_type(element).format.sign_bit
    for below, above in ((sign | 2, sign | 1), (sign | 1, 0), (0, 1), (1, 2)):  # neighbours: only the lower is left
        x, _ = numbers("UNIFORM", from_codes(below, element), from_codes(above, element), [50], element)
        if below:
            assert set(codes(x).tolist()) == {below}
        else:
            assert not x.astype(np.float64).any()


def test_uniform_floats_of_the_whole_range() -> None:
    largest = np.finfo(np.float64).max
    x, _ = numbers("UNIFORM", np.array(-largest), np.array(largest), [1000], "f64")
    assert np.isfinite(x).all()
    assert (x < 0).mean() == pytest.approx(0.5, abs=0.1)


def test_uniform_where_a_is_not_below_b() -> None:
    assert set(numbers("UNIFORM", scalar(3, "i32"), scalar(2, "i32"), [9], "i32")[0].tolist()) == {3}
    assert set(numbers("UNIFORM", scalar(2, "f32"), scalar(2, "f32"), [9], "f32")[0].tolist()) == {2}
    assert np.isnan(numbers("UNIFORM", scalar(np.nan, "f32"), scalar(2, "f32"), [9], "f32")[0]).all()


@pytest.mark.parametrize("element", ["f8E5M2", "f8E4M3FN", "f16", "bf16", "f32", "f64"])
def test_normal(element: str) -> None:
    x, _ = numbers("NORMAL", scalar(2, element), scalar(0.5, element), [20_000], element)
    values = x.astype(np.float64)
    assert values.mean() == pytest.approx(2, abs=0.02)
    assert values.std() == pytest.approx(0.5, abs=0.03)
    assert (np.abs(values - 2) > 1).mean() == pytest.approx(0.0455, abs=0.025)  # beyond two deviations


@pytest.mark.parametrize("shape", [[], [0], [2, 0, 3], [2, 3]])
@pytest.mark.parametrize("kind", ["UNIFORM", "NORMAL"])
def test_shapes_of_numbers(kind: str, shape: list[int]) -> None:
    numbers(kind, scalar(0, "f8E4M3FN"), scalar(1, "f8E4M3FN"), shape, "f8E4M3FN")


def test_numbers_in_a_shape_that_is_computed() -> None:
    program = """func.func @main(%s: tensor<2xi64>) -> tensor<?x3xf32> {
      %a = stablehlo.constant dense<0.0> : tensor<f32>
      %r = "stablehlo.rng"(%a, %a, %s) {rng_distribution = #stablehlo<rng_distribution NORMAL>}
        : (tensor<f32>, tensor<f32>, tensor<2xi64>) -> tensor<?x3xf32>
      return %r : tensor<?x3xf32>
    }"""
    loaded = interp.load(program)
    assert loaded(np.array([4, 3]))[0].shape == (4, 3)
    for wrong in ([4, 2], [-1, 3]):
        with pytest.raises(ExecutionError, match=r"stablehlo\.rng: shape is .* does not fit"):
            loaded(np.array(wrong))


def test_normal_takes_floats() -> None:
    with pytest.raises(ProgramError):
        numbers("NORMAL", scalar(0, "i32"), scalar(1, "i32"), [3], "i32")


@pytest.mark.parametrize("kind", ["UNIFORM", "NORMAL"])
def test_rng_rounds_stochastically(kind: str) -> None:
    program = f"""func.func @main(%a: tensor<f8E4M3FN>, %b: tensor<f8E4M3FN>) -> tensor<64xf8E4M3FN> {{
      %s = stablehlo.constant dense<[64]> : tensor<1xi64>
      %r = "stablehlo.rng"(%a, %b, %s) {{rng_distribution = #stablehlo<rng_distribution {kind}>}}
        : (tensor<f8E4M3FN>, tensor<f8E4M3FN>, tensor<1xi64>) -> tensor<64xf8E4M3FN>
      return %r : tensor<64xf8E4M3FN>
    }}"""
    a, b = interp.cast([1, 4], "f8E4M3FN")
    policy = Policy(rounding="stochastic", seed=5)
    (x,), (y,), (z,) = (interp.load(program)(a, b, policy=p) for p in (policy, policy, Policy(seed=5)))
    assert x.tobytes() == y.tobytes() != z.tobytes()
    assert abs(x.astype(float) - z.astype(float)).max() <= 1  # the neighbours at 8 are one apart
