"""interp.compare: what can be compared, diagnoses, and how a report reads."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from minihlo import interp
from minihlo.interp.backends import BackendError
from minihlo.interp.conform.result import PASS

from .divergence_cases import F8, Faulty, line_of, next_code, sole_failure, verdicts

PROGRAM = """
func.func @main(%x: tensor<?xf32>, %n: tensor<i32>) -> tensor<?xf32> {
  %y = stablehlo.exponential %x : tensor<?xf32>
  %z = func.call @twice(%y) : (tensor<?xf32>) -> tensor<?xf32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %r:2 = stablehlo.while(%i = %n, %v = %z) : tensor<i32>, tensor<?xf32>
    cond {
      %p = stablehlo.compare GT, %i, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %j = stablehlo.subtract %i, %one : tensor<i32>
      %w = stablehlo.negate %v : tensor<?xf32>
      stablehlo.return %j, %w : tensor<i32>, tensor<?xf32>
    }
  return %r#1 : tensor<?xf32>
}
func.func private @twice(%x: tensor<?xf32>) -> tensor<?xf32> {
  %y = stablehlo.add %x, %x : tensor<?xf32>
  return %y : tensor<?xf32>
}
"""


def test_programs_of_text_and_of_any_sizes(tmp_path: Path) -> None:
    path = tmp_path / "p.mlir"
    path.write_text(PROGRAM)
    for program in (PROGRAM, path, str(path), PROGRAM.encode()):
        for how in ("op", "program"):
            report = interp.compare(program, np.zeros(3, np.float32), np.int32(3), how=how)
            assert set(verdicts(report)) == {PASS}
            assert report.results[0].tolist() == [2, 2, 2]
    line = "%s = shape.shape_of %x : T -> S %r = stablehlo.dynamic_broadcast_in_dim %x, %s, dims = [0] : (T, S) -> T"
    text = f"func.func @main(%x: T) -> T {{ {line} return %r : T }}"
    report = interp.compare(text.replace("T", "tensor<?xf32>").replace("S", "tensor<1xindex>"), np.ones(2, np.float32))
    assert set(verdicts(report)) == {PASS}
    sized = jax.ShapeDtypeStruct(jax.export.symbolic_shape("n", constraints=["n >= 2"]), jnp.float8_e5m2)
    exported = jax.export.export(jax.jit(lambda x: (jnp.cumsum(x) + x.shape[0], jax.lax.top_k(x, 1))))(sized)
    report = interp.compare(exported.serialize(), np.ones(4, jnp.float8_e5m2), how="program")
    assert set(verdicts(report)) == {PASS}
    assert [r.tolist() for r in report.results] == [[5, 6, 7, 8], [1], [0]]
    with pytest.raises(interp.ProgramError, match=r"do not match the .* constraint n >= 2"):
        interp.compare(exported.serialize(), np.ones(1, jnp.float8_e5m2))
    report = interp.compare(str(path), np.zeros(3, np.float32), 3, backend=Faulty("stablehlo.negate", next_code))
    failure = sole_failure(report)
    assert str(failure.location) == f"{path}:12:12"
    assert failure.executions == 2


def test_a_diagnosis_explains_all_results_or_is_none() -> None:
    x = np.arange(256, dtype=np.uint8).view(F8)
    y = np.full(256, 4, np.float32).astype(F8)

    def faulty(change: Callable[[np.ndarray], Any]) -> list[str]:
        backend = Faulty("stablehlo.multiply", lambda r: [np.asarray(change(r[0]), np.uint8)])
        return sole_failure(interp.compare(jnp.multiply, x, y, backend=backend)).notes

    exact = x.astype(np.float32) * 4
    largest = np.where(np.signbit(exact), 0xFE, 0x7E)
    beyond = np.abs(exact) > 464
    assert faulty(lambda r: np.where(beyond, largest, r)) == [
        "results beyond the largest number become the largest number"
    ]
    assert faulty(lambda r: np.where(beyond & (exact < 0), largest, r)) == [
        "results below the lowest number become the lowest number"
    ]
    small = (np.abs(exact) < 2.0**-6) & (exact != 0)
    flushed = ["results that are subnormal are flushed to zero"]
    assert faulty(lambda r: np.where(small, r & 0x80, r)) == flushed
    first = int(np.flatnonzero(small)[0])
    for change in (lambda r: np.where(np.arange(256) == first, r & 0x80, r), lambda r: np.where(r == 0x3A, 0x3B, r)):
        assert flushed != faulty(change) == []
    assert faulty(lambda r: np.where(np.arange(256) % 16 == 15, 1, r)) == [
        "all wrong results are at indices of dimension 0 that are 15 modulo 16"
    ]


def test_equal_faults_are_reported_together() -> None:
    def f(x: Any) -> Any:
        for _ in range(20):
            x = x * x  # again
        return x + x

    x = np.ones(8, np.float32)
    report = interp.compare(f, x, backend=Faulty("stablehlo.multiply", lambda r: [r[0] + np.uint32(64)]))
    assert len(report.failures) == 20
    text = str(report)
    assert text.count("to reproduce it") == 1
    assert "the same in 19 more ops:" in text
    assert text.count("8 of 8 elements differ: 8 by 64 ULP") == 20
    assert len(report.data()["ops"]) == 21


def test_static_arguments_and_jitted_functions() -> None:
    def f(x: Any, n: int, *, k: int = 1) -> Any:
        return jnp.tile(x, n) * k

    x = np.arange(2, dtype=np.float32)
    for report in (
        interp.compare(f, x, 3, static_argnums=1, k=2),
        interp.compare(jax.jit(f, static_argnums=1), x, 3, k=2),
        interp.compare(jax.jit(f, static_argnames=("n", "k")), x, n=3, k=2),
        interp.compare(interp.jit(f, static_argnums=1), x, 3, k=2),
    ):
        assert report.results[0].tolist() == [0, 2] * 3
    key = jax.random.key(0)
    assert interp.compare(jax.random.normal, key, (3,), static_argnums=1).failures == []


def test_how_a_report_reads() -> None:
    def f(x: Any) -> Any:
        return x + x  # this line

    report = interp.compare(f, np.array([1.0, 2.0]).astype(F8), backend=Faulty("stablehlo.add", next_code))
    assert line_of(report.ops[0]) == "return x + x  # this line"
    assert (
        str(report)
        == f"""faulty, each op by itself, on the operands that the backend has computed
1 op: 1 FAIL

FAIL  {report.ops[0].location}: return x + x  # this line
  stablehlo.add (tensor<2xf8E4M3FN>, tensor<2xf8E4M3FN>) -> tensor<2xf8E4M3FN>
  1 of 2 elements differs by 1 ULP
    [1] (0x40 = 2 : f8E4M3FN, 0x40 = 2 : f8E4M3FN) gives 0x49 = 4.5, exact 0x48 = 4 (1 ULP)
  to reproduce it: minihlo diff op.mlir faulty --input '1xf8E4M3FN=[0x40]'
    func.func @main(%arg0: tensor<1xf8E4M3FN>) -> tensor<1xf8E4M3FN> {{
      %0 = stablehlo.add %arg0, %arg0 : tensor<1xf8E4M3FN>
      return %0 : tensor<1xf8E4M3FN>
    }}"""
    )


def test_errors() -> None:
    x = np.zeros(2, np.float32)
    for arguments, options, message in (
        ((jnp.sin, x), {"backend": "nothing"}, r"^expected a backend \(.*\) or a platform of JAX, got 'nothing' \("),
        ((jnp.sin, x), {"backend": 3}, r"^expected a backend \(an object with a method evaluate\), got int$"),
        ((jnp.sin, x), {"backend": "ml_dtypes", "how": "program"}, "^ml_dtypes takes single operations, no programs"),
        ((jnp.sin, x), {"how": "well"}, r"^how: expected one of op, program, got 'well'$"),
        ((jnp.sin, x), {"iterations": 0}, "^iterations: expected at least 1, got 0$"),
        ((3, x), {}, "^expected a function or a program, got int$"),
        ((PROGRAM, x), {}, r"@main: expected 2 inputs \(tensor<\?xf32>, tensor<i32>\), got 1$"),
        ((interp.load(PROGRAM), x, 1), {}, "^a loaded program cannot be compared"),
        ((PROGRAM, x, 1), {"static_argnums": 1}, "^a program takes arrays only"),
        ((jax.jit(jnp.sin), x), {"static_argnums": 1}, "^the function is already jitted"),
    ):
        with pytest.raises(interp.InputError, match=message):
            interp.compare(*arguments, **options)

    def absent(*_: Any) -> Any:
        raise BackendError("absent", "it is not there")

    with pytest.raises(BackendError, match="not there"):
        interp.compare(jnp.sin, x, backend=absent)
