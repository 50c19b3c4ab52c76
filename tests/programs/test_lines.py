"""The budgets of lines hold, and `tools.lines` counts as `wc -l` does."""

import re
from pathlib import Path

import pytest

from tools import lines


@pytest.mark.parametrize("budget", lines.BUDGETS, ids=lambda budget: budget.name)
def test_no_budget_is_exceeded(budget: lines.Budget) -> None:
    count = budget.lines()
    assert 0 < count <= budget.most, f"{budget.name}: {count:,} lines, expected at most {budget.most:,}"


def test_packages_are_all_lines() -> None:
    assert sum(lines.packages().values()) == sum(lines.lines(lines.ROOT / tree) for tree in lines.TREES)


def test_lines_of_files_and_folders(tmp_path: Path) -> None:
    (tmp_path / "ops" / "inner").mkdir(parents=True)
    (tmp_path / "ops" / "a.py").write_text("a\n\nb\n")
    (tmp_path / "ops" / "inner" / "b.py").write_text("c\n")
    (tmp_path / "ops" / "inner" / "c.txt").write_text("d\n")
    assert lines.Budget("x", 9, ("ops",)).lines(tmp_path) == 4
    assert lines.Budget("x", 9, ("ops", "none.py"), ("ops/inner",)).lines(tmp_path) == 3


def test_tuning_constants_are_few_and_each_says_what_it_gains() -> None:
    """Numbers that choose the quicker of two ways, or the size of a part, have a comment `tuning:` with times."""
    sources = [p.read_text() for tree in ("ops", "interp") for p in (lines.ROOT / tree).rglob("*.py")]
    gains = [gain for source in sources for gain in re.findall(r"#: tuning: (.*\n(?:#: .*\n)*)", source)]
    assert 0 < len(gains) <= 12
    assert [gain for gain in gains if not re.search(r"\d (?:µs|ms|s)\b", gain)] == []
