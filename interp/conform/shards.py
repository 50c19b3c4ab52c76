"""Parts of a run for several machines: `--shard 2/3` has the cases whose signatures fall to the second of three.

A signature falls to a shard by its CRC, so that the shards of a run are the same whichever machine asks, and all forms
of a case are in one of them.
"""

from __future__ import annotations

import re
import zlib

#: As many shards as anybody has machines.
_MOST = 10000


def parse(text: str) -> tuple[int, int]:
    """The index, from 1 on, and the number of shards. Raises ValueError for another text."""
    found = re.fullmatch(r"([1-9][0-9]{0,4})/([1-9][0-9]{0,4})", text)
    index, count = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 1 <= index <= count <= _MOST:
        raise ValueError(f"expected I/N, with I from 1 to N and N up to {_MOST}, got {text[:40]!r}")
    return index, count


def has(shard: str, signature: str) -> bool:
    """Whether a shard has a signature; no shard has all. Raises ValueError for a text that names none."""
    if not shard:
        return True
    index, count = parse(shard)
    return zlib.crc32(signature.encode()) % count == index - 1
