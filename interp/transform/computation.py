"""What JAX traced, the program it is lowered to, and what is derived of it: batched, linearized, transposed."""

from __future__ import annotations

import contextvars
import dataclasses
import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import jax
import numpy as np
from jax._src import core
from jax._src.interpreters import partial_eval
from jax.extend.core import ClosedJaxpr, jaxpr_as_fun  # pyright: ignore[reportPrivateImportUsage]

from ...ops.policy import Policy
from ...ops.types import TokenType
from .. import machine, plugin
from ..errors import ProgramError
from ..loaded import LoadedProgram
from ..parse import parser

#: The platform that programs are lowered for: nothing of them is made for a machine.
PLATFORM = "minihlo"

#: While a program is lowered that is to run here: the policy that it will run under.
lowered_under: contextvars.ContextVar[Policy | None] = contextvars.ContextVar("lowered under", default=None)


class Computation:
    """A function of a flat list of arrays, and the policy it runs under. Constants are arguments too, the first ones.

    Compared by identity: what is derived of it is made once, and kept here.
    """

    def __init__(self, jaxpr: ClosedJaxpr, policy: Policy, *, is_emulated: bool = False) -> None:
        """`jaxpr` is what JAX traced; the constants it closed over become `constants`. Raises ProgramError.

        With `is_emulated` it is rewritten for XLA, rather than evaluated here.
        """
        for aval in (*jaxpr.in_avals, *(v.aval for v in jaxpr.jaxpr.constvars)):
            if not isinstance(aval, core.ShapedArray):
                raise ProgramError(f"{jaxpr.jaxpr.debug_info.func_name} takes a {aval}; minihlo takes arrays only")
        self.jaxpr = ClosedJaxpr(partial_eval.convert_constvars_jaxpr(jaxpr.jaxpr), ())
        self.policy, self.is_emulated = policy, is_emulated
        self.constants = list(jaxpr.consts)
        self._derived: dict[Hashable, Any] = {}
        self._program: LoadedProgram | None = None
        self._lowered: Any = None

    def derive(self, function: Callable[..., Any], avals: Sequence[Any]) -> tuple[Computation, Any]:
        """Another one under the same policy: a function traced for arguments like `avals`; and its results' tree."""
        traced = jax.jit(function).trace(*avals)
        if len(traced.jaxpr.in_avals) != len(avals):
            raise _ClosedOverError
        return Computation(traced.jaxpr, self.policy, is_emulated=self.is_emulated), traced.out_tree

    def __repr__(self) -> str:
        return f"<{self.name}>"

    @property
    def name(self) -> str:
        """The name of the function."""
        return self.jaxpr.jaxpr.debug_info.func_name

    @property
    def function(self) -> Callable[..., list[Any]]:
        """It as a Python function of JAX arrays."""
        return jaxpr_as_fun(self.jaxpr)

    @property
    def arguments(self) -> list[Any]:
        """The abstract values of its arguments."""
        return self.jaxpr.in_avals

    @property
    def results(self) -> list[Any]:
        """The abstract values of its results."""
        return self.jaxpr.out_avals

    @functools.cached_property
    def plain_results(self) -> list[Any]:
        """The abstract values of its results without the shardings of a trace."""
        return [core.ShapedArray(a.shape, a.dtype, weak_type=a.weak_type) for a in self.results]

    @functools.cached_property
    def plain_dtypes(self) -> list[np.dtype | None]:
        """The dtypes of its arguments; None of keys of random numbers, and of tangents of integers."""
        return [a.dtype if _is_plain(a) else None for a in self.arguments]

    @functools.cached_property
    def has_plain_results(self) -> bool:
        """Whether no result is a key of random numbers, or the tangent of an integer."""
        return all(map(_is_plain, self.results))

    # -- running -----------------------------------------------------------------------------------------------------

    def run(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The results, of numpy arrays that have the types of the arguments."""
        plan = self.program().plan(policy=self.policy)
        values = iter(arrays)
        # Effects in order are tied by tokens, which come before all else.
        results = machine.run(plan, [None if isinstance(t, TokenType) else next(values) for t in plan.argument_types])
        return [v for v, t in zip(results, plan.result_types, strict=True) if not isinstance(t, TokenType)]

    def program(self) -> LoadedProgram:
        """The program that it is lowered to."""
        if self._program is None:
            self._lowered = self.lower()  # keeps alive the Python functions that the program calls
            self._program = LoadedProgram(parser.from_module(self._lowered.compiler_ir(), f"<{self.name}>"))
        return self._program

    def lower(self, platform: str = PLATFORM) -> Any:
        """It lowered for a platform, as a `jax.stages.Lowered`."""
        plugin.initialize()  # which tells JAX how to lower what has no general form
        traced = jax.jit(self.function, keep_unused=True).trace(*map(_like, self.arguments))
        token = lowered_under.set(self.policy if platform == PLATFORM else None)
        try:
            return traced.lower(lowering_platforms=(platform,))
        finally:
            lowered_under.reset(token)

    # -- what is derived of it ---------------------------------------------------------------------------------------

    def batched(self, size: int, name: Any, dims: tuple[int | None, ...]) -> tuple[Computation, list[int | None]]:
        """The same for a whole batch, and along which dimension it lies of each result: 0, or None for no batch."""

        def make() -> tuple[Computation, list[int | None]]:
            out_dims = [0 if varies else None for varies in self._varying_results(name, dims)]
            mapped = jax.vmap(self.function, in_axes=dims, out_axes=out_dims, axis_size=size, axis_name=name)
            avals = [
                _like(aval if d is None else core.unmapped_aval(size, d, aval))
                for aval, d in zip(self.arguments, dims, strict=True)
            ]
            return self.derive(lambda *args: mapped(*args), avals)[0], out_dims

        return self._once(("batched", size, name, dims), make)

    def _varying_results(self, name: Any, dims: tuple[int | None, ...]) -> list[bool]:
        """Which results depend on an argument that has a dimension of the batch, or on the place in it."""
        jaxpr = self.jaxpr.jaxpr
        if name is not None and any(getattr(e, "name", None) == name for e in jaxpr.effects):
            return [True] * len(jaxpr.outvars)
        reached = {v for v, d in zip(jaxpr.invars, dims, strict=True) if d is not None}
        for equation in jaxpr.eqns:
            if any(isinstance(v, core.Var) and v in reached for v in equation.invars):
                reached.update(equation.outvars)
        return [isinstance(v, core.Var) and v in reached for v in jaxpr.outvars]

    def linearized(self, varying: tuple[bool, ...]) -> Linearized:
        """Its linearization in the arguments that vary."""

        def restricted(args: Sequence[Any]) -> tuple[Callable[..., Any], list[Any]]:
            """The function of the arguments that vary, and these."""
            fixed = [None if v else a for a, v in zip(args, varying, strict=True)]
            moving = [a for a, v in zip(args, varying, strict=True) if v]
            return (lambda *some: self.function(*_merged(fixed, some))), moving

        def forward(*args: Any) -> tuple[Any, Any]:
            function, moving = restricted(args)
            return jax.linearize(function, *moving)

        def apply(tree: Any, kept: Sequence[Any], moving: Sequence[Any]) -> Any:
            return jax.tree.unflatten(tree, [*[0.0] * len(self.results), *kept])[1](*moving)

        def again(_: Any, kept: Sequence[Any], moving: Sequence[Any]) -> Any:
            function, primals = restricted(kept)
            return jax.jvp(function, primals, list(moving))[1]

        def make() -> Linearized:
            try:
                return self._linearized(varying, forward, apply)
            except _ClosedOverError:  # older versions of JAX keep some residuals where they cannot be had
                return self._linearized(varying, lambda *args: (self.function(*args), args), again)

        return self._once(("linearized", varying), make)

    def _linearized(
        self, varying: tuple[bool, ...], forward: Callable[..., Any], apply: Callable[..., Any]
    ) -> Linearized:
        computation, tree = self.derive(forward, [_like(a) for a in self.arguments])
        residuals = computation.results[len(self.results) :]
        tangents = [a.to_tangent_aval() for a, v in zip(self.arguments, varying, strict=True) if v]
        has_tangent = tuple(a.to_tangent_aval().dtype != jax.dtypes.float0 for a in self.results)

        def tangent(*args: Any) -> list[Any]:
            tangents = apply(tree, args[: len(residuals)], args[len(residuals) :])
            return [t for t, has in zip(tangents, has_tangent, strict=True) if has]

        linear, _ = self.derive(tangent, [_like(a) for a in [*residuals, *tangents]])
        return Linearized(computation, linear, has_tangent)

    def transposed(self, linear: tuple[bool, ...], has_cotangent: tuple[bool, ...]) -> Computation:
        """The transpose in the linear arguments: of the other arguments, and of the cotangents that are `wanted`."""

        def make() -> Computation:
            moving = [_like(a) for a, v in zip(self.arguments, linear, strict=True) if v]
            fixed = [_like(a) for a, v in zip(self.arguments, linear, strict=True) if not v]
            cotangents = [_like(a.to_tangent_aval()) for a, w in zip(self.results, has_cotangent, strict=True) if w]

            def backward(*args: Any) -> Any:
                rest = iter(args[: len(fixed)])
                known = [None if v else next(rest) for v in linear]

                def forward(*some: Any) -> list[Any]:
                    results = self.function(*_merged(known, some))
                    return [r for r, w in zip(results, has_cotangent, strict=True) if w]

                return jax.linear_transpose(forward, *moving)(list(args[len(fixed) :]))

            return self.derive(backward, [*fixed, *cotangents])[0]

        return self._once(("transposed", linear, has_cotangent), make)

    def _once(self, key: Hashable, make: Callable[[], Any]) -> Any:
        if key not in self._derived:
            self._derived[key] = make()
        return self._derived[key]


@dataclasses.dataclass(frozen=True)
class Linearized:
    """A computation that gives the results and then residuals, and one that takes residuals and tangents."""

    forward: Computation
    tangent: Computation
    has_tangent: tuple[bool, ...]  #: which results have a tangent


class _ClosedOverError(Exception):
    """A function that was to be traced uses values of another trace."""


def _merged(fixed: Sequence[Any], moving: Sequence[Any]) -> list[Any]:
    """The arguments, where `fixed` has None in the place of those that move."""
    rest = iter(moving)
    return [next(rest) if a is None else a for a in fixed]


def _is_plain(aval: Any) -> bool:
    """Whether an array is neither of keys of random numbers nor the tangent of integers."""
    return isinstance(aval.dtype, np.dtype) and aval.dtype != jax.dtypes.float0


def _like(aval: Any) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(aval.shape, aval.dtype, weak_type=getattr(aval, "weak_type", False))
