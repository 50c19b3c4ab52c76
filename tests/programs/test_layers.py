"""Imports run downward: each package and file stands in a layer, and imports from that and from those below it."""

import ast
import functools
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: From the ground up. A module belongs to the entry that names most of it.
LAYERS = [
    "ops", "ops.close", "interp", "interp.oracle", "ops.minifloat.formats", "ops.types", "ops.accumulators.record",
    "ops.accumulators.chips", "ops.accumulators.units", "ops.policy", "ops.random_stream", "ops.minifloat",
    "ops.threads", "ops.blas", "ops.traits", "ops.tables", "ops.cast", "ops.ordering", "ops.accumulators", "ops.call",
    "ops.op", "ops.accumulators.selection", "ops.require", "ops.processes.exchange", "ops.processes.parallel",
    "ops.quantization", "ops.movement",
    "ops.elementwise", "ops.programs", "ops.reductions", "ops.products", "ops.blocks", "ops.processes", "interp.errors",
    "interp.foreign", "interp.policies", "interp.settings", "interp.program", "interp.steps",
    "interp.system", "interp.samples", "interp.pages", "interp.transport", "interp.parse",
    "interp.values", "interp.passes", "interp.dynamic", "interp.code", "interp.expansions", "interp.printer",
    "interp.bodies", "interp.bind", "interp.assemble", "interp.failures", "interp.planner",
    "interp.machine", "interp.listing", "interp.loaded", "interp.lowered", "interp.api",
    "interp.emulate",
    "interp.products", "interp.backends", "interp.testing", "interp.judging", "interp.enclose",
    "interp.probing", "interp.conform", "interp.diff", "interp.judgement",
    "interp.plugin", "interp.blocks.checks", "interp.transform", "interp.blocks", "interp.numerics", "interp.commands",
    "interp.command_options", "interp.cli", "interp.pytest_plugin",
]  # fmt: skip
#: Files of one kind in a folder, at most.
MOST_FILES = 27
#: Lines that are read with the meaning of `add`, at most.
MOST_LINES = 6000


def modules() -> dict[str, Path]:
    """Every module by its dotted name below `minihlo`; a package by the name of its folder."""
    files = sorted([*ROOT.glob("ops/**/*.py"), *ROOT.glob("interp/**/*.py")])
    names = (".".join(p.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__") for p in files)
    return dict(zip(names, files, strict=True))


MODULES = modules()


def layer(module: str) -> int:
    """The place of a module's layer in the list."""
    parts = module.split(".")
    return next(LAYERS.index(name) for i in range(len(parts), 0, -1) if (name := ".".join(parts[:i])) in LAYERS)


def imports(module: str, source: str, is_package: bool) -> Iterator[str]:
    """The modules of ours that a source imports, in functions too; those that only types need are left out."""
    package = module.split(".") if is_package else module.split(".")[:-1]
    tree = ast.parse(source)
    for_types = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        if node in for_types:
            continue
        names: list[list[str]] = []
        if isinstance(node, ast.Import):
            names = [a.name.split(".")[1:] for a in node.names if a.name.startswith("minihlo.")]
        elif isinstance(node, ast.ImportFrom):
            base = node.module.split(".") if node.module else []
            if node.level:
                base = package[: len(package) - node.level + 1] + base
            elif base[:1] == ["minihlo"]:
                base = base[1:]
            else:
                continue
            names = [[*base, a.name] for a in node.names]
        for name in names:
            result = next((".".join(name[:i]) for i in range(len(name), 0, -1) if ".".join(name[:i]) in MODULES), None)
            if result is not None and result != module:
                yield result


@functools.cache
def every_import() -> dict[str, frozenset[str]]:
    """The modules that each of ours imports."""
    return {m: frozenset(imports(m, p.read_text(), p.name == "__init__.py")) for m, p in MODULES.items()}


def upward(module: str, source: str, is_package: bool = False) -> list[str]:
    """The imports of a source that stand in a layer above its own."""
    return [name for name in imports(module, source, is_package) if layer(name) > layer(module)]


def test_imports_run_downward() -> None:
    found = {m: [name for name in names if layer(name) > layer(m)] for m, names in every_import().items()}
    assert {module: names for module, names in found.items() if names} == {}


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("ops.tables", "from .op import op"),
        ("ops.minifloat.formats", "from .codec import decode"),
        ("ops.reductions.reduce", "from minihlo.interp import errors"),
        ("interp.passes.fuse", "def later():\n    from ..machine import run"),
        ("interp.parse.parser", "from .. import api"),
        ("interp.backends.base", "import minihlo.interp.conform.run"),
        ("interp.oracle.exact", "from minihlo.ops.minifloat.formats import FORMATS"),
        ("interp.judging.sums.explain", "from ...conform.verdicts.judge import judge"),
        ("interp.diff.compare", "if True:\n    from ..plugin import register"),
    ],
)
def test_an_import_of_what_stands_above_is_found(module: str, source: str) -> None:
    assert upward(module, source)


def test_imports_run_in_no_circle() -> None:
    graph = every_import()
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, " -> ".join([*path[path.index(module) :], module])
        if module not in done:
            for name in sorted(graph[module]):
                visit(name, (*path, module))
            done.add(module)

    for module in graph:
        visit(module, ())


def test_every_layer_is_there_and_every_module_in_one() -> None:
    assert [name for name in LAYERS if name not in MODULES] == []
    assert all(layer(module) is not None for module in MODULES)


def test_no_folder_holds_too_many_files() -> None:
    counts: dict[Path, int] = {}
    for path in MODULES.values():
        counts[path.parent] = counts.get(path.parent, 0) + (path.name != "__init__.py")
    assert {str(p.relative_to(ROOT)): n for p, n in counts.items() if n > MOST_FILES} == {}


def test_the_meaning_of_an_op_loads_numpy_and_few_lines() -> None:
    script = """
import sys
import ml_dtypes, numpy
before = set(sys.modules)
import minihlo.ops.elementwise.arithmetic
for name in sorted(set(sys.modules) - before):
    print(name, getattr(sys.modules[name], "__file__", None) or "")
"""
    result = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    loaded = dict(line.split(maxsplit=1) for line in result.stdout.splitlines() if len(line.split()) == 2)
    ours = {name: Path(path) for name, path in loaded.items() if name.startswith("minihlo")}
    others = {name.partition(".")[0] for name in loaded} - {"minihlo", "numpy", "ml_dtypes"}
    assert others <= set(sys.stdlib_module_names)
    assert all(name.startswith("minihlo.ops") for name in ours)
    assert sum(len(path.read_text().splitlines()) for path in ours.values()) <= MOST_LINES
