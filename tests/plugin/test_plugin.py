"""The JAX platform `minihlo` on one device. Expected values are JAX's on CPU, numpy's, or worked out by hand."""

import gc
import os
import subprocess
import sys
import weakref
from pathlib import Path

import numpy as np
import pytest

from minihlo.interp.plugin.options import CompileOptions, read_compile_options, write_assignment
from minihlo.interp.plugin.pjrt import handles, protobuf

from ..jax_child import run_jax

ROOT = Path(__file__).parents[2]


def test_arrays_of_every_type_come_and_go() -> None:
    run_jax("""
        names = ("int2 int4 int8 int16 int32 int64 uint2 uint4 uint8 uint16 uint32 uint64 bool float16 bfloat16 "
            "float32 float64 complex64 complex128 float4_e2m1fn float8_e3m4 float8_e4m3 float8_e4m3fn float8_e4m3fnuz "
            "float8_e4m3b11fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu").split()
        if jax.__version_info__ >= (0, 12):
            names += ["float6_e2m3fn", "float6_e3m2fn"]
        for name in names:
            dtype = np.dtype(getattr(jnp, name) if name != "bool" else bool)
            v = np.array([[1, 0, 1], [1, 1, 0]]).astype(dtype)
            for shape in (v, v[0], v[0, 0], v[:0], v[::-1, ::-2], v.T, np.broadcast_to(v[0], (4, 3)), v[:, ::-1].T):
                x = jax.device_put(shape)
                assert x.dtype == dtype and x.shape == shape.shape and x.device.platform == "minihlo"
                assert np.asarray(x).tobytes() == np.ascontiguousarray(shape).tobytes(), (name, shape)
            y = jax.jit(lambda a: (a[::-1], a.T))(v)
            assert np.asarray(y[0]).tobytes() == v[::-1].tobytes() and np.asarray(y[1]).tobytes() == v.T.tobytes()
    """)


def test_programs_give_what_they_do_on_cpu() -> None:
    run_jax("""
        cpu = jax.devices("cpu")[0]
        def model(w, x):
            h = jax.nn.gelu((x @ w["a"]).astype(jnp.float8_e4m3fn).astype(jnp.float32))
            return jax.nn.softmax(h @ w["b"]).sum(0), jnp.sort(x), jnp.cumsum(x, 1), jnp.where(x > 0, x, -1)
        r = np.random.default_rng(0)
        w, x = {"a": r.normal(size=(6, 5)), "b": r.normal(size=(5, 4))}, r.normal(size=(3, 6))
        loss = jax.jit(jax.value_and_grad(lambda w, x: model(w, x)[0][0]))
        for f in (jax.jit(model), loss):
            for ours, theirs in zip(jax.tree.leaves(f(w, x)), jax.tree.leaves(f(*jax.device_put((w, x), cpu)))):
                np.testing.assert_allclose(ours, theirs, rtol=1e-6)
        for impl in ("threefry2x32", "rbg", "unsafe_rbg"):
            draw = lambda: jax.random.normal(jax.random.key(3, impl=impl), (4, 5))
            with jax.default_device(cpu):
                theirs = draw()
            np.testing.assert_allclose(draw(), theirs, rtol=1e-12)
        @jax.jit
        def collatz(n):
            return jax.lax.while_loop(lambda s: s[0] != 1,
                lambda s: (jnp.where(s[0] % 2 == 0, s[0] // 2, 3 * s[0] + 1), s[1] + 1), (n, 0))[1]
        assert collatz(27) == 111
    """)


def test_linear_algebra() -> None:
    run_jax("""
        r = np.random.default_rng(1)
        for dtype in (np.float32, np.float64, np.complex64, np.complex128):
            a = r.normal(size=(2, 5, 4)).astype(dtype)
            a = a + 1j * r.normal(size=a.shape).astype(a.real.dtype) if dtype().dtype.kind == "c" else a
            near = lambda x, y: np.testing.assert_allclose(x, np.broadcast_to(y, np.shape(x)), atol=3e-5)
            adjoint = lambda x: np.swapaxes(np.asarray(x).conj(), -1, -2)
            for mode, k in (("reduced", 4), ("complete", 5)):
                q, R = jnp.linalg.qr(a, mode=mode)
                assert q.dtype == dtype
                near(q @ R, a), near(adjoint(q) @ q, np.eye(k))
            u, s, v = jnp.linalg.svd(a)
            near((u[..., :4] * s[:, None, :]) @ v, a), near(adjoint(u) @ u, np.eye(5))
            near(jnp.linalg.svd(a, compute_uv=False), np.linalg.svd(a, compute_uv=False))
            b = a[:, :4]
            h = b + adjoint(b)
            w, v = jnp.linalg.eigh(h)
            near(h @ v, np.asarray(v) * np.asarray(w)[:, None, :]), near(w, np.linalg.eigvalsh(h))
            w, v = jnp.linalg.eig(b)
            near(b @ v, np.asarray(v) * np.asarray(w)[:, None, :])
            lu, pivots, order = jax.lax.linalg.lu(a)
            low, up = np.tril(lu, -1)[..., :4] + np.eye(5, 4), np.triu(lu)[:, :4]
            near(low @ up, np.stack([m[np.asarray(o)] for m, o in zip(a, order)]))
            near(jnp.linalg.solve(b, b), np.eye(4)), near(b @ jnp.linalg.inv(b), np.eye(4))
            c = jnp.linalg.cholesky(h @ h + np.eye(4).astype(dtype))
            near(c @ adjoint(c), h @ h + np.eye(4))
        near(jax.grad(lambda m: jnp.linalg.slogdet(m)[1])(2 * jnp.eye(3)), np.eye(3) / 2)
        assert np.isnan(jnp.linalg.eigh(jnp.full((2, 2), jnp.nan))[0]).all()
        any_size = jax.ShapeDtypeStruct(jax.export.symbolic_shape("n, n"), np.float64)
        for name in ("inv", "eigvalsh", "pinv"):
            exported = jax.export.export(jax.jit(getattr(jnp.linalg, name)))(any_size)
            near(exported.call(h[0].real), getattr(np.linalg, name)(h[0].real))
    """)


def test_functions_that_jaxlib_would_expand() -> None:
    run_jax("""
        import math
        from jax import export
        from minihlo import interp
        for t in ("float8_e4m3fn", "float8_e5m2", "float16", "bfloat16"):
            any_size = jax.ShapeDtypeStruct(export.symbolic_shape("2 * n"), t)
            x = np.linspace(-4, 4, 998).astype(t)
            for name in "acos acosh asinh atanh erf erfc".split():
                exact = getattr(np, name, None) or np.vectorize(getattr(math, name))
                with np.errstate(all="ignore"):
                    expected = exact(x.astype(float)).astype(t).astype(float)
                function = getattr(jax.lax, name)
                exported = export.export(jax.jit(function))(any_size)
                assert exported.platforms == ("minihlo",)
                for result in (function(x), exported.call(x), *interp.load(exported)(x)):
                    np.testing.assert_array_equal(np.asarray(result).astype(float), expected)
        assert jax.jit(jax.lax.acos)(np.complex64(1)) == 0
    """)


def test_python_functions_are_called() -> None:
    out = run_jax("""
        import logging
        from jax.experimental import io_callback
        logging.disable(logging.CRITICAL)
        seen = []
        @jax.jit
        def f(x):
            jax.debug.print("first {}", x[0], ordered=True)
            jax.debug.print("sum {s}", s=x.sum(), ordered=True)
            jax.debug.callback(lambda v: seen.append(float(v)), x[1])
            y = jax.pure_callback(lambda a: np.asarray(jnp.sin(a)), jax.ShapeDtypeStruct(x.shape, x.dtype), x)
            return y + io_callback(lambda a: 2 * np.asarray(a), jax.ShapeDtypeStruct(x.shape, x.dtype), x, ordered=True)
        x = jnp.array([0.5, 1.5])
        for _ in range(2):
            np.testing.assert_allclose(f(x), np.sin([0.5, 1.5]) + [1, 3], rtol=1e-12)
        jax.effects_barrier()
        assert seen == [1.5, 1.5]
        def bad(v):
            raise ValueError("no such number")
        calls = jax.jit(lambda x: jax.pure_callback(bad, x, x))
        fails(lambda: calls(x), "JaxRuntimeError", "ValueError: no such number")
        wrong = lambda x: jax.pure_callback(lambda v: v[:1], x, x)
        fails(lambda: jax.jit(wrong)(x), "Incorrect output shape for return value #0: Expected: (2,), Actual: (1,)")
    """)
    assert out.split("\n")[:4] == ["first 0.5", "sum 2.0"] * 2


def test_errors_tell_what_is_wrong() -> None:
    run_jax("""
        import jax.experimental.checkify
        fails(lambda: jax.jit(lambda: jnp.ones(1 << 45))(), "JaxRuntimeError: RESOURCE_EXHAUSTED", "<string>:", "TiB")
        fails(lambda: jax.device_put(np.broadcast_to(np.float32(1), (1 << 43,))), "JaxRuntimeError: RESOURCE_EXHAUSTED")
        unknown = lambda x: jax.ffi.ffi_call("no_such_target", jax.ShapeDtypeStruct(x.shape, x.dtype))(x)
        fails(lambda: jax.jit(unknown)(jnp.ones(2)), "UNIMPLEMENTED", "stablehlo.custom_call", "'no_such_target'")
        checked = jax.jit(lambda x: jax.experimental.checkify.check(x > 1, "no"))
        fails(lambda: checked(0.0), "ValueError: Cannot abstractly evaluate a checkify.check")
        x = jnp.ones(2)
        x.delete()
        fails(lambda: x + 1, "deleted")
        assert (jnp.ones(2) + 1).tolist() == [2, 2]
        fails(lambda: jax.pmap(lambda a: a)(np.ones((4, 2))), "ValueError", "4")
        x, y = jnp.ones(3), jnp.ones(3)
        z = jax.jit(lambda a, b: a + b, donate_argnums=0)(x, y)
        assert x.is_deleted() and not y.is_deleted() and z.tolist() == [2, 2, 2]
        same = jax.jit(lambda a: a)(y)
        assert same.unsafe_buffer_pointer() != y.unsafe_buffer_pointer()
    """)


def test_policy() -> None:
    # 1 + 2^-4 + 2^-4 in f8E4M3FN: f32 sums to 1.125; each step alone is a tie that goes back to 1.
    run_jax("""
        from minihlo import interp
        one, small = 0x38, 0x18
        row = np.array([[one, small, small]], np.uint8).view(jnp.float8_e4m3fn)
        f = jax.jit(lambda a, b: jax.lax.dot_general(a, b, (((1,), (1,)), ((), ())), preferred_element_type=a.dtype))
        ones = np.full((1, 3), one, np.uint8).view(jnp.float8_e4m3fn)
        code = lambda: int(np.asarray(f(row, ones)).view(np.uint8)[0, 0])
        assert code() == 0x39
        with interp.policy(accumulate="element"):
            assert code() == 0x38
            with interp.policy(rounding="up"):
                assert code() == 0x3A  # 1.125, then 1.25
            assert code() == 0x38
        assert code() == 0x39
        fails(lambda: interp.policy(rounding="sideways").__enter__(), "ValueError: rounding: expected one of")
    """)
    # 1.125 squared is 1.265625, between 1.25 and 1.375.
    assert run_jax(
        "print(jax.jit(lambda a: a * a)(jnp.asarray(1.125, jnp.float8_e4m3fn)))", MINIHLO_POLICY="rounding=up"
    ).split() == ["1.375"]
    run_jax('fails(jax.devices, "rounding: expected one of")', MINIHLO_POLICY="rounding=sideways")


def test_reading_in_place_one_copy_in_and_dlpack() -> None:
    run_jax("""
        import resource
        x = jnp.arange(1000.0)
        assert np.asarray(x).__array_interface__["data"][0] == x.unsafe_buffer_pointer()
        big = np.zeros(1 << 23)  # 64 MiB
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        y = jax.device_put(big)
        z = np.asarray(y)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10
        del x, y
        assert z[-1] == 0
        x = jnp.arange(6.0).reshape(2, 3)
        address = lambda a: a.__array_interface__["data"][0]
        view = np.from_dlpack(x)
        assert address(view) == x.unsafe_buffer_pointer() and view.tolist() == [[0, 1, 2], [3, 4, 5]]
        assert not view.flags.writeable
        assert address(np.from_dlpack(x, copy=True)) != x.unsafe_buffer_pointer()
        for k in range(300):
            x = jnp.full((2, 3), float(k))  # the first is gone, the view holds its memory
        assert view.tolist() == [[0, 1, 2], [3, 4, 5]]
        names = ("bool int8 uint16 int64 float16 bfloat16 float64 complex64 float8_e3m4 float8_e4m3 float8_e4m3fn "
            "float8_e4m3fnuz float8_e4m3b11fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu").split()
        for name in names:
            values = np.array([[1, 0.5, 2]]).astype(name)
            ours = jnp.asarray(values)
            there = jax.dlpack.from_dlpack(ours)
            assert there.device.platform == "cpu" and there.dtype == values.dtype
            assert np.asarray(there).tobytes() == values.tobytes()
            back = jax.dlpack.from_dlpack(there, device=jax.devices()[0])
            assert back.device.platform == "minihlo" and np.asarray(back).tobytes() == values.tobytes()
        fails(lambda: jax.dlpack.from_dlpack(jnp.zeros(3, jnp.int4)), "BufferError: DLPack has no arrays of int4")
        fails(lambda: x.__dlpack__(dl_device=(2, 0)), "BufferError: an array of platform minihlo is in the memory of")
        x.delete()
        fails(lambda: np.from_dlpack(x), "deleted")
    """)


def test_queries() -> None:
    run_jax("""
        from minihlo import interp
        f = jax.jit(lambda x: x @ x)
        compiled = f.lower(jnp.ones((4, 4))).compile()
        assert "f64[4,4]" in compiled.as_text()
        compiled.cost_analysis(), compiled.memory_analysis()
        fails(lambda: interp.load(compiled), "InputError: expected a function compiled for another platform")
        device = jax.devices()[0]
        stats = device.memory_stats()
        assert device.device_kind == "minihlo" and stats["bytes_limit"] == stats["bytes_reservable_limit"] > 0
        assert repr(device) == "MinihloDevice(id=0)"
        with jax.profiler.TraceAnnotation("x"):
            f(jnp.ones((4, 4))).block_until_ready()
    """)


def test_the_same_bits_as_on_the_command_line(tmp_path: Path) -> None:
    program, result = tmp_path / "f.mlir", tmp_path / "y.npy"
    out = run_jax(f"""
        r = np.random.default_rng(5)
        x = r.normal(size=(8, 16)).astype(np.float32)
        np.save({str(tmp_path / "x.npy")!r}, x)
        f = jax.jit(lambda x: jnp.tanh(x.astype(jnp.float8_e5m2) @ x.T.astype(jnp.float8_e5m2)).astype(jnp.float32))
        open({str(program)!r}, "w").write(f.lower(x).as_text())
        print(np.asarray(f(x)).tobytes().hex())
    """)
    run = "import sys; from minihlo.interp.cli import main; sys.exit(main())"
    options = ["--input", f"@{tmp_path / 'x.npy'}", "--accumulate", "f32", "--output", f"@{result}"]
    subprocess.run([sys.executable, "-c", run, "run", str(program), *options], check=True, capture_output=True)
    assert np.load(result).tobytes().hex() == out.strip()


def test_users_of_other_platforms_notice_nothing() -> None:
    code = """
        import logging, signal
        assert jax.default_backend() == "cpu" and {d.platform for d in jax.devices()} == {"cpu"}
        assert (jnp.ones(2) + 1).device.platform == "cpu"
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        assert "minihlo.interp.machine" not in sys.modules
        y = jax.device_put(jnp.ones(2), jax.devices("minihlo")[0]) + 1
        assert y.device.platform == "minihlo" and y.tolist() == [2, 2]
    """
    assert run_jax(code, JAX_PLATFORMS="") == ""


def test_handles_know_what_they_cannot_work_with(monkeypatch: pytest.MonkeyPatch) -> None:
    assert handles.defect() is None
    monkeypatch.setattr(handles.sysconfig, "get_config_var", lambda name: name == "Py_GIL_DISABLED")
    assert handles.defect() == "Python is built without a GIL"
    monkeypatch.undo()
    monkeypatch.setattr(handles, "destroyer", lambda: 0)
    assert handles.defect() == "cells cannot be cleared"


def test_plugin_stays_out_with_one_line() -> None:
    run_jax("""
        import logging
        from minihlo.interp.plugin.pjrt import handles
        handles.defect = lambda: "of the weather"
        lines = []
        logging.getLogger("minihlo.interp.plugin").addHandler(type("H", (logging.Handler,), {
            "emit": lambda self, record: lines.append(record.getMessage())})())
        fails(jax.devices, "Unable to initialize backend 'minihlo'")
        assert lines == ["the JAX platform minihlo is not available: of the weather"]
    """)


def test_protocol_buffers() -> None:
    options = protobuf.message((3, protobuf.message((4, 2), (5, 3), (9, write_assignment(((0, 1, 2), (3, 4, 5)))))))
    assert read_compile_options(options) == CompileOptions(
        2, 3, ((0, 1, 2), (3, 4, 5)), write_assignment(((0, 1, 2), (3, 4, 5)))
    )
    assert read_compile_options(b"") == CompileOptions(1, 1, None, b"")
    # field 1 = 300, a varint; field 2 = "hi"
    assert protobuf.message((1, 300), (2, "hi")) == bytes([0x08, 0xAC, 0x02, 0x12, 2]) + b"hi"
    assert list(protobuf.read(bytes([0x08, 0xAC, 0x02, 0x12, 2]) + b"hi")) == [(1, 300), (2, b"hi")]
    with pytest.raises(ValueError, match="cut off"):
        list(protobuf.read(bytes([0x12, 5]) + b"hi"))


def test_memory_of_handles_is_never_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The framework drops handles after the interpreter has cleared our modules, and counts down in that memory."""
    monkeypatch.setattr(os, "register_at_fork", lambda **_: None)
    pool = handles.Pool()
    pool.add("object")
    base = pool._chunks[0][1].base
    assert base is not None
    memory = weakref.ref(base)
    del pool, base
    gc.collect()
    assert memory() is not None
