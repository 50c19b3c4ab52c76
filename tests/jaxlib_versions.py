"""The installed jaxlib, and marks of tests that need a version of it."""

import jaxlib.version
import pytest

VERSION = tuple(map(int, jaxlib.version.__version__.split(".")[:2]))
since_0_10 = pytest.mark.skipif(VERSION < (0, 10), reason="this jaxlib is too old to read it")
