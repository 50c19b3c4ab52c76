"""interp.compare: ops are named where a backend goes wrong, and only these. The faults are planted."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from minihlo import interp
from minihlo.interp.backends import Minihlo
from minihlo.interp.conform.result import CRASH, FAIL, PASS, UNSUPPORTED

from .divergence_cases import F8, Faulty, Results, W, X, line_of, next_code, sole_failure, verdicts


def model(x: Any, w: Any) -> Any:
    h = x.astype(F8) @ w.astype(F8)
    e = jnp.exp(h)  # here
    s = e + e  # and here
    m = jax.lax.fori_loop(0, 3, lambda _, c: jnp.sin(c), s)  # and in a loop
    c = jax.lax.cond(m[0, 0] > 7, lambda v: -v, lambda v: jax.lax.abs(v), m)
    return jax.nn.relu(c).T, jnp.argsort(x, 1), x.sum(), x[:, ::2]


@pytest.mark.parametrize("how", ["op", "program"])
def test_without_a_fault_all_ops_pass(how: str) -> None:
    report = interp.compare(model, X, W, backend="minihlo", how=how)
    assert set(verdicts(report)) == {PASS}
    assert report.failures == []
    assert report.verdict == PASS
    assert [r.shape for r in report.results] == [(2, 4), (4, 6), (), (4, 3)]


#: What is wrong, and what stands in its line.
PLANTED = {
    r"stablehlo.dot_general": "h = x.astype",
    r"stablehlo.convert .*f32.* -> tensor<6x2xf8": "h = x.astype",
    r"stablehlo.exponential": "# here",
    r"stablehlo.add .*f8": "# and here",
    r"stablehlo.sine": "# and in a loop",
    r"stablehlo.abs": "jax.lax.cond",
    r"stablehlo.compare .*f8": "jax.lax.cond",
    r"stablehlo.maximum": "jax.nn.relu",  # in a function that JAX makes
    r"stablehlo.transpose": "jax.nn.relu",
    r"stablehlo.sort": "jnp.argsort",
    r"stablehlo.reduce\(": "x.sum",
    r"stablehlo.slice .*4x6xf32": "x[:, ::2]",
}


@pytest.mark.parametrize("op", PLANTED)
def test_a_backend_that_is_wrong_in_one_op(op: str) -> None:
    change = (lambda r: [2 * x for x in r]) if "reduce" in op else next_code
    report = interp.compare(model, X, W, backend=Faulty(op, change))
    failure = sole_failure(report)
    assert re.search(op.partition(" ")[0].rstrip("\\("), failure.op)
    assert PLANTED[op] in line_of(failure)
    if "sort" not in op and "reduce" not in op:
        assert f"{failure.elements // failure.executions} element" in str(report) or failure.executions > 1


@pytest.mark.parametrize("how", ["op", "program"])
def test_each_op_is_given_what_the_backend_has_computed(how: str) -> None:
    given: list[list[int]] = []

    def evaluate(text: str, arrays: Sequence[np.ndarray]) -> Results:
        if "stablehlo.multiply" in text:
            given.extend(a.tolist() for a in arrays)
        text = text.replace("stablehlo.add", "stablehlo.subtract")
        return Minihlo("minihlo", interp.Policy()).evaluate(text, arrays)

    def f(x: Any, y: Any) -> Any:
        return (x + y) * y

    report = interp.compare(f, np.array([7]), np.array([2]), backend=evaluate, how=how)
    assert [o.verdict for o in report.ops] == [FAIL, PASS]
    assert report.results[0].tolist() == [10]  # (7 - 2) * 2
    # By itself; and in the program as it stands.
    assert given == ([[5], [2], [7], [2]] if how == "op" else [[7], [2]])


def test_one_wrong_code_of_65536_is_found_and_reported() -> None:
    pairs = np.meshgrid(*[np.arange(256, dtype=np.uint8)] * 2, indexing="ij")
    x, y = (p.ravel().view(F8) for p in pairs)
    at = 0x38 << 8 | 0x40  # 1 + 2

    def change(results: Results) -> Results:
        if results[0].size != 65536:  # of a part it is wrong too
            return [results[0] + np.uint8(results[0].size == 1)]
        actual = results[0].copy()
        actual[at] += 1
        return [actual]

    failure = sole_failure(interp.compare(lambda a, b: a + b, x, y, backend=Faulty("stablehlo.add", change)))
    assert (failure.differing, failure.elements, dict(failure.histogram)) == (1, 65536, {1.0: 1})
    (example,) = failure.worst
    assert example.index == (at,)
    assert example.operands == ("0x38 = 1 : f8E4M3FN", "0x40 = 2 : f8E4M3FN")
    assert (example.got, example.expected, example.ulp) == ("0x45 = 3.25", "0x44 = 3", 1)
    assert failure.input_values == ["1xf8E4M3FN=[0x38]", "1xf8E4M3FN=[0x40]"]
    assert interp.load(failure.program)(*failure.inputs)[0].tolist() == [3]


def test_irreducible_faults_have_all_operands(tmp_path: Path) -> None:
    def change(results: Results) -> Results:
        return next_code(results) if results[0].size == 100 else results

    x = np.arange(100, dtype=np.float32)
    failure = sole_failure(interp.compare(jnp.negative, x, backend=Faulty("stablehlo.negate", change)))
    assert "tensor<100xf32>" in failure.program
    assert failure.input_values == ["@input0.npy"]
    failure.save(tmp_path)
    assert np.array_equal(np.load(tmp_path / "input0.npy"), x)
    assert (tmp_path / "op.mlir").read_text() == failure.program


def test_unsupported_ops_use_our_result() -> None:
    def refuse(_: Results) -> Any:
        raise NotImplementedError("no exponential")

    def crash(_: Results) -> Any:
        raise RuntimeError("boom")

    report = interp.compare(model, X, W, backend=Faulty("stablehlo.exponential", refuse))
    assert {o.op: o.verdict for o in report.ops if o.verdict != PASS} == {"stablehlo.exponential": UNSUPPORTED}
    assert report.failures == []
    assert "no exponential" in str(report)
    report = interp.compare(model, X, W, backend=Faulty("stablehlo.exponential", crash))
    assert [(o.op, o.verdict) for o in report.failures] == [("stablehlo.exponential", CRASH)]
    assert "RuntimeError: boom" in str(report)


def test_results_of_other_types() -> None:
    def reshaped(results: Results) -> Results:
        return [results[0].T]

    def none(_: Results) -> Results:
        return []

    x = np.zeros((2, 3), np.float32)
    failure = sole_failure(interp.compare(jnp.sin, x, backend=Faulty("stablehlo.sine", reshaped)))
    assert failure.notes == ["gives f32[3, 2] where f32[2, 3] is right"]
    report = interp.compare(jnp.sin, x, backend=Faulty("stablehlo.sine", none))
    assert [o.verdict for o in report.failures] == [CRASH]


def test_an_op_of_a_loop_is_counted_over_its_iterations() -> None:
    def f(x: Any) -> Any:
        return jax.lax.fori_loop(0, 5, lambda i, c: c * i, x)

    x = np.ones(3, F8)
    failure = sole_failure(interp.compare(f, x, backend=Faulty(r"stablehlo.multiply .*f8", next_code)))
    assert (failure.executions, failure.elements, failure.differing) == (5, 15, 5)
    assert "5 of 15 elements in 5 executions differ" in failure.summary()
    report = interp.compare(f, x, backend="minihlo", iterations=2)
    assert {o.op: o.executions for o in report.ops}["stablehlo.multiply"] == 2
    assert "examined for 2 iterations" in next(o for o in report.ops if o.op == "stablehlo.while").notes[0]
    assert report.results[0].tolist() == [0, 0, 0]


def test_faults_of_ops_compiled_together() -> None:
    """A backend that keeps a sum unrounded where it is multiplied on: nothing an op alone shows."""

    def evaluate(text: str, arrays: Sequence[np.ndarray]) -> Results:
        results = Minihlo("minihlo", interp.Policy()).evaluate(text, arrays)
        if "stablehlo.add" in text and "stablehlo.multiply" in text:
            x = arrays[0].view(F8).astype(np.float32)
            results[-1] = ((x + np.float32(1)) * np.float32(3)).astype(F8).view(np.uint8)
        return results

    def f(x: Any) -> Any:
        y = x + F8(1)
        return y * F8(3)  # of what is not rounded

    x = np.array([16, 17, 18, 9.0]).astype(F8)
    assert verdicts(interp.compare(f, x, backend=evaluate)) == [PASS] * 4
    failure = sole_failure(interp.compare(f, x, backend=evaluate, how="program"))
    assert "# of what is not rounded" in line_of(failure)
    assert failure.op == "stablehlo.multiply"
    assert re.fullmatch(r"as if the result of stablehlo.add \(.*\) had not been rounded before", failure.notes[0])
