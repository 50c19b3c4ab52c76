"""The generated tables of the documentation: formats, operations, backends, the command line."""

from __future__ import annotations

import argparse
import importlib
import inspect
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable
from fractions import Fraction
from html import escape
from pathlib import Path

import numpy as np

from minihlo.interp import backends, cli, settings
from minihlo.ops.blocks.formats import BLOCK_FORMATS
from minihlo.ops.blocks.open_points import BLOCK_POINTS, MICROXCALING, PTX, TORCHAO
from minihlo.ops.minifloat.codec import decode, to_fraction
from minihlo.ops.minifloat.formats import FORMATS, Nan
from minihlo.ops.minifloat.open_points import ML_DTYPES, ONNX, OPEN_POINTS, XLA
from minihlo.ops.op import Op, describe, ops

from .crosscheck import page

ROOT = Path(__file__).parent.parent


def table(header: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A Markdown table."""
    header = list(header)
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(map(_cell, line)) + " |" for line in lines)


def _cell(text: str) -> str:
    """Text without the bar that ends a cell: some readers of Markdown would show a backslash before it in code."""
    if "|" not in text:
        return text
    text = re.sub(r"`([^`]*\|[^`]*)`", lambda m: f"<code>{escape(m[1])}</code>", text)
    return text.replace("|", "&#124;")


def _number(value: Fraction) -> str:
    power = value.denominator.bit_length() - 1
    if value.numerator == 1 and power > 4:
        return f"2^-{power}"
    return f"2^{int(value).bit_length() - 1}" if value > 1e6 else f"{float(value):g}"


def formats_table() -> str:
    rows = []
    for name, f in FORMATS.items():
        if not f.is_minifloat:
            continue
        codes = np.arange(f.max_code + 1)
        values = [to_fraction(decode(codes[i], f)) for i in (1 if f.has_zero else 0, f.max_code)]
        nan = {Nan.NONE: "none", Nan.IEEE: f"0x{f.max_code + 2:02X}…", Nan.LAST: "0xFF"}.get(f.nan)
        rows.append(
            [
                f"`{name}`",
                f"`{f.dtype_name}`" if f.has_dtype else "none",
                f"{int(f.is_signed)}.{f.exponent_bits}.{f.mantissa_bits}",
                str(f.bias),
                _number(values[1]),
                _number(values[0]),
                f"0x{f.infinity_code:02X}" if f.infinity_code is not None else "no",
                nan or f"0x{f.nan_code:02X}",
                "yes" if f.has_negative_zero else "no",
            ]
        )
    return table(["MLIR", "ml_dtypes", "S.E.M", "bias", "largest", "smallest", "+inf", "NaN", "-0"], rows)


def block_formats_table() -> str:
    rows = [
        [
            f"`{f.name}`",
            f"`{f.element}`",
            "×".join(map(str, f.block)),
            f"`{f.scale}`",
            f"`{f.tensor_scale}`" if f.tensor_scale else "none",
            f"{f.bits / f.size:.4g}",
            f"`{f.rule}`",
            f.source,
        ]
        for f in BLOCK_FORMATS.values()
    ]
    return table(["name", "elements", "block", "scale", "of the tensor", "bits an element", "rule", "source"], rows)


def block_points_table() -> str:
    """The open points of MX: the code of the scale and of the first element."""
    columns = (TORCHAO, MICROXCALING, PTX)

    def shown(given: tuple[int, int | None] | None) -> str:
        if given is None:
            return "–"
        scale, element = given
        return f"0x{scale:02X}" + ("" if element is None else f", 0x{element:02X}")

    rows = [
        [f"`{p.identifier}`: {p.question}", p.specification, *(shown(p.others.get(c)) for c in columns),
         f"{shown(p.given)}: {p.ours}"]
        for p in BLOCK_POINTS
    ]  # fmt: skip
    return table(["case", "OCP MX 1.0", *columns, "minihlo"], rows)


def ops_table() -> str:
    rows = (
        [_link(o), describe(o.types), o.accuracy.text, o.summary]
        for o in sorted(ops().values(), key=lambda o: (not o.name.startswith("stablehlo."), o.name))
    )
    return table(["op", "element types", "results", "meaning"], rows)


def _link(o: Op) -> str:
    """The name of an op, linked to its section of the specification."""
    name = f"`{o.name.removeprefix('stablehlo.')}`"
    return name if o.specification is None else f"[{name}]({o.specification})"


def accuracy_table() -> str:
    """Each kind of accuracy with the operations that have it, a few of them by name."""
    names: dict[str, list[str]] = {}
    for o in sorted(ops().values(), key=lambda o: (not o.name.startswith("stablehlo."), o.name)):
        names.setdefault(o.accuracy.text, []).append(f"`{o.name.removeprefix('stablehlo.')}`")
    counts = Counter({text: len(result) for text, result in names.items()})
    rows = (
        [text, str(count), ", ".join(names[text][:4]) + ", …" * (count > 4)] for text, count in counts.most_common()
    )
    return table(["results", "operations", "such as"], rows)


def open_points_table() -> str:
    def code(value: int | None) -> str:
        return "" if value is None else f"0x{value:02X}"

    rows = (
        [
            p.question,
            ", ".join(f"`{f}`" for f in p.formats),
            p.ours,
            code(p.code),
            *(code(p.others.get(who)) for who in (ML_DTYPES, XLA, ONNX)),
        ]
        for p in OPEN_POINTS
    )
    return table(["what is left open", "formats", "minihlo gives", "code", ML_DTYPES, XLA, ONNX], rows)


def backends_table() -> str:
    """Every kind of backends, by the first sentence of its file."""
    kinds = {**backends.kinds(), "python": backends.python.KIND}
    own = _sentence(importlib.import_module(f"{backends.__name__}.own"))
    rows = [["`minihlo`, `minihlo:upcast`", "programs", "", own]]
    for name, kind in kinds.items():
        meaning = _sentence(importlib.import_module(f"{backends.__name__}.{name}"))
        rows.append([f"`{kind.names}`", kind.takes or "either", f"`{kind.extra}`" if kind.extra else "", meaning])
    return table(["name", "takes", "extra", "meaning"], rows)


def extras_table() -> str:
    """The optional dependencies, each by the comment before it in pyproject.toml."""
    text = (ROOT / "pyproject.toml").read_text()
    section = text.partition("[project.optional-dependencies]\n")[2].partition("\n[")[0]
    extras = tomllib.loads(text)["project"]["optional-dependencies"]
    rows, meaning = [], ""
    for line in section.splitlines():
        if line.startswith("# "):
            meaning = line[2:].rstrip(".")
        elif (name := line.partition(" = ")[0]) in extras:
            packages = ", ".join(f"`{re.split('[<>=]', p)[0]}`" for p in extras[name])
            rows.append([f"`{name}`", meaning, packages])
    return table(["extra", "for", "installs"], rows)


def optimizations_table() -> str:
    """Each optimization that can be turned off, by its line in the docstring of Settings."""
    rows = re.findall(r"^ *(\w+): (.*)$", inspect.getdoc(settings.Settings) or "", re.MULTILINE)
    return table(["name", "meaning"], ([f"`{name}`", meaning] for name, meaning in rows if name in settings.NAMES))


def command_line() -> str:
    """Every command with its options, from the parser itself."""
    parser = cli.command_parser()
    (commands,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    return "\n\n".join(_command(name, command) for name, command in commands.choices.items())


def _command(name: str, parser: argparse.ArgumentParser) -> str:
    parts = [f"## minihlo {name}", parser.description or ""]
    actions = [a for a in parser._actions if not isinstance(a, argparse._HelpAction)]
    positional = " ".join(_positional(a) for a in actions if not a.option_strings)
    parts.append(f"```text\nminihlo {name} [options] {positional}\n```".replace("[options] \n", "[options]\n"))
    rows = []
    for a in actions:
        spelled = ", ".join(_option(o, a) for o in a.option_strings) if a.option_strings else f"`{a.metavar}`"
        meaning = _escape((a.help or "") % {"default": a.default})
        if a.choices is not None:
            meaning += "; one of " + ", ".join(f"`{c}`" for c in a.choices)
        rows.append([spelled, meaning])
    parts.append(table(["argument", "meaning"], rows))
    for paragraph in (parser.epilog or "").strip().split("\n\n"):
        if paragraph:
            parts.append(_escape(" ".join(paragraph.split())))
    return "\n\n".join(parts)


def _positional(action: argparse.Action) -> str:
    name = str(action.metavar)
    return {"?": f"[{name}]", "*": f"[{name} ...]", "+": f"{name} [{name} ...]"}.get(str(action.nargs), name)


def _option(option: str, action: argparse.Action) -> str:
    if action.nargs == 0:
        return f"`{option}`"
    value = action.metavar or ("VALUE" if action.choices is not None else action.dest.upper())
    return f"`{option} {value}`"


def _escape(text: str) -> str:
    """Text in which nothing is Markdown or HTML."""
    return re.sub(r"([*\[\]_])", r"\\\1", escape(text, quote=False))


def _sentence(module: object) -> str:
    """The first sentence of a docstring, without the full stop."""
    first = (inspect.getdoc(module) or "").partition("\n\n")[0]
    return " ".join(first.split()).rstrip(".")


TABLES: dict[str, Callable[[], str]] = {
    "formats": formats_table,
    "block formats": block_formats_table,
    "block points": block_points_table,
    "ops": ops_table,
    "accuracy": accuracy_table,
    "open points": open_points_table,
    "backends": backends_table,
    "extras": extras_table,
    "optimizations": optimizations_table,
    "command line": command_line,
    **page.SECTIONS,
}
