"""What the tests of backends share: a program, conversions, and what a backend says that gives no results."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest

from minihlo.interp.backends import BackendError, ChildBackend, backend
from minihlo.interp.backends.operation import Operation
from minihlo.interp.errors import InputError

DOUBLE = """func.func @main(%a: tensor<6xui8>) -> tensor<6xui8> {
  %x = stablehlo.bitcast_convert %a : (tensor<6xui8>) -> tensor<6xf8E4M3FN>
  %r = stablehlo.add %x, %x : tensor<6xf8E4M3FN>
  %c = stablehlo.bitcast_convert %r : (tensor<6xf8E4M3FN>) -> tensor<6xui8>
  return %c : tensor<6xui8>
}
"""


#: 0, the smallest number, 1, -1.125, 224 and -0, and twice that.
CODES = np.array([0x00, 0x01, 0x38, 0xB9, 0x76, 0x80], np.uint8)


DOUBLED = [0x00, 0x02, 0x40, 0xC1, 0x7E, 0x80]


#: 1 and its next number, the tie between them and another tie, the smallest and the largest number, -0, NaN.
FLOATS = np.array([1, 1.125, 1.0625, 1.1875, 2**-9, 448, -0.0, np.nan], np.float32).view(np.uint32)


ROUNDED = [0x38, 0x39, 0x38, 0x3A, 0x01, 0x7E, 0x80, 0x7F]


TO_F8 = Operation("convert", ("f32",), "f8E4M3FN")


TO_F32 = Operation("convert", ("f8E4M3FN",), "f32")


@contextmanager
def opened(name: str, seconds: float = 60) -> Iterator[ChildBackend]:
    """The backend, or a skip where what it needs is not installed."""
    try:
        result = backend(name)
    except InputError as error:
        if "pip install" not in str(error):
            raise
        pytest.skip(str(error))
    assert isinstance(result, ChildBackend)
    result.seconds = seconds
    try:
        yield result
    finally:
        result.close()


def failure(name: str, seconds: float = 60) -> BackendError:
    """What a backend tells that gives no results."""
    with opened(name, seconds) as result, pytest.raises(BackendError) as error:
        result.evaluate(DOUBLE, [CODES])
    assert "\n" not in str(error.value)
    return error.value
