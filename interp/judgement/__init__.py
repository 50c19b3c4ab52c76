"""Whether a program's results on a backend are allowed, and the smallest part of it that is wrong.

The program is compiled by the backend as it stands, and only its results are looked at. Each is compared with the
interpreter's and with its enclosure, which holds every result that an implementation may give (`interp/enclose`).
"""

from .judge import judge
from .verdicts import Judgement

__all__ = ["Judgement", "judge"]
