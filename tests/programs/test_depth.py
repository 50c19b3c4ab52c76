"""Programs that nest deeply: long chains of calls, regions within regions, calls without an end."""

import itertools
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from minihlo.interp import load
from minihlo.interp.errors import ExecutionError, ProgramError
from minihlo.interp.planner import plan
from minihlo.interp.settings import Settings
from minihlo.interp.system import depth

from ..processes import run_minihlo
from ..thinned import thinned

T = "tensor<2xi32>"


def chain(length: int, how: str) -> str:
    """@main calls @f0, which calls @f1, … Each adds 1, so that the result tells how many were run."""
    calls = {
        "call": f"%2 = func.call @f{{}}(%1) : ({T}) -> {T}",
        "composite": f'%2 = stablehlo.composite "a.b" %1 {{{{decomposition = @f{{}}}}}} : ({T}) -> {T}',
        "if": f'%2 = "stablehlo.if"(%c) ({{{{ %3 = func.call @f{{}}(%1) : ({T}) -> {T} stablehlo.return %3 : {T} }}}}, '
        f"{{{{ stablehlo.return %1 : {T} }}}}) : (tensor<i1>) -> {T}",
    }
    functions = [f"func.func @main(%x: {T}) -> {T} {{ %0 = func.call @f0(%x) : ({T}) -> {T} return %0 : {T} }}"]
    for i in range(length):
        call = calls[how].format(i + 1) if i < length - 1 else f"%2 = stablehlo.abs %1 : {T}"
        functions.append(
            f"func.func private @f{i}(%x: {T}) -> {T} {{\n  %0 = stablehlo.constant dense<1> : {T}\n"
            f"  %c = stablehlo.constant dense<true> : tensor<i1>\n"
            f"  %1 = stablehlo.add %x, %0 : {T}\n  {call}\n  return %2 : {T}\n}}"
        )
    return "\n".join(functions)


def nested(levels: int, kind: str) -> str:
    """Regions within each other, each of which adds 1."""
    heads = {
        "generic if": '%r{0} = "stablehlo.if"(%c) ({{',
        "case": '%r{0} = "stablehlo.case"(%i) ({{',
        "while": f"%r{{0}} = stablehlo.while(%a{{0}} = %one) : {T} cond "
        "{{\n  stablehlo.return %no : tensor<i1>\n}} do {{",
    }
    tails = {
        "generic if": f"}}}}, {{{{\n  stablehlo.return %one : {T}\n}}}}) : (tensor<i1>) -> {T}",
        "case": f"}}}}) : (tensor<i32>) -> {T}",
        "while": "}}",
    }
    lines = [
        f"func.func @main(%one: {T}) -> {T} {{",
        "%c = stablehlo.constant dense<true> : tensor<i1>",
        "%no = stablehlo.constant dense<false> : tensor<i1>",
        "%i = stablehlo.constant dense<0> : tensor<i32>",
    ]
    lines += [heads[kind].format(i) for i in range(levels)]
    lines.append(f"stablehlo.return %one : {T}")
    for i in reversed(range(levels)):
        lines.append(tails[kind].format())
        if i:
            lines += [f"%s{i} = stablehlo.add %r{i}, %one : {T}", f"stablehlo.return %s{i} : {T}"]
    return "\n".join([*lines, f"return %r0 : {T}\n}}"])


ONE = np.array([1, 2], np.int32)


@pytest.mark.parametrize("how", ["call", "composite", "if"])
def test_a_long_chain_of_calls(how: str) -> None:
    length = 1500 if how == "call" else 700 if how == "composite" else 150
    limit = sys.getrecursionlimit()
    program = load(chain(length, how))
    assert program(ONE)[0].tolist() == [1 + length, 2 + length]
    assert sys.getrecursionlimit() == limit


@pytest.mark.parametrize("how", thinned(["call", "if"], lambda how: how == "call"))
def test_a_long_chain_that_is_not_inlined(how: str) -> None:
    program = load(chain(700, how))
    seen = []
    watched = program.plan(listener=lambda operation, *_: seen.append(operation.name))
    assert program.run(watched, [ONE])[0].tolist() == [701, 702]
    assert seen.count("stablehlo.add") == 700
    bare = plan(program.program, settings=Settings(tables=False))
    assert program.run(bare, [ONE])[0].tolist() == [701, 702]


def test_a_chain_that_is_too_long_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(depth, "FRAMES", 1000)
    program = load(chain(2500, "call"))
    watched = program.plan(listener=lambda *_: None)
    with pytest.raises(ExecutionError, match=r"^<string>:\d+:\d+: func.call: \d+ calls are nested here"):
        program.run(watched, [ONE])


@pytest.mark.parametrize(
    ("kind", "levels"),
    thinned(
        itertools.product(("generic if", "case", "while"), (30, 200)),
        lambda kind, levels: levels == 30 or kind == "generic if",
    ),
)
def test_regions_within_regions(kind: str, levels: int) -> None:
    program = load(nested(levels, kind))
    wanted = [levels, 2 * levels] if kind != "while" else [1, 2]
    assert program(ONE)[0].tolist() == wanted
    assert program.run(program.plan(listener=lambda *_: None), [ONE])[0].tolist() == wanted


def test_in_a_thread_too() -> None:
    results = []

    def work() -> None:
        results.append(load(nested(100, "generic if"))(ONE)[0].tolist())
        results.append(load(chain(500, "call"))(ONE)[0].tolist())

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert sorted(results) == [[100, 200]] * 2 + [[501, 502]] * 2


@pytest.mark.parametrize(
    "text",
    [nested(600, "generic if"), f'func.func @main() {{ "a.b"() {{x = {"[" * 2000}{"]" * 2000}}} : () -> () return }}'],
)
def test_brackets_beyond_the_limit_have_a_place(text: str) -> None:
    with pytest.raises(ProgramError, match=r"^<string>:\d+:\d+: expected at most 1000 nested brackets, got more"):
        load(text)


def calling(name: str, callee: str) -> str:
    return (
        f"func.func private @{name}(%x: {T}) -> {T} {{\n  %0 = func.call @{callee}(%x) : ({T}) -> {T}\n"
        f"  return %0 : {T}\n}}\n"
    )


RECURSIVE = {
    "itself": calling("g", "g"),
    "each other": calling("g", "h") + calling("h", "g"),
    "in a branch": f"""func.func private @g(%x: {T}) -> {T} {{
      %c = stablehlo.constant dense<true> : tensor<i1>
      %0 = "stablehlo.if"(%c) ({{
        %1 = func.call @g(%x) : ({T}) -> {T}
        stablehlo.return %1 : {T}
      }}, {{ stablehlo.return %x : {T} }}) : (tensor<i1>) -> {T}
      return %0 : {T}
    }}""",
}


@pytest.mark.parametrize("name", RECURSIVE)
def test_a_recursion_without_an_end_names_function_and_place(
    capfd: pytest.CaptureFixture[str], tmp_path: Path, name: str
) -> None:
    path = tmp_path / "loop.mlir"
    main = f"func.func @main(%x: {T}) -> {T} {{\n  %0 = func.call @g(%x) : ({T}) -> {T}\n  return %0 : {T}\n}}\n"
    path.write_text(main + RECURSIVE[name])
    assert run_minihlo("run", str(path), "--input", "2xi32=1") == 2
    _, err = capfd.readouterr()
    assert err.count("\n") == 1
    assert err.startswith(f"{path}:")
    assert "calls itself too deeply" in err
    assert "@g" in err or "@h" in err
    with pytest.raises(ExecutionError, match="calls itself too deeply"):
        load(path)(ONE)


def test_a_recursion_with_an_end() -> None:
    text = """func.func @main(%x: tensor<i32>) -> tensor<i32> {
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %c = stablehlo.compare GT, %x, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %r = "stablehlo.if"(%c) ({
        %y = stablehlo.subtract %x, %one : tensor<i32>
        %s = func.call @main(%y) : (tensor<i32>) -> tensor<i32>
        %t = stablehlo.add %s, %x : tensor<i32>
        stablehlo.return %t : tensor<i32>
      }, { stablehlo.return %zero : tensor<i32> }) : (tensor<i1>) -> tensor<i32>
      return %r : tensor<i32>
    }"""
    assert int(load(text)(np.int32(1000))[0]) == 500500


def test_calls_in_what_is_inlined_keep_their_values() -> None:
    """Results handed on as they came, returned twice, in other order, and from regions."""
    text = f"""
    func.func @main(%x: {T}, %y: {T}) -> ({T}, {T}, {T}) {{
      %a:2 = func.call @swap(%x, %y) : ({T}, {T}) -> ({T}, {T})
      %b:3 = func.call @twice(%a#0, %a#1) : ({T}, {T}) -> ({T}, {T}, {T})
      %c = stablehlo.constant dense<true> : tensor<i1>
      %d = "stablehlo.if"(%c) ({{
        %e:2 = func.call @swap(%b#0, %b#2) : ({T}, {T}) -> ({T}, {T})
        stablehlo.return %e#0 : {T}
      }}, {{ stablehlo.return %x : {T} }}) : (tensor<i1>) -> {T}
      return %b#0, %b#1, %d : {T}, {T}, {T}
    }}
    func.func private @swap(%p: {T}, %q: {T}) -> ({T}, {T}) {{ return %q, %p : {T}, {T} }}
    func.func private @twice(%p: {T}, %q: {T}) -> ({T}, {T}, {T}) {{
      %s = stablehlo.subtract %p, %q : {T}
      %t:2 = func.call @swap(%s, %p) : ({T}, {T}) -> ({T}, {T})
      return %t#1, %t#1, %t#0 : {T}, {T}, {T}
    }}"""
    x, y = np.array([1, 2], np.int32), np.array([10, 30], np.int32)
    program = load(text)
    for results in (program(x, y), program.run(program.plan(listener=lambda *_: None), [x, y])):
        assert [r.tolist() for r in results] == [[9, 28], [9, 28], [10, 30]]
