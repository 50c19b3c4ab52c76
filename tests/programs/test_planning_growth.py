"""The work of planning grows as the program does, counted in calls, not in time."""

import sys
from collections.abc import Callable

import pytest

from minihlo import interp


def optimizer(count: int) -> str:
    """A step of an optimizer with so many parameters, all of whose results are returned together."""
    types = ", ".join(["tensor<8x8xf32>"] * (2 * count))
    arguments = ", ".join(f"%p{i}: tensor<8x8xf32>, %g{i}: tensor<8x8xf32>" for i in range(count))
    lines = [
        f"""%a{i} = stablehlo.multiply %p{i}, %g{i} : tensor<8x8xf32>
        %b{i} = stablehlo.add %a{i}, %g{i} : tensor<8x8xf32>
        %c{i} = stablehlo.subtract %b{i}, %p{i} : tensor<8x8xf32>"""
        for i in range(count)
    ]
    results = ", ".join(f"%b{i}, %c{i}" for i in range(count))
    body = "\n".join(lines)
    return f"func.func @main({arguments}) -> ({types}) {{\n{body}\nreturn {results} : {types}\n}}"


def chain_of_calls(count: int) -> str:
    functions = [
        f"""func.func private @f{i}(%x: tensor<8xf32>) -> tensor<8xf32> {{
          %a = stablehlo.add %x, %x : tensor<8xf32>
          %r = call @f{i + 1}(%a) : (tensor<8xf32>) -> tensor<8xf32>
          return %r : tensor<8xf32>
        }}"""
        for i in range(count)
    ]
    return f"""func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {{
      %r = call @f0(%x) : (tensor<8xf32>) -> tensor<8xf32>
      return %r : tensor<8xf32>
    }}
    {"".join(functions)}
    func.func private @f{count}(%x: tensor<8xf32>) -> tensor<8xf32> {{ return %x : tensor<8xf32> }}"""


def nested(depth: int) -> str:
    """Branches within branches."""
    lines, ends = [], []
    for d in range(depth):
        lines.append(f'%r{d} = "stablehlo.if"(%c) ({{')
        ends.append(f"""stablehlo.return %r{d + 1} : tensor<8xf32>
        }}, {{
          %n{d} = stablehlo.negate %x : tensor<8xf32>
          stablehlo.return %n{d} : tensor<8xf32>
        }}) : (tensor<i1>) -> tensor<8xf32>""")
    body = "\n".join([*lines, f"%r{depth} = stablehlo.add %x, %x : tensor<8xf32>", *reversed(ends)])
    head = "func.func @main(%x: tensor<8xf32>, %c: tensor<i1>) -> tensor<8xf32>"
    return f"{head} {{\n{body}\nreturn %r0 : tensor<8xf32>\n}}"


def calls_to_plan(text: str) -> int:
    """How many Python functions planning a program calls."""
    program = interp.load(text)
    count = 0

    def note(_: object, event: str, __: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        program.plan()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize(("program", "size"), [(optimizer, 30), (chain_of_calls, 150)])
def test_work_is_linear_in_size(program: Callable[[int], str], size: int) -> None:
    calls_to_plan(program(5))
    small, large = (calls_to_plan(program(n)) for n in (size, 4 * size))
    assert large < 5 * small


def test_work_is_linear_in_nesting() -> None:
    calls_to_plan(nested(2))
    small, large = (calls_to_plan(nested(n)) for n in (8, 16))
    assert large < 2.8 * small
