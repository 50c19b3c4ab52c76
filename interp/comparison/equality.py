"""The old name of `interp.judging.equality`."""

from ..judging.equality import distance as distance
from ..judging.equality import equal_codes as equal_codes
from ..judging.equality import equal_values as equal_values
