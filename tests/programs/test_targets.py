"""Policies that name a unit, a record or a chip: in operations, `interp.matmul`, the command line and JAX."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from minihlo.interp import Accumulator, InputError, Policy, load, matmul
from minihlo.interp import policy as policy_block
from minihlo.interp.errors import UnsupportedError
from minihlo.interp.policies import parse_policy
from minihlo.ops.accumulators.sums import dots
from minihlo.ops.accumulators.units import find

from ..cli_cases import in_process
from ..run_op import run, tensor

F8 = ml_dtypes.float8_e4m3fn
RNG = np.random.default_rng(5)
X, Y = ((RNG.standard_normal((3, 70)) * 8).astype(F8), (RNG.standard_normal((70, 5)) * 8).astype(ml_dtypes.float8_e5m2))
H100 = find("h100", "f8E4M3FN", "f8E5M2").record
RECORD = "step=4,bits=6,keep=f16,rounding=toward_zero"


def expected(record: Accumulator, x: np.ndarray = X, y: np.ndarray = Y) -> np.ndarray:
    return dots(record, x[:, None], y.T[None], "f8E4M3FN", "f8E5M2")


def dot_program(result: str = "f32", x: str = "3x70xf8E4M3FN", y: str = "70x5xf8E5M2", shape: str = "3x5") -> str:
    return f"""func.func @main(%x: tensor<{x}>, %y: tensor<{y}>) -> tensor<{shape}x{result}> {{
        %r = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] :
            (tensor<{x}>, tensor<{y}>) -> tensor<{shape}x{result}>
        return %r : tensor<{shape}x{result}>
    }}"""


def same(got: np.ndarray, wanted: np.ndarray) -> bool:
    return got.dtype == wanted.dtype and got.tobytes() == np.ascontiguousarray(wanted).tobytes()


@pytest.mark.parametrize("accumulate", ["h100", "hopper.wgmma", H100, RECORD, Accumulator.from_text(RECORD)])
def test_dot_general_sums_as_the_policy_says(accumulate: str | Accumulator) -> None:
    record = H100 if accumulate in ("h100", "hopper.wgmma", H100) else Accumulator.from_text(RECORD)
    got = load(dot_program())(X, Y, policy=Policy(accumulate=accumulate))[0]
    assert same(got, expected(record).astype(np.float32))
    exact = load(dot_program())(X, Y)[0]
    assert not same(got, exact)


def test_wider_results_are_rounded_once() -> None:
    sums = expected(H100)
    got = load(dot_program("f8E4M3FN"))(X, Y, policy=Policy(accumulate="h100"))[0]
    assert same(got, sums.astype(np.float32).astype(F8))
    got = load(dot_program("f16"))(X, Y, policy=Policy(accumulate="h100"))[0]
    assert same(got, expected(find("h100", "f8E4M3FN", "f8E5M2", "f16").record))
    saturating = load(dot_program("f8E4M3FN"))(X, Y * ml_dtypes.float8_e5m2(64), policy=Policy.target("h100"))[0]
    assert (np.abs(saturating.astype(np.float32)) == 448).any()
    assert not np.isnan(saturating.astype(np.float32)).any()


def test_the_last_rounding_is_the_policys() -> None:
    program = load(dot_program("f8E4M3FN"))
    sums = expected(H100).astype(np.float64)
    inside = np.abs(sums) < 448
    assert inside.sum() > 4
    results = [
        program(X, Y, policy=Policy(accumulate="h100", rounding="stochastic", seed=seed))[0].astype(np.float64)
        for seed in range(20)
    ]
    down, up = (
        program(X, Y, policy=Policy(accumulate="h100", rounding=r))[0].astype(np.float64) for r in ("down", "up")
    )
    assert (down <= sums)[inside].all()
    assert (up >= sums)[inside].all()
    assert all(((r == down) | (r == up))[inside].all() for r in results)
    assert len({r.tobytes() for r in results}) > 5


def test_targets_govern_f16_not_f32() -> None:
    x = RNG.standard_normal((3, 70)).astype(np.float16)
    y = RNG.standard_normal((70, 5)).astype(np.float16)
    program = load(dot_program("f32", "3x70xf16", "70x5xf16"))
    got = program(x, y, policy=Policy(accumulate="v100"))[0]
    assert same(got, dots(find("v100", "f16", "f16").record, x[:, None], y.T[None], "f16", "f16"))
    assert not same(got, program(x, y)[0])
    wide = load(dot_program("f32", "3x70xf32", "70x5xf32"))
    xs, ys = x.astype(np.float32), y.astype(np.float32)
    assert same(wide(xs, ys, policy=Policy(accumulate="v100"))[0], wide(xs, ys)[0])


def test_the_other_products_are_governed_too() -> None:
    policy = Policy(accumulate="h100")
    options = {"policy": policy, "einsum_config": "ik,kj->ji"}
    assert same(run("einsum", X, Y, result=tensor("f32", 5, 3), **options), np.ascontiguousarray(expected(H100).T))
    assert same(run("dot", X, Y, result=tensor("f32", 3, 5), policy=policy), expected(H100))
    convolution = load("""func.func @main(%x: tensor<3x70xf8E4M3FN>, %y: tensor<70x5xf8E4M3FN>) -> tensor<3x5xf32> {
        %r = stablehlo.convolution(%x, %y) dim_numbers = [b, f]x[i, o]->[b, f], window = {}
            {batch_group_count = 1 : i64, feature_group_count = 1 : i64} :
            (tensor<3x70xf8E4M3FN>, tensor<70x5xf8E4M3FN>) -> tensor<3x5xf32>
        return %r : tensor<3x5xf32>
    }""")
    y = Y.astype(F8)
    wanted = dots(H100, X[:, None], y.T[None], "f8E4M3FN", "f8E4M3FN")
    assert same(convolution(X, y, policy=policy)[0], wanted)


def test_the_algorithm_of_tf32_reads_f32_as_the_unit_does() -> None:
    x = RNG.standard_normal((3, 70)).astype(np.float32)
    y = RNG.standard_normal((70, 5)).astype(np.float32)
    text = dot_program("f32", "3x70xf32", "70x5xf32").replace(
        "contracting_dims = [1] x [0] :",
        "contracting_dims = [1] x [0], algorithm = <lhs_precision_type = tf32, rhs_precision_type = tf32, "
        "accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1, "
        "allow_imprecise_accumulation = false> :",
    )
    got = load(text)(x, y, policy=Policy(accumulate="a100"))[0]
    record = find("a100", "tf32", "tf32").record
    assert same(got, dots(record, x[:, None], y.T[None], "tf32", "tf32"))
    assert same(got, matmul(x, y, operands="tf32", policy="a100"))
    cut = [(v.view(np.uint32) & 0xFFFFE000).view(np.float32) for v in (x, y)]
    assert same(got, dots(record, cut[0][:, None], cut[1].T[None], "f32", "f32"))


def test_a_type_that_the_unit_does_not_multiply_is_refused() -> None:
    with pytest.raises(
        UnsupportedError, match=r"dot_general: accumulate: a100: expected operands of f16.*, got f8E4M3FN"
    ):
        load(dot_program())(X, Y, policy=Policy(accumulate="a100"))


@pytest.mark.parametrize(
    ("accumulate", "message"),
    [
        ("h101", "accumulate: expected auto, .*a chip or its instruction, got 'h101' .did you mean h100"),
        ("h100.mfma", r"accumulate: expected an instruction of h100 \(mma, wgmma\), got 'h100.mfma'"),
        ("step=x", "accumulate: step: expected an integer"),
        (3, "accumulate: expected a name or an Accumulator, got int"),
    ],
)
def test_what_is_no_accumulator_is_refused(accumulate: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Policy(accumulate=accumulate)  # type: ignore[arg-type]


def test_a_target_is_a_unit_and_its_conversions() -> None:
    assert Policy.target("mi300x") == Policy(accumulate="cdna3")
    assert Policy.target("b200.tcgen05", seed=2) == Policy(accumulate="b200.tcgen05", overflow="satfinite", seed=2)
    assert Policy.target("h100", overflow="ieee").overflow == "ieee"
    with pytest.raises(ValueError, match="expected a chip or its instruction"):
        Policy.target("tpu")
    convert = load("""func.func @main(%x: tensor<4xf32>) -> (tensor<4xf8E4M3FN>, tensor<4xf16>, tensor<4xf4E2M1FN>) {
        %a = stablehlo.convert %x : (tensor<4xf32>) -> tensor<4xf8E4M3FN>
        %b = stablehlo.convert %x : (tensor<4xf32>) -> tensor<4xf16>
        %c = stablehlo.convert %x : (tensor<4xf32>) -> tensor<4xf4E2M1FN>
        return %a, %b, %c : tensor<4xf8E4M3FN>, tensor<4xf16>, tensor<4xf4E2M1FN>
    }""")
    x = np.array([1e6, -1e6, np.inf, np.nan], np.float32)
    eight, half, four = convert(x, policy=Policy.target("b200"))
    assert eight.view(np.uint8).tolist() == [0x7E, 0xFE, 0x7E, 0x7F]
    assert half.view(np.uint16).tolist() == [0x7C00, 0xFC00, 0x7C00, 0x7E00]
    assert four.view(np.uint8).tolist() == [0x7, 0xF, 0x7, 0x7]


def test_matmul_takes_the_shapes_of_numpy() -> None:
    a, b = RNG.standard_normal((4, 1, 3, 70)).astype(F8), RNG.standard_normal((2, 70, 5)).astype(F8)
    c = RNG.standard_normal((3, 5)).astype(np.float32)
    got = matmul(a, b, c, policy="h100")
    record = find("h100", "f8E4M3FN", "f8E4M3FN").record
    wanted = dots(record, a[:, :, :, None], b.swapaxes(-1, -2)[:, None], "f8E4M3FN", "f8E4M3FN", c)
    assert got.shape == (4, 2, 3, 5)
    assert same(got, wanted)
    assert matmul(a[0, 0, 0], b[0, :, 0], policy="h100").shape == ()
    assert matmul(a[0, 0, 0], b, policy="h100").shape == (2, 5)
    assert matmul(a, b[0, :, 0], policy="h100").shape == (4, 1, 3)
    assert matmul(a[:, :, :0], b, policy="h100").shape == (4, 2, 0, 5)
    assert same(matmul(a[..., :0], b[:, :0], c, policy="h100"), np.broadcast_to(c, (4, 2, 3, 5)))


def test_matmul_of_other_policies_and_results() -> None:
    assert same(matmul(X, Y), load(dot_program())(X, Y)[0])
    assert same(
        matmul(X, Y, result="f8E5M2", policy="f32"),
        load(dot_program("f8E5M2"))(X, Y, policy=Policy(accumulate="f32"))[0],
    )
    with policy_block(accumulate="h100"):
        assert same(matmul(X, Y), expected(H100))
    # exact: c is part of the one rounding, 1 + 2**-24 + 2**-40 is above the tie
    one, tiny = np.array([1.0, 2.0**-6], ml_dtypes.float8_e5m2), np.array([2.0**-14, 2.0**-14], ml_dtypes.float8_e5m2)
    c = np.float32(2.0**10)
    assert matmul(one, tiny, c) == np.float32(1024 + 2.0**-14 + 2.0**-20)
    assert matmul(one, tiny, c, result="f64") == 1024 + 2.0**-14 + 2.0**-20
    assert same(matmul(X, Y, np.ones((3, 5), np.float32), policy="f32"), matmul(X, Y, policy="f32") + np.float32(1))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: matmul(X, X), r"expected shapes \(..., M, K\) and \(..., K, N\), got \(3, 70\) and \(3, 70\)"),
        (lambda: matmul(np.float32(1), X), "expected arrays of at least one dimension"),
        (lambda: matmul(X, Y, np.ones(4, np.float32)), r"c: expected a shape that broadcasts to \(3, 5\), got \(4,\)"),
        (lambda: matmul([[1]], [[1]]), "a: expected an array of a float type, got int64"),
        (lambda: matmul(X, Y, policy="h300"), "accumulate: expected auto"),
        (lambda: matmul(X, Y, policy=3), "policy: expected a Policy, a unit's name or an Accumulator, got int"),  # type: ignore
        (lambda: matmul(X, Y, result="i8"), "result: expected a float type, such as f32, got 'i8'"),
        (lambda: matmul(X, Y, operands="tf32"), "operands=tf32: expected a of f32, got f8E4M3FN"),
        (lambda: matmul(X, Y, operands="f16"), "operands: expected tf32 or None, got 'f16'"),
        (lambda: matmul(X, Y, policy="v100"), "v100: expected operands of f16"),
    ],
)
def test_matmul_refuses(call: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        call()  # type: ignore[operator]


def test_policies_as_text(tmp_path: Path) -> None:
    default = Policy(accumulate="f32")
    assert parse_policy("accumulate=h100,rounding=up", default) == Policy(accumulate="h100", rounding="up")
    assert parse_policy("target=h100,seed=3", default) == Policy.target("h100", seed=3)
    assert parse_policy("target=h100,accumulate=exact", default) == Policy.target("h100", accumulate="exact")
    record = Accumulator.from_text(RECORD)
    assert parse_policy(f"accumulate={RECORD.replace(',', ';')},seed=3", default) == Policy(accumulate=record, seed=3)
    (tmp_path / "unit.json").write_text(record.to_json())
    (tmp_path / "unit.txt").write_text(record.to_text() + "\n")
    for name in ("unit.json", "unit.txt"):
        assert parse_policy(f"accumulate=@{tmp_path / name}", default).accumulate == record
    for text, message in (
        ("target=h1", "target: expected a chip or its instruction"),
        ("accumulate=h1", "accumulate: expected auto"),
        ("seed=1,seed=2", "policy: expected seed once, got 'seed=2' too"),
        (f"accumulate=@{tmp_path}/none", "accumulate: .*none: No such file"),
        ("steps=3", "policy: expected name=value with a name of .*target, got 'steps=3'"),
    ):
        with pytest.raises(InputError, match=message):
            parse_policy(text, default)
    (tmp_path / "bad").write_text('{"step": "x"}')
    with pytest.raises(InputError, match=r"accumulate: .*bad: step: expected an integer"):
        parse_policy(f"accumulate=@{tmp_path}/bad", default)


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.CompletedProcess(arguments, *in_process(*arguments))


def test_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "dot.mlir").write_text(dot_program())
    np.save(tmp_path / "x.npy", X.view("V1"))
    np.save(tmp_path / "y.npy", Y.view("V1"))
    (tmp_path / "unit.json").write_text(json.dumps(dataclasses.asdict(Accumulator.from_text(RECORD))))
    inputs = ["--input", f"3x70xf8E4M3FN=@{tmp_path / 'x.npy'}", "--input", f"70x5xf8E5M2=@{tmp_path / 'y.npy'}"]
    wanted = {"h100": expected(H100), RECORD: expected(Accumulator.from_text(RECORD)).astype(np.float32)}
    for options, key in (
        (["--target", "h100"], "h100"),
        (["--accumulate", "h100.wgmma"], "h100"),
        (["--accumulate", RECORD], RECORD),
        (["--target", "b200", "--accumulate", f"@{tmp_path / 'unit.json'}"], RECORD),
    ):
        done = command("run", str(tmp_path / "dot.mlir"), *inputs, *options, "--output", f"@{tmp_path / 'r.npy'}")
        assert done.returncode == 0, done.stderr
        assert same(np.load(tmp_path / "r.npy"), wanted[key])
    for option, message in (
        ("--target", "argument --target: expected a chip or its instruction"),
        ("--accumulate", "argument --accumulate: expected auto"),
    ):
        done = command("run", str(tmp_path / "dot.mlir"), *inputs, option, "h1")
        assert done.returncode == 2
        assert message in done.stderr
    done = command("targets", "h100.wgmma")
    assert done.returncode == 0
    assert H100.to_text() in done.stdout
    assert "measured data" in done.stdout
    done = command("targets", "h1")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("expected a chip or its instruction")


def test_jit_follows_the_policy() -> None:
    jax = pytest.importorskip("jax")
    from minihlo import interp

    def f(x: object, y: object) -> object:
        return jax.lax.dot_general(x, y, (((1,), (0,)), ((), ())), preferred_element_type="float32")

    got = interp.jit(f, policy=Policy(accumulate="h100"))(X, Y)
    assert same(np.asarray(got), expected(H100))


def test_the_jax_platform_follows_the_policy() -> None:
    pytest.importorskip("jax")
    script = """
import jax, ml_dtypes, numpy as np
from minihlo import interp
rng = np.random.default_rng(5)
x, y = ((rng.standard_normal(s) * 8).astype(ml_dtypes.float8_e4m3fn) for s in ((3, 70), (70, 5)))
f = jax.jit(lambda x, y: jax.lax.dot_general(x, y, (((1,), (0,)), ((), ())), preferred_element_type="float32"))
units = {name: interp.matmul(x, y, policy=name) for name in ("h100", "b200")}
assert (units["h100"] != units["b200"]).any()
assert np.asarray(f(x, y)).tobytes() == units["h100"].tobytes()
with interp.policy(accumulate="b200"):
    assert np.asarray(f(x, y)).tobytes() == units["b200"].tobytes()
"""
    for value in ("target=h100", f"accumulate={H100.to_text().replace(',', ';')},seed=1"):
        environment = os.environ | {"JAX_PLATFORMS": "minihlo", "MINIHLO_POLICY": value}
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stderr


TWO = """func.func @main(%x: tensor<3x70xf8E4M3FN>, %y: tensor<70x5xf8E5M2>) -> tensor<3x5xf32> {
    %n = stablehlo.negate %x : tensor<3x70xf8E4M3FN>
    %r = stablehlo.dot_general %n, %y, contracting_dims = [1] x [0] :
        (tensor<3x70xf8E4M3FN>, tensor<70x5xf8E5M2>) -> tensor<3x5xf32>
    %s = stablehlo.add %r, %r : tensor<3x5xf32>
    return %s : tensor<3x5xf32>
}"""


def test_two_chips_part_at_the_dot() -> None:
    from minihlo.interp import compare

    report = compare(TWO, X, Y, policies=("h100", "b200"))
    first = report.parting
    assert first is not None
    assert (first.op, first.location.line) == ("stablehlo.dot_general", 3)
    h100, b200 = (matmul(-X, Y, policy=p) for p in ("h100", "b200"))
    assert first.differing == (h100.view(np.uint32) != b200.view(np.uint32)).sum() > 0
    assert [o.verdict for o in report.ops] == ["PASS", "DIVERGENT", "PASS"]
    assert same(report.results[0], b200 + b200)
    assert "they first differ at" in str(report)
    assert ", h100 " in str(first.worst[0])
    alike = compare(TWO, X, Y, policies=("h100", Policy(accumulate="h200")))
    assert alike.parting is None
    assert "they give the same results" in str(alike)
    for policies, message in (
        (("h100",), "policies: expected two, got 1"),
        (("h100", "h1"), "policies: expected a chip or its instruction"),
        (("h100", 3), "policies: expected a Policy or the name of a chip, got int"),
    ):
        with pytest.raises(InputError, match=message):
            compare(TWO, X, Y, policies=policies)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="policies: expected no policy and no backend"):
        compare(TWO, X, Y, policies=("h100", "b200"), policy=Policy())


def test_two_chips_on_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "two.mlir").write_text(TWO)
    done = command("diff", str(tmp_path / "two.mlir"), "--target", "h100", "--target", "b200")
    assert done.returncode == 0, done.stderr
    assert "b200 beside h100, each op by itself" in done.stdout
    assert "they first differ at" in done.stdout
    done = command("diff", str(tmp_path / "two.mlir"), "--target", "h100")
    assert done.returncode == 2
    assert "expected a backend with at most one --target, or two of --target alone, got no backend and 1" in done.stderr
    done = command("diff", str(tmp_path / "two.mlir"), "minihlo", "--target", "h100")
    assert done.returncode == 0, done.stderr
    assert "beside" not in done.stdout
