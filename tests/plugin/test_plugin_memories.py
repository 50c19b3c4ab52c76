"""The JAX platform `minihlo`: memories of a device, and layouts that the user chooses. No value depends on them."""

from minihlo.interp.plugin.devices import devices

from ..jax_child import run_jax


def test_memories_have_numbers_of_their_own() -> None:
    ids = [memory.properties["Id"] for device in devices(5) for memory in device.memories]
    assert len(set(ids)) == len(ids) == 15
    assert [d.memories[0].properties["Id"] for d in devices(5)] == [d.id for d in devices(5)]


def test_arrays_lie_in_the_memory_they_are_put_into() -> None:
    run_jax(
        """
        device = jax.devices()[1]
        kinds = ["device", "pinned_host", "unpinned_host"]
        assert [m.kind for m in device.addressable_memories()] == kinds
        assert device.default_memory().kind == "device"
        assert device.memory("pinned_host").addressable_by_devices() == [device]
        x = jnp.arange(6.0).reshape(2, 3)
        mesh = Mesh(np.array(jax.devices()), ("x",))
        for there in (jax.sharding.SingleDeviceSharding(device, memory_kind="pinned_host"),
                      NamedSharding(mesh, P("x"), memory_kind="pinned_host")):
            y = jax.device_put(x, there)
            assert y.sharding.memory_kind == "pinned_host" and y.tolist() == x.tolist()
            z = jax.jit(lambda a: a * 2, out_shardings=there)(x)
            assert z.sharding.memory_kind == "pinned_host" and z.tolist() == (2 * x).tolist()
            back = jax.device_put(z, there.with_memory_kind("device"))
            assert back.sharding.memory_kind == "device" and back.tolist() == (2 * x).tolist()
            assert jax.jit(lambda a: a + 0)(z).tolist() == (2 * x).tolist()
            z.delete()
            assert z.is_deleted()
        both = jax.jit(lambda a: (a, a + 1), out_shardings=(there, there.with_memory_kind("device")))(x)
        assert [r.sharding.memory_kind for r in both] == ["pinned_host", "device"]
        fails(lambda: jax.device_put(x, there.with_memory_kind("attic")), "memory kind", "attic")
        assert device.memory_stats()["bytes_in_use"] > 0
        """,
        devices=2,
    )


def test_layouts_change_no_value() -> None:
    run_jax("""
        from jax.experimental.layout import Format, Layout
        x = np.arange(24.0).reshape(2, 3, 4)
        for order in ((0, 1, 2), (2, 1, 0), (1, 2, 0)):
            format = Format(Layout(major_to_minor=order), jax.sharding.SingleDeviceSharding(jax.devices()[0]))
            y = jax.device_put(x, format)
            assert y.format.layout.major_to_minor == order
            assert np.array_equal(np.asarray(y), x) and np.array_equal(np.array(y), x) and np.array_equal(y + 1, x + 1)
            assert np.array_equal(np.from_dlpack(y), x) and np.array_equal(y[1, :, 2], x[1, :, 2])
            f = jax.jit(lambda a: a * 2, in_shardings=format, out_shardings=format)
            for _ in range(4):  # the last ones the shortest way
                z = f(y)
                assert z.format.layout.major_to_minor == order and np.array_equal(z, 2 * x)
            compiled = f.lower(y).compile()
            assert compiled.input_formats[0][0].layout.major_to_minor == order
            assert compiled.output_formats.layout.major_to_minor == order
            assert jax.device_put(y, jax.devices("cpu")[0]).tolist() == x.tolist()
        tiled = Format(Layout(major_to_minor=(0, 1, 2), tiling=((8, 128),)), format.sharding)
        fails(lambda: jax.device_put(x, tiled), "UNIMPLEMENTED: expected a layout without tiles, such as {1,0}, got {")
    """)


def test_a_layout_that_is_left_open_moves_nothing() -> None:
    """The result of a transposition lies as the argument does; each expected order is NumPy's, of the strides."""
    run_jax("""
        from jax.experimental.layout import Format, Layout
        auto, x = Format(Layout.AUTO), np.arange(24.0).reshape(2, 3, 4)
        def order(a):  # from major to minor
            return tuple(int(d) for d in np.argsort(a.strides)[::-1])
        for given in ((0, 1, 2), (2, 0, 1)):
            lies = np.ascontiguousarray(x.transpose(given)).transpose(np.argsort(given))
            assert order(lies) == given
            place = Format(Layout(major_to_minor=given), jax.sharding.SingleDeviceSharding(jax.devices()[0]))
            for f in (lambda a: a.T, lambda a: a.transpose(1, 2, 0), lambda a: a.transpose(1, 2, 0).transpose(1, 0, 2)):
                y = jax.jit(f, in_shardings=place, out_shardings=auto)(jax.device_put(x, place))
                assert np.array_equal(y, f(x)) and y.format.layout.major_to_minor == order(f(lies)), y.format
                z = jax.jit(f, in_shardings=place)(jax.device_put(x, place))
                assert np.array_equal(z, f(x)) and z.format.layout.major_to_minor == (0, 1, 2)
            y = jax.jit(lambda a: a + 1, in_shardings=place, out_shardings=auto)(jax.device_put(x, place))
            assert np.array_equal(y, x + 1) and y.format.layout.major_to_minor == (0, 1, 2)
    """)
