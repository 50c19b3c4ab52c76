"""A child process with four devices of XLA's CPU: collectives on minifloats, emulated, beside their definition."""

import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"

import jax
import numpy as np
from jax.extend.mlir import ir
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxlib import xla_client

from minihlo import interp
from minihlo.interp.emulate.program import emulate_text
from minihlo.interp.parse.parser import make_context
from tests.emulated import codes

#: The order of the one group.
GROUP = [3, 1, 0, 2]
COLLECTIVE = """func.func @main(%a: tensor<1x8xELEMENT>) -> tensor<1xSIZExELEMENT> {
  %r = "stablehlo.NAME"(%a) ({ ^bb0(%x: tensor<ELEMENT>, %y: tensor<ELEMENT>):
    %z = stablehlo.BODY %x, %y : tensor<ELEMENT>
    stablehlo.return %z : tensor<ELEMENT> }) {replica_groups = dense<GROUPS> : tensor<1x4xi64>REST}
    : (tensor<1x8xELEMENT>) -> tensor<1xSIZExELEMENT>
  return %r : tensor<1xSIZExELEMENT>
}"""
FOLD = """func.func @main(%a: tensor<8xELEMENT>, %b: tensor<8xELEMENT>) -> tensor<8xELEMENT> {
  %r = stablehlo.BODY %a, %b : tensor<8xELEMENT>
  return %r : tensor<8xELEMENT>
}"""


def run(text: str, x: np.ndarray) -> np.ndarray:
    """The results of four replicas, each of which has a row of the array."""
    devices = jax.devices()
    options = xla_client.CompileOptions()
    options.num_replicas = 4
    with make_context(text.__contains__), ir.Location.unknown():
        program = devices[0].client.compile_and_load(
            ir.Module.parse(text), xla_client.DeviceList(tuple(devices)), options
        )
    rows = jax.device_put(x, NamedSharding(Mesh(np.array(devices), ("i",)), PartitionSpec("i")))
    (parts,) = program.execute_sharded([rows]).disassemble_into_single_device_arrays()
    return np.concatenate([np.asarray(p) for p in parts])


def main() -> None:
    """Prints a line for each case that differs, and the number of cases."""
    rng, count = np.random.default_rng(4), 0
    for element in ("f8E4M3FN", "f8E5M2"):
        for body in ("add", "maximum"):
            for name, size, rest in (("all_reduce", 8, ""), ("reduce_scatter", 2, ", scatter_dimension = 1 : i64")):
                x = codes(rng, element, (4, 8))
                words = {"NAME": name, "SIZE": str(size), "BODY": body, "GROUPS": str([GROUP]), "REST": rest}
                text, fold = COLLECTIVE, FOLD
                for word, value in {**words, "ELEMENT": element}.items():
                    text, fold = text.replace(word, value), fold.replace(word, value)
                found, total = run(emulate_text(text), x), x[GROUP[0]]
                for i in GROUP[1:]:
                    total = interp.load(fold)(total, x[i])[0]
                places = [GROUP.index(i) * size for i in range(4)] if size < 8 else [0] * 4
                expected = np.stack([total[place : place + size] for place in places])
                count += 1
                if found.tobytes() != expected.tobytes():
                    print("differs:", name, body, element)
    print(count)


if __name__ == "__main__":
    main()
