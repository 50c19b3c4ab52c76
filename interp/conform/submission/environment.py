"""The machine and the software of a run, as a submission records them."""

from __future__ import annotations

import platform
import sys

import ml_dtypes
import numpy as np


def here() -> dict[str, str]:
    """The facts that may change a result: system, processor, Python and numeric packages. No names of hosts or
    users."""
    return {
        "system": platform.system(),
        "release": platform.release(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "byte order": sys.byteorder,
        "numpy": np.__version__,
        "ml_dtypes": str(getattr(ml_dtypes, "__version__", "")),
    }
