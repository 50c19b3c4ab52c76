"""Programs that check themselves: a case as plain StableHLO, with its operands and the acceptable results as constants.

A program has no arguments and returns two i32: the number of wrong results, and the index of the first, or -1.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ...backends.programs import Builder, carrier, encode, tensor
from ...errors import InputError
from ...oracle.formats import code_dtype
from .. import files
from ..repeats import AnyPart
from ..run import Task
from ..tester import Tester
from ..verdicts.outcome import Settings
from .stores import empty_folder
from .targets import Target, has_targets, targets

SCHEMA = "minihlo.programs/1"
MANIFEST = "manifest.json"
#: The integer types in which floats are stored and compared.
_UNSIGNED = {"f32": "ui32"}
#: Greater than the index of any element.
_NOWHERE = (1 << 31) - 1


class _Program(Builder):
    """A program whose operands are constants that no compiler folds.

    Compilers fold with other arithmetic than they run with. So the operands come out of a loop that inverts all bits,
    twice; XLA removes a barrier before it folds, and keeps loops.
    """

    def __init__(self) -> None:
        super().__init__()
        self.results: list[tuple[str, str, tuple[int, ...]]] = []

    def _argument(self, codes: np.ndarray, element: str) -> str:
        kind = carrier(element)
        stored, values = _UNSIGNED.get(kind, kind), encode(codes, element)
        value = self._invert_twice(self._constant(values.view(code_dtype(stored)), stored), tensor(codes.shape, stored))
        if stored != kind:
            value = self._unary("bitcast_convert", value, stored, kind, codes.shape)
        return self._convert(value, kind, element, codes.shape)

    def _invert_twice(self, value: str, kind: str) -> str:
        start, one, two, name = self.number(0), self.number(1), self.number(2), self.name()
        i, x, j, y = (self.name() for _ in range(4))
        head = f"^bb0({i}: tensor<i32>, {x}: {kind}):"
        condition = f"{j} = stablehlo.compare LT, {i}, {two}, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>"
        body = f"{j} = stablehlo.add {i}, {one} : tensor<i32> {y} = stablehlo.not {x} : {kind}"
        self.lines.append(
            f'{name}:2 = "stablehlo.while"({start}, {value}) '
            f"({{ {head} {condition} stablehlo.return {j} : tensor<i1> }}, "
            f"{{ {head} {body} stablehlo.return {j}, {y} : tensor<i32>, {kind} }}) "
            f": (tensor<i32>, {kind}) -> (tensor<i32>, {kind})"
        )
        return f"{name}#1"

    def _constant(self, codes: np.ndarray, element: str) -> str:
        if codes.size:
            return super()._constant(codes, element)
        return self.op(f"stablehlo.constant dense<> : {tensor(codes.shape, element)}")

    def output(self, value: str, element: str, shape: Sequence[int]) -> None:
        """Keeps a value to be checked."""
        kind = carrier(element)
        self.results.append((self._convert(value, element, kind, shape), kind, tuple(shape)))

    def number(self, value: int, element: str = "i32") -> str:
        """A constant without dimensions."""
        return self.op(f"stablehlo.constant dense<{value}> : tensor<{element}>")


def program(part: AnyPart, ulp: int) -> str:
    """A part as a program that checks itself. `part` is one that `has_targets`."""
    builder = _Program()
    part.emit(builder)
    ((value, kind, shape),) = builder.results
    value, element, n = _flat(builder, value, kind, shape)
    count, first = "", ""
    for target in targets(part, ulp):
        wrong = _wrong(builder, value, element, n, target)
        pair = _count_wrong(builder, wrong, n)
        count, first = _fewer(builder, (count, first), pair) if count else pair
    zero, nowhere = builder.number(0), builder.number(-1)
    none = builder.op(f"stablehlo.compare EQ, {count}, {zero}, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>")
    first = builder.op(f"stablehlo.select {none}, {nowhere}, {first} : tensor<i1>, tensor<i32>")
    body = "\n  ".join([*builder.lines, f"return {count}, {first} : tensor<i32>, tensor<i32>"])
    return f"func.func @main() -> (tensor<i32>, tensor<i32>) {{\n  {body}\n}}\n"


def _flat(builder: _Program, value: str, kind: str, shape: tuple[int, ...]) -> tuple[str, str, int]:
    """A result as a vector of unsigned integers, with their type and number."""
    element = {"i1": "ui8", **_UNSIGNED}.get(kind, kind)
    n = int(np.prod(shape, dtype=np.int64))
    if element != kind:
        op = "convert" if kind == "i1" else "bitcast_convert"
        value = builder.op(f"stablehlo.{op} {value} : ({tensor(shape, kind)}) -> {tensor(shape, element)}")
    if shape != (n,):
        value = builder.op(f"stablehlo.reshape {value} : ({tensor(shape, element)}) -> {tensor((n,), element)}")
    return value, element, n


def _wrong(builder: _Program, value: str, element: str, n: int, target: Target) -> str:
    """Tests which results lie in no interval."""
    takes, gives = tensor((n,), element), tensor((n,), "i1")

    def compare(direction: str, bound: np.ndarray) -> str:
        constant = builder.constant(bound.astype(code_dtype(element)), element)
        text = f"stablehlo.compare {direction}, {value}, {constant}, UNSIGNED"
        return builder.op(f"{text} : ({takes}, {takes}) -> {gives}")

    (expected, _), *others = target
    right = compare("EQ", expected)
    for low, high in others:
        inside = builder.op(f"stablehlo.and {compare('GE', low)}, {compare('LE', high)} : {gives}")
        right = builder.op(f"stablehlo.or {right}, {inside} : {gives}")
    return builder.op(f"stablehlo.not {right} : {gives}")


def _count_wrong(builder: _Program, wrong: str, n: int) -> tuple[str, str]:
    """The number of wrong results, and the index of the first."""
    truth, whole = tensor((n,), "i1"), tensor((n,), "i32")
    ones = builder.op(f"stablehlo.convert {wrong} : ({truth}) -> {whole}")
    places = builder.op(f"stablehlo.iota dim = 0 : {whole}")
    nowhere = builder.op(f"stablehlo.constant dense<{_NOWHERE}> : {whole}")
    where = builder.op(f"stablehlo.select {wrong}, {places}, {nowhere} : {truth}, {whole}")

    def reduce(value: str, start: int, body: str) -> str:
        init = builder.number(start)
        text = f"stablehlo.reduce({value} init: {init}) applies stablehlo.{body} across dimensions = [0]"
        return builder.op(f"{text} : ({whole}, tensor<i32>) -> tensor<i32>")

    return reduce(ones, 0, "add"), reduce(where, _NOWHERE, "minimum")


def _fewer(builder: _Program, a: tuple[str, str], b: tuple[str, str]) -> tuple[str, str]:
    """The pair with fewer wrong results."""
    scalar = "tensor<i32>"
    less = builder.op(f"stablehlo.compare LT, {b[0]}, {a[0]}, SIGNED : ({scalar}, {scalar}) -> tensor<i1>")
    pairs = zip(a, b, strict=True)
    count, first = (builder.op(f"stablehlo.select {less}, {y}, {x} : tensor<i1>, {scalar}") for x, y in pairs)
    return count, first


# -- files -------------------------------------------------------------------------------------------------------------


def write(folder: Path, tasks: Sequence[Task], settings: Settings, version: str = "") -> tuple[int, int, int]:
    """Writes cases as programs that check themselves, and a manifest.

    Args:
        folder: empty, or not existing.
        tasks: the tasks of a run with a backend of programs.
        settings: for the level, the seed and the limit of ULP.
        version: of StableHLO, for portable artifacts; text if empty.

    Returns:
        the number of programs, the number of bytes, and the number of cases in a form that no list of codes can judge:
        sums, blocks, tests.

    Raises InputError for a version that jaxlib does not write, or that lacks types, and OutputError.
    """
    every = [s for t in tasks for s in t.specs]
    if version:
        _check_version(version, {t for s in every for t in (*s.case.operands, s.case.result)})
    tester = Tester(None, settings)
    empty_folder(folder)
    listed, left_out, size = [], set(), 0
    for spec in every:
        part = None if spec.case.op == "test" else tester.part(spec)
        if part is None or not has_targets(part):
            left_out.add((spec.case.signature, spec.form))
            continue
        text = program(part, settings.ulp)
        raw = artifact(text, version) if version else text.encode()
        number = f".{spec.part}" if spec.part else ""
        name = f"{spec.case.signature}.{spec.form}{number}.{'mlirbc' if version else 'mlir'}"
        files.write_bytes(folder / name, raw)
        size += len(raw)
        entry = {"file": name, "sha256": hashlib.sha256(raw).hexdigest(), "elements": part.size}
        listed.append(entry | {"signature": spec.case.signature, "form": spec.form, "part": spec.part})
    limits = {"level": settings.level, "seed": settings.seed, "ulp": settings.ulp}
    data = {
        "schema": SCHEMA,
        "stablehlo": version,
        **limits,
        "results": ["how many results are wrong (i32)", "the place of the first, -1 where none is (i32)"],
        "programs": listed,
        "left_out": [list(key) for key in sorted(left_out)],
    }
    files.write(folder / MANIFEST, json.dumps(data, indent=1, ensure_ascii=False) + "\n")
    return len(listed), size, len(left_out)


def artifact(text: str, version: str) -> bytes:
    """A program as a portable artifact. Raises InputError if a version of StableHLO lacks something it uses."""
    from jaxlib.mlir import ir
    from jaxlib.mlir.dialects import stablehlo

    from ...parse.parser import make_context

    messages: list[str] = []

    def collect(diagnostic: ir.DiagnosticInfo) -> bool:
        messages.append(str(diagnostic.message))
        return True

    with make_context() as context, ir.Location.unknown():
        context.attach_diagnostic_handler(collect)
        try:
            return stablehlo.serialize_portable_artifact(ir.Module.parse(text), version)
        except ValueError:
            raise InputError(messages[-1] if messages else "the program cannot be written") from None


def versions() -> tuple[str, str]:
    """The first and the last version of StableHLO in which jaxlib writes portable artifacts."""
    from jaxlib.mlir.dialects import stablehlo

    return stablehlo.get_minimum_version(), stablehlo.get_current_version()


def first_version(element: str) -> str:
    """The first version of StableHLO that has an element type."""
    first, last = versions()
    minor = int(last.split(".")[1])
    for version in (first, *(f"1.{i}.0" for i in range(minor + 1))):
        kind = tensor((), element)
        try:
            artifact(f"func.func @main(%a: {kind}) -> {kind} {{ return %a : {kind} }}", version)
            return version
        except InputError:
            continue
    raise InputError(f"no version of StableHLO up to {last} has {element}")


def _check_version(version: str, elements: set[str]) -> None:
    first, last = versions()
    words = version.split(".")
    if len(words) != 3 or not all(w.isdecimal() for w in words) or not _key(first) <= _key(version) <= _key(last):
        raise InputError(f"--stablehlo-version: expected a version from {first} to {last}, got {version}")
    later = {e: v for e in sorted(elements) if _key(v := first_version(e)) > _key(version)}
    if later:
        least = max(later.values(), key=_key)
        listed = ", ".join(f"{e} ({v})" for e, v in later.items())
        raise InputError(f"--stablehlo-version: expected {least} or later for {listed}, got {version}")


def _key(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
