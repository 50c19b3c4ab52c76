"""Cases of collective computations, each on a grid of two processes that `interpreter.run_parallel` starts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from minihlo.ops.op import Op
from tests import oracle
from tests.oracle import FORMATS

from .catalog import cases, stem
from .chunk import Chunk, Value, body, tensor
from .elementwise import pairs_of
from .numbers import Codes, array, each, is_left_open, some_codes, spread
from .shape import MOVES

TOKEN = "!stablehlo.token"
_GROUPS = "replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>"


def _join(chunk: Chunk, element: str, op: str, inputs: Sequence[Codes], outputs: Sequence[Codes], attributes: str,
            region: str = "", every_bit: bool = True) -> None:  # fmt: skip
    """Two replicas run one op; each has its input and its output."""
    takes, gives = tensor(inputs[0].shape, element), tensor(outputs[0].shape, element)
    name = f"process_{len(chunk.functions)}_{element}"
    region = f" ({region})" if region else ""
    chunk.functions.append(
        f"func.func private @{name}(%x: {takes}) -> {gives} {{\n"
        f'  %r = "{op}"(%x){region} {{{attributes}}} : ({takes}) -> {gives}\n  return %r : {gives}\n}}'
    )
    operands = [chunk.constant(x, element) for x in inputs]
    results = [(y.shape, element) for y in outputs]
    programs = f"programs = [[@{name}], [@{name}]]"
    for value, codes in zip(
        chunk.apply_all("interpreter.run_parallel", operands, results, programs), outputs, strict=True
    ):
        chunk.expect(value, codes, every_bit)


def _two(element: str, *shape: int) -> list[Codes]:
    return [some_codes(element, *shape), some_codes(element, *shape, start=7)]


@cases("all_gather", "all_to_all", "collective_broadcast", "collective_permute")
def moved(op: Op, element: str) -> Iterator[Chunk]:
    chunk = Chunk(f"{stem(op.name)}_{element}", MOVES)
    x, y = _two(element, 2, 4)
    name = op.name.removeprefix("stablehlo.")
    if name == "all_gather":
        uses = [(np.concatenate([x, y], d),) * 2 + (f"all_gather_dim = {d} : i64, {_GROUPS}",) for d in (0, 1)]
    elif name == "all_to_all":
        parts = [np.split(v, 2, 1) for v in (x, y)]
        text = f"split_dimension = 1 : i64, concat_dimension = 0 : i64, split_count = 2 : i64, {_GROUPS}"
        uses = [(*(np.concatenate([p[i] for p in parts], 0) for i in range(2)), text)]
    elif name == "collective_broadcast":
        uses = [(y, y, _GROUPS.replace("0, 1", "1, 0"))]
    else:
        uses = [(y, x, "source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>")]
    for *outputs, text in uses:
        _join(chunk, element, op.name, [x, y], outputs, text)
    yield chunk


@cases("all_reduce", "reduce_scatter", "collective_reduce", "cross-replica-sum")
def reduced(op: Op, element: str) -> Iterator[Chunk]:
    chunk = Chunk(f"{stem(op.name)}_{element}", "Sums of two, so that there is one order but for the sides.")
    fmt = FORMATS[element]
    pairs = [
        p
        for p in pairs_of(element, "add")
        if not is_left_open(element, oracle.add(oracle.decode(fmt, p[0]), oracle.decode(fmt, p[1])))
    ]
    pairs = spread(pairs, len(pairs[:24]) // 2 * 2)
    x, y = (array(side) for side in zip(*pairs, strict=True))
    total = each(element, oracle.add, x, y)
    name, region = op.name.removeprefix("stablehlo."), body(element, "add").replace("\n", "\n  ")
    outputs, text = [total, total], _GROUPS
    if name == "reduce_scatter":
        outputs, text = np.split(total, 2), f"scatter_dimension = 0 : i64, {_GROUPS}"
    elif name == "collective_reduce":
        chunk.note("The first process has the sum, the other zeros.")
        outputs = [total, total * 0]
    elif name == "cross-replica-sum":
        region = ""
    if name == "collective_reduce" and not fmt.is_signed:
        x, y, outputs = array([], (0,)), array([], (0,)), [array([], (0,)), array([], (0,))]
        chunk.note("This format has no zero: a sum of nothing.")
    _join(chunk, element, op.name, [x, y], outputs, text, region, every_bit=False)
    yield chunk


# -- values that come and go -------------------------------------------------------------------------------------------


@cases("async_done")
def async_done(op: Op, element: str) -> Iterator[Chunk]:
    chunk = Chunk(f"{stem(op.name)}_{element}", "async_start begins an all_gather; its result is waited for.")
    x, y = _two(element, 6)
    t, whole = tensor((6,), element), tensor((12,), element)
    future = f"!stablehlo.future<{whole}>"
    chunk.functions.append(
        f"func.func private @process_{element}(%x: {t}) -> {whole} {{\n"
        f'  %f = "stablehlo.async_start"(%x) ({{\n  ^bb0(%a: {t}):\n'
        f'    %g = "stablehlo.all_gather"(%a) {{all_gather_dim = 0 : i64, {_GROUPS}}} : ({t}) -> {whole}\n'
        f"    stablehlo.return %g : {whole}\n  }}) : ({t}) -> {future}\n"
        f'  %r = "stablehlo.async_done"(%f) : ({future}) -> {whole}\n  return %r : {whole}\n}}'
    )
    operands = [chunk.constant(v, element) for v in (x, y)]
    programs = f"programs = [[@process_{element}], [@process_{element}]]"
    for value in chunk.apply_all("interpreter.run_parallel", operands, [((12,), element)] * 2, programs):
        chunk.expect(value, np.concatenate([x, y]), every_bit=True)
    yield chunk


@cases("recv")
def recv(op: Op, element: str) -> Iterator[Chunk]:
    chunk = Chunk(f"{stem(op.name)}_{element}", "What one process sends, the other receives. " + MOVES)
    codes = some_codes(element, 12)
    x, t = chunk.constant(codes, element), tensor((12,), element)
    for name, takes, gives, kind in (("send", f"{t}, {TOKEN}", TOKEN, 2), ("recv", TOKEN, f"{t}, {TOKEN}", 3)):
        heads = f"%x: {t}, %t: {TOKEN}" if name == "send" else f"%t: {TOKEN}"
        channel = f"channel_handle = #stablehlo.channel_handle<handle = 1, type = {kind}>, is_host_transfer = true"
        results = "%r" if name == "send" else "%r#0, %r#1"
        count, values = ("", "%x, %t") if name == "send" else (":2", "%t")
        shown = gives if name == "send" else f"({gives})"
        chunk.functions.append(
            f"func.func private @{name}_side_{element}({heads}) -> {shown} {{\n"
            f'  %r{count} = "stablehlo.{name}"({values}) {{{channel}}} : ({takes}) -> {shown}\n'
            f"  return {results} : {gives}\n}}"
        )
    chunk.line(f"%t = stablehlo.create_token : {TOKEN}")
    programs = f"programs = [[@send_side_{element}], [@recv_side_{element}]]"
    chunk.line(
        f'%r:3 = "interpreter.run_parallel"({x.name}, %t, %t) {{{programs}}} : '
        f"({t}, {TOKEN}, {TOKEN}) -> ({TOKEN}, {t}, {TOKEN})"
    )
    chunk.expect(Value("%r#1", (12,), element, t), codes, every_bit=True)
    yield chunk


@cases("infeed", "outfeed")
def feeds(op: Op, element: str) -> Iterator[Chunk]:
    is_in = op.name.endswith("infeed")
    what = "The values that a function feeds it, in order." if is_in else "Values leave the program, which goes on."
    chunk = Chunk(f"{stem(op.name)}_{element}", what)
    first, second = _two(element, 8)
    t = tensor((8,), element)
    if is_in:
        for i, codes in enumerate((first, second)):
            inner = Chunk(f"queue{i}_{element}")
            value = inner.constant(codes, element)
            text = inner.text.replace("func.func @", "func.func private @").replace("() {", f"() -> {t} {{")
            chunk.functions.append(text.replace("  return\n", f"  return {value.name} : {t}\n").rstrip())
        pair = f"({t}, {TOKEN})"
        chunk.functions.append(
            f"func.func private @process_{element}(%t: {TOKEN}) -> ({t}, {t}) {{\n"
            f'  %a:2 = "stablehlo.infeed"(%t) : ({TOKEN}) -> {pair}\n'
            f'  %b:2 = "stablehlo.infeed"(%a#1) : ({TOKEN}) -> {pair}\n  return %a#0, %b#0 : {t}, {t}\n}}'
        )
        feed = f"infeed = [@queue0_{element}, @queue1_{element}], "
        operands, gives = f"%t) {{{feed}programs = [[@process_{element}]]}} : ({TOKEN})", f"({t}, {t})"
    else:
        x = chunk.constant(first, element)
        chunk.functions.append(
            f"func.func private @process_{element}(%x: {t}, %t: {TOKEN}) -> ({t}, {TOKEN}) {{\n"
            f'  %r = "stablehlo.outfeed"(%x, %t) : ({t}, {TOKEN}) -> {TOKEN}\n  return %x, %r : {t}, {TOKEN}\n}}'
        )
        operands = f"{x.name}, %t) {{programs = [[@process_{element}]]}} : ({t}, {TOKEN})"
        gives = f"({t}, {TOKEN})"
    chunk.line(f"%t = stablehlo.create_token : {TOKEN}")
    chunk.line(f'%r:2 = "interpreter.run_parallel"({operands} -> {gives}')
    chunk.expect(Value("%r#0", (8,), element, t), first, every_bit=True)
    if is_in:
        chunk.expect(Value("%r#1", (8,), element, t), second, every_bit=True)
    yield chunk
