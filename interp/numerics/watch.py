"""`interp.watch`: checks a sample of the jitted calls of a program, op by op, while it runs on any platform."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

try:
    import jax
except ImportError:
    raise ImportError("minihlo.interp.watch needs JAX, which is not installed (pip install jax)") from None

from ...ops.policy import Policy
from ..backends import BackendError
from ..backends.subjects import any_subject
from ..diff.report import OpReport
from ..errors import InputError
from ..program import Operation
from ..system import host_floats
from . import calls as jitted_calls
from .programs import check_integer, check_policy
from .watch_check import CheckedProgram
from .watch_file import WatchFile

#: The additional seconds of an observed call for each array: 20 to 30 µs were measured.
_DISPATCH = 3e-5
#: The used share of the budget. The rest is a reserve, as a part may take longer than estimated.
_AIM = 0.9
#: The interval in seconds at which the budget is examined; and the multiple of the time for observing a call that must
#: be left in the budget for a call to be observed.
_WAIT, _WORTH = 0.02, 4
#: The estimated seconds to prepare a program, for each traced operation: 0.3 ms were measured, of 1,800 operations.
_PREPARE = 0.0004


class watch(jitted_calls.CallObserver[CheckedProgram]):  # noqa: N801 (used as a function)
    """Check a sample of the jitted calls of a program, operation by operation, while it runs on any platform.

    Within `with interp.watch("cuda") as w:`, or between `w.start()` and `w.stop()`, each call of a function of
    `jax.jit` is observed. The operations of a sampled call are computed exactly here, and each operation runs alone on
    the backend, on the same operands; results are judged as `interp.compare` judges them. One operation of each kind
    (its name and types) comes first, operations that round before the others, and the least checked first.

    The program gets the arrays that JAX computed. Checking stops when the budget is spent, in the middle of a call
    too, and goes on in a later call. An error in checking is a line in the file, and the program goes on. Ctrl-C ends
    the program as ever, and the file is complete.

    Args:
        backend: The backend of the operations: a platform of JAX in this process, a name that `minihlo conform` takes,
            or an object with a method `evaluate(text, arrays) -> arrays`. The default is JAX's default platform.
        every: One call in this many of each function is sampled, including the first. Then every call is observed,
            which takes 20 to 30 µs for each array of it. By default only calls that the budget allows to check are
            observed.
        budget: The time for checking, as a share of the time that the program itself takes: 0.1 makes a run at most a
            tenth longer, up to the cost of one part of a check.
        file: A file that JSON lines are appended to: `start`, `failure` for a wrong operation with its line, `check`
            for each sampled call, `error`, and `end`.
        memory: The bytes of operands that are held for a check, and that are kept in files.
        keep: The number of failures whose operands are kept, in the folder `file` + ".failures": the operation as a
            program and its operands, as `minihlo diff` takes them.
        policy: The policy of the exact results. The default is `Policy()`.

    Attributes:
        failures: The last report of each wrong operation, by operation.
        spent: The seconds of checking so far.
        checks: The number of checked operations.

    Raises:
        InputError: An argument is not one of those above; with `start`, there is no such backend.
        OutputError: With `start`, the file cannot be written.
        AttributeError: JAX is not installed: `interp` then has no attribute `watch`.
    """

    def __init__(
        self,
        backend: Any = None,
        *,
        every: int | None = None,
        budget: float = 0.1,
        file: str | os.PathLike[str] = "watch.jsonl",
        memory: int = 256 << 20,
        keep: int = 8,
        policy: Policy | None = None,
    ) -> None:
        given = 1 if every is None else every
        for name, value, least in (("every", given, 1), ("memory", memory, 0), ("keep", keep, 0)):
            check_integer(value, f"watch: {name}", least)
        if isinstance(budget, bool) or not isinstance(budget, int | float) or not budget > 0:
            raise InputError(f"watch: budget: expected a number above 0, got {budget!r}")
        chosen = check_policy(policy, "watch: policy")
        super().__init__("watch", lambda source: CheckedProgram(source, self._backend, chosen, memory))
        self._every, self._budget, self._memory, self._keep, self._path = every, float(budget), memory, keep, file
        self._named = backend
        self.failures: dict[Operation, OpReport] = {}
        self.spent, self.checks = 0.0, 0
        self._backend: Any = None
        self._file: WatchFile | None = None
        self._prepared: set[Any] = set()
        self._refused: set[Any] = set()
        self._function: Any = None
        self._job: Iterator[float] | None = None
        self._needs = self._dispatch = 0.0
        self._of: dict[str, Any] = {}
        self._at: CheckedProgram | None = None
        self._left = 0
        self._lock = threading.Lock()
        self._context = contextlib.ExitStack()
        self._began = 0.0

    def __str__(self) -> str:
        wrong = f"{len(self.failures)} wrong" if self.failures else "none wrong"
        lines = [f"{self.checks} operations checked in {self.spent:.2f} s, {wrong}"]
        for report in self.failures.values():
            lines.append(f"  {report.location}: {report.op}: {report.differing} of {report.elements} elements differ")
        return "\n".join(lines)

    # -- lifetime ------------------------------------------------------------------------------------------------------

    def start(self) -> watch:
        """Start. Raises InputError if there is no such backend, OutputError if the file cannot be written."""
        if self._file is not None:
            raise InputError("watch: expected a watch that is not running, got one that is")
        self._backend = any_subject(self._named if self._named is not None else jax.default_backend())
        try:
            self._file = WatchFile(self._path, self._keep, self._memory)
        except BaseException:
            self._backend.close()
            raise
        for known in (self._made, self._computations, self._prepared, self._refused):  # of a backend that is closed
            known.clear()
        self._began, self.spent = time.perf_counter(), 0.0
        self._file.write("start", backend=self._backend.name, budget=self._budget, every=self._every)
        some = self._every is None and jitted_calls.can_show_some
        self._context.enter_context(self.observe_jax(some))
        if some:
            ended = threading.Event()
            threading.Thread(target=self._show, args=(ended,), name="minihlo watch", daemon=True).start()
            self._context.callback(ended.set)
        return self

    def _show(self, ended: threading.Event) -> None:
        """Shows the next calls whenever the budget allows a check."""
        while not ended.wait(_WAIT):
            if self._allows(self._needs + _WORTH * self._dispatch, time.perf_counter()):
                jitted_calls.show_next()

    def stop(self) -> None:
        """Stop, and write the findings. It can be started again; the file is appended to."""
        if self._file is None:
            return
        self._context.close()
        self._end_job()
        self._file.write(
            "end",
            calls=sum(self._counts.values()),
            checks=self.checks,
            failures=sorted({str(r.location) for r in self.failures.values()}),
            spent=round(self.spent, 4),
            elapsed=round(time.perf_counter() - self._began, 4),
        )
        self._file.close()
        self._file = None
        self._backend.close()

    def __enter__(self) -> watch:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    # -- one call ------------------------------------------------------------------------------------------------------

    def lowered_for(self) -> str:
        """The backend's platform of JAX; that of the host for other backends."""
        return getattr(self._backend, "platform", "cpu")

    def observe(self, jaxpr: Any, args: Sequence[Any]) -> None:
        """Takes a call that JAX shows, which makes the call longer."""
        self._dispatch = _DISPATCH * (len(args) + len(jaxpr.out_avals))
        super().observe(jaxpr, args)
        self.spent += self._dispatch

    def take(self, function: Any, prepare: Callable[[], tuple[CheckedProgram, list[Any]]]) -> None:
        """Counts a call, and continues pending checks as far as the budget allows."""
        if self._file is None or not self._lock.acquire(blocking=False):  # another thread is checking
            return
        before = time.perf_counter()
        try:
            number = self._counts[function]
            self._counts[function] += 1
            is_free = self._job is None or self._left <= 0
            with host_floats.default():
                if number % (self._every or 1) == 0 and function not in self._refused and is_free:
                    self._begin(function, number, prepare, before)
                self._go_on(before)
        except BackendError as error:
            self._fail(f"the watch ends: {error}")
            self._budget = 0.0
        except Exception as error:
            self._fail(f"{type(error).__name__}: {error}")
        except BaseException:  # Ctrl-C
            self._job = None
            raise
        finally:
            self.spent += time.perf_counter() - before
            self._lock.release()

    def _fail(self, message: str) -> None:
        """Writes an error. The program that was being checked is not checked again."""
        assert self._file is not None
        self._file.write("error", message=" ".join(message.split()), **self._of)
        self._refused.add(self._function)
        self._job, self._needs = None, 0.0

    def _begin(self, function: Any, number: int, prepare: Callable[[], Any], before: float) -> None:
        needs = 0.0
        if function not in self._prepared:
            needs = self._needs = _PREPARE * (jitted_calls.count(function.jaxpr) if hasattr(function, "jaxpr") else 0)
        if not self._allows(needs, before):
            return
        self._end_job()
        self._function = function
        self._prepared.add(function)
        self._of = {"call": number, "function": jitted_calls.name_of(function)}
        at, arrays = prepare()
        self._at, self._of["function"], self._left = at, at.source.file, len(set(at.kinds.values()))
        self._job = job = at.run(arrays, self._record)
        self._needs = next(job)

    def _go_on(self, before: float) -> None:
        """Continues checking as long as the budget allows."""
        while self._job is not None and self._allows(self._needs, before):
            try:
                self._needs = next(self._job)
            except StopIteration:
                self._end_job()
                self._needs = 0.0
                return
            self.checks += 1
            self._left -= 1

    def _allows(self, seconds: float, before: float) -> bool:
        """Whether this many more seconds are within the budget: a share of the time that the program itself took."""
        now = time.perf_counter()
        spent = self.spent + now - before
        return spent + seconds <= _AIM * self._budget * (now - self._began - spent)

    def _record(self, operation: Operation, report: OpReport) -> None:
        self.failures[operation] = report
        assert self._file is not None
        self._file.failure(operation, report, **self._of, checked_at=sum(self._counts.values()) - 1)

    def _end_job(self) -> None:
        if self._job is not None and self._file is not None and self._at is not None:
            self._file.write("check", **self._of, ops=len(self._at.kinds), verdicts=dict(self._at.verdicts))
        self._job = None
