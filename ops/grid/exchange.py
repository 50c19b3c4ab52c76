"""The names of `ops/processes/exchange.py`, for callers that still import them from here."""

from ..processes.exchange import DeadlockError, ProcessId, StoppedError

__all__ = ["DeadlockError", "ProcessId", "StoppedError"]
