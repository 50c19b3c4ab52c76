"""Lines of code by package, beside the budgets: `python -m tools.lines`. A budget that is exceeded is exit status 1.

Lines are those of `wc -l` over Python files, formatted at 120 columns.
"""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
#: The folders whose packages are listed.
TREES = ("ops", "interp", "tests")


@dataclasses.dataclass(frozen=True)
class Budget:
    """The most lines of some files and folders together, relative to the root, without others in them."""

    name: str
    most: int
    places: tuple[str, ...]
    without: tuple[str, ...] = ()

    def lines(self, root: Path = ROOT) -> int:
        return sum(lines(root / place) for place in self.places) - sum(lines(root / place) for place in self.without)


#: The commands that judge.
JUDGING_COMMANDS = (
    "conform", "conform_claim", "conform_diff", "conform_export", "conform_judge", "conform_merge",
    "conform_profiles", "conform_site", "conform_verify", "diff", "judge", "probe",
)  # fmt: skip

#: The files that plan and run.
MACHINE = ("interp/bind.py", "interp/assemble.py", "interp/planner.py", "interp/machine.py", "interp/failures.py")

BUDGETS = (
    Budget("ops", 15_450, ("ops",)),
    Budget("interp without emulation", 49_550, ("interp",), ("interp/emulate",)),
    Budget("emulation", 4_300, ("interp/emulate",)),
    Budget(
        "judging",
        26_900,
        ("interp/judging", "interp/conform", "interp/diff", "interp/probing", "interp/backends", "interp/judgement",
         "interp/enclose", *(f"interp/commands/{name}.py" for name in JUDGING_COMMANDS)),
    ),
    Budget("tests", 42_000, ("tests",)),
    Budget("passes, machine, binding", 2_500, ("interp/passes", *MACHINE)),
    Budget(
        "core",
        16_850,
        ("ops", "interp/program.py", "interp/parse", "interp/passes", *MACHINE,
         "interp/values", "interp/api.py", "interp/loaded.py", "interp/lowered.py"),
        ("ops/accumulators", "ops/blocks", "ops/processes"),
    ),
    Budget("numerics", 3_450, ("interp/numerics",)),
)  # fmt: skip


def lines(place: Path) -> int:
    """The lines of a Python file, or of all of those in a folder; 0 if there is none."""
    files = place.rglob("*.py") if place.is_dir() else [place] if place.exists() else []
    return sum(file.read_bytes().count(b"\n") for file in files)


def packages(root: Path = ROOT) -> dict[str, int]:
    """The lines of each folder in `TREES`, and of the files beside them."""
    result = {}
    for tree in TREES:
        folders = [f for f in sorted((root / tree).iterdir()) if f.is_dir() and lines(f)]
        result |= {f"{tree}/{folder.name}": lines(folder) for folder in folders}
        result[f"{tree}/*.py"] = sum(lines(file) for file in (root / tree).glob("*.py"))
    return result


def main() -> int:
    for name, count in packages().items():
        print(f"{name:<24} {count:>7,}")
    print()
    exceeded = False
    for budget in BUDGETS:
        count = budget.lines()
        exceeded |= count > budget.most
        print(f"{budget.name:<24} {count:>7,} of {budget.most:>6,}{'  exceeded' if count > budget.most else ''}")
    return int(exceeded)


if __name__ == "__main__":
    sys.exit(main())
