"""Groups of elementwise ops by compiled code give numpy's bits, whatever they are made of."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from minihlo import interp
from minihlo.interp import machine
from minihlo.interp.compile import planner
from minihlo.ops.engine import compiled
from minihlo.ops.engine.fast import opcodes, run
from minihlo.ops.engine.fast.encoding import encoding
from minihlo.ops.engine.fast.programs import program
from minihlo.ops.engine.fast.recipes import Recipe, Step
from minihlo.ops.engine.speed import Speed
from minihlo.ops.policy import Policy
from minihlo.ops.types import ELEMENT_TYPES, ElementType

from ..conftest import Tune, tuned
from . import fusible_programs
from .compiled_groups import MINIFLOATS, check, compile_all_groups, function, numbers_of

pytestmark = pytest.mark.skipif(not compiled.is_available(), reason="numba is not installed")


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch, tune: Tune) -> list[run.Program]:
    return compile_all_groups(monkeypatch, tune)


@pytest.mark.parametrize("t", ["f32", "bf16", "f16"])
@pytest.mark.parametrize(
    "op",
    [
        "add",
        "subtract",
        "multiply",
        "divide",
        "maximum",
        "minimum",
        "remainder",
        "select",
        "clamp",
        "EQ",
        "NE",
        "LT",
        "LE",
        "GT",
        "GE",
    ],
)
def test_all_pairs_of_unlike_numbers(ran: list[object], op: str, t: str) -> None:
    dtype = ELEMENT_TYPES[t].dtype
    numbers = np.unique(numbers_of(dtype).view(f"u{dtype.itemsize}")).view(dtype)
    x, y = (np.ascontiguousarray(a.reshape(-1)) for a in np.meshgrid(numbers, numbers))
    v, m = f"tensor<{x.size}x{t}>", f"tensor<{x.size}xi1>"
    compare = f"stablehlo.compare {op if op.isupper() else 'LT'}, %x, %n : ({v}, {v}) -> {m}"
    if op.isupper():
        body, result = f"%r = {compare}", m
    elif op == "select":
        body, result = f"%p = {compare}\n%r = stablehlo.select %p, %x, %y : {m}, {v}", v
    elif op == "clamp":
        body, result = f"%r = stablehlo.clamp %n, %x, %y : {v}", v
    else:
        body, result = f"%r = stablehlo.{op} %n, %y : {v}", v
    check(function(f"%x: {v}, %y: {v}", result, f"%n = stablehlo.negate %y : {v}\n{body}", "%r").replace(
        f"stablehlo.{op} %n, %y", f"stablehlo.{op} %x, %n"), x, y)  # fmt: skip
    assert ran


def test_remainders_of_near_and_far_numbers(ran: list[object]) -> None:
    """Quotients on both sides of where the loop goes another way, whole ones, and next to whole ones."""
    rng, n = np.random.default_rng(5), 4000
    y = (rng.standard_normal(n) * np.exp2(rng.integers(-100, 90, n))).astype(np.float32)
    for bits in (1, 5, 24, 27, 28, 29, 30):
        quotient = rng.integers(1 << bits - 1, 1 << bits, n).astype(np.float64)
        x = np.multiply(y, quotient).astype(np.float32)
        for near in (x, np.nextafter(x, np.float32(np.inf)), np.nextafter(x, np.float32(0))):
            v = f"tensor<{n}xf32>"
            body = f"%n = stablehlo.negate %x : {v}\n%r = stablehlo.remainder %n, %y : {v}"
            plan = planner.plan(interp.load(function(f"%x: {v}, %y: {v}", v, body, "%r")).program, speed=tuned(Speed()))
            (got,) = machine.run(plan, [near, y])
            for a, b, r in zip(near[:200].tolist(), y.tolist(), got.tolist(), strict=False):
                rest = abs(Fraction(a)) % abs(Fraction(b))
                assert Fraction(r) == (-rest if a > 0 else rest), (a, b)
    by_infinity = np.where(np.arange(n) % 2, np.inf, -np.inf).astype(np.float32)
    (got,) = machine.run(plan, [x, by_infinity])
    assert got.tobytes() == (-x).tobytes()
    assert ran


@pytest.mark.parametrize("t", ["f32", "bf16", "f16"])
@pytest.mark.parametrize(
    "op",
    [
        "negate",
        "abs",
        "sqrt",
        "floor",
        "ceil",
        "round_nearest_even",
        "round_nearest_afz",
        "sign",
        "exponential",
        "rsqrt",
    ],
)
def test_unary_ops(ran: list[object], op: str, t: str) -> None:
    rng, dtype = np.random.default_rng(4), ELEMENT_TYPES[t].dtype
    with np.errstate(all="ignore"):
        x = np.concatenate([numbers_of(dtype), (rng.standard_normal(4000) * 30).astype(dtype)])
    y = np.concatenate([x[:0], np.ones(x.size, dtype)])
    v = f"tensor<{x.size}x{t}>"
    body = f"%p = stablehlo.multiply %x, %y : {v}\n%r = stablehlo.{op} %p : {v}"
    check(function(f"%x: {v}, %y: {v}", v, body, "%r"), x, y)
    assert ran or t != "f32"


def test_every_code_of_f16_and_every_place_where_rounding_to_it_changes(ran: list[object]) -> None:
    """Moving keeps the bits of NaN too; f32 on both sides of each tie."""
    codes = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    v, w, m = (f"tensor<65536x{t}>" for t in ("f16", "f32", "i1"))
    moved = f"%r = stablehlo.select %p, %x, %y : {m}, {v}\n%s = stablehlo.negate %r : {v}"
    text = function(f"%p: {m}, %x: {v}, %y: {v}", v, moved, "%s")
    program = planner.plan(interp.load(text).program, speed=tuned(Speed()))
    flags = np.arange(1 << 16) % 3 == 0
    (result,) = machine.run(program, [flags, codes, codes[::-1].copy()])
    wanted = np.where(flags, codes.view(np.uint16), codes[::-1].view(np.uint16)) ^ np.uint16(0x8000)
    assert np.array_equal(result.view(np.uint16), wanted)
    finite = np.sort(codes[np.isfinite(codes)]).astype(np.float64)
    with np.errstate(all="ignore"):
        ties = ((finite[1:] + finite[:-1]) / 2).astype(np.float32)
        most = np.array([65519.99, 65520, 65520.01, 1e9, 1e-9, 2**-25], np.float32)
    for x in (ties, np.nextafter(ties, np.float32(9e9)), np.nextafter(ties, np.float32(-9e9)), np.r_[most, -most]):
        half, wide = f"tensor<{len(x)}xf16>", f"tensor<{len(x)}xf32>"
        body = f"%r = stablehlo.convert %x : ({wide}) -> {half}\n%s = stablehlo.abs %r : {half}"
        check(function(f"%x: {wide}", half, body, "%s"), x)
        body = f"%r = stablehlo.convert %x : ({wide}) -> {half}\n%s = stablehlo.convert %r : ({half}) -> {wide}"
        check(function(f"%x: {wide}", wide, body, "%s"), x)
    assert ran


@pytest.mark.parametrize("t", ["f16", "bf16"])
def test_functions_of_f16_and_bf16_are_looked_up(ran: list[run.Program], t: str) -> None:
    """Of every code, as it is loaded and as it is computed; and what is rounded and stays f32."""
    codes = np.arange(1 << 16, dtype=np.uint16).view(ELEMENT_TYPES[t].dtype)
    v, w = f"tensor<65536x{t}>", "tensor<65536xf32>"
    body = f"""
      %p = stablehlo.multiply %x, %y : {v}
      %e = stablehlo.exponential %p : {v}
      %t = stablehlo.tanh %x : {v}
      %m = stablehlo.maximum %e, %t : {v}
      %q = stablehlo.add %m, %p : {v}
      %r = stablehlo.convert %q : ({v}) -> {w}
      %s = stablehlo.multiply %r, %r : {w}"""
    check(function(f"%x: {v}, %y: {v}", w, body, "%s"), codes, np.roll(codes, 12345))
    kinds = {kind for made in ran for kind in made.code[:, 0].tolist()}
    assert {opcodes.LOOK_UP_HIGH} | ({opcodes.LOOK_UP_LOW} if t == "f16" else set()) <= kinds


def test_exponentials_of_many_numbers(ran: list[object]) -> None:
    """With those in which f64 cannot tell: near a power of two's reciprocal, and where results are subnormal."""
    rng = np.random.default_rng(8)
    x = np.concatenate([rng.uniform(-104, 89, 1 << 17), rng.uniform(-1e-3, 1e-3, 1 << 15), 2.0 ** -np.arange(40)])
    x = x.astype(np.float32)
    v = f"tensor<{x.size}xf32>"
    body = f"%n = stablehlo.negate %x : {v}\n%r = stablehlo.exponential %n : {v}"
    check(function(f"%x: {v}", v, body, "%r"), x)
    assert ran


@pytest.mark.parametrize(
    "policy", [Policy(), Policy(overflow="saturate"), Policy(overflow="onnx"), Policy(rounding="toward_zero")]
)
@pytest.mark.parametrize("t", MINIFLOATS, ids=lambda t: t.name)
def test_rounding_to_minifloats(ran: list[object], t: ElementType, policy: Policy) -> None:
    low = np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)
    x = ((np.arange(1 << 16, dtype=np.uint32) << 16)[:, None] | low).view(np.float32).reshape(-1)
    v, c = f"tensor<{x.size}xf32>", f"tensor<{x.size}x{t}>"
    body = f"%n = stablehlo.multiply %x, %y : {v}\n%r = stablehlo.convert %n : ({v}) -> {c}"
    check(function(f"%x: {v}, %y: {v}", c, body, "%r"), x, np.ones_like(x), policy=policy)
    assert ran


def test_rounding_goes_by_arithmetic_where_it_can() -> None:
    for t in MINIFLOATS:
        numbers, _ = encoding(t, Policy())
        # Those without NaN make of one what has no sign of its own.
        assert (numbers is not None) == (t.bits == 8 and t.name != "f8E8M0FNU"), t
    assert encoding(ELEMENT_TYPES["f8E5M2"], Policy(overflow="saturate"))[0] is not None
    assert encoding(ELEMENT_TYPES["f8E5M2"], Policy(rounding="up"))[0] is None


@pytest.mark.parametrize("limit", [100.0, 3.5, 1e4])
@pytest.mark.parametrize("t", MINIFLOATS, ids=lambda t: t.name)
def test_clipping_and_rounding(ran: list[object], t: ElementType, limit: float) -> None:
    low = np.array([0, 1, 0x8000, 0xFFFF], np.uint32)
    x = ((np.arange(1 << 16, dtype=np.uint32) << 16)[:, None] | low).view(np.float32).reshape(-1)
    v, c = f"tensor<{x.size}xf32>", f"tensor<{x.size}x{t}>"
    body = f"""
      %low = stablehlo.constant dense<{-limit}> : tensor<f32>
      %high = stablehlo.constant dense<{limit}> : tensor<f32>
      %p = stablehlo.multiply %x, %y : {v}
      %q = stablehlo.clamp %low, %p, %high : (tensor<f32>, {v}, tensor<f32>) -> {v}
      %r = stablehlo.convert %q : ({v}) -> {c}"""
    check(function(f"%x: {v}, %y: {v}", c, body, "%r"), x, np.ones_like(x))
    assert ran


def random_program(seed: int) -> tuple[str, list[np.ndarray]]:
    """Ops that the machine knows, on two matrices, a row and a column of any of its types."""
    rng, lines = np.random.default_rng(seed), []
    rows, columns = (int(n) for n in rng.integers(2, 40, 2))
    values: list[tuple[str, str]] = []
    arguments, arrays = [], []
    for i, shape in enumerate([(rows, columns), (rows, columns), (rows, 1), (1, columns)]):
        t = str(rng.choice(["f32", "f32", "bf16", "f16", "f8E4M3FN", "f8E5M2FNUZ", "i1"]))
        codes = rng.integers(0, 256, (*shape, 4), np.uint8)
        codes[..., 3] = np.where(rng.random(shape) < 0.9, codes[..., 3] & 0x80 | 0x3F, codes[..., 3])
        element = ELEMENT_TYPES[t]
        whole = codes.view(np.float32)[..., 0]
        with np.errstate(all="ignore"):
            arrays.append(whole > 0 if t == "i1" else whole.astype(element.dtype))
        arguments.append(f"%a{i}: tensor<{shape[0]}x{shape[1]}x{t}>")
        lines.append(
            f"%b{i} = stablehlo.broadcast_in_dim %a{i}, dims = [0, 1]"
            f" : (tensor<{shape[0]}x{shape[1]}x{t}>) -> tensor<{rows}x{columns}x{t}>"
        )
        values.append((f"%b{i}", t))

    def of(*types: str) -> tuple[str, str]:
        fitting = [v for v in values if v[1] in types]
        return fitting[rng.integers(len(fitting))] if fitting else convert(str(types[rng.integers(len(types))]))

    def put(text: str, t: str) -> tuple[str, str]:
        values.append((f"%v{len(values)}", t))
        lines.append(f"{values[-1][0]} = stablehlo.{text}")
        return values[-1]

    def v(t: str) -> str:
        return f"tensor<{rows}x{columns}x{t}>"

    def convert(t: str) -> tuple[str, str]:
        floats = [x for x in values if x[1] in ("f32", "bf16", "f16")] or [x for x in values if x[1] != "i1"] or values
        x, source = floats[rng.integers(len(floats))]
        return put(f"convert {x} : ({v(source)}) -> {v(t)}", t)

    for _ in range(rng.integers(4, 16)):
        kind, (x, t) = rng.integers(6), of("f32", "bf16", "f16")
        y = of(t)[0]
        if kind == 0:
            convert(str(rng.choice(["f32", "bf16", "f16", "f8E4M3FN", "f8E4M3FNUZ", "f8E5M2"])))
        elif kind == 1:
            direction = rng.choice(["EQ", "NE", "LT", "LE", "GT", "GE"])
            put(f"compare {direction}, {x}, {y} : ({v(t)}, {v(t)}) -> {v('i1')}", "i1")
        elif kind == 2:
            put(f"select {of('i1')[0]}, {x}, {y} : {v('i1')}, {v(t)}", t)
        elif kind == 3:
            op = rng.choice(
                ["negate", "abs", "sqrt", "floor", "ceil", "round_nearest_even", "round_nearest_afz", "sign"]
            )
            put(f"{op} {x} : {v(t)}", t)
        elif kind == 4 and rng.random() < 0.3:
            put(f"not {of('i1')[0]} : {v('i1')}", "i1")
        elif kind == 4 and any(u == "i1" for _, u in values):
            put(f"{rng.choice(['and', 'or', 'xor'])} {of('i1')[0]}, {of('i1')[0]} : {v('i1')}", "i1")
        else:
            op = rng.choice(["add", "subtract", "multiply", "divide", "maximum", "minimum", "remainder"])
            put(f"{op} {x}, {y} : {v(t)}", t)
    last = values[-2:]
    returned, types = ", ".join(x for x, _ in last), ", ".join(v(t) for _, t in last)
    body = "\n".join(lines)
    return f"func.func @main({', '.join(arguments)}) -> ({types}) {{ {body}\nreturn {returned} : {types} }}", arrays


def test_random_programs(ran: list[run.Program]) -> None:
    count = 0
    for seed in range(150):
        text, arrays = random_program(seed)
        before = len(ran)
        with np.errstate(all="ignore"):
            check(text, *arrays)
        count += len(ran) > before
    assert count > 75


@pytest.mark.usefixtures("ran")
@pytest.mark.parametrize("seed", range(60))
def test_fusible_programs(seed: int) -> None:
    text, arrays = fusible_programs.program(seed)
    policy = (Policy(), Policy(rounding="toward_zero", overflow="saturate"), Policy(arithmetic="upcast"))[seed % 3]
    check(text, *arrays, policy=policy)


def test_small_groups_are_compiled_where_they_have_several_ops() -> None:
    def executors(elements: int, *ops: str) -> set[str]:
        v = f"tensor<{elements}xf32>"
        lines = [f"%{i} = stablehlo.{op} %{i - 1 if i else 'x'} : {v}" for i, op in enumerate(ops)]
        text = function(f"%x: {v}", v, "\n".join(lines), f"%{len(ops) - 1}")
        return {c.decision.executor for c in planner.plan(interp.load(text).program).chosen}

    four = ("negate", "sqrt", "floor", "abs")
    assert executors(512, *four) == executors(8192, *four[:2]) == {"compiled"}
    assert executors(511, *four) == executors(8191, *four[:2]) == {"blocks"}


def test_outputs_are_stored_as_soon_as_they_are_there() -> None:
    """So that a group of many outputs needs few registers: each holds a block."""
    f32, steps = ELEMENT_TYPES["f32"], []
    for i in range(30):
        steps.append(Step("negate", {}, [f"x{i}"], f"y{i}", (f32, f32), None, opcodes.NEGATE, None))
    leaves, outputs = [(f"x{i}", f32) for i in range(30)], [(f"y{i}", f32) for i in range(30)]
    made = program(Recipe(leaves, {}, steps, outputs, Policy()), None, [False] * 30)
    assert made is not None
    assert made.registers <= 3


@pytest.mark.parametrize("name", ["f8E4M3FNUZ", "f8E5M2", "f6E2M3FN", "f8E8M0FNU"])
@pytest.mark.parametrize(("rows", "columns", "elements"), [(60, 333, 128), (300, 64, 256), (140, 130, 1 << 11)])
def test_codes_are_decoded_in_blocks_of_any_size(
    ran: list[object], tune: Tune, name: str, rows: int, columns: int, elements: int
) -> None:
    """So many that tables are laid out for the processor's permutations, with and without a rest of elements."""
    tune(fast_elements=elements, fast_parts=1)
    element, rng = ELEMENT_TYPES[name], np.random.default_rng(12)
    codes = rng.integers(0, 1 << element.bits, (rows, columns), np.uint8)
    x, y = codes.view(element.dtype), rng.standard_normal((rows, columns), np.float32)
    few = rng.integers(0, 1 << element.bits, columns, np.uint8).view(element.dtype)
    v, w, f = f"tensor<{rows}x{columns}x{name}>", f"tensor<{rows}x{columns}xf32>", f"tensor<{columns}x{name}>"
    body = f"""%a = stablehlo.convert %x : ({v}) -> {w}
%b = stablehlo.multiply %a, %y : {w}
%c = stablehlo.broadcast_in_dim %f, dims = [1] : ({f}) -> {v}
%d = stablehlo.convert %c : ({v}) -> {w}
%r = stablehlo.add %b, %d : {w}"""
    check(function(f"%x: {v}, %y: {w}, %f: {f}", w, body, "%r"), x, y, few)
    assert ran


def test_the_machine_reads_arrays_and_never_numbers_of_numpy() -> None:
    """It is given the objects of arrays, and numpy's ops give a number where all operands have no dimensions."""
    for x in (np.float32(2), np.ones(3, np.float32)[::-1], np.ones((200, 300), np.float32).T, np.ones((), np.float32)):
        together = run._together(x)  # type: ignore[arg-type]
        assert type(together) is np.ndarray
        assert together.flags.c_contiguous
        assert together.reshape(np.shape(x)).tolist() == x.tolist()
