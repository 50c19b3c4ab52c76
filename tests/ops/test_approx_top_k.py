"""The first elements by a comparator, of many: by numpy's stable sort."""

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

from minihlo import interp

SPECIAL = [np.inf, -np.inf, 0.0, -0.0, 1e-40]


def _rows(dtype, kind):
    draw = np.random.default_rng(3)
    numbers = draw.integers(-30 if kind == "ties" else -(10**6), 30 if kind == "ties" else 10**6, (3, 1500))
    x = numbers.astype(dtype)
    if kind == "special":
        x[:, ::50] = np.resize(SPECIAL, (3, 30)).astype(dtype)
    if kind == "nan":
        x[1, 70] = np.nan
    return x


@pytest.mark.parametrize("most", [1, 5, 23, 40])
@pytest.mark.parametrize(
    ("dtype", "kind"),
    [(np.float32, "special"), (np.float32, "nan"), (np.float32, "ties"), (jnp.bfloat16, "special")]
    + [(jnp.bfloat16, "ties"), (np.float16, "special"), (jnp.float8_e5m2, "special")],
)
def test_the_first_are_those_of_a_stable_sort(dtype, kind, most):
    with np.errstate(over="ignore"):
        x = _rows(dtype, kind)
    order = np.argsort(x.astype(np.float64), axis=1, kind="stable")[:, :most]  # NaN come last
    downward = np.argsort(-x.astype(np.float64), axis=1, kind="stable")[:, :most]
    for function, expected in ((lax.approx_min_k, order), (lax.approx_max_k, downward)):
        values, places = map(np.asarray, interp.jit(lambda a, f=function: f(a, most, aggregate_to_topk=True))(x))
        assert places.tolist() == expected.tolist()
        assert values.tobytes() == np.take_along_axis(x, expected, 1).tobytes()
        across = interp.jit(lambda a, f=function: f(a, most, reduction_dimension=0))(x.T.copy())
        assert np.asarray(across[1]).T.tolist() == expected.tolist()
