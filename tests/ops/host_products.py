"""What tests may ask of the host's products of f32: some BLAS sum a row differently where it lies elsewhere."""

import functools

import numpy as np

from minihlo.ops.blas import one_thread


@functools.cache
def sums_hang_on_places() -> bool:
    """Whether a row or a column gives other sums in another place of a matrix, as by OpenBLAS's kernels for Haswell."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((1024, 216)).astype(np.float32), rng.standard_normal((216, 40)).astype(np.float32)
    with one_thread():
        rows, columns = np.repeat(x[:1], len(x), 0) @ y, x @ np.repeat(y[:, :1], 40, 1)
    return bool((rows != rows[0]).any() or (columns != columns[:, :1]).any())


def assert_same_sums(actual: np.ndarray, expected: np.ndarray) -> None:
    """Of products of numbers of a normal distribution: equal bits where places do not matter, else nearly so."""
    if not sums_hang_on_places():
        np.testing.assert_array_equal(actual.view(np.uint32), expected.view(np.uint32))
    np.testing.assert_allclose(actual, expected, rtol=1e-5, atol=1e-4)
