"""Programs for four devices, as JAX lowers and XLA's CPU runs them. A child process: prints them pickled.

Numbers are small integers, so that sums are exact in whatever order XLA takes them.
"""

import os
import pickle
import sys
from collections.abc import Callable
from typing import Any

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"
os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

# The other partitioner leaves the device's part inside an op; this one makes it a function.
jax.config.update("jax_use_shardy_partitioner", False)

MESH = Mesh(np.array(jax.devices()).reshape(2, 2), ("x", "y"))
BOTH = ("x", "y")


def ring(a):
    """Each device sums what goes round the ring of all."""

    def step(_, state):
        total, passing = state
        passing = lax.ppermute(passing, BOTH, [(i, (i + 1) % 4) for i in range(4)])
        return total + passing, passing

    return lax.fori_loop(0, 3, step, (a, a))


def branches(a):
    everyone_agrees = lax.psum(a[0, 0], BOTH) > 0
    return lax.cond(everyone_agrees, lambda v: lax.psum(v, "x"), lambda v: lax.pmax(v, "y"), a)


PROGRAMS: dict[str, Callable[..., Any]] = {
    "sums": lambda a: (lax.psum(a, "x"), lax.psum(a, "y"), lax.psum((a, a[0]), BOTH)),
    "extremes": lambda a: (lax.pmax(a, "x"), lax.pmin(a, BOTH)),
    "gathers": lambda a: (lax.all_gather(a, "x", tiled=True), lax.all_gather(a, BOTH), lax.all_gather(a, "y", axis=1)),
    "scatters": lambda a: (lax.psum_scatter(a, "x", tiled=True), lax.psum_scatter(a, BOTH, tiled=True)),
    "permutes": lambda a: (lax.ppermute(a, "x", [(0, 1)]), lax.ppermute(a, "y", [(0, 1), (1, 0)])),
    "exchanges": lambda a: (lax.all_to_all(a, "x", 0, 1, tiled=True), lax.all_to_all(a, BOTH, 0, 0, tiled=True)),
    "places": lambda a: (a + lax.axis_index("x"), a * lax.axis_index(BOTH)),
    "ring": ring,
    "branches": branches,
    "bfloat16": lambda a: lax.psum(a.astype(jnp.bfloat16), BOTH).astype(jnp.float32),
}


def run(function: Callable[..., Any]) -> tuple[str, list[list[np.ndarray]], list[list[np.ndarray]]]:
    """The text of a program, and the operands and the results of each device."""
    whole = np.random.default_rng(0).integers(-9, 9, (8, 6)).astype(np.float32)

    def device(a):
        return tuple(r[None] for r in jax.tree.leaves(function(a)))

    mapped = jax.jit(jax.shard_map(device, mesh=MESH, in_specs=P("x", "y"), out_specs=P(BOTH), check_vma=False))
    results = [np.asarray(r) for r in mapped(whole)]
    operands = [[half.copy()] for rows in np.split(whole, 2) for half in np.split(rows, 2, 1)]
    return mapped.lower(whole).as_text(), operands, [[r[i : i + 1] for r in results] for i in range(4)]


if __name__ == "__main__":
    pickle.dump({name: run(function) for name, function in PROGRAMS.items()}, sys.stdout.buffer)
