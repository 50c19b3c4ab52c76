"""Products run on one thread of the host's BLAS, which has its threads back afterwards; no bit depends on threads."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController

from minihlo.ops.blas import matmul, one_thread

_BLAS = ThreadpoolController().select(internal_api="openblas")


def threads() -> list[int]:
    return [library.get_num_threads() for library in _BLAS.lib_controllers]


def test_threads_are_given_back() -> None:
    assert threads(), "numpy comes with a BLAS that threadpoolctl knows"
    with _BLAS.limit(limits=3):
        before = threads()
        with one_thread():
            assert set(threads()) == {1}
            with one_thread():
                assert set(threads()) == {1}
            assert set(threads()) == {1}
        assert threads() == before
        with pytest.raises(KeyError), one_thread():
            raise KeyError
        assert threads() == before


def test_the_last_to_leave_gives_them_back() -> None:
    with _BLAS.limit(limits=2):
        before, inside, leave = threads(), threading.Event(), threading.Event()

        def stay() -> None:
            with one_thread():
                inside.set()
                leave.wait(30)

        other = threading.Thread(target=stay)
        other.start()
        inside.wait(30)
        with one_thread():
            pass
        assert set(threads()) == {1}
        leave.set()
        other.join()
        assert threads() == before


_PROGRAM = """
import hashlib, numpy as np
from minihlo import interp
from minihlo.ops.types import ELEMENT_TYPES
rng, digest = np.random.default_rng(3), hashlib.sha256()
for element in ("f32", "bf16", "f16", "f64", "complex<f32>"):
    # f16 and bf16 are multiplied as f32.
    vectors = ((1, 1, 20_000, 1), (2, 1, 30_000, 1))
    shapes = ((1, 513, 257, 300), (9, 120, 300, 130), (1, 1, 3000, 3000), (40, 60, 70, 80), *vectors)
    for batch, m, k, n in shapes[:1] if "16" in element else shapes:
        a, b, c = (f"tensor<{batch}x{i}x{j}x{element}>" for i, j in ((m, k), (k, n), (m, n)))
        run = interp.load(f'''func.func @main(%a: {a}, %b: {b}) -> {c} {{
          %0 = stablehlo.dot_general %a, %b, batching_dims = [0] x [0], contracting_dims = [2] x [1] : ({a}, {b}) -> {c}
          return %0 : {c} }}''')
        dtype = ELEMENT_TYPES[element].dtype
        x, y = (rng.standard_normal(s).astype(np.float32).astype(dtype) for s in ((batch, m, k), (batch, k, n)))
        digest.update(run(x, y)[0].tobytes())
print(digest.hexdigest())
"""


def test_bits_do_not_hang_on_threads() -> None:
    """Neither on BLAS's nor on ours."""
    found = set()
    for variables in ({"OPENBLAS_NUM_THREADS": "1", "MINIHLO_WITHOUT": "threads"}, {"OPENBLAS_NUM_THREADS": "4"}):
        command = [sys.executable, "-P", "-c", _PROGRAM]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300, env={**_environment(), **variables})
        assert done.returncode == 0, done.stderr
        found.add(done.stdout)
    assert len(found) == 1


def _environment() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if not k.startswith(("OPENBLAS", "OMP", "MINIHLO"))}


def test_large_products_of_floats_are_right() -> None:
    rng = np.random.default_rng(4)
    x, y = rng.standard_normal((3, 130, 200)), rng.standard_normal((3, 200, 170))
    np.testing.assert_allclose(matmul(x, y), np.einsum("bij,bjk->bik", x, y), rtol=1e-12, atol=1e-12)
