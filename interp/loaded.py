"""A program that can be called."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ops.policy import Policy
from . import machine
from .assemble import Listener
from .errors import InputError
from .planner import Plan, find_function, plan
from .program import Program
from .settings import Settings
from .values.values import check_input

#: How many plans a program keeps, one for each function and policy in use: a limit of memory.
_PLANS = 16


class LoadedProgram:
    """A program that can be called, as `load` returns it. Several threads may call it at the same time."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.settings: Settings | None = None  #: None: the environment variable `MINIHLO_WITHOUT` decides
        self._plans: dict[tuple[str, Policy], Plan] = {}
        self._plain: Plan | None = None  # for the default function

    def __call__(self, *arrays: Any, function: str | None = None, policy: Policy | None = None) -> list[np.ndarray]:
        """Run a function of the program.

        Args:
            *arrays: One array for each argument, of its shape and dtype. Minifloats have the dtypes of ml_dtypes. A
                token is None.
            function: The name of the function. The default is `@main`, or the only public function.
            policy: The choices that StableHLO leaves to an implementation. The default is `Policy()`.

        Returns:
            A list of new numpy arrays, one for each result. Minifloats have the dtypes of ml_dtypes.

        Raises:
            InputError: The arrays do not have the argument types, or there is no such function.
            ProgramError: The function uses an operation, type or attribute that is not supported.
            CheckFailure: A check of the program does not hold.
            ResourceError: A value does not fit into memory.
            ExecutionError: An operation failed while it ran.
        """
        return self.run(self.plan(function, policy), arrays)

    def plan(self, function: str | None = None, policy: Policy | None = None, listener: Listener | None = None) -> Plan:
        """Return the plan of a function under a policy. It is cached unless there is a `listener`.

        Raises InputError where `policy` is not a Policy.
        """
        if function is None and policy is None and listener is None and self._plain is not None:
            return self._plain
        if policy is not None and not isinstance(policy, Policy):
            raise InputError(f"policy: expected a minihlo.interp.Policy, got {type(policy).__name__}")
        is_plain, policy = function is None and policy is None, policy or Policy()
        if listener is not None:
            return plan(self.program, function, policy, listener, self.settings)
        key = find_function(self.program, function).name, policy
        result = self._plans.get(key)
        if result is None:
            result = plan(self.program, key[0], policy, settings=self.settings)
            while len(self._plans) >= _PLANS:
                self._plans.pop(next(iter(self._plans)))
            self._plans[key] = result
        if is_plain:
            self._plain = result
        return result

    def run(self, plan: Plan, arrays: tuple[Any, ...] | list[Any]) -> list[np.ndarray]:
        """Run a plan of this program on arrays; see `__call__`. Raises InputError for another number of arrays."""
        types = plan.argument_types
        if len(arrays) != len(types):
            takes = f"expected {len(types)} input{'s' * (len(types) != 1)} ({', '.join(map(str, types)) or 'none'})"
            raise InputError(f"{self.program.file}: @{plan.function.name}: {takes}, got {len(arrays)}")
        values = [
            a if type(a) is np.ndarray and (a.dtype, a.shape) == fits else check_input(a, t, f"input {i}")
            for i, (a, t, fits) in enumerate(zip(arrays, types, plan.accepted, strict=True))
        ]
        return machine.run(plan, values)
