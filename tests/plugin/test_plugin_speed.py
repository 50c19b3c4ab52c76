"""Programs on the JAX platform `minihlo` run with the speed settings that held when they were compiled."""

from ..jax_child import run_jax


def test_kernels_see_the_settings_of_their_program() -> None:
    run_jax("""
        from minihlo.ops.engine import speed
        from minihlo.ops.programs.custom_call import target
        seen = []
        @target("spy")
        def spy(array, **_):
            seen.append((speed.current().blocks, speed.current().threads))
            return array
        def call(x):
            return jax.ffi.ffi_call("spy", jax.ShapeDtypeStruct(x.shape, x.dtype))(x)
        first = jax.jit(call)
        first(np.ones(2)).block_until_ready()
        os.environ["MINIHLO_WITHOUT"] = "blocks,threads"
        jax.jit(call)(np.ones(3)).block_until_ready()
        del os.environ["MINIHLO_WITHOUT"]
        first(np.ones(2)).block_until_ready()
        assert seen == [(True, 0), (False, 1), (True, 0)], seen
    """)
