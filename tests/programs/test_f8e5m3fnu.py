"""f8E5M3FNU, which is neither StableHLO's nor ml_dtypes': it is read, converted and printed on every jaxlib."""

import jax.numpy as jnp
import numpy as np
import pytest
from jaxlib.mlir import ir

from minihlo import interp
from minihlo.interp.emulate.program import emulate_text
from minihlo.interp.errors import InputError, ProgramError, UnsupportedError

from .. import oracle
from ..cli_cases import in_process

NAME = "f8E5M3FNU"
FORMAT = oracle.ALL_FORMATS[NAME]
CODES = np.arange(256, dtype=np.uint8)
KNOWS_IT = pytest.mark.skipif(not hasattr(ir, "Float8E5M3FNUType"), reason="this jaxlib's parser does not know it")


def program(source: str, target: str, convert: str = "stablehlo.convert %x", n: int = 256) -> str:
    """A function that converts, or what `convert` says."""
    takes, gives = f"tensor<{n}x{source}>", f"tensor<{n}x{target}>"
    return f"func.func @main(%x: {takes}) -> {gives} {{\n%y = {convert} : ({takes}) -> {gives}\nreturn %y : {gives}\n}}"


def converted(source: str, target: str, x: np.ndarray, convert: str = "stablehlo.convert %x") -> np.ndarray:
    return interp.load(program(source, target, convert, len(x)))(x)[0]


@KNOWS_IT
def test_values_are_those_of_llvm() -> None:
    values = converted(NAME, "f64", CODES)
    with ir.Context():
        for code in range(255):
            printed = str(ir.Attribute.parse(f'dense<"0x{code:02X}"> : tensor<{NAME}>'))
            number = float(printed.removeprefix("dense<").partition(">")[0])  # of six digits
            assert number == pytest.approx(values[code], rel=1e-5)
        assert str(ir.Attribute.parse(f'dense<"0xFF"> : tensor<{NAME}>')).startswith("dense<0xFF>")
    assert np.isnan(values[0xFF])
    assert (values[1], values[0x78], values[0xFE]) == (2.0**-17, 1, 114688)


@pytest.mark.parametrize("convert", ["stablehlo.convert %x", '"stablehlo.convert"(%x)'])
@pytest.mark.parametrize("target", ["f32", "f16", "bf16", "f8E4M3FN", "f8E8M0FNU"])
def test_every_code_is_converted(target: str, convert: str) -> None:
    wide = oracle.FORMATS[target]
    got = converted(NAME, target, CODES, convert)
    expected = [oracle.encode(wide, oracle.decode(FORMAT, int(c))) for c in CODES]
    codes = got.view(f"u{got.dtype.itemsize}").tolist()
    assert all(oracle.same(wide, a, b) for a, b in zip(codes, expected, strict=True))
    back = converted(target, NAME, got)
    if target in ("f32", "bf16"):
        assert back.tolist() == CODES.tolist()


def test_conversions_to_other_kinds() -> None:
    some = np.array([0x00, 0x01, 0x78, 0x7C, 0xFE, 0xFF], np.uint8)
    assert converted(NAME, "i32", some).tolist() == [0, 0, 1, 1, 114688, 0]
    assert converted(NAME, "i1", some).tolist() == [False, True, True, True, True, True]
    assert converted(NAME, "complex<f32>", some)[3] == 1.5
    given = np.array([0, 1, 17, 19, -1, 114688, 118784, 118785], np.int32)  # 17, 19 and 118784 are ties
    assert converted("i32", NAME, given).tolist() == [0, 0x78, 0x98, 0x9A, 0xFF, 0xFE, 0xFE, 0xFF]


def test_negative_numbers_are_nan_and_negative_zero_is_zero() -> None:
    given = np.array([-0.0, -1, -1e-30, -np.inf, np.inf, np.nan, 2.0**-18, 1.5 * 2.0**-18], np.float32)
    assert converted("f32", NAME, given).tolist() == [0, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0, 1]
    assert interp.cast(given, NAME, overflow="saturate").tolist() == [0, 0xFF, 0xFF, 0xFF, 0xFE, 0xFF, 0, 1]


@KNOWS_IT
def test_operations_of_arith() -> None:
    text = f"""func.func @main(%x: tensor<3xf32>, %s: {NAME}) -> (tensor<3x{NAME}>, tensor<4xf32>, f32) {{
      %y = arith.truncf %x : tensor<3xf32> to tensor<3x{NAME}>
      %c = arith.constant dense<[1.0, 3.3, 0x7C, 0xFF]> : tensor<4x{NAME}>
      %z = arith.extf %c : tensor<4x{NAME}> to tensor<4xf32>
      %w = arith.extf %s : {NAME} to f32
      return %y, %z, %w : tensor<3x{NAME}>, tensor<4xf32>, f32
    }}"""
    y, z, w = interp.load(text)(np.array([3.3, -1, 1e6], np.float32), np.uint8(0x80))
    assert y.tolist() == [0x85, 0xFF, 0xFF]
    assert z[:3].tolist() == [1, 3.25, 1.5]
    assert np.isnan(z[3])
    assert w == 2


def test_values_in_and_out(tmp_path) -> None:
    path, out = tmp_path / "a.mlir", tmp_path / "out.npy"
    path.write_text(program("f32", NAME, n=3))
    given = "3xf32=[3.3 -0.0 1e6]"
    assert in_process("run", str(path), "--input", given, "--output", str(out))[0] == 0
    assert np.load(out)[NAME].tolist() == [0x85, 0, 0xFF]
    assert (
        '"values": [3.25, 0.0, "nan"], "codes": [133, 0, 255]'
        in in_process("run", str(path), "--input", given, "--format", "json")[1]
    )
    path.write_text(program(NAME, "f32", n=3))
    for given in (f"@{out}", f"3x{NAME}=[0x85 0.0 0xFF]"):
        assert "[3.250000e+00, 0.000000e+00, 0x7FC00000]" in in_process("run", str(path), "--input", given)[1]
    status, _, error = in_process("run", str(path), "--input", f"3x{NAME}=[-1.0 0.0 1.0]")
    assert status == 2
    assert "expected a number from 0 to 114688 for f8E5M3FNU, which has no sign, got -1.0" in error


@pytest.mark.parametrize(
    ("convert", "message"),
    [
        ('"stablehlo.abs"(%x)', "<string>:2:6: stablehlo.abs: expected an element type of StableHLO, got f8E5M3FNU"),
        (
            "stablehlo.exponential %x",
            "<string>:2:6: stablehlo.exponential: expected an element type of StableHLO, got f8",
        ),
        ("stablehlo.reverse %x, dims = [0]", "<string>:2:6: stablehlo.reverse: "),
        ("stablehlo.convert", "<string>:2:"),
    ],
)
def test_other_operations_refuse_it(convert: str, message: str) -> None:
    text = program(NAME, NAME, convert)
    with pytest.raises(ProgramError) as error:
        interp.load(text).plan()
    assert message in str(error.value)
    assert "newer" not in str(error.value)
    assert "\n" not in str(error.value)


def test_jax_and_compilers_have_no_such_type() -> None:
    with pytest.raises(InputError, match=r"scales have a dtype of JAX, got fp4_ue5m3 \(f8E5M3FNU\)"):
        interp.quantize(jnp.ones(16), "fp4_ue5m3")
    with pytest.raises(UnsupportedError, match=r"tensor<256xf8E5M3FNU>: expected .* of StableHLO"):
        emulate_text(program("f32", NAME))


def test_emulated_on_codes() -> None:
    x = np.linspace(-1, 120000, 256, dtype=np.float32)
    (got,) = interp.load(emulate_text(program("f32", NAME), codes=True))(x)
    assert got.tolist() == converted("f32", NAME, x).tolist()


def test_the_tester_converts_it() -> None:
    for backend, status, told in (
        ("minihlo", 0, "57 cases, 57 PASS"),
        ("minihlo:rounding=toward_zero", 1, f"FAIL convert.f32.{NAME}"),
        ("ml_dtypes", 0, "56 UNSUPPORTED"),
    ):
        code, out, _ = in_process("conform", backend, "--formats", NAME)
        assert (code, told in out) == (status, True)
