"""The old place of `trace`."""

from .compare import trace as trace
