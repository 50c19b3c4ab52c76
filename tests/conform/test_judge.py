"""`interp.judge`: planted faults are WRONG, legal implementations are not."""

import itertools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from minihlo.interp.enclose import Allowed, enclose
from minihlo.interp.parse import parser
from minihlo.interp.program import Operation, Value
from minihlo.ops.types import ELEMENT_TYPES, TensorType

from ..cli_cases import in_process
from .planted_compiler import CHAIN, Compiler, Rewrite, find, judged


def through(name: str) -> Rewrite:
    """A conversion that rounds twice, through another type."""

    def rewrite(operations: list[Operation]) -> bool:
        convert = find(operations, "convert")
        if convert is None:
            return False
        x = convert.operands[0]
        assert isinstance(x.type, TensorType)
        between = Value(TensorType(x.type.shape, ELEMENT_TYPES[name]))
        first = Operation("stablehlo.convert", (x,), (between,), {}, (), convert.location)
        operations.insert(operations.index(convert), first)
        convert.operands = (between,)
        return True

    return rewrite


def test_a_double_rounding_is_wrong() -> None:
    """So in given and in drawn inputs."""
    text = """func.func @main(%x: tensor<4xFROM>) -> tensor<4xTO> {
      %0 = stablehlo.convert %x : (tensor<4xFROM>) -> tensor<4xTO>
      return %0 : tensor<4xTO>
    }"""
    x = np.array([1.125 + 2.0**-20, 1.0, 3.5, -1.125 - 2.0**-20], np.float32)
    narrow = text.replace("FROM", "f32").replace("TO", "f8E5M2")
    assert judged(narrow, Compiler(), x).verdict == "EXACT"
    found = judged(narrow, Compiler(through("f16")), x)
    assert (found.verdict, found.findings["given"][0].wrong) == ("WRONG", 2)
    assert found.cause == "convert: the next number"
    drawn = text.replace("FROM", "f64").replace("TO", "f8E4M3FN").replace("<4x", "<40x")
    assert [judged(drawn, Compiler(r)).verdict for r in (through("f32"), None)] == ["WRONG", "EXACT"]


def test_saturation_for_overflow_is_wrong() -> None:
    text = """func.func @main(%x: tensor<3xf16>) -> tensor<3xf16> {
      %0 = stablehlo.multiply %x, %x : tensor<3xf16>
      return %0 : tensor<3xf16>
    }"""
    x = np.array([300.0, 2.0, -400.0], np.float16)

    def clip(program: Any, arrays: Sequence[Any]) -> list[Any]:
        results = np.asarray(program(*arrays)[0]).view(np.float16)
        return [np.clip(results, -65504, 65504).view(np.uint16)]

    assert judged(text, Compiler(run=clip), x).cause == "multiply: a number for infinity"


def other_orders(seed: int) -> Callable[[Any, Sequence[Any]], list[Any]]:
    """Every element of the operands of `SUMS` summed in another order, and contracted."""
    rng = np.random.default_rng(seed)

    def run(_: Any, arrays: Sequence[Any]) -> list[Any]:
        x, y = (v.view(np.float32) for v in arrays)
        order = rng.permutation(x.shape[1])
        d = np.zeros((x.shape[0], y.shape[1]), np.float32)
        for k in order:
            d = (d + (x[:, k, None] * y[None, k]).astype(np.float32)).astype(np.float32)
        t = np.nextafter(np.tanh(d.astype(np.float64)).astype(np.float32), np.float32(rng.choice([-1, 1])))
        a = (t.astype(np.float64) + d).astype(np.float32 if rng.integers(2) else np.float64)
        s = np.full(4, 0.5, np.float32)
        for i in rng.permutation(6):
            s = (s + a[i]).astype(np.float32)
        last = np.ascontiguousarray(-a[:, ::-1].astype(np.float32))
        return [s.astype(ml_dtypes.float8_e4m3fn).view(np.uint8), last.view(np.uint32)]

    return run


@pytest.mark.parametrize("seed", range(20))
def test_other_orders_are_within(seed: int) -> None:
    found = judged(CHAIN, Compiler(run=other_orders(seed)), seed=seed, samples=1)
    assert found.verdict in ("EXACT", "WITHIN"), str(found)


def test_flushed_subnormals() -> None:
    text = """func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
      %0 = stablehlo.add %x, %x : tensor<2xf32>
      return %0 : tensor<2xf32>
    }"""
    x = np.array([1e-40, 1.0], np.float32)

    def run(program: Any, arrays: Sequence[Any]) -> list[Any]:
        results = np.asarray(program(*arrays)[0]).view(np.float32)
        return [np.where(np.abs(results) < 1e-38, results * 0, results).view(np.uint32)]

    flush = Compiler(run=run)
    found = judged(text, flush, x)
    assert found.verdict == "WITHIN"
    assert found.notes == ["planted takes subnormal numbers as zero"]
    assert judged(text, flush, x, allowed=Allowed(flush=False)).verdict == "WRONG"


def test_many_programs(tmp_path: Path) -> None:
    (tmp_path / "programs").mkdir()
    (tmp_path / "programs" / "a.mlir").write_text(CHAIN)
    (tmp_path / "programs" / "b\x1b.mlir").write_text("func.func @main() -> tensor<f32> { return }")
    two = "func.func @f() { return }\nfunc.func public @g() { return }\nfunc.func private @h() { return }"
    (tmp_path / "programs" / "c.mlir").write_text(two)
    command = ("judge", "programs", "minihlo", "--json", "r.json", "--html", "r.html")
    status, out, _ = in_process(*command, cwd=tmp_path)
    assert (status, out.splitlines()[-1]) == (0, "4 judged: 3 EXACT, 1 UNSUPPORTED")
    assert "programs/b\\x1b.mlir" in out
    rows = [json.loads(line) for line in (tmp_path / "r.json").read_text().splitlines()]
    assert [(r["program"], r["verdict"]) for r in rows] == [
        ("programs/a.mlir", "EXACT"), ("programs/b\x1b.mlir", "UNSUPPORTED"),
        ("programs/c.mlir@f", "EXACT"), ("programs/c.mlir@g", "EXACT"),
    ]  # fmt: skip
    assert "UNSUPPORTED" in (tmp_path / "r.html").read_text()
    with (tmp_path / "r.json").open("a") as file:
        file.write('{"program": "programs/')  # as of a run that was ended
    in_process(*command, cwd=tmp_path)  # nothing is judged again
    assert [json.loads(line) for line in (tmp_path / "r.json").read_text().splitlines()] == rows
    in_process(*command, "--seed", "1", cwd=tmp_path)  # but with other options
    assert len((tmp_path / "r.json").read_text().splitlines()) == 8
    (tmp_path / "r.json").write_text('{"program": "programs/a.mlir", "backend": "minihlo", "options": {}}\n')
    status, _, err = in_process(*command, cwd=tmp_path)
    assert (status, err) == (2, "--json: r.json: expected judgements, one in each line, got one without verdict\n")


@pytest.mark.parametrize("change", [np.zeros_like, lambda r: np.roll(r, 1)], ids=["zeros", "shifted"])
def test_gross_faults(change: Callable[[np.ndarray], np.ndarray]) -> None:
    found = judged(CHAIN, Compiler(run=lambda program, arrays: list(map(change, program(*arrays)))), samples=1)
    assert {f.verdict for f in found.findings.popitem()[1]} == {"WRONG"}


PAIR = """func.func @main(%k: tensor<6xf32>, %v: tensor<6xi32>) -> (tensor<6xf32>, tensor<6xi32>) {
  %s:2 = "stablehlo.sort"(%k, %v) <{dimension = 0 : i64, is_stable = STABLE}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>):
      %p = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
  }) : (tensor<6xf32>, tensor<6xi32>) -> (tensor<6xf32>, tensor<6xi32>)
  return %s#0, %s#1 : tensor<6xf32>, tensor<6xi32>
}"""


def test_equal_keys_may_change_places_in_a_sort_that_is_not_stable() -> None:
    def run(program: Any, arrays: Sequence[Any]) -> list[Any]:
        keys, values = (np.array(r) for r in program(*arrays))
        values[[1, 2]] = values[[2, 1]]
        return [keys, values]

    k, v = np.array([3, 1, 1, 0, 4, 5], np.float32), np.arange(6, dtype=np.int32)
    assert judged(PAIR.replace("STABLE", "false"), Compiler(run=run), k, v).verdict == "WITHIN"
    assert judged(PAIR.replace("STABLE", "true"), Compiler(run=run), k, v).verdict == "WRONG"
    k[0] = np.nan  # which the comparator does not order
    assert judged(PAIR.replace("STABLE", "true"), Compiler(run=run), k, v).verdict == "UNDECIDED"
    total = PAIR.replace("STABLE", "true").replace("LT, %a, %b", "LT, %a, %b, TOTALORDER")
    for t, verdict in (("f8E4M3FNUZ", "UNDECIDED"), ("f8E5M2", "WRONG")):  # the NaN of FNUZ has no sign
        keys = k.astype(ELEMENT_TYPES[t].dtype)
        assert judged(total.replace("f32", t), Compiler(run=run), keys, v).verdict == verdict


def test_a_pair_that_is_no_key_with_its_place() -> None:
    """The largest of one array and the least of another: neither follows the other."""
    text = """func.func @main(%x: tensor<4xf32>, %y: tensor<4xi32>) -> (tensor<f32>, tensor<i32>) {
      %s = stablehlo.multiply %x, %x : tensor<4xf32>
      %a = stablehlo.constant dense<0xFF800000> : tensor<f32>
      %b = stablehlo.constant dense<2147483647> : tensor<i32>
      %r:2 = stablehlo.reduce(%s init: %a), (%y init: %b) across dimensions = [0]
        : (tensor<4xf32>, tensor<4xi32>, tensor<f32>, tensor<i32>) -> (tensor<f32>, tensor<i32>)
        reducer(%p: tensor<f32>, %q: tensor<f32>) (%m: tensor<i32>, %n: tensor<i32>) {
          %u = stablehlo.maximum %p, %q : tensor<f32>
          %v = stablehlo.minimum %m, %n : tensor<i32>
          stablehlo.return %u, %v : tensor<f32>, tensor<i32>
        }
      return %r#0, %r#1 : tensor<f32>, tensor<i32>
    }"""
    x, y = np.array([1.1, 2.2, 3.3, 0.1], np.float32), np.array([5, 7, 9, 2], np.int32)
    assert judged(text, Compiler(), x, y).verdict == "EXACT"
    enclosures = enclose(parser.parse(text), [x, y])
    assert enclosures[1].admits(np.int32(2)).all()


def test_large_integers_are_exact_and_endless_loops_are_refused() -> None:
    text = """func.func @main(%x: tensor<2xi64>) -> tensor<2xui64> {
      %0 = stablehlo.convert %x : (tensor<2xi64>) -> tensor<2xui64>
      return %0 : tensor<2xui64>
    }"""
    x = np.array([2**53 + 1, 7])
    through_f64 = Compiler(run=lambda _, a: [a[0].astype(np.float64).astype(np.uint64)])
    assert judged(text, through_f64, x).verdict == "WRONG"
    loop = """func.func @main() -> tensor<i32> {
      %z = stablehlo.constant dense<0> : tensor<i32>
      %r = stablehlo.while(%v = %z) : tensor<i32>
        cond { %c = stablehlo.constant dense<true> : tensor<i1>
          stablehlo.return %c : tensor<i1> }
        do { stablehlo.return %v : tensor<i32> }
      return %r : tensor<i32>
    }"""
    found = judged(loop, Compiler())
    assert found.verdict == "UNSUPPORTED"
    assert "expected at most 100,000 iterations, got more" in found.notes[0]


def test_subnormal_numbers_may_be_sorted_as_zeros() -> None:
    """They are compared as equal, so they stay in their order; they are not changed."""
    places = np.arange(6, dtype=np.int32)
    cases = (([3, 1, 2], "WITHIN"), ([3, 2, 1], "EXACT"), ([1, 2, 3], "WRONG"))
    for (first, verdict), small in itertools.product(cases, (1e-45, 0.0)):
        x, order = np.array([2.0, small, -1e-45, -1.0, 3.0, 4.0], np.float32), [*first, 0, 4, 5]
        kept = Compiler(run=lambda _, __, x=x, order=order: [x[order].view(np.uint32), places[order]])
        assert judged(PAIR.replace("STABLE", "true"), kept, x, places).verdict == verdict
