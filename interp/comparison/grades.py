"""The old name of `interp.judging.equality`."""

from ..judging.equality import is_subnormal as is_subnormal
