"""Compiled kernels give numpy's bits; what is small never waits for a compiler, and one that fails does no harm."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from minihlo import interp
from minihlo.interp import machine
from minihlo.interp.compile import planner
from minihlo.ops.cast import cast
from minihlo.ops.engine import compiled, lookup, speed
from minihlo.ops.engine.fast import lookups
from minihlo.ops.policy import Policy
from minihlo.ops.types import ELEMENT_TYPES, ElementType

from ..conftest import Tune, tuned

MINIFLOATS = [t for t in ELEMENT_TYPES.values() if t.is_minifloat]
needs_numba = pytest.mark.skipif(not compiled.is_available(), reason="numba is not installed")


@pytest.fixture
def at_once(tune: Tune) -> compiled.Kernels:
    """Everything is handed to compiled kernels, however small."""
    tune(compiled_from=1)
    tune(compiled_worth=0)
    tune(lookup_few=0)
    result = compiled.kernels(1)
    assert result is not None
    return result


@pytest.mark.parametrize("function", [lookups.look_up, lookups.look_up_pairs, lookups.round_f32, lookups.transitions])
def test_kernels_are_plain_python_too(function: object) -> None:
    rng = np.random.default_rng(3)
    x, y = rng.integers(0, 256, (2, 5, 40), np.uint8)
    table, out = rng.integers(0, 256, 1 << 16, np.uint8), np.zeros((5, 40), np.uint8)
    if function is lookups.look_up:
        lookups.look_up(x.reshape(-1), table, out.reshape(-1))
        assert (out == table[x]).all()
    elif function is lookups.look_up_pairs:
        lookups.look_up_pairs(x, y, np.uintp(8), table, out)
        assert (out == table[x.astype(int) * 256 + y]).all()
    elif function is lookups.round_f32:
        bits = rng.integers(0, 1 << 32, 200, np.uint32)
        lookups.round_f32(bits, table, out.reshape(-1))
        odd = (bits >> 16) | ((bits & 0xFFFF) != 0)
        assert (out.reshape(-1) == table[odd]).all()
    else:
        for kept in (out, out[:0]):
            totals = y[0].copy()
            lookups.transitions(totals, x, table.reshape(256, 256), kept)
            for j, start in enumerate(y[0]):
                code = int(start)
                for i, element in enumerate(x[:, j]):
                    code = int(table[code * 256 + int(element)])
                    assert code == out[i, j]
                assert code == totals[j]


@pytest.mark.parametrize("strip", [0, 1, 4, 11, 100])
def test_a_table_for_each_line(strip: int) -> None:
    rng = np.random.default_rng(4)
    codes, tables = rng.integers(0, 256, (9, 11), np.uint8), rng.integers(0, 1 << 16, (11, 256), np.uint16)
    wanted = [[tables[j if strip else i, code] for j, code in enumerate(row)] for i, row in enumerate(codes)]
    out = np.zeros(codes.shape, np.uint16)
    lookups.look_up_lines(codes, tables.reshape(-1), strip, out)
    assert (out == wanted).all()


@needs_numba
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.uint32])
@pytest.mark.parametrize("columns", [0, 1, 63, 64, 65, 130, 256])
def test_lookups_write_what_they_are_given_and_nothing_else(
    at_once: compiled.Kernels, columns: int, dtype: type
) -> None:
    rng = np.random.default_rng(8)
    room, tables = rng.integers(0, 256, (3, 256), np.uint8), rng.integers(0, 1 << 8, (columns + 3, 256)).astype(dtype)
    codes = np.ascontiguousarray(room[:, :columns])
    for way in ("one", "rows", "columns"):
        out = np.full(3 * columns + 128, 77, dtype)
        target = out[64 : 64 + 3 * columns].reshape(3, columns)
        if way == "one":
            at_once.look_up(codes.reshape(-1), tables[0], target.reshape(-1))
            wanted = tables[0][codes]
        else:
            at_once.look_up_lines(codes, tables, way == "columns", target)
            number = np.arange(columns) if way == "columns" else np.arange(3)[:, None]
            wanted = tables[number, codes]
        assert (target == wanted).all()
        assert (out[:64] == 77).all()
        assert (out[64 + 3 * columns :] == 77).all()


@needs_numba
def test_bytes_are_looked_up_without_the_instructions_too(
    at_once: compiled.Kernels, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = np.random.default_rng(9).integers(0, 256, 1000, np.uint8)
    table = lookup.Table(np.arange(256, dtype=np.uint8)[::-1].copy())
    assert (table.at(x) == 255 - x).all()
    monkeypatch.setattr(at_once, "has_octets", False)
    assert (table.at(x) == 255 - x).all()


@needs_numba
@pytest.mark.parametrize("shape", [(3, 5), (8, 9), (37, 100)])
def test_sums_of_rows_are_made_in_order(at_once: compiled.Kernels, shape: tuple[int, int]) -> None:
    rows = np.random.default_rng(5).standard_normal(shape, np.float32) * np.float32(1e3)
    totals = rows[:, 0] / np.float32(3)
    wanted = totals.copy()
    for column in rows.T:
        wanted += column
    at_once.add_rows(totals, rows)
    assert totals.tobytes() == wanted.tobytes()


@needs_numba
@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("policy", [Policy(), Policy(rounding="toward_zero", overflow="saturate")])
@pytest.mark.parametrize("t", MINIFLOATS, ids=lambda t: t.name)
def test_rounding_f32(t: ElementType, policy: Policy) -> None:
    low = np.array([0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF], np.uint32)
    x = ((np.arange(1 << 16, dtype=np.uint32) << 16)[:, None] | low).view(np.float32)
    for laid in (x, x.T, x[::3, ::2]):
        assert same_without(laid, ELEMENT_TYPES["f32"], t, policy)


@needs_numba
@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("t", [t for t in MINIFLOATS if t.format.has_zero], ids=lambda t: t.name)
def test_rounding_f64(t: ElementType) -> None:
    with np.errstate(all="ignore"):
        x = (np.arange(1 << 16, dtype=np.uint32) << 16).view(np.float32).astype(np.float64)
        bits = x.view(np.uint64)[:, None] + np.array([0, 1, -1, 1 << 28, (1 << 28) + 1, 1 << 44], np.int64).view(
            np.uint64
        )
        extremes = np.array([1e300, -1e300, 1e-300, -1e-300, 5e-324, np.inf, -np.inf, 3.5e38, 1e-46, -0.0])
        for laid in (bits.view(np.float64), extremes):
            assert same_without(laid, ELEMENT_TYPES["f64"], t, Policy())
            assert same_without(laid, ELEMENT_TYPES["f64"], t, Policy(rounding="up"))


def same_without(x: np.ndarray, source: ElementType, target: ElementType, policy: Policy) -> bool:
    """Whether numpy gives the same bits."""
    result = cast(x, source, target, policy)
    token = speed.enter(speed.NONE)
    wanted = cast(x, source, target, policy)
    speed.leave(token)
    return (result.dtype, result.shape, result.tobytes()) == (wanted.dtype, wanted.shape, wanted.tobytes())


@needs_numba
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32, np.float64])
def test_lookups(at_once: compiled.Kernels, dtype: type) -> None:
    rng = np.random.default_rng(5)
    codes, entries = rng.integers(0, 256, (3, 70, 50), np.uint8), rng.integers(0, 99, 1 << 16).astype(dtype)
    assert (lookup.Table(entries[:256]).at(codes) == entries[codes]).all()
    assert (lookup.Table(entries[:256]).at(codes[::2, ::3]) == entries[codes[::2, ::3]]).all()
    wide = codes.astype(np.uint16) * 250
    assert (lookup.Table(entries).at(wide) == entries[wide]).all()
    others = [
        codes[::-1],
        codes[0],
        codes[:, :, :1],
        codes[:1, :, :1],
        codes[0, 0, 0],
        codes.transpose(0, 1, 2)[..., ::-1],
    ]
    for other in others:
        for high, low in ((codes, other), (other, codes)):
            actual = lookup.Table(entries).at_joined([high, low], [8, 8])
            assert (actual == entries[high.astype(int) * 256 + low]).all()
    assert lookup.Table(entries[:8]).at_joined([codes & 1, codes & 3], [1, 2]).tolist() == (
        entries[(codes & 1).astype(int) * 4 + (codes & 3)].tolist()
    )
    # Bits that a code cannot have do not lead out of the table.
    assert lookup.Table(entries[:8]).at_joined([codes, codes], [1, 2]).shape == codes.shape
    assert at_once is compiled.kernels(1)


@needs_numba
@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("t", MINIFLOATS, ids=lambda t: t.name)
@pytest.mark.parametrize(("shape", "dimension"), [((70, 41), 0), ((70, 41), 1), ((3000,), 0)])
def test_sums_step_by_step(t: ElementType, shape: tuple[int, ...], dimension: int) -> None:
    dims, kept = "x".join(map(str, shape)), "".join(f"{n}x" for d, n in enumerate(shape) if d != dimension)
    program = interp.load(f"""func.func @main(%x: tensor<{dims}x{t}>, %s: tensor<{t}>) -> tensor<{kept}{t}> {{
      %r = stablehlo.reduce(%x init: %s) applies stablehlo.add across dimensions = [{dimension}]
        : (tensor<{dims}x{t}>, tensor<{t}>) -> tensor<{kept}{t}>
      return %r : tensor<{kept}{t}>
    }}""").program
    rng = np.random.default_rng(1)
    x = rng.integers(0, 1 << t.bits, shape, np.uint8).view(t.dtype)
    small = cast(rng.standard_normal(shape).astype(np.float32), ELEMENT_TYPES["f32"], t, Policy())
    for array in (x, small):
        actual, wanted = (
            machine.run(planner.plan(program, speed=tuned(s)), [array, small.reshape(-1)[0, ...]])[0].tobytes()
            for s in (speed.Speed(), speed.NONE)
        )
        assert actual == wanted


@needs_numba
def test_without_a_place_to_keep_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    numba = importlib.import_module("numba")

    def njit(*args: object, **options: object) -> object:
        if options.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")
        return real(*args, **options)

    real = numba.njit
    monkeypatch.setattr(numba, "njit", njit)
    codes, out = np.arange(9, dtype=np.uint8), np.zeros(9, np.uint8)
    made = compiled.Kernels()
    made.look_up(codes, np.arange(256, dtype=np.uint8)[::-1].copy(), out)
    assert out.tolist() == list(range(255, 246, -1))
    assert made.machine is not None
    assert os.environ.get("NUMBA_CACHE_DIR", "") == numba.config.CACHE_DIR


# -- when numba is imported: these replace it --------------------------------------------------------------------------

_LARGE = """
import sys
import numpy as np
from minihlo import interp

program = interp.load('''func.func @main(%x: tensor<1000000xf8E5M2>) -> tensor<1000000xf8E5M2> {
  %y = stablehlo.negate %x : tensor<1000000xf8E5M2>
  %z = stablehlo.tanh %y : tensor<1000000xf8E5M2>
  return %z : tensor<1000000xf8E5M2>
}''')
x = np.full(1000000, 0, np.uint8).view(interp.cast([0], "f8E5M2").dtype)
for _ in range(int(sys.argv[1])):
    (y,) = program(x)
print(len(set(y.tobytes())), "numba" in sys.modules)
"""


def _child(tmp_path: Path, numba: str, *command: str, **variables: str) -> str:
    (tmp_path / "numba").mkdir()
    (tmp_path / "numba" / "__init__.py").write_text(numba)
    environment = {k: v for k, v in os.environ.items() if k != "MINIHLO_WITHOUT"} | variables
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, (str(tmp_path), environment.get("PYTHONPATH", ""))))
    child = subprocess.run([sys.executable, *command], env=environment, capture_output=True, text=True, check=False)
    assert child.returncode == 0, child.stderr
    return child.stdout


_TELLS = "print('imported'); raise ImportError('broken')"


def test_nothing_small_imports_numba(tmp_path: Path) -> None:
    (tmp_path / "x.mlir").write_text(
        """func.func @main(%x: tensor<4xf8E4M3FN>) -> tensor<4xf8E4M3FN> {
          %y = stablehlo.add %x, %x : tensor<4xf8E4M3FN>
          return %y : tensor<4xf8E4M3FN>
        }"""
    )
    command = ("-m", "minihlo.interp.cli", "run", str(tmp_path / "x.mlir"), "--input", "4xf8E4M3FN=1")
    assert "imported" not in _child(tmp_path, _TELLS, *command)


def test_one_large_array_is_not_worth_a_compiler(tmp_path: Path) -> None:
    assert _child(tmp_path, _TELLS, "-c", _LARGE, "1") == "1 False\n"


def test_a_numba_that_fails_does_no_harm(tmp_path: Path) -> None:
    assert _child(tmp_path, _TELLS, "-c", _LARGE, "12").splitlines() == ["imported", "1 False"]


def test_it_can_be_turned_off(tmp_path: Path) -> None:
    assert _child(tmp_path, _TELLS, "-c", _LARGE, "12", MINIHLO_WITHOUT="compiled") == "1 False\n"


def _scattered(rows: np.ndarray, targets: np.ndarray, updates: np.ndarray, without: str) -> np.ndarray:
    (height, width), count = rows.shape, len(targets)
    text = f"""
    func.func @main(%x: tensor<{height}x{width}xf32>, %i: tensor<{count}x1xi32>, %u: tensor<{count}x{width}xf32>)
        -> tensor<{height}x{width}xf32> {{
      %r = "stablehlo.scatter"(%x, %i, %u) ({{
        ^bb0(%a: tensor<f32>, %b: tensor<f32>):
          %s = stablehlo.add %a, %b : tensor<f32>
          stablehlo.return %s : tensor<f32>
      }}) {{scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0],
           scatter_dims_to_operand_dims = [0], index_vector_dim = 1>}}
        : (tensor<{height}x{width}xf32>, tensor<{count}x1xi32>, tensor<{count}x{width}xf32>)
        -> tensor<{height}x{width}xf32>
      return %r : tensor<{height}x{width}xf32>
    }}"""
    (result,) = interp.load(text, without=without)(rows, targets.astype(np.int32)[:, None], updates)
    return result


@pytest.mark.parametrize("few", [0, 1000], ids=["together", "row by row"])
@pytest.mark.parametrize("without", ["", "compiled"])
def test_rows_are_added_in_their_order(without: str, few: int, tune: Tune) -> None:
    tune(compiled_from=1, compiled_worth=0, scatter_few=few, scatter_wide=1)
    rng = np.random.default_rng(4)
    rows, targets = rng.normal(size=(5, 7)).astype(np.float32), rng.integers(-2, 7, 40)
    updates = (rng.normal(size=(40, 7)) * 10.0 ** rng.integers(-9, 9, (40, 7))).astype(np.float32)
    updates[3], updates[9, 2], updates[11, 2] = -0.0, np.inf, -np.inf
    expected = rows.tolist()
    for target, update in zip(targets.tolist(), updates.tolist(), strict=True):
        if 0 <= target < 5:
            expected[target] = [float(np.float32(a + b)) for a, b in zip(expected[target], update, strict=True)]
    result = _scattered(rows, targets, updates, without)
    np.testing.assert_array_equal(result, np.array(expected, np.float32))
    assert (np.signbit(result) == np.signbit(np.array(expected, np.float32)))[~np.isnan(result)].all()


@needs_numba
@pytest.mark.parametrize("width", [8, 9, 40, 300, 1000, 3000])
def test_columns_are_added_in_their_order(width: int, tune: Tune, monkeypatch: pytest.MonkeyPatch) -> None:
    tune(compiled_from=1, compiled_worth=0, block=1, reduce_small=1)
    calls, add_down = [], compiled.Kernels.add_down
    monkeypatch.setattr(compiled.Kernels, "add_down", lambda *a: calls.append(1) or add_down(*a))
    rng = np.random.default_rng(6)
    x = (rng.normal(size=(37, width)) * 10.0 ** rng.integers(-9, 9, (37, width))).astype(np.float32)
    x[:, 1], x[3, 2], x[9, 2], x[20, 3] = -0.0, np.inf, -np.inf, np.nan
    text = f"""
    func.func @main(%x: tensor<37x{width}xf32>, %i: tensor<f32>) -> tensor<{width}xf32> {{
      %r = stablehlo.reduce(%x init: %i) applies stablehlo.add across dimensions = [0]
        : (tensor<37x{width}xf32>, tensor<f32>) -> tensor<{width}xf32>
      return %r : tensor<{width}xf32>
    }}"""
    (result,) = interp.load(text)(x, np.float32(-0.0))
    expected = np.full(width, np.float32(-0.0))
    with np.errstate(all="ignore"):
        for row in x.astype(np.float64):
            expected = (expected.astype(np.float64) + row).astype(np.float32)  # f64 holds a sum of two f32 well enough
    np.testing.assert_array_equal(result, expected)
    assert np.array_equal(np.signbit(result[1:2]), np.signbit(expected[1:2]))
    assert bool(calls) == (width < 2048)
