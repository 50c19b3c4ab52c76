"""Names are the field's: no file, function, class or method has a name that says nothing of what it is."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TREES = ("ops", "interp", "tests")
FILES = [path for tree in TREES for path in sorted((ROOT / tree).rglob("*.py"))]

#: Words that no file, function, class or method has as its name: for an iteration, a report, a layout, a difference.
WORDS = {"turn", "turns", "told", "lies", "laid", "made", "kept", "apart"}
#: Names of files and packages that are not the field's, and the term to use.
FILES_TO_AVOID = {
    "ahead": "batching",
    "alone": "unfused",
    "amortised": "lazy values",
    "chosen_writes": "select into update",
    "compositions": "affine scan",
    "floored": "floor division",
    "forward": "store-to-load forwarding",
    "joined": "fused code",
    "narrow": "clamp into convert",
    "native": "machine code",
    "octets": "byte lookup",
    "owned": "aliasing",
    "pace": "autotuner",
    "powers": "linear recurrence scan",
    "quick": "fast dispatch",
    "reordered": "sinking of broadcasts",
    "settled": "saturated product fold",
    "share": "cse",
    "side_by_side": "batching of loops",
    "slices_last": "sinking of slices",
    "squares": "blocked transpose",
    "tiles": "matrix multiplication",
    "unused": "dce",
    "ways": "hypotheses, evaluators",
    "words": "messages",
    "writes_last": "scheduling of reads",
}
#: The same of classes, functions and methods.
NAMES_TO_AVOID = {
    "Amortised": "LazyValue",
    "as_laid": "preserving_layout",
    "as_whole": "materialize_broadcast",
    "Asked": "SumQuery",
    "born": "nonfinite_created",
    "detached": "ensure_unaliased",
    "Facts": "OpTraits",
    "Few": "SmallExactMatmul",
    "fewest_parts": "min_split",
    "find_rows": "fuse_rows",
    "Formed": "SumResult",
    "gravity": "severity",
    "_heats": "_batches",
    "Held": "RoundedSum",
    "in_words": "packed",
    "Job": "ExecutorContext",
    "_Job": "_Task",
    "Latest": "LastCallCache",
    "_lay": "_matricize",
    "Lies": "MemoryOrder",
    "lies_of": "memory_order",
    "meet": "rendezvous",
    "mended": "refine",
    "numbers_before_repeating": "sink_broadcast",
    "Observed": "Observation",
    "occasion": "rendezvous_key",
    "otherwise": "fallback",
    "_otherwise": "_fallback",
    "Pace": "ThreadingAutotuner",
    "Reach": "Effects",
    "read_ahead": "batch_until_dependency",
    "Recent": "LRUCache",
    "Recipe": "KernelSpec",
    "Regions": "RegionSemantics",
    "reshapes_first": "hoist_reshape",
    "_Room": "_Workspace",
    "settling": "saturated_product_fold",
    "Share": "Contribution",
    "spoken": "describe",
    "_Tried": "_Attempt",
    "Unfit": "NotVectorizable",
    "Way": "Hypothesis, Evaluator",
}
#: An iteration is no turn, in the middle of a name either; things are turned off, and taken in turn.
TURN = re.compile(r"(?<!in)_turns?(_|$)(?!off|on)|^turns?_(?!off|on)", re.IGNORECASE)
#: What compiled loops before there was one way to run. The pieces are joined here, so that this file is searched too.
GONE = re.compile("|".join(("num" + "ba", "llvm" + "lite", "op" + "code")), re.IGNORECASE)


def definitions(path: Path) -> Iterator[str]:
    """The names of the functions, classes and methods in a file."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name


def is_wrong(name: str) -> bool:
    return name.strip("_") in WORDS or name in NAMES_TO_AVOID or TURN.search(name) is not None


def is_wrong_file(path: Path) -> bool:
    name = path.parent.name if path.name == "__init__.py" else path.stem
    return name in WORDS or name in FILES_TO_AVOID or TURN.search(name) is not None


@pytest.mark.parametrize("tree", TREES)
def test_names(tree: str) -> None:
    found = {}
    for path in FILES:
        relative = path.relative_to(ROOT)
        names = [name for name in definitions(path) if is_wrong(name)] + ["(the file)"] * is_wrong_file(path)
        if relative.parts[0] == tree and names:
            found[str(relative)] = names
    assert found == {}


@pytest.mark.parametrize("name", ["turn", "_made", "Way", "_Room", "run_of_turns", "test_a_turn_of_a_loop", "turns_of"])
def test_wrong_names_are_found(name: str) -> None:
    assert is_wrong(name)


@pytest.mark.parametrize("name", ["returned", "turned_off", "test_it_turns_off", "is_made", "Region", "two_in_turn"])
def test_others_are_not(name: str) -> None:
    assert not is_wrong(name)


def test_compilers_that_are_gone_are_not_named() -> None:
    places = [*FILES, *(ROOT / "docs").rglob("*.md"), ROOT / "README.md", ROOT / "pyproject.toml"]
    lines = [
        f"{place.relative_to(ROOT)}:{number}: {line.strip()}"
        for place in places
        for number, line in enumerate(place.read_text().splitlines(), 1)
        if GONE.search(line)
    ]
    assert lines == []
