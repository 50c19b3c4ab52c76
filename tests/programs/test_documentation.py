"""The documentation: what it shows is what comes out, and the public API and the command line are documented whole.

(The output of its commands and its tables are held by `tools.generate --check`, in test_repository.)
"""

import ast
import doctest
import inspect
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from minihlo import interp
from minihlo.interp.cli import main
from minihlo.interp.diff.report import Report
from minihlo.interp.lowered import JaxProgram
from tools import check_site

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
SESSIONS = [p for p in DOCUMENTS if ">>> " in p.read_text()]
NAVIGATION = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]


def blocks(path: Path) -> Iterator[tuple[str, str]]:
    """The language and the text of each block of code."""
    yield from re.findall(r"^ *```(\w*)\n(.*?)^ *```$", path.read_text(), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("path", SESSIONS, ids=lambda p: p.stem)
def test_python_sessions(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    text = "\n".join(block for language, block in blocks(path) if language == "python")
    test = doctest.DocTestParser().get_doctest(text, {}, path.name, str(path), 0)
    result = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test)
    assert result.attempted >= 4
    assert result.failed == 0


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: p.stem)
def test_every_session_is_in_a_block_that_is_executed(path: Path) -> None:
    for language, block in blocks(path):
        assert (language == "python") == block.startswith(">>> "), block
        assert (language == "console") == block.startswith("$ "), block


def test_the_readme_is_short_and_shows_two_pictures() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 250
    assert len(re.findall(r"!\[.+?\]\(docs/pictures/\w+\.svg\)", text)) == 2
    for path in (ROOT / "docs").glob("*.md"):
        assert f"docs/{path.name}" in text


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: p.stem)
def test_links_lead_to_files_and_headings_that_exist(path: Path) -> None:
    for link in re.findall(r"\]\((?!https?:)([^)]+)\)", path.read_text()):
        name, _, anchor = link.partition("#")
        target = path.parent / name if name else path
        assert target.exists(), link
        if anchor and not anchor.startswith("minihlo."):  # those are made by mkdocstrings, and checked by `make docs`
            headings = re.findall(r"^#+ (.+)$", target.read_text(), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in headings}, link


def test_every_page_is_in_the_navigation() -> None:
    pages = {p.name for p in (ROOT / "docs").glob("*.md")}
    assert set(re.findall(r"^ *- .+: (\S+\.md)$", NAVIGATION, re.MULTILINE)) == pages


@pytest.mark.parametrize("page", ["extend", "layout"])
def test_pages_for_developers_name_only_files_that_exist(page: str) -> None:
    text = (ROOT / "docs" / f"{page}.md").read_text()
    named = re.findall(r"`((?:ops|interp|tests|tools|benchmarks|examples|mlir_tests)/[\w/.]*)`", text)
    assert len(named) > 10
    assert not [n for n in named if not (ROOT / n).exists()]


PUBLIC = [(name, getattr(interp, name)) for name in interp.__all__]
METHODS = [
    (f"{cls.__name__}.{name}", member)
    for cls in (interp.LoadedProgram, JaxProgram, Report)
    for name, member in vars(cls).items()
    if inspect.isfunction(member) and (not name.startswith("_") or name == "__call__")
]


def sections(doc: str) -> dict[str, str]:
    """The sections of a docstring in Google's style, by their titles; the text before them is under ""."""
    parts = re.split(r"^(Args|Returns|Raises|Yields):\n", doc, flags=re.MULTILINE)
    return {"": parts[0], **dict(zip(parts[1::2], parts[2::2], strict=True))}


@pytest.mark.parametrize(("name", "thing"), [*PUBLIC, *METHODS], ids=lambda x: x if isinstance(x, str) else "")
def test_public_docstrings(name: str, thing: object) -> None:
    first = (inspect.getdoc(thing) or "").partition("\n")[0]
    assert re.match(r"[A-Z`].*[.:]", first), name
    assert vars(thing).get("__doc__") if inspect.isclass(thing) else thing.__doc__, "inherited"


@pytest.mark.parametrize(
    ("name", "thing"),
    [(n, t) for n, t in PUBLIC if inspect.isfunction(t)],
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_docstrings_have_arguments_results_errors(name: str, thing: object) -> None:
    reported = sections(inspect.getdoc(thing) or "")
    given = re.findall(r"^    \**(\w+): ", reported["Args"], re.MULTILINE)
    assert given == list(inspect.signature(thing).parameters)  # type: ignore[arg-type]
    assert reported["Raises"].strip()
    assert "Returns" in reported or name == "policy"


def test_the_policy_tells_each_field() -> None:
    reported = sections(inspect.getdoc(interp.Policy) or "")
    assert re.findall(r"^    (\w+): ", reported["Args"], re.MULTILINE) == list(interp.Policy.__dataclass_fields__)


def test_the_api_page_has_every_public_name() -> None:
    shown = re.findall(r"^::: minihlo\.interp\.([\w.]+)$", (ROOT / "docs" / "api.md").read_text(), re.MULTILINE)
    assert set(interp.__all__) <= set(shown)
    assert len(shown) == len(set(shown))


def commands() -> list[str]:
    return re.findall(r"^## minihlo ([\w ]+)$", (ROOT / "docs" / "command-line.md").read_text(), re.MULTILINE)


def test_the_command_reference_has_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    listed = re.findall(r"^    (\w+(?: \w+)?)(?:  |$)", capsys.readouterr().out, re.MULTILINE)
    assert listed == commands()


@pytest.mark.parametrize("command", commands())
def test_the_command_reference_has_every_option(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "docs" / "command-line.md").read_text()
    section = text.partition(f"\n## minihlo {command}\n")[2].partition("\n## ")[0]
    assert main([*command.split(), "--help"]) == 0
    options = set(re.findall(r"^  (?:-\w[^,]*, )?(--[\w-]+)", capsys.readouterr().out, re.MULTILINE)) - {"--help"}
    shown = {m for row in re.findall(r"^\| (.*?) \|", section, re.MULTILINE) for m in re.findall(r"--[\w-]+", row)}
    assert shown - {"---"} == options


def test_options_of_the_pytest_plugin_are_documented() -> None:
    source = ast.parse((ROOT / "interp" / "pytest_plugin.py").read_text())
    texts = {n.value for n in ast.walk(source) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    text = (ROOT / "docs" / "test-a-backend.md").read_text()
    for name in {t for t in texts if re.fullmatch(r"--minihlo-[\w-]+|minihlo_files", t)}:
        assert name in text


def test_every_environment_variable_is_documented() -> None:
    pages = "\n".join(p.read_text() for p in DOCUMENTS)
    for path in [*ROOT.glob("interp/**/*.py"), *ROOT.glob("ops/**/*.py")]:
        for name in re.findall(r'"(MINIHLO_[A-Z_]+)"', path.read_text()):
            assert f"`{name}" in pages, f"{path}: {name}"


def test_every_extra_is_in_the_table() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    text = (ROOT / "docs" / "index.md").read_text()
    assert re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE) == list(extras)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.html", '<script src="https://cdn.example/x.js"></script>'),
        ("a.html", '<link rel="stylesheet" href="//cdn.example/x.css">'),
        ("a.html", '<img src="http://example/x.png">'),
        ("a.html", '<p style="background: url(https://example/x.png)">'),
        ("a.css", "@import 'https://fonts.example/css';"),
        ("a.css", "a { background: url( //example/x.png ) }"),
    ],
)
def test_a_page_that_loads_something_from_the_network_is_found(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    assert [p.name for p, _ in check_site.loaded_addresses(tmp_path)] == [name]


def test_links_and_own_files_are_not_taken_for_loads(tmp_path: Path) -> None:
    text = '<a href="https://example">x</a><link rel="canonical" href="https://example"><script src="x.js"></script>'
    (tmp_path / "a.html").write_text(text)
    assert not list(check_site.loaded_addresses(tmp_path))
