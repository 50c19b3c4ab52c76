"""The pictures of the documentation as SVG: `PICTURES` has a function for each file in docs/pictures.

They are written here and not by a plotting library. The text of a file then depends on the data alone, so that
`tools.generate --check` can compare it; words stay words; and one file is legible on light and dark pages.
"""

from __future__ import annotations

from collections.abc import Callable

from .accumulation import accumulators
from .error_map import errors
from .number_line import formats
from .verdict_grid import verdicts

PICTURES: dict[str, Callable[[], str]] = {
    "formats": formats,
    "verdicts": verdicts,
    "errors": errors,
    "accumulators": accumulators,
}
