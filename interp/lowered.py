"""Programs that JAX has traced, lowered, compiled or exported (jax.stages, jax.export), callable like the function."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..ops.policy import Policy
from ..ops.types import TensorType, TokenType
from .errors import InputError
from .loaded import LoadedProgram
from .parse import parser
from .planner import find_function
from .program import Program

#: The types that JAX converts arrays of 64-bit types to where 64 bits are not enabled.
_NARROWER = {np.dtype(f"{kind}8"): np.dtype(f"{kind}4") for kind in "iuf"} | {np.dtype("c16"): np.dtype("c8")}
#: The platforms to choose from, in order, if a program was exported for several.
_PLATFORMS = ("minihlo", "cpu")


class JaxProgram(LoadedProgram):
    """A program that JAX made of a function, with the function's pytrees.

    Called like other programs, it takes the arrays of the function's arguments in the order of `jax.tree.leaves`, also
    those that the program does not use, and returns a list. `call` takes and returns the function's pytrees.
    """

    def __init__(
        self, program: Program, in_tree: Any, out_tree: Any, kept: Sequence[int], first: Sequence[Any]
    ) -> None:
        """`kept` lists the arrays that the program takes, after those of `first`."""
        super().__init__(program)
        self.in_tree, self.out_tree = in_tree, out_tree
        self._kept, self._first = sorted(kept), list(first)

    def __call__(self, *arrays: Any, function: str | None = None, policy: Policy | None = None) -> list[np.ndarray]:
        """Run the function on the flat list of its arrays. See LoadedProgram."""
        if function is not None:
            return super().__call__(*arrays, function=function, policy=policy)
        plan = self.plan(None, policy)
        results = self.run(plan, self.arguments(arrays))
        return [r for r, t in zip(results, plan.result_types, strict=True) if not isinstance(t, TokenType)]

    def call(self, *args: Any, policy: Policy | None = None, **kwargs: Any) -> Any:
        """Run the function on arguments like those that it was lowered for.

        Args:
            *args: The function's arguments. Python numbers, and arrays of 64 bits where the program has 32 bits, are
                converted as JAX does.
            policy: As of `LoadedProgram`.
            **kwargs: The function's keyword arguments.

        Returns:
            The function's results: its pytree, with numpy arrays.

        Raises:
            InputError: The arguments do not have the tree, the shapes or the dtypes of the function's.
        """
        return self.out_tree.unflatten(self(*self.leaves(args, kwargs), policy=policy))

    def leaves(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[Any]:
        """Return the flat list of arrays of the arguments. Raises InputError if they have another pytree structure."""
        try:
            leaves = self.in_tree.flatten_up_to((tuple(args), dict(kwargs)))
        except ValueError as error:
            message = " ".join(str(error).split())[:300]
            raise InputError(f"{self.program.file}: expected the arguments of the function: {message}") from None
        types = [t for t in find_function(self.program).argument_types if not isinstance(t, TokenType)]
        for i, t in zip(self._kept, types[len(self._first) :], strict=True):
            leaves[i] = _convert(leaves[i], t)
        return leaves

    def arguments(self, arrays: Sequence[Any]) -> list[Any]:
        """Return the arguments of `@main` for a flat list of arrays: those that it uses, and None for a token.

        Raises InputError for another number of arrays.
        """
        count = self.in_tree.num_leaves
        if len(arrays) != count:
            raise InputError(f"{self.program.file}: expected {count} array{'s' * (count != 1)}, got {len(arrays)}")
        given = iter([*self._first, *(_without_key(arrays[i]) for i in self._kept)])
        types = find_function(self.program).argument_types
        return [None if isinstance(t, TokenType) else next(given) for t in types]


def of_jax(source: Any) -> JaxProgram | None:
    """Return the program of an Exported or of a stage of jit, and None for any other object.

    Raises InputError for a function that has not been traced, and where a compiled one has no HLO module of its own.
    """
    if not type(source).__module__.startswith(("jax.", "jax._src.", "jaxlib.")):
        return None
    if hasattr(source, "mlir_module_serialized"):
        program = parser.parse(source.mlir_module_serialized, f"export({source.fun_name})")
        platforms = list(source.platforms)
        chosen = next((p for p in _PLATFORMS if p in platforms), platforms[0])
        first = [np.int32(platforms.index(chosen))] if len(platforms) > 1 else []
        return JaxProgram(program, source.in_tree, source.out_tree, source.module_kept_var_idx, first)
    if hasattr(source, "trace") and callable(source):
        raise InputError("expected a function of jax.jit with types of its arguments, such as f.lower(x), got it alone")
    if hasattr(source, "lower") and hasattr(source, "jaxpr"):  # jax.stages.Traced
        source = source.lower()
    if hasattr(source, "compiler_ir") and hasattr(source, "in_tree"):
        program = parser.from_module(source.compiler_ir("stablehlo"), getattr(source._lowering, "_name", "lowered"))
        arguments = source._lowering.compile_args
        if getattr(arguments.get("shape_poly_state"), "uses_dim_vars", False):
            raise InputError(f"{program.file}: expected sizes in numbers or a function of jax.export, got symbols")
        constants = getattr(source._lowering, "const_args", None) or []
        kept = arguments.get("kept_var_idx", range(source.in_tree.num_leaves))
        return JaxProgram(program, source.in_tree, source.out_tree, kept, list(map(np.asarray, constants)))
    if hasattr(source, "runtime_executable"):  # jax.stages.Compiled
        return _of_compiled(source)
    return None


def _of_compiled(source: Any) -> JaxProgram:
    executable = source.runtime_executable()
    if executable.client.platform == _PLATFORMS[0]:
        raise InputError("expected a function compiled for another platform, or f.lower(x), got one for minihlo itself")
    modules = executable.hlo_modules()
    if len(modules) != 1:
        raise InputError(f"expected a compiled function of one HLO module, got {len(modules)}")
    program = parser.parse(modules[0].as_serialized_hlo_module_proto(), modules[0].name)
    kept = getattr(source._executable, "_kept_var_idx", range(source.in_tree.num_leaves))
    constants = getattr(getattr(source, "_params", None), "const_args", None) or []
    return JaxProgram(program, source.in_tree, source.out_tree, kept, list(map(np.asarray, constants)))


def _without_key(value: Any) -> Any:
    """Return an array as it is; of an array of random keys, return the key data."""
    if str(getattr(value, "dtype", "")).startswith("key<"):
        return sys.modules["jax"].random.key_data(value)
    return value


def _convert(value: Any, t: Any) -> Any:
    if not isinstance(t, TensorType):
        return value
    wanted = t.element.dtype
    dtype: Any = getattr(value, "dtype", None)
    if isinstance(value, bool | int | float | complex) or _NARROWER.get(dtype) == wanted:
        return np.asarray(value).astype(wanted)
    return value
