"""Programs on the JAX platform `minihlo` run with the settings that held when they were compiled."""

from ..jax_child import run_jax


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
