"""Views that repeat elements are those of numpy's own function."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from minihlo.ops.engine.blocks import repeated

#: The shape of an array, and of the view.
SHAPES = [
    ((), ()),
    ((), (3, 2)),
    ((1,), (4,)),
    ((1,), (0,)),
    ((0, 1), (0, 5)),
    ((3, 1, 2), (3, 4, 2)),
    ((2,), (3, 2)),
    ((1, 4, 1), (2, 4, 5)),
]


@pytest.mark.parametrize(("own", "shape"), SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [np.float32, bool, np.complex64, ml_dtypes.float8_e4m3fn, ml_dtypes.int4], ids=str)
def test_a_view_that_repeats(own, shape, dtype):
    x = np.arange(int(np.prod(own))).reshape(own).astype(dtype)
    for v in (x, np.array(x, order="F"), x[..., ::-1] if own else x):
        got, wanted = repeated(v, shape), np.broadcast_to(v, shape)
        assert (got.shape, got.dtype, got.strides) == (wanted.shape, wanted.dtype, wanted.strides)
        assert got.tobytes() == wanted.tobytes()
        assert not got.flags.writeable
        assert not got.size or np.shares_memory(got, v)


def test_shapes_that_do_not_fit():
    with pytest.raises(ValueError, match="broadcast"):
        repeated(np.zeros(3), (2,))
