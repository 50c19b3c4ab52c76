"""What a fold is: a body applied along the first axis of arrays, from initial values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

#: Takes and returns tuples of arrays: the accumulators and then the elements in, the new accumulators out.
Step = Callable[..., tuple[Any, ...]]
#: Folds arrays along their first axis into accumulators of the shape that is left.
Fold = Callable[[Step, Sequence[np.ndarray], Sequence[np.ndarray]], tuple[np.ndarray, ...]]
