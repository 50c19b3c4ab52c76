"""Layouts of operands: what is stored, what is read, and that a library in another process gets it so."""

import dataclasses
import io

import ml_dtypes
import numpy as np
import pytest

from minihlo.interp.conform.cases import data
from minihlo.interp.conform.cases.case import Case
from minihlo.interp.conform.cases.forms import LAYOUTS, arrange, stored_array, view
from minihlo.interp.conform.cases.row_data import arrays
from minihlo.interp.conform.elementwise import Part
from minihlo.interp.conform.rows import RowPart
from minihlo.interp.system import messages

CODES = np.arange(255, dtype=np.uint8)


@pytest.mark.parametrize("form", LAYOUTS)
def test_what_is_read_is_what_was_meant(form: str) -> None:
    codes = arrange(form, CODES)
    assert codes.shape == (LAYOUTS[form].size,)
    assert stored_array(form, codes).flags.c_contiguous
    assert (view(form, codes).reshape(-1) == codes).all()
    assert view(form, codes).shape == LAYOUTS[form].shape


def test_each_layout_reads_other_memory() -> None:
    """Strides and the offset of the first element, which tell how each lies in memory."""
    whole = np.arange(153, dtype=np.uint8)

    def offset(array: np.ndarray) -> int:
        first, start = (x.__array_interface__["data"][0] for x in (array, array.base))
        return first - start

    lies = {
        form: (view(form, arrange(form, whole)).strides, offset(view(form, arrange(form, whole))))
        for form in ("transposed", "reversed", "sliced", "rows", "columns")
    }
    assert lies == {
        "transposed": ((1, 9), 0),
        "reversed": ((-17, -1), 152),
        "sliced": ((74, 2), 39),
        "rows": ((0, 1), 0),
        "columns": ((1, 0), 0),
    }


def received(sent: np.ndarray) -> np.ndarray:
    """The array as it arrives in another process."""
    pipe = io.BytesIO()
    messages.write(pipe, None, [sent])
    pipe.seek(0)
    return messages.read(messages.from_stream(pipe))[1][0]


@pytest.mark.parametrize("form", LAYOUTS)
def test_strides_reach_another_process(form: str) -> None:
    sent = view(form, arrange(form, CODES))
    got = received(sent)
    assert (got == sent).all()
    assert got.strides == sent.strides


def test_an_unaligned_slice_stays_unaligned() -> None:
    got = received(np.arange(20, dtype=np.uint16)[3:])
    assert got.__array_interface__["data"][0] % 8 == 6
    assert got.tolist() == list(range(3, 20))


@dataclasses.dataclass
class Recorder:
    """Keeps what it is called with."""

    strides: list[tuple[int, ...]] = dataclasses.field(default_factory=list)

    def __call__(self, _, given: list[np.ndarray]) -> np.ndarray:
        self.strides = [x.strides for x in given]
        return given[0]


def test_one_operand_at_a_time_is_laid_out() -> None:
    case, call = Case("add", ("f8E5M2",) * 2, "f8E5M2"), Recorder()
    for side in (0, 1):
        part = Part(case, "transposed", data.operands(case, "transposed", 1, 0, side), side=side)
        part.operate(call)
        assert call.strides[side] == (1, 9)
        assert call.strides[1 - side] == (17, 1)
    assert data.parts(case, "transposed", 1) == 2


def test_extremes_of_rows_of_one_sign() -> None:
    """So that a largest number that starts from zero is found."""
    for element in ("f8E5M2", "f8E4M3FNUZ", "f4E2M1FN"):
        case = Case("reduce", (element,), element, (("body", "maximum"),))
        part = RowPart(case, "length-17", arrays(case, "length-17", 0))
        (rows,) = part.arrays
        assert (rows >= 1 << (3 if element.startswith("f4") else 7)).all(axis=1).any()


def test_views_keep_their_type() -> None:
    numbers = np.arange(12).astype(ml_dtypes.float8_e4m3fn).reshape(3, 4)
    codes = numbers.view(np.uint8).T
    got = received(codes)
    assert got.dtype == np.uint8
    assert got.strides == codes.strides
    np.testing.assert_array_equal(got, codes)
