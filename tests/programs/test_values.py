"""The VALUE syntax, what Python callers pass, and .npy files."""

import re
from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from minihlo.interp.errors import InputError, OutputError, ResourceError
from minihlo.interp.system import memory
from minihlo.interp.values import npy
from minihlo.interp.values.values import check_input, parse_value
from minihlo.ops.minifloat.formats import FORMATS, MINIFLOATS
from minihlo.ops.types import ELEMENT_TYPES, TensorType, TokenType, TupleType, element_type


def codes(text: str) -> list[int]:
    """The bit patterns of the elements a VALUE of a float type stands for."""
    array, t = parse_value(text)
    return array.view(t.element.format.code_dtype).ravel().tolist()


def tensor(shape: tuple[int | None, ...], name: str) -> TensorType:
    return TensorType(shape, element_type(name))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("4xf8E4M3FNUZ=1,-2.5,nan,0x7F", [0x40, 0xCA, 0x80, 0x7F]),
        ("f8E4M3FN=464", [0x7E]),  # a tie between 448 and what would be 480 goes to the even code, 448
        ("f8E4M3FN=-431.99999999999994", [0xFD]),  # -416; through f32 it would be -448
        ("3xf8E4M3FN=1.0625 1.0625000000000000000001 1.1874999999999999999999", [0x38, 0x39, 0x39]),
        ("2xf8E5M2=inf,-inf", [0x7C, 0xFC]),
        ("2xf8E4M3FN=-nan,nan", [0xFF, 0x7F]),
        ("f4E2M1FN=6.9", [0x7]),
        ("2xf6E3M2FN=28,-0", [0x1F, 0x20]),
        ("f8E4M3FNUZ=-0", [0x00]),  # there is one zero
        ("3xf8E8M0FNU=1 2 nan", [0x7F, 0x80, 0xFF]),
        ("2xf32=0.1,-0", [0x3DCCCCCD, 0x80000000]),
        ("f32=340282356779733661637539395458142568447", [0x7F7FFFFF]),
        ("f32=1e-45", [1]),
        ("f32=7.006492321624085354618e-46", [0]),  # half of the smallest: a tie to even
        ("f32=7.006492321624085354619e-46", [1]),
        ("2xf64=0x1.8p3,0X.1P4", [0x4028000000000000, 0x3FF0000000000000]),
        ("f64=1e-99999999999", [0]),
        ("f64=0e99999999999", [0]),
        ("bf16=3.3895313892515355e38", [0x7F7F]),
        ("f16=65519.9999", [0x7BFF]),
    ],
)
def test_floats_are_rounded_once(text: str, expected: list[int]) -> None:
    assert codes(text) == expected


@pytest.mark.parametrize("name", [n for n in MINIFLOATS if FORMATS[n].has_zero])
def test_what_lies_beyond_the_range_is_refused(name: str) -> None:
    fmt = FORMATS[name]
    every = np.arange(1 << fmt.bits, dtype=np.uint8).view(fmt.dtype).astype(np.float64)
    top = np.unique(every[np.isfinite(every)])[-2:]
    tie = Fraction(float(top[1])) + Fraction(float(top[1] - top[0])) / 2  # the step is the same above the largest
    assert codes(f"{name}={float(tie) * (1 - 2**-40)!r}") == [fmt.max_code]
    for text in (repr(float(tie) * (1 + 2**-40)), "1e9", "-1e9"):
        with pytest.raises(InputError, match=rf"expected a number from -.* for {name}, "):
            parse_value(f"{name}={text}")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2x2xi32=[[1 2][3 4]]", [[1, 2], [3, 4]]),
        ("2x2xi32=[1 2][3 4]", [[1, 2], [3, 4]]),  # as IREE prints
        ("2x2xi32=1 2 3 4", [[1, 2], [3, 4]]),
        ("2x2xi32=[1, 2, 3, 4]", [[1, 2], [3, 4]]),
        ("2x1x2xi8=[[[1 2]][[3 4]]]", [[[1, 2]], [[3, 4]]]),
        ("4xi32=7", [7, 7, 7, 7]),
        ("2xsi8=-128,0xFF", [-128, -1]),
        ("3xi4=-8 7 0xF", [-8, 7, -1]),
        ("2xui2=3 0", [3, 0]),
        ("2xui64=18446744073709551615,0", [2**64 - 1, 0]),
        ("2xi64=-9223372036854775808,9223372036854775807", [-(2**63), 2**63 - 1]),
        ("4xi1=true false 1 0", [True, False, True, False]),
        ("2xi16", [0, 0]),
        ("0xi8=", []),
        ("0x3xi8=[]", []),
        ("2x0xi8=[[][]]", [[], []]),
        ("i8=5", 5),
        ("ui8=[5]", 5),
        (" tensor<2xi8>=1,2 ", [1, 2]),
        ("tensor<2x2xi8> {\n  [\n    [1, 2],\n    [3, 4]\n  ]\n}", [[1, 2], [3, 4]]),
        ("tensor<i8> {1}", 1),
        ("dense<[[1, 2], [3, 4]]> : tensor<2x2xi8>", [[1, 2], [3, 4]]),
        ("2xcomplex<f32>=(1,-2),(nan,inf)", [1 - 2j, complex("nan+infj")]),
        ("2xcomplex<f64>=1+2i, -1e-3-2.5e+1i", [1 + 2j, -1e-3 - 25j]),
        ("2xcomplex<f32>=[[1, 2], [3, 4]]", [1 + 2j, 3 + 4j]),
        ("2xcomplex<f32>=(1 2)", [1 + 2j, 1 + 2j]),
        ("complex<f32>=(0x3F800000,0x7F800000)", complex(1, np.inf)),
    ],
)
def test_shapes_and_integers(text: str, expected: object) -> None:
    array, t = parse_value(text)
    assert array.dtype == t.element.dtype
    assert array.shape == t.shape
    np.testing.assert_array_equal(array.tolist(), expected)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("f8E4M3FN=500", "expected a number from -448 to 448 for f8E4M3FN, got 500"),
        ("f8E4M3FN=464.0000001", "for f8E4M3FN, got 464.0000001"),
        ("f4E2M1FN=7", "expected a number from -6 to 6 for f4E2M1FN, got 7"),  # a tie, and 6 is odd
        ("f32=340282356779733661637539395458142568448", " for f32, got 340282356779733661637539395458142568448"),
        ("f8E4M3FN=inf", "expected a number from -448 to 448 for f8E4M3FN, which has no infinity, got inf"),
        ("f8E8M0FNU=inf", "for f8E8M0FNU, which has no infinity, got inf"),
        ("f4E2M1FN=nan", "expected a number for f4E2M1FN, which has no NaN, got nan"),
        ("f8E8M0FNU=0", "no zero"),
        ("f8E8M0FNU=-1", "which has no zero or sign, got -1"),
        ("f8E8M0FNU", "no zero"),
        ("f8E4M3FN=0x100", "expected a code of f8E4M3FN (0x0 to 0xFF), got 0x100"),
        ("f4E2M1FN=0x10", "expected a code of f4E2M1FN (0x0 to 0xF), got 0x10"),
        ("i8=300", "expected a number from -128 to 127 for i8, got 300"),
        ("i8=0x100", "for i8, got 0x100"),
        ("ui4=-1", "expected a number from 0 to 15 for ui4, got -1"),
        ("i8=1.5", "expected an integer for i8, got '1.5'"),
        ("i1=2", "expected true, false, 1 or 0 for i1, got '2'"),
        ("f32=abc", "expected a number, got 'abc'"),
        ("f32=.", "expected a number, got "),
        ("f32=1_0", "expected a number, got "),
        ("f32=" + "1" * 2000, "expected a number of at most 1000 characters"),
        ("4xf32=1 2 3", "expected 4 numbers for 4xf32, got 3"),
        ("4xf32=[1.0]", "expected 4 numbers for 4xf32, got 1"),
        ("f32=1 2", "expected 1 number for f32, got 2"),
        ("2x3xf32=[[1 2][3 4][5 6]]", "expected brackets of shape [2, 3], got [3, 2]"),
        ("2x2xf32=[[1 2][3]]", "expected lists of equal length at each"),
        ("3xf32=1 [2 3]", "expected lists of equal length at each"),
        ("2xf32=[1 2", "expected nested lists with a ] for each [, got '[1 2'"),
        ("2xf32=1 2]", "expected nested lists with a ] for each [, got '1 2]'"),
        ("f32=" + "[" * 500, "nested"),
        ("complex<f32>=1", "expected a complex number (re,im), got '1'"),
        ("f32=(1,2)", "expected a number, got "),
        ("4xf9=1", "expected an element type, got 'f9'"),
        ("4x=1", "got the type '4x'"),
        ("?xf32=1", "got the type '?xf32'"),
        ("", "got no type"),
        ("@/no/such.npy", "/no/such.npy: No such file or directory"),
    ],
)
def test_bad_values_are_reported(text: str, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        parse_value(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("shape", ["99999999999999999999", "1000000x1000000x1000000", "0x99999999999999999999"])
def test_absurd_sizes_are_refused(shape: str) -> None:
    with pytest.raises(ResourceError):
        parse_value(f"{shape}xf32=1.0")


def test_arrays_pass_as_they_are() -> None:
    x = np.array([1, 2], ml_dtypes.float8_e4m3fn)
    assert check_input(x, tensor((2,), "f8E4M3FN")) is x
    assert check_input(x, tensor((None,), "f8E4M3FN")) is x
    assert check_input(np.array([1, 2], ">i4"), tensor((2,), "i32")).tolist() == [1, 2]
    assert check_input(np.float32(2), tensor((), "f32")).shape == ()


def test_jax_arrays_pass() -> None:
    jnp = pytest.importorskip("jax.numpy")
    x = check_input(jnp.array([1, 448], jnp.float8_e4m3fn), tensor((2,), "f8E4M3FN"))
    assert x.view(np.uint8).tolist() == [0x38, 0x7E]


@pytest.mark.parametrize(
    ("value", "shape", "name", "expected"),
    [
        (1.5, (), "f8E4M3FN", 1.5),
        ([1, -0.5], (2,), "f4E2M1FN", [1, -0.5]),
        ([[1, 2], [3, 4]], (2, 2), "i4", [[1, 2], [3, 4]]),
        ([True, False], (2,), "i1", [True, False]),
        (2**64 - 1, (), "ui64", 2**64 - 1),
        ([], (0,), "f32", []),
        ([float("inf")], (1,), "f8E5M2", [np.inf]),
        ([np.float32(0.5), ml_dtypes.bfloat16(2)], (2,), "f8E4M3FN", [0.5, 2]),
        ([1 + 2j], (1,), "complex<f32>", [1 + 2j]),
    ],
)
def test_python_numbers_are_taken_where_they_fit(value, shape, name, expected) -> None:
    array = check_input(value, tensor(shape, name))
    assert array.dtype == element_type(name).dtype
    assert array.tolist() == expected


@pytest.mark.parametrize(
    ("value", "shape", "name", "message"),
    [
        (0.1, (), "f8E4M3FN", "represents exactly"),
        (0.1, (), "f32", "represents exactly"),
        ([0.1j], (1,), "complex<f32>", "represents exactly"),
        (2**24 + 1, (), "f32", "represents exactly"),
        (500, (), "f8E4M3FN", "for f8E4M3FN, got 500"),
        (1.0, (), "i32", "expected an integer, got 1.0"),
        (1, (), "i1", "expected a value of i1, got 1"),
        (True, (), "i32", "expected a value of i32, got True"),
        (1j, (), "f32", "expected a value of f32, got "),
        ([[1], [2, 3]], (2, 2), "i32", "expected lists of equal length"),
        ([1, [2]], (2,), "i32", "expected lists of equal length at each"),
        (["a"], (1,), "f32", "expected a value of f32, got "),
        ("abc", (), "f32", "input 3: expected an array, got str"),
        (None, (), "f32", "input 3: expected an array, got NoneType"),
        ([1, 2], (3,), "i32", "input 3: expected shape [3] for tensor<3xi32>, got [2]"),
        (np.zeros((2, 3), np.float32), (3, 2), "f32", "expected shape [3, 2] for tensor<3x2xf32>, got [2, 3]"),
        (np.zeros(2, np.float32), (2,), "f8E4M3FN", "expected f8E4M3FN, got f32 (to convert: minihlo.interp.cast)"),
        (np.zeros(2, np.uint8), (2,), "f8E4M3FN", ".view(ml_dtypes.float8_e4m3fn)"),
        (np.zeros(2, object), (2,), "f32", "got Python objects"),
        (
            np.array([0xFF], np.uint8).view(ml_dtypes.float4_e2m1fn),
            (1,),
            "f4E2M1FN",
            "expected codes of f4E2M1FN (0x00 to 0x0F)",
        ),
    ],
)
def test_bad_python_values_are_reported(value, shape, name, message) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        check_input(value, tensor(shape, name), "input 3")


def test_tokens_and_tuples() -> None:
    pair = TupleType((tensor((), "f32"), TokenType()))
    assert check_input((1.0, None), pair)[1] is None
    for wrong in (1.0, (1.0,), (1.0, 2.0), ([1.0], None)):
        with pytest.raises(InputError):
            check_input(wrong, pair)


@pytest.mark.parametrize("name", [name for name, t in ELEMENT_TYPES.items() if t.has_dtype])
def test_files_keep_the_type_and_every_code(name: str, tmp_path) -> None:
    element = element_type(name)
    bits = np.arange(1 << min(element.bits, 8), dtype=np.uint8)
    if element.bits > 8:
        array = np.frombuffer(bits.tobytes(), element.dtype)
    elif element.is_float:
        array = bits.view(element.dtype)
    else:
        array = bits.view(np.int8).astype(element.dtype) if name.startswith("i") else bits.astype(element.dtype)
    path = str(tmp_path / "x.npy")
    for x in (array, array.reshape(2, -1).T, array[:0], array[1:2].reshape(())):
        npy.save(path, x, element)
        back, t = npy.load(path)
        assert t == TensorType(x.shape, element)
        assert back.dtype == element.dtype
        assert back.tobytes() == x.tobytes()
        assert parse_value(f"{''.join(f'{d}x' for d in x.shape)}{name}=@{path}")[0].tobytes() == x.tobytes()
        np.load(path, allow_pickle=False)
    assert [p.name for p in tmp_path.iterdir()] == ["x.npy"]


def test_files_are_of_use_without_minihlo(tmp_path) -> None:
    path = str(tmp_path / "x.npy")
    npy.save(path, np.array([1, -2], ml_dtypes.float8_e4m3fn), element_type("f8E4M3FN"))
    assert np.load(path)["f8E4M3FN"].tolist() == [0x38, 0xC0]
    assert np.load(path).view(ml_dtypes.float8_e4m3fn).tolist() == [1, -2]
    assert check_input(np.load(path), tensor((2,), "f8E4M3FN")).tolist() == [1, -2]
    npy.save(path, np.array([-8, 7], ml_dtypes.int4), element_type("i4"))
    assert np.load(path)["i4"].tolist() == [-8, 7]


def test_codes_and_numpys_own_files_are_read_with_a_type(tmp_path) -> None:
    path = str(tmp_path / "x.npy")
    np.save(path, np.array([0x38, 0x7F], np.uint8))
    assert codes(f"2xf8E4M3FN=@{path}") == [0x38, 0x7F]
    assert parse_value(f"@{path}")[1] == tensor((2,), "ui8")
    np.save(path, np.array([-1, 7], np.int8))
    assert parse_value(f"2xi4=@{path}")[0].tolist() == [-1, 7]
    for dtype, name in ((ml_dtypes.bfloat16, "bf16"), (ml_dtypes.float6_e2m3fn, "f6E2M3FN"), (ml_dtypes.int4, "i4")):
        np.save(path, np.array([1, -2], dtype))  # as V1 or V2
        assert parse_value(f"2x{name}=@{path}")[0].tolist() == [1, -2]
        with pytest.raises(InputError, match="raw bytes"):
            parse_value(f"@{path}")


def test_bad_files_are_reported(tmp_path) -> None:
    path = tmp_path / "x.npy"

    def refused(text: str, message: str, error=InputError) -> None:
        with pytest.raises(error, match=message) as caught:
            parse_value(text)
        assert "\n" not in str(caught.value)

    np.save(path, np.zeros(100, np.float32))
    whole = path.read_bytes()
    refused(f"99xf32=@{path}", r"expected shape \[99\], got \[100\]")
    refused(f"100xf64=@{path}", "expected f64, got f32")
    for length in (0, 5, 7, 9, 60, len(whole) - 1):
        path.write_bytes(whole[:length])
        refused(f"@{path}", "expected a .npy file|expected a readable .npy file|truncated")
    path.write_bytes(b"hello")
    refused(f"@{path}", "expected a .npy file")
    for shape in ((10**15,), (10**30,), (2**62, 0, 4), (-1,), (1,) * 100):
        with path.open("wb") as file:
            np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
            file.write(bytes(64))
        refused(f"@{path}", "expected a readable .npy file", (InputError, ResourceError))
    np.save(path, np.array([{}], object), allow_pickle=True)
    refused(f"@{path}", "expected a readable .npy file")
    np.save(path, np.zeros(2, np.longdouble))
    refused(f"@{path}", "dtype|raw bytes")
    np.save(path, np.array([16], np.uint8))
    refused(f"1xf4E2M1FN=@{path}", r"expected codes of f4E2M1FN \(0x00 to 0x0F\), got 0x10")
    refused(f"1xi4=@{path}", "expected values in the range of i4, got 16")
    refused(f"@{tmp_path}", "Is a directory|expected a regular file|Permission")
    with pytest.raises(OutputError, match="No such file"):
        npy.save(str(tmp_path / "no" / "x.npy"), np.zeros(1, np.float32), element_type("f32"))


def test_files_too_large_for_memory_are_not_read(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.save(tmp_path / "x.npy", np.zeros(100, np.float32))
    monkeypatch.setenv(memory.LIMIT, "399")
    with pytest.raises(ResourceError, match=r"x\.npy takes 400 bytes, but only 399 bytes"):
        npy.load(str(tmp_path / "x.npy"))
