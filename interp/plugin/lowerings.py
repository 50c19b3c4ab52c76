"""How JAX lowers what has no general form, for this platform."""


def register() -> None:
    pass
