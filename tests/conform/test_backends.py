"""Backends: each that is installed gives right codes; crashes, hangs, refusals and absences are reported."""

import importlib.util
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import jax
import numpy as np
import pytest

from minihlo.interp.backends import OPERATIONS, PROGRAMS, BackendError, backend
from minihlo.interp.backends.operation import Operation
from minihlo.interp.errors import InputError

from .backend_cases import CODES, DOUBLE, DOUBLED, FLOATS, ROUNDED, TO_F8, TO_F32, failure, opened


@pytest.mark.parametrize("name", ["jax:cpu", "reference", "iree:llvm-cpu", "iree:vmvx"])
def test_programs(name: str) -> None:
    with opened(name) as actual:
        assert actual.takes == PROGRAMS
        for _ in range(2):
            (result,) = actual.evaluate(DOUBLE, [CODES])
            assert (result.dtype, result.tolist()) == (np.uint8, DOUBLED)
            actual.close()  # it can be used again


def test_programs_of_jax_that_call_lapack() -> None:
    text = jax.jit(jax.numpy.linalg.cholesky).lower(np.eye(1, dtype=np.float32)).as_text()
    with opened("jax:cpu") as actual:
        assert actual.evaluate(text, [np.array([[9.0]], np.float32)])[0].tolist() == [[3.0]]


@pytest.mark.parametrize("name", ["reference", "iree:llvm-cpu"])
def test_programs_of_small_and_boolean_types(name: str) -> None:
    program = """func.func @main(%a: tensor<4xui8>, %b: tensor<f64>) -> (tensor<4xui8>, tensor<4xi1>, tensor<f64>) {
      %n = stablehlo.convert %a : (tensor<4xui8>) -> tensor<4xui4>
      %m = stablehlo.convert %n : (tensor<4xui4>) -> tensor<4xui8>
      %e = stablehlo.compare EQ, %a, %m : (tensor<4xui8>, tensor<4xui8>) -> tensor<4xi1>
      return %m, %e, %b : tensor<4xui8>, tensor<4xi1>, tensor<f64>
    }"""
    with opened(name) as actual:
        got = actual.evaluate(program, [np.array([1, 16, 15, 255], np.uint8), np.array(0.1)])
    assert [r.tolist() for r in got] == [[1, 0, 15, 15], [True, False, True, False], 0.1]
    assert [r.dtype for r in got] == [np.uint8, bool, np.float64]


LIBRARIES = ["ml_dtypes", "torch:cpu", "onnx", "onnx:saturate", "onnx:quantize", "onnxruntime", "onnxruntime:saturate"]


@pytest.mark.parametrize("name", LIBRARIES)
def test_conversions(name: str) -> None:
    with opened(name) as actual:
        assert actual.takes == OPERATIONS
        result = actual.operate(TO_F8, [FLOATS])
        assert (result.dtype, result.tolist()) == (np.uint8, ROUNDED)
        if name == "onnxruntime":  # not with `saturate`, which is not even used here
            return
        codes = np.array([[0x38, 0xB9], [0x01, 0x7E]], np.uint8)
        result = actual.operate(TO_F32, [codes])
        assert (result.dtype, result.shape) == (np.uint32, (2, 2))
        assert result.view(np.float32).tolist() == [[1, -1.125], [2**-9, 448]]
        assert actual.operate(TO_F32, [np.array(0x40, np.uint8)]).view(np.float32) == np.float32(2)


@pytest.mark.parametrize(
    ("name", "expected"),
    # 465 is nearer to 480, which f8E4M3FN lacks, than to 448
    [
        ("ml_dtypes", 0x7F),
        ("onnx", 0x7F),
        ("onnx:saturate", 0x7E),
        ("onnxruntime", 0x7F),
        ("onnxruntime:saturate", 0x7E),
    ],
)
def test_overflow(name: str, expected: int) -> None:
    with opened(name) as actual:
        assert actual.operate(TO_F8, [np.array([465], np.float32).view(np.uint32)]).tolist() == [expected]


@pytest.mark.parametrize("name", ["ml_dtypes", "torch:cpu"])
def test_operations(name: str) -> None:
    f8 = "f8E4M3FN"
    x, y = np.array([0x38, 0x39, 0x40], np.uint8), np.array([0x38, 0x40, 0x00], np.uint8)  # 1 1.125 2, 1 2 0
    with opened(name) as actual:
        assert actual.operate(Operation("multiply", (f8, f8), f8), [x, y]).tolist() == [0x38, 0x41, 0x00]
        assert actual.operate(Operation("abs", (f8,), f8), [x | 0x80]).tolist() == x.tolist()
        equal = Operation("compare", (f8, f8), "i1", {"comparison_direction": "EQ"})
        assert actual.operate(equal, [x, y]).tolist() == [True, False, False]
        chosen = actual.operate(Operation("select", ("i1", f8, f8), f8), [np.array([True, False, True]), x, y])
        assert chosen.tolist() == [0x38, 0x40, 0x40]
        with pytest.raises(BackendError) as error:
            actual.operate(Operation("popcnt", (f8,), f8), [x])
        assert error.value.how == "refused"


@pytest.mark.parametrize("name", ["ml_dtypes", "torch:cpu", "onnx", "onnxruntime"])
def test_types(name: str) -> None:
    """-3 in every type, as the codes say that it is."""
    three = {"i8": 0xFD, "i16": 0xFFFD, "i32": 0xFFFFFFFD, "i64": 0xFFFFFFFFFFFFFFFD, "f16": 0xC200, "bf16": 0xC040}
    three |= {"f32": 0xC0400000, "f64": 0xC008000000000000, "f8E5M2": 0xC2, "f8E4M3FN": 0xC4, "f8E5M2FNUZ": 0xC6}
    three |= {"i4": 0xD} if name != "torch:cpu" else {}
    three |= {"f4E2M1FN": 0xD, "f6E3M2FN": 0x32} if name in ("ml_dtypes", "onnx") else {}
    given = np.array([0xC2], np.uint8)
    with opened(name) as actual:
        for t, code in three.items():
            dtype = np.dtype(f"u{max(1, len(f'{code:x}') // 2)}")
            if t != "f8E5M2" and name != "onnxruntime":
                assert actual.operate(Operation("convert", ("f8E5M2",), t), [given]).tolist() == [code]
            if t != "f8E4M3FN":
                result = actual.operate(Operation("convert", (t,), "f8E4M3FN"), [np.array([code], dtype)])
                assert result.tolist() == [0xC4]
        result = actual.operate(Operation("convert", ("i1",), "f8E4M3FN"), [np.array([True, False])])
        assert result.tolist() == [0x38, 0]


@pytest.mark.parametrize("name", ["ml_dtypes", "onnx", "onnxruntime"])
def test_integers_of_few_bits(name: str) -> None:
    with opened(name) as actual:
        for shape in ((), (1,), (3,), (2, 4), (7,), (0,)):
            numbers = np.arange(-8, 8)[5:][: int(np.prod(shape))].reshape(shape)
            codes, f8 = (numbers & 15).astype(np.uint8), [0xC4, 0xC0, 0xB8, 0x00, 0x38, 0x40, 0x44, 0x48]
            expected = np.array(f8[: numbers.size], np.uint8).reshape(shape)
            found = actual.operate(Operation("convert", ("i4",), "f8E4M3FN"), [codes])
            assert found.tolist() == expected.tolist(), shape
            back = actual.operate(Operation("convert", ("f8E4M3FN",), "i4"), [expected])
            assert (back.shape, back.tolist()) == (shape, codes.tolist())
            two = actual.operate(Operation("convert", ("ui2",), "f8E4M3FN"), [codes & 3])
            assert two.tolist() == np.array([0, 0x38, 0x40, 0x44])[codes & 3].tolist(), shape


@pytest.mark.parametrize("name", ["ml_dtypes", "onnx", "onnxruntime"])
def test_what_is_finite(name: str) -> None:
    with opened(name) as actual:
        of = Operation("is_finite", ("f8E5M2",), "i1")
        assert actual.operate(of, [np.array([0x7B, 0xFC, 0x7D, 0x80], np.uint8)]).tolist() == [True, False, False, True]
        of = Operation("is_finite", ("f8E4M3FNUZ",), "i1")
        assert actual.operate(of, [np.array([[0x7F, 0x80, 0x00]], np.uint8)]).tolist() == [[True, False, True]]


def test_sums_in_numpy() -> None:
    f8, x = "f8E5M2", np.array([[0x40, 0x3C, 0x3C, 0x3C]], np.uint8)  # 2 1 1 1
    with opened("ml_dtypes") as actual:
        assert actual.operate(Operation("reduce", (f8,), f8, {"body": "add"}), [x]).tolist() == [0x45]
        assert actual.operate(Operation("reduce", (f8,), f8, {"body": "maximum"}), [x]).tolist() == [0x40]
        running = actual.operate(Operation("cumulative", (f8,), f8, {"body": "add"}), [x])
        assert running.tolist() == [[0x40, 0x42, 0x44, 0x45]]
        assert actual.operate(Operation("dot_general", (f8, f8), f8), [x, x.T]).tolist() == [[0x47]]
        wide = actual.operate(Operation("dot_general", (f8, f8), "f32"), [x, x.T])
        assert wide.view(np.float32).tolist() == [[7]]


#: A plugin of C that is minihlo's own, which Python in the same process makes.
PLUGIN = r"""
#include <Python.h>
const void *GetPjrtApi(void) {
  PyGILState_STATE state = PyGILState_Ensure();
  PyRun_SimpleString(
      "import ctypes\n"
      "from minihlo.interp.plugin import register; from minihlo.interp.plugin.pjrt import runtime\n"
      "register.load()\n"
      "_minihlo_api = ctypes.addressof(runtime.api)\n");
  PyObject *main = PyImport_AddModule("__main__");
  PyObject *address = PyObject_GetAttrString(main, "_minihlo_api");
  const void *api = PyLong_AsVoidPtr(address);
  Py_DECREF(address);
  PyGILState_Release(state);
  return api;
}
"""


def test_a_pjrt_plugin(tmp_path: Path) -> None:
    compiler, include = shutil.which("cc"), sysconfig.get_path("include")
    if compiler is None or not Path(include, "Python.h").exists():
        pytest.skip("no C compiler, or no headers of Python")
    (tmp_path / "plugin.c").write_text(PLUGIN)
    made = tmp_path / "plugin.so"
    subprocess.run([compiler, "-shared", "-fPIC", f"-I{include}", "-o", made, tmp_path / "plugin.c"], check=True)
    with opened(f"pjrt:{made}") as actual:
        assert actual.evaluate(DOUBLE, [CODES])[0].tolist() == DOUBLED


def test_a_file_that_is_no_plugin(tmp_path: Path) -> None:
    (tmp_path / "plugin.so").write_text("no library")
    error = failure(f"pjrt:{tmp_path / 'plugin.so'}")
    assert error.how == "absent"
    assert "cannot be started" in str(error)


NO_NAMES = ["", "nothing", "jax", "jax:", "reference:x", "torch", "torch:tpu", "iree:", "exec:", "onnx:x", "minihlo:"]


@pytest.mark.parametrize("name", NO_NAMES)
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(InputError, match=f"^expected .*, got {name!r}"):
        backend(name)


def test_mistakes_in_names_are_reported() -> None:
    with pytest.raises(InputError, match=r"pjrt:/no/such.so: expected a file, got none"):
        backend("pjrt:/no/such.so")
    with pytest.raises(InputError, match="exec:'a: No closing quotation"):
        backend("exec:'a")
    with pytest.raises(InputError, match=r"exec: : expected a command"):
        backend("exec: ")
    with pytest.raises(InputError, match=r"expected a backend torch:cpu\|cuda, got "):
        backend("torch:tpu")


@pytest.mark.parametrize("name", ["torch:cpu", "onnx", "onnxruntime", "iree:llvm-cpu", "jax:cpu"])
def test_what_is_not_installed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda module: None)
    extra = name.partition(":")[0]
    with pytest.raises(InputError, match=rf"^{name} needs the module .* \(pip install 'minihlo\[{extra}\]'\)$"):
        backend(name)


def test_devices_that_are_not_there() -> None:
    assert failure("jax:no_such_platform").how == "absent"


def test_naming_a_backend_imports_nothing_heavy() -> None:
    code = """if True:
        import sys
        from minihlo.interp.backends import backend
        for name in ("torch:cpu", "onnx", "onnxruntime", "iree:llvm-cpu", "jax:cpu", "reference", "ml_dtypes"):
            try:
                backend(name)
            except Exception as error:
                assert "pip install" in str(error), error
        print(*sys.modules)
    """
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"torch", "onnx", "onnxruntime", "iree.compiler", "jax", "jaxlib.mlir"} & set(loaded)
