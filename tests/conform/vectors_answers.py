"""What tests of vectors share: results by a function of operations, and reports without their times."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

from minihlo.interp.backends.operation import Operation


def answered(folder: Path, into: Path, function: Callable[[Operation, list[np.ndarray]], np.ndarray | str]) -> Path:
    """Results that a function of operations and arrays gives, from the files of an export `--as npy`."""
    read = json.loads((folder / "manifest.json").read_text())
    lines = ["minihlo.results/1", f"vectors {read['vectors']}", "backend chip"]
    for case in read["cases"]:
        arrays = [np.load(folder / t["at"]) for t in case["operands"]]
        types = tuple(t["type"] for t in case["operands"])
        given = [a.astype(bool) if t == "i1" else a for a, t in zip(arrays, types, strict=True)]
        found = function(Operation(case["op"], types, case["result"]["type"], case["attributes"]), given)
        lines.append(f"case {case['name']}")
        if isinstance(found, str):
            lines.append(f"unsupported {found}")
        else:
            assert list(found.shape) == case["result"]["shape"]
            codes = np.array(found, order="C")
            codes = codes.view(np.uint8) if codes.dtype == bool else codes
            lines.append(codes.astype(codes.dtype.newbyteorder(">")).tobytes().hex(" ", codes.dtype.itemsize))
    into.write_text("\n".join([*lines, f"end {len(read['cases'])}\n"]))
    return into


def without_times(path: Path) -> bytes:
    """The bytes of a report, but for its times."""
    lines = path.read_bytes().splitlines()
    kept = [x for x in lines if not x.startswith((b' "seconds"', b' "started"'))]
    return b"\n".join(x.rpartition(b'"seconds": ')[0] + x[-2:] if b'"seconds": ' in x else x for x in kept)
