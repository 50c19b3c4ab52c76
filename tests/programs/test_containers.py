"""Programs within other files: of jax.export, HLO as text and as protobuf, and the stages of jit."""

import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import export

from minihlo import interp
from minihlo.interp import InputError, ProgramError, load

HLO = """// of a dump
HloModule m

%sum (a: f8e4m3fn[], b: f8e4m3fn[]) -> f8e4m3fn[] {
  %a = f8e4m3fn[] parameter(0)
  %b = f8e4m3fn[] parameter(1)
  ROOT %s = f8e4m3fn[] add(%a, %b)
}

ENTRY e {
  p = f8e4m3fn[3] parameter(0)
  z = f8e4m3fn[] constant(0)
  ROOT c = f8e4m3fn[] reduce(p, z), dimensions={0}, to_apply=%sum
}
"""
X = np.array([1, 2, 16], ml_dtypes.float8_e4m3fn)  # 19 is a tie between 18 and 20


def field(number: int, content: bytes) -> bytes:
    """A field of a message of protobuf that has a length."""
    length, varint = len(content), b""
    while length > 0x7F:
        varint, length = varint + bytes([length & 0x7F | 0x80]), length >> 7
    return bytes([number << 3 | 2]) + varint + bytes([length]) + content


def module() -> bytes:
    hlo: Any = pytest.importorskip("jaxlib._hlo")
    return hlo.hlo_module_from_text(HLO).as_serialized_hlo_module_proto()


def test_hlo(tmp_path: Path) -> None:
    """A module, an HloProto, and an HloSnapshot."""
    for source in (HLO, HLO.encode(), module(), field(1, module()), field(1, field(1, module()))):
        assert [r.tolist() for r in load(source)(X)] == [20]
    path = tmp_path / "m.hlo.pb"
    path.write_bytes(field(1, module()))
    assert load(path)(X)[0] == 20


OPTIMIZED = """HloModule m, replica_count=2
f (a: f32[4,2]) -> s32[2,4] {
  a = f32[4,2]{0,1} parameter(0)
  ROOT b = s32[2,4]{1,0} bitcast(a)
}
ENTRY e {
  p = f32[4,2]{0,1} parameter(0)
  c = s32[2,4] constant({...})
  i = s32[2,4] fusion(p), kind=kLoop, calls=f
  ROOT r = s32[2,4] add(c, i)
}
"""


def test_hlo_after_optimization() -> None:
    """A fusion; a cast of numbers and memory layout; a constant without its data; a number of processes."""
    x = np.arange(8, dtype=np.float32).reshape(4, 2)
    program = load(OPTIMIZED, elided="zeros")
    assert program(x)[0].tolist() == x.T.view(np.int32).tolist()
    assert program.program.attributes["mhlo.num_replicas"] == 2
    with pytest.raises(ProgramError, match=r"constant\(\{\.\.\.\}\): expected its data in the program, got none"):
        load(OPTIMIZED)
    whole = OPTIMIZED.replace("{...}", "{{1,2,3,4},{5,6,7,8}}")
    assert interp.compare(whole, x, backend="minihlo").verdict == "PASS"


def test_hlo_that_cannot_be_read() -> None:
    with pytest.raises(ProgramError, match=r"^<string>: HLO: .*Syntax error"):
        load("HloModule m\n bad")
    with pytest.raises(ProgramError, match=r"^<bytes>: HLO: "):
        load(module()[:60])
    with pytest.raises(ProgramError, match=r"^<bytes>:1:1: expected UTF-8"):
        load(b"\xfe" + module())
    text = "\n\x12\x1afunc.func @main() { return }"  # begins with the numbers of fields, and is none
    with pytest.raises(ProgramError):
        load(text.encode())


def f(x: Any, options: dict[str, Any]) -> Any:
    return jnp.sin(x) @ x.T + 1, options["k"].sum(), 2


def exported(platforms: list[str] | None = None) -> bytes:
    pytest.importorskip("flatbuffers")
    return export.export(jax.jit(lambda x: 2 * x), platforms=platforms)(np.ones(3, np.float32)).serialize()


def test_files_of_jax_export(tmp_path: Path) -> None:
    data, x = bytes(exported()), np.array([1, 2, 3], np.float32)
    assert load(data)(x)[0].tolist() == [2, 4, 6]
    path = tmp_path / "f.jax"
    path.write_bytes(data)
    command = [sys.executable, "-m", "minihlo.interp.cli", "run"]
    for file, given in ((str(path), None), ("-", data)):
        arguments = [*command, file, "--input", "3xf32=1,2,3"]
        result = subprocess.run(arguments, input=given, capture_output=True)
        assert b"[2.000000e+00, 4.000000e+00, 6.000000e+00]" in result.stdout, result.stderr
    with pytest.raises(ProgramError):
        load(data[: data.index(b"ML\xefR") + 60])


def test_every_stage_of_jit() -> None:
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    traced = jax.jit(f).trace(x, {"k": x, "unused": 3.0})
    lowered = traced.lower()
    theirs = lowered.compile()(x, {"k": x, "unused": 3.0})
    for stage in (traced, lowered, lowered.compile()):
        program = load(stage)
        ours = program.call(x, {"k": x, "unused": 3.0})
        assert jax.tree.structure(ours) == jax.tree.structure(theirs)
        for mine, yours in zip(jax.tree.leaves(ours), jax.tree.leaves(theirs), strict=True):
            np.testing.assert_allclose(mine, yours, 1e-6)
    with pytest.raises(InputError, match=r"such as f\.lower"):
        load(jax.jit(f))
    with pytest.raises(InputError, match="got BytesIO"):
        load(io.BytesIO())
