"""Names are the field's: no file, function, class or method has a name that says nothing of what it is."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
FILES = [path for tree in ("ops", "interp", "tests") for path in sorted((ROOT / tree).rglob("*.py"))]

#: Words that no file, function, class or method has as its name: for an iteration, a report, a layout, a difference.
WORDS = {"turn", "turns", "told", "lies", "laid", "made", "kept", "apart"}
#: Names of files and packages that are not the field's (alone for unfused, unused for dce).
FILES_TO_AVOID = """
    ahead alone amortised chosen_writes compositions floored forward joined narrow native octets owned pace powers quick
    reordered settled share side_by_side slices_last squares tiles unused ways words writes_last
"""
#: The same of classes, functions and methods (Few for SmallExactMatmul, Pace for ThreadingAutotuner).
NAMES_TO_AVOID = """
    Amortised as_laid as_whole Asked born detached Facts Few fewest_parts find_rows Formed gravity _heats Held in_words
    Job _Job Latest _lay Lies lies_of meet mended numbers_before_repeating Observed occasion otherwise _otherwise Pace
    Reach read_ahead Recent Recipe Regions reshapes_first _Room settling Share spoken _Tried Unfit Way
"""
#: The functions, classes and methods in a file.
DEFINITION = re.compile(r"^ *(?:def|async def|class) (\w+)", re.MULTILINE)
#: An iteration is no turn, in the middle of a name either; things are turned off, and taken in turn.
TURN = re.compile(r"(?<!in)_turns?(_|$)(?!off|on)|^turns?_(?!off|on)", re.IGNORECASE)
#: What compiled loops before there was one way to run. The pieces are joined here, so that this file is searched too.
GONE = re.compile("|".join(("num" + "ba", "llvm" + "lite", "op" + "code")), re.IGNORECASE)


def is_wrong(name: str) -> bool:
    return name.strip("_") in WORDS or name in NAMES_TO_AVOID.split() or TURN.search(name) is not None


def is_wrong_file(path: Path) -> bool:
    name = path.parent.name if path.name == "__init__.py" else path.stem
    return name in WORDS or name in FILES_TO_AVOID.split() or TURN.search(name) is not None


def test_names() -> None:
    found = {}
    for path in FILES:
        names = [*filter(is_wrong, DEFINITION.findall(path.read_text())), *["(the file)"] * is_wrong_file(path)]
        if names:
            found[str(path.relative_to(ROOT))] = names
    assert found == {}


def test_wrong_names_are_found() -> None:
    assert all(map(is_wrong, ["turn", "_made", "Way", "_Room", "run_of_turns", "test_a_turn_of_a_loop", "turns_of"]))
    assert not any(map(is_wrong, ["returned", "turned_off", "test_it_turns_off", "is_made", "Region", "two_in_turn"]))


def test_compilers_that_are_gone_are_not_named() -> None:
    places = [*FILES, *(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "pyproject.toml"]
    lines = [
        f"{place.relative_to(ROOT)}:{number}: {line.strip()}"
        for place in places
        for number, line in enumerate(place.read_text().splitlines(), 1)
        if GONE.search(line)
    ]
    assert lines == []
