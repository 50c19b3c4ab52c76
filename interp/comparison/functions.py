"""The old name of `interp.judging.functions`."""

from ..judging.functions import ULPS as ULPS
