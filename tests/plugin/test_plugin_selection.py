"""How JAX's users select the platform `minihlo`, and that those who do not are never bothered by it."""

import functools

import pytest

from ..jax_child import run_jax

run = functools.partial(run_jax, is_new=True)

WRONG = {
    "MINIHLO_POLICY": ("rounding=sideways", "MINIHLO_POLICY: rounding: expected one of"),
    "MINIHLO_NUM_DEVICES": ("1" * 5000, "MINIHLO_NUM_DEVICES: expected a number from 1 to 1024, got '1111"),
    "MINIHLO_MEMORY_LIMIT": ("plenty", "MINIHLO_MEMORY_LIMIT: expected a size"),
}


@pytest.mark.parametrize("variable", WRONG)
def test_mistyped_variables_are_reported(variable: str) -> None:
    value, message = WRONG[variable]
    run(f"fails(jax.devices, {message!r})", **{variable: value})


def test_mistyped_variables_do_not_matter_to_others() -> None:
    code = """
        assert jax.default_backend() == "cpu" and (jnp.ones(2) + 1).tolist() == [2, 2]
        fails(lambda: jax.devices("minihlo"), "MINIHLO_", ": expected ")
        try:
            jax.devices("minihlo")
        except RuntimeError as error:
            assert "\\n" not in str(error) and len(str(error)) < 400
    """
    assert run(code, JAX_PLATFORMS="", **{name: value for name, (value, _) in WRONG.items()}) == ""


def test_selection_leaves_the_configuration() -> None:
    run("""
        before = dict(jax.config.values)
        assert jax.default_backend() == "minihlo" and {d.platform for d in jax.devices()} == {"minihlo"}
        assert dict(jax.config.values) == before and jax.config.jax_platforms == "minihlo"
        # What JAX runs eagerly on the host has a CPU to run on, and gives results to this platform.
        assert [d.platform for d in jax.devices("cpu")] == ["cpu"]
        seen = []
        jax.debug.callback(lambda v: seen.append(v.tolist()), jnp.arange(2))
        assert seen == [[0, 1]]
        y = jax.pure_callback(np.sin, jax.ShapeDtypeStruct((), np.float64), 0.5)
        assert np.asarray(y) == np.sin(0.5)
        assert (jnp.ones(2) + 1).device.platform == "minihlo"
    """)
    run(
        """
        assert jax.default_backend() == "cpu" and list(jax._src.xla_bridge.backends()) == ["cpu", "minihlo"]
        assert jax.config.jax_platforms == "cpu,minihlo"
        """,
        JAX_PLATFORMS="cpu,minihlo",
    )
    run('assert list(jax._src.xla_bridge.backends()) == ["cpu"]', JAX_PLATFORMS="cpu")


def test_programs_keep_the_settings_of_their_compilation() -> None:
    run_jax("""
        from minihlo.interp.plugin.executable import Executable
        from minihlo.interp.plugin.pjrt.runtime import objects
        def first(x): return x + 1
        def second(x): return x + 2
        f, g = jax.jit(first), jax.jit(second)
        f(np.ones(2))
        os.environ["MINIHLO_WITHOUT"] = "tables,threads"
        g(np.ones(2))
        del os.environ["MINIHLO_WITHOUT"]
        f(np.ones(2)), g(np.ones(2))
        plans = {o.name: o.current_plan() for o in objects.values() if type(o) is Executable}
        settings = {name: (plan.settings.tables, plan.settings.threads) for name, plan in plans.items()}
        assert settings["jit_first"] == (True, 0), settings
        assert settings["jit_second"] == (False, 1), settings
    """)
