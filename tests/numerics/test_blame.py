"""interp.blame: of planted faults, those that matter are named and the others are said to contribute nothing."""

import itertools
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from minihlo import interp
from minihlo.interp.numerics.blame_report import Blame, BlamedOp
from minihlo.interp.numerics.measures import Measure
from minihlo.interp.numerics.search import Search
from minihlo.ops.types import ELEMENT_TYPES, TensorType

from .blame_pairs import F8, NAN, OWN, PAIRS, Faulty, Pair, W, X, narrow, put, up

#: A few pairs of each kind; the others take seconds.
QUICK = ("elementwise", "dot, harmless", "convert", "in a scan", "NaN that is masked")


def line_of(op: BlamedOp) -> str:
    return Path(op.location.file).read_text().splitlines()[op.location.line - 1].strip()


def matching(result: Blame, pattern: str) -> list[BlamedOp]:
    """The ops of a result that a fault was planted in: `pattern` is of an op's text as a backend gets it."""
    return [o for o in result.ranking if re.search(pattern, f"{o.op} {o.types}(") or re.search(pattern, f"{o.op}(")]


def check(pair: Pair) -> None:
    for fault, is_harmful in ((pair.harmless, False), (pair.harmful, True)):  # the pair is what it claims to be
        outputs = [
            jax.tree.leaves(interp.compare(pair.function, *pair.arguments, backend=b).results)
            for b in (Faulty([fault]), OWN)
        ]
        same = all(np.array_equal(a, b, equal_nan=True) for a, b in zip(*outputs, strict=True))
        assert same != is_harmful, "harmful" if is_harmful else "harmless"
    result = interp.blame(
        pair.function, *pair.arguments, bad=Faulty([pair.harmless, pair.harmful]), measure=pair.measure
    )
    harmless, harmful = (matching(result, fault[0]) for fault in (pair.harmless, pair.harmful))
    assert harmless, str(result)
    assert harmful, str(result)
    assert result.complete
    assert result.explained >= 0.95
    assert result.ranking[0] in harmful, str(result)
    assert set(result.explains) <= set(harmful), str(result)
    assert [o.says for o in harmless] == ["differs, contributes nothing"] * len(harmless), str(result)
    assert not any(o.contributes for o in harmless)


@pytest.mark.parametrize("name", QUICK)
def test_blame_names_the_fault_that_matters(name: str) -> None:
    check(PAIRS[name])


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", sorted(set(PAIRS) - set(QUICK)))
def test_pairs_of_faults_of_every_kind(name: str) -> None:
    check(PAIRS[name])


def test_the_line_and_the_numbers_of_an_op() -> None:
    def f(x: Any) -> Any:
        y = jnp.sin(x)
        return jnp.exp(y)  # here

    result = interp.blame(f, X, bad=Faulty([(r"\.exponential ", up(1 << 20, (0, 0)))]))
    (op,) = result.explains
    assert "# here" in line_of(op)
    assert (op.executions, op.elements, op.differing) == (2, 48, 2)
    good = np.exp(np.sin(X.astype(np.float64)))
    bad: Any = good.astype(np.float32)
    bad.view(np.uint32)[0, 0] += 1 << 20
    assert result.total.size == pytest.approx(abs(bad[0, 0] - good[0, 0]) / np.linalg.norm(good), rel=1e-5)
    assert op.alone == result.total
    assert op.share == 1
    assert op.without is not None
    assert not op.without


def test_two_faults_that_cancel_make_no_difference() -> None:
    def f(x: Any) -> Any:
        return jnp.where(x > 0, x * 2.0, x) + jnp.where(x > 0, x / 2.0, x)

    def shift(amount: float) -> Callable[[np.ndarray], np.ndarray]:
        def change(x: np.ndarray) -> np.ndarray:
            y = np.array(x).view(np.float32)
            y[3, 5] += amount
            return y.view(np.uint32)

        return change

    result = interp.blame(f, np.round(X), bad=Faulty([(r"\.multiply", shift(0.5)), (r"\.divide", shift(-0.5))]))
    assert not result.differs
    assert result.explains == ()
    assert {o.op for o in result.ranking} == {"stablehlo.multiply", "stablehlo.divide"}
    assert all(o.alone and o.contributes for o in result.ranking)
    assert "cancel" in " ".join(result.notes)


def test_of_faults_that_cancel_and_another_the_other_explains() -> None:
    def f(x: Any) -> Any:
        return (x + 1) - (x + 2), jnp.sin(x)

    def one_more(x: np.ndarray) -> np.ndarray:
        return (x.view(np.float32) + np.float32(1)).view(np.uint32)

    result = interp.blame(f, np.round(X), bad=Faulty([(r"\.add", one_more), (r"\.sine", up(1 << 10))]))
    assert [o.op for o in result.explains] == ["stablehlo.sine"]
    assert [o.op for o in result.ranking[1:]] == ["stablehlo.add"] * 2
    assert "not needed" in result.ranking[1].says


def test_two_faults_that_only_matter_together() -> None:
    def f(x: Any) -> Any:
        return jnp.minimum(jnp.sin(x) * 0 + 1.0, jnp.cos(x) * 0 + 1.0)  # if one is huge, the other is the smaller

    def huge(x: np.ndarray) -> np.ndarray:
        return np.full_like(x, 0x7F000000)

    result = interp.blame(f, X, bad=Faulty([(r"\.add", huge)]))
    assert len(result.explains) == 2
    assert [not o.alone for o in result.explains] == [True, True]
    assert [o.share for o in result.explains] == [1, 1]


def test_many_ops_that_matter_alike() -> None:
    def f(x: Any) -> Any:
        return jnp.stack([jnp.sin(x * i) for i in range(1, 11)])

    result = interp.blame(f, X, bad=Faulty([(r"\.sine", up(1 << 12))]), share=0.6)
    assert len(result.ranking) == 10
    shares = [o.share or 0.0 for o in result.ranking]
    assert all(0.15 < s < 0.6 for s in shares)
    assert 3 < len(result.explains) < 10
    count = len(result.explains)
    assert shares == [*sorted(shares[:count], reverse=True), *sorted(shares[count:], reverse=True)]
    assert result.explained >= 0.6
    everything = interp.blame(f, X, bad=Faulty([(r"\.sine", up(1 << 12))]), measure="ulp")
    assert len(everything.explains) == 10


def test_a_search_with_few_evaluations_says_so() -> None:
    def f(x: Any) -> Any:
        parts = [jnp.sin(x * i) for i in range(1, 21)]
        return sum(parts[:-1]) * 0 + parts[-1]

    result = interp.blame(f, X, bad=Faulty([(r"\.sine", up(1 << 12))]), evaluations=14)
    assert len(result.evaluations) <= 14
    assert not result.complete
    assert f"after {len(result.evaluations)} evaluations" in " ".join(result.notes)
    assert result.explains
    assert result.explained > 0.9


TWICE = """func.func @main(%x: tensor<3xf32>) -> (tensor<3xf8E4M3FN>, tensor<3xf32>) {
  %a = func.call @f(%x) : (tensor<3xf32>) -> tensor<3xf32>
  %b = stablehlo.convert %a : (tensor<3xf32>) -> tensor<3xf8E4M3FN>
  %c = func.call @f(%a) : (tensor<3xf32>) -> tensor<3xf32>
  return %b, %c : tensor<3xf8E4M3FN>, tensor<3xf32>
}
func.func private @f(%x: tensor<3xf32>) -> tensor<3xf32> {
  %q = stablehlo.convert %x : (tensor<3xf32>) -> tensor<3xf8E4M3FN>
  %y = stablehlo.convert %q : (tensor<3xf8E4M3FN>) -> tensor<3xf32>
  %r = stablehlo.sine %y : tensor<3xf32>
  return %r : tensor<3xf32>
}"""


def test_a_function_called_twice_is_two_ops() -> None:
    result = interp.blame(TWICE, np.array([0.3, 1.1, 2.2], np.float32), bad=Faulty([(r"\.sine", up(1))]))
    assert [o.says for o in result.ranking] == ["explains the difference", "differs, contributes nothing"]
    assert [o.location.line for o in result.ranking] == [10, 10]
    assert [[c.line for c in o.calls] for o in result.ranking] == [[4], [2]]


def test_blame_lines_are_the_users() -> None:
    def f(x: jax.Array) -> jax.Array:
        return jax.nn.softmax(x.astype(jnp.bfloat16)).astype(jnp.float32).sum(0)

    x = np.random.default_rng(0).normal(size=(8, 16)).astype(np.float32)
    result = interp.blame(f, x, good="f32", bad="exact", share=1.0)
    assert len(result.explains) == len(result.ranking) > 1
    assert result.explained == 1
    assert {line_of(o) for o in result.ranking} == {
        "return jax.nn.softmax(x.astype(jnp.bfloat16)).astype(jnp.float32).sum(0)"
    }


def sets(rule: Callable[[frozenset[int]], float]) -> Search[int]:
    """A search over eight ops, where a rule says what a set gives."""

    def evaluate(ops: frozenset[int]) -> list[Any]:
        return [np.array(rule(ops))]

    types = [TensorType((), ELEMENT_TYPES["f64"])]
    bad = evaluate(frozenset(range(8)))
    return Search(evaluate, range(8), Measure("loss", evaluate(frozenset()), types), bad, 0.95, 1000)


@pytest.mark.parametrize("seed", range(30))
def test_the_set_is_one_that_no_op_can_be_left_out_of(seed: int) -> None:
    """Against all 256 sets, where ops add up, need each other, make up for each other or stand in for each other."""
    rng = np.random.default_rng(seed)
    weights = rng.integers(-3, 9, 8) * (rng.random(8) < 0.7)
    pairs = rng.integers(0, 8, (3, 2))
    kinds = rng.integers(0, 2, 3)

    def rule(ops: frozenset[int]) -> float:
        together = [
            ({*map(int, p)} <= ops) if k else bool({*map(int, p)} & ops) for p, k in zip(pairs, kinds, strict=True)
        ]
        return float(sum(weights[i] for i in ops) + 10 * sum(together))

    search = sets(rule)
    effects = search.effects()
    full, total = frozenset(range(8)), rule(frozenset(range(8)))
    for i, effect in effects.items():
        assert effect.alone.size == abs(rule(frozenset([i])) - rule(frozenset()))
        assert effect.without.size == abs(rule(full - {i}))
        assert effect.moved.size == abs(total - rule(full - {i}))
    smallest = frozenset(search.smallest(sorted(range(8), key=lambda i: effects[i].most, reverse=True)))
    explains = {
        frozenset(c): abs(rule(frozenset(c)) - total) <= 0.05 * abs(total)
        for n in range(9)
        for c in itertools.combinations(range(8), n)
    }
    if total:
        assert explains[smallest]
        assert not any(explains[smallest - {i}] for i in smallest)
        if any(e for c, e in explains.items() if len(c) == 1):
            assert len(smallest) == 1
    else:
        assert not smallest


def two_layers(x: Any, w: Any, v: Any) -> Any:
    h = jax.lax.dot(x.astype(F8), w.astype(F8), preferred_element_type=jnp.float32)
    y = jnp.maximum(h, 0)  # no products
    return y @ v


def test_two_chips_part_at_the_dot_whose_accumulator_differs() -> None:
    rng = np.random.default_rng(0)
    x, w, v = (rng.normal(size=s).astype(np.float32) for s in ((8, 128), (128, 16), (16, 4)))
    result = interp.blame(two_layers, x, w, v, good=interp.Policy.target("h100"), bad="b200")
    assert [o.op for o in result.explains] == ["stablehlo.dot_general"]
    assert "w.astype(F8)" in line_of(result.explains[0])
    assert len(result.ranking) == 1
    assert interp.blame(two_layers, x, w, v, good="b200", bad="b200").ranking == ()


def test_of_f32_and_fp8_the_conversions_that_lose_are_named() -> None:
    def f(x: Any, w: Any) -> Any:
        kept = x.astype(F8).reshape(-1)  # a quarter of its range: rounded
        lost = (w * 1000).astype(F8).T  # beyond the largest
        return jnp.concatenate([kept, lost.reshape(-1)]).astype(jnp.float32)

    result = interp.blame(f, X, W, good="f32", bad="exact")
    assert [o.op for o in result.ranking] == ["stablehlo.convert"] * 2  # what moves elements rounds none
    assert "beyond" in line_of(result.explains[0])
    assert result.total.lost == int((np.abs(W) * 1000 > 464).sum())
    assert interp.blame(f, X, W, good="f32", bad="f32").ranking == ()
    example = Path(__file__).parents[2] / "examples/fnuz_dot.mlir"  # a scalar is an array too
    assert len(interp.blame(example, good="f32", bad="exact").ranking) == 2


def test_an_op_beside_a_wide_type_rounds_its_own_result_only() -> None:
    def f(x: Any) -> Any:
        a = x.astype(F8)
        return (a + a * a).astype(jnp.float32)

    x = np.array([1.0625, 3.3, 0.1], np.float32)  # 1.0625 is a tie of f8E4M3FN
    result = interp.blame(f, x, good="f32", bad="exact")
    by_op = {o.op.partition(".")[2]: o for o in result.ranking}
    assert set(by_op) == {"convert", "multiply", "add"}
    round_ = lambda v: np.asarray(v, np.float32).astype(F8).astype(np.float64)  # noqa: E731
    good = x + x.astype(np.float64) ** 2
    expected = {"convert": round_(x) + round_(x) ** 2, "multiply": x + round_(x**2), "add": round_(x + x**2)}
    for name, y in expected.items():
        alone = by_op[name].alone
        assert alone is not None
        assert alone.size == pytest.approx(np.linalg.norm(y - good) / np.linalg.norm(good), rel=1e-5), name


@pytest.mark.parametrize("measure", ["norm", "ulp", "loss", lambda a, b: abs(a[0] - b[0])])
def test_measures(measure: Any) -> None:
    def f(x: Any) -> Any:
        return jnp.sum(jnp.sin(x)), narrow(jnp.cos(x))

    result = interp.blame(f, X, bad=Faulty([(r"\.sine", up(1 << 20, 0)), (r"\.cosine", up(1))]), measure=measure)
    assert [o.op for o in result.explains] == ["stablehlo.sine"]
    good: Any = np.sin(X.astype(np.float64)).astype(np.float32)
    bad = good.copy()
    bad[0] = (bad[0].view(np.uint32) + (1 << 20)).view(np.float32)
    apart = abs(bad.sum(dtype=np.float64) - good.sum(dtype=np.float64))
    if measure == "norm":
        assert result.total.size == pytest.approx(apart / abs(good.sum(dtype=np.float64)), rel=1e-2)
    elif measure != "ulp":
        assert result.total.size == pytest.approx(apart, rel=1e-3)
    json.loads(result.to_json())


def test_what_is_not_finite_comes_first() -> None:
    def f(x: Any) -> Any:
        return jnp.sin(x), jnp.cos(x)

    result = interp.blame(f, X, bad=Faulty([(r"\.sine", up(1 << 21)), (r"\.cosine", put(NAN, (1, 1)))]))
    assert result.ranking[0].op == "stablehlo.cosine"
    assert result.total.lost == 1
    assert "not finite" in str(result)


def test_ways_that_compute_alike() -> None:
    result = interp.blame(two_layers, X, np.ones((6, 3), np.float32), np.ones((3, 2), np.float32), bad="minihlo")
    assert result.ranking == ()
    assert not result.differs
    assert "alike" in str(result)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"bad": "nonsense"}, "bad: expected a backend"),
        ({"good": 3}, "good: expected a backend"),
        ({"measure": "size"}, "measure: expected one of norm, ulp, loss or a function, got 'size'"),
        ({"measure": "loss"}, "measure: expected an output that is a floating-point scalar"),
        ({"share": 0.0}, "share: expected more than 0"),
        ({"evaluations": 0}, "evaluations: expected at least 1, got 0"),
        ({"good": "f32", "bad": "f64"}, "expected one wide type at most"),
        ({"measure": lambda _a, _b: "x"}, "measure: expected a number"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], said: str) -> None:
    given = {"bad": Faulty([(r"\.sine", up(1))])} | arguments
    with pytest.raises(interp.InputError, match=re.escape(said)):
        interp.blame(lambda x: jnp.sin(x), X, **given)


def test_a_loop_that_a_fault_keeps_from_ending() -> None:
    def f(x: Any) -> Any:
        return jax.lax.while_loop(lambda c: c < 3, lambda c: c * 2, x)

    result = interp.blame(f, np.float32(1), bad=Faulty([(r"\.multiply", lambda x: x * 0)]), iterations=50)
    assert [o.op for o in result.explains] == ["stablehlo.multiply"]
    assert "stopped after 50 iterations" in " ".join(result.notes)


def test_a_result_is_computed_once_for_the_same_operands() -> None:
    asked: list[str] = []

    class Counted(Faulty):
        def evaluate(self, text: str, arrays: Any) -> Any:
            asked.append(text)
            return super().evaluate(text, arrays)

    def f(x: Any) -> Any:
        return jnp.exp(jnp.sin(narrow(jnp.cos(x))))

    result = interp.blame(f, X, bad=Counted([(r"\.cosine", up(1)), (r"\.sine", up(9))]))
    assert len(result.ranking) == 2
    # cos, both conversions, sin and exp on good operands; a conversion and exp on what the faults have changed.
    assert len(asked) == 7
    assert math.isclose(result.explained, 1)
