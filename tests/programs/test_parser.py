"""Programs as text, bytecode and portable artifacts; their places; and what is said of programs with errors."""

import io
import os
import subprocess
import sys

import numpy as np
import pytest
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from minihlo.interp.errors import ProgramError
from minihlo.interp.parse import parser, syntax
from minihlo.interp.parse.parser import from_module, parse, parse_attributes
from minihlo.interp.program import Operation, Program, Region
from minihlo.interp.testing.chunks import split
from minihlo.ops.types import ELEMENT_TYPES, FutureType, TensorType, element_type

SMALL = """\
module @jit_f attributes {mhlo.num_partitions = 1 : i32} {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%x: tensor<4xf8E4M3FN> {sdy.sharding = #sdy.sharding<@mesh, [{}]>})
      -> (tensor<4xf8E4M3FN> {jax.result_info = "r"}) {
    %0 = stablehlo.add %x, %x : tensor<4xf8E4M3FN>
    %1 = call @same(%0) : (tensor<4xf8E4M3FN>) -> tensor<4xf8E4M3FN>
    return %1 : tensor<4xf8E4M3FN>
  }
  func.func private @same(%x: tensor<4xf8E4M3FN>) -> tensor<4xf8E4M3FN> {
    return %x : tensor<4xf8E4M3FN>
  }
}
"""
VECTOR = TensorType((4,), ELEMENT_TYPES["f8E4M3FN"])


def body(program: Program, name: str = "main") -> Region:
    result = program.functions[name].body
    assert result is not None
    return result


def operations(text: str) -> list[Operation]:
    """The ops of a function around `text`."""
    return body(parse(f"func.func @main(%a: tensor<2xf32>, %b: tensor<2xf32>) {{\n{text}\nreturn\n}}")).operations


def message(source: str | bytes) -> str:
    """What is said of a program that cannot be read."""
    with pytest.raises(ProgramError) as caught:
        parse(source, "x.mlir", 11)
    text = str(caught.value)
    assert "\n" not in text
    return text


def module(text: str) -> ir.Module:
    return ir.Module.parse(text, parser.make_context())


def check_small(program: Program) -> None:
    main, same = program.functions.values()
    assert (main.name, main.is_public, same.name, same.is_public) == ("main", True, "same", False)
    assert main.argument_types == main.result_types == (VECTOR,)
    add, call = body(program).operations
    (argument,) = body(program).arguments
    assert (add.name, add.operands, add.results[0].type) == ("stablehlo.add", (argument, argument), VECTOR)
    assert (call.name, call.operands, call.attributes) == ("func.call", add.results, {"callee": "same"})
    assert body(program).returns == call.results
    assert body(program, "same").returns == body(program, "same").arguments
    assert program.attributes["sym_name"] == "jit_f"
    assert program.attributes["mhlo.num_partitions"] == 1
    assert main.attributes["res_attrs"] == ({"jax.result_info": "r"},)
    assert list(program.attributes["sdy.mesh"]) == ["mesh"]


def test_text() -> None:
    check_small(parse(SMALL))
    check_small(parse(SMALL.encode()))


def test_bytecode() -> None:
    stream = io.BytesIO()
    module(SMALL).operation.write_bytecode(stream)
    check_small(parse(stream.getvalue()))


def test_portable_artifact() -> None:
    text = SMALL.replace('sdy.mesh @mesh = <["x"=2]>', "").replace("{sdy.sharding = #sdy.sharding<@mesh, [{}]>}", "")
    artifact = stablehlo.serialize_portable_artifact(module(text), "1.8.0")
    add, _ = body(parse(artifact)).operations
    assert (add.name, add.results[0].type) == ("stablehlo.add", VECTOR)


def test_module_of_jaxlib() -> None:
    check_small(from_module(module(SMALL)))


def test_module_that_jax_lowers() -> None:
    jax = pytest.importorskip("jax")

    def f(x):
        return jax.lax.cond(x.sum() > 0, lambda v: v * np.complex64(2j), lambda v: v + 0j, x)

    lowered = jax.jit(f).lower(np.ones(4, np.float32)).compiler_ir()
    names = [op.name for op in body(from_module(lowered, "jax")).operations]
    assert "stablehlo.case" in names
    assert "stablehlo.reduce" in names
    again = parse(lowered.operation.get_asm(enable_debug_info=True), "text")
    assert [op.name for op in body(again).operations] == names
    assert body(again).operations[-1].location.file.endswith("test_parser.py")


def test_places_count_from_the_first_line_given() -> None:
    program = parse(
        "\nfunc.func @main(%a: tensor<f32>) {\n  %0 = stablehlo.abs %a : tensor<f32>\n  return }", "f.mlir", 10
    )
    assert str(program.functions["main"].location) == "f.mlir:11:1"
    assert str(body(program).operations[0].location) == "f.mlir:12:8"


def test_a_place_that_the_program_states_wins() -> None:
    ops = operations(
        '"a.b"() : () -> () loc("model.py":3:5)\n'
        '"a.b"() : () -> () loc("name"(callsite("in.py":7:1 at "out.py":8:2)))\n'
        '"a.b"() : () -> () loc(fused[unknown, "model.py":4:6])\n'
        '"a.b"() : () -> () loc(unknown)'
    )
    assert [str(op.location) for op in ops] == ["model.py:3:5", "in.py:7:1", "model.py:4:6", "<string>"]


def test_regions_share_values_with_their_surroundings() -> None:
    (op,) = operations(
        '"a.b"(%a) ({ ^bb0(%c: tensor<f32>): %0 = stablehlo.add %a, %b : tensor<2xf32>\n'
        "stablehlo.return %c, %0 : tensor<f32>, tensor<2xf32> }, { }) : (tensor<2xf32>) -> ()"
    )
    region, empty = op.regions
    assert region.operations[0].operands[0] is op.operands[0]
    assert region.returns == (region.arguments[0], region.operations[0].results[0])
    assert (empty.arguments, empty.operations, empty.returns) == ((), [], ())


def test_regions_may_nest_some_way() -> None:
    depth = 90
    (op,) = operations('"a.b"() ({ ' * depth + '"c.d"() : () -> ()' + " }) : () -> ()" * depth)
    for _ in range(depth):
        (op,) = op.regions[0].operations
    assert op.name == "c.d"


def test_a_declaration_has_no_body() -> None:
    declared = parse("func.func private @f(tensor<?xf32>) -> tensor<2xi1>").functions["f"]
    assert declared.body is None
    assert [str(t) for t in declared.argument_types + declared.result_types] == ["tensor<?xf32>", "tensor<2xi1>"]


def test_unknown_ops_are_read_by_their_names() -> None:
    (op,) = operations('%0 = "other.op"(%a) {n = 1} : (tensor<2xf32>) -> tensor<2xf32>')
    assert (op.name, op.attributes, len(op.operands), len(op.results)) == ("other.op", {"n": 1}, 1, 1)


def test_ops_of_later_versions_of_stablehlo() -> None:
    (op,) = operations(
        '%0 = "stablehlo.of_the_future"(%a) <{n = 1,\n s = "stablehlo.of_the_future"}>\n'
        '({ "stablehlo.return"(%b) : (tensor<2xf32>) -> () }) {m = 2} : (tensor<2xf32>) -> tensor<2xf32>'
    )
    assert op.name == "stablehlo.of_the_future"
    assert op.attributes == {"n": 1, "m": 2, "s": "stablehlo.of_the_future"}
    assert op.regions[0].returns != ()
    assert operations('"stablehlo.of_the_future"() <{}> {m = 2} : () -> ()')[0].attributes == {"m": 2}
    assert operations('"stablehlo.of_the_future"() <{m = 2}> {} : () -> ()')[0].attributes == {"m": 2}
    _, op = operations(
        '%r = "other.root"() : () -> tensor<1xi32>\n%0 = "stablehlo.collective_broadcast"(%a, %r)'
        " {has_dynamic_root, replica_groups = dense<0> : tensor<1x1xi64>}"
        " : (tensor<2xf32>, tensor<1xi32>) -> tensor<2xf32>"
    )
    assert (op.name, len(op.operands)) == ("stablehlo.collective_broadcast", 2)
    assert op.attributes["has_dynamic_root"] is True


def test_types_of_later_versions_of_stablehlo() -> None:
    text = """func.func @f(%a: !stablehlo.future<tensor<2xf8E5M2>>) attributes {s = "!stablehlo.future"} {
      func.return  // !stablehlo.future
    }"""
    marked = syntax.rename_type(text, "!stablehlo.future")
    assert marked == text.replace("a: !", "a: !newer.")
    expected = FutureType((TensorType((2,), element_type("f8E5M2")),))
    for source in (text, marked):  # whether this jaxlib knows the type or not
        function = parser.parse(source).functions["f"]
        assert function.argument_types == (expected,)
        assert function.attributes["s"] == "!stablehlo.future"


CHECKS = """\
check.expect_eq %a, %b : tensor<2xf32>
check.expect_almost_eq %a, // : {
  %b, tolerance = 0.5 : tensor<2xf32>
check.expect_eq_const %a, dense<[1.0, // one
  2.0]> : tensor<2xf32>
check.expect_almost_eq_const %a, dense<1.0> : tensor<2xf32> {tolerance = 0.5 : f64}
check.expect_close %a, %b,  max_ulp_difference = 18446744073709551615, min_ulp_difference = 2
  : tensor<2xf32>, tensor<2xf32>
check.expect_serialized_eq %a, probe_id = "check.expect_eq : {", iter = 3 : tensor<2xf32>
"check.expect_eq_const"(%a) <{value = dense<1.0> : tensor<2xf32>}> {note = "x"} : (tensor<2xf32>) -> ()
// check.expect_eq %a
"last.op"() {s = "check.expect_eq %a, %b : T"} : () -> ()
"""


def test_check_ops_are_read_in_their_own_form() -> None:
    ops = operations(CHECKS)
    assert [(op.name, len(op.operands), op.location.line) for op in ops] == [
        ("check.expect_eq", 2, 2),
        ("check.expect_almost_eq", 2, 3),
        ("check.expect_eq_const", 1, 5),
        ("check.expect_almost_eq_const", 1, 7),
        ("check.expect_close", 2, 8),
        ("check.expect_serialized_eq", 1, 10),
        ("check.expect_eq_const", 1, 11),
        ("last.op", 0, 13),
    ]
    eq, almost, const, almost_const, close, serialized, generic, last = (op.attributes for op in ops)
    assert eq == {}
    assert almost == {"tolerance": 0.5}
    assert const["value"].tolist() == [1, 2]
    assert almost_const.pop("value").tolist() == [1, 1]
    assert almost_const == {"tolerance": 0.5}
    assert close == {"max_ulp_difference": 2**64 - 1, "min_ulp_difference": 2}
    assert serialized == {"probe_id": "check.expect_eq : {", "iter": 3}
    assert generic.pop("value").tolist() == [1, 1]
    assert generic == {"note": "x"}
    assert last == {"s": "check.expect_eq %a, %b : T"}


def test_interpreter_ops() -> None:
    probe, run = operations(
        '%0 = interpreter.probe %a, probe_id = "p" : tensor<2xf32>\n'
        '"interpreter.run_parallel"(%a, %b) {programs = [[@main]]} : (tensor<2xf32>, tensor<2xf32>) -> ()'
    )
    assert (probe.name, probe.attributes) == ("interpreter.probe", {"probe_id": "p"})
    assert run.attributes == {"programs": (("main",),)}


def test_split() -> None:
    assert split("a\n// -----\nb\n\n// -----\nc") == [("a\n", 1), ("\nb\n\n", 2), ("\nc", 5)]
    assert split("a") == [("a", 1)]
    assert split("a // ------ \nb") == [("a ", 1), (" \nb", 1)]


def test_attributes_of_the_command_line() -> None:
    text = "[dense<1.0> : tensor<2xf8E4M3FN>, dense<[1, 2]> : tensor<2xi32>, dense<(1.0, 2.0)> : tensor<complex<f32>>]"
    (a, a_type), (b, b_type), (c, c_type) = parse_attributes(text)
    assert a.copy().view("u1").tolist() == [0x38, 0x38]
    assert [str(t) for t in (a_type, b_type, c_type)] == ["tensor<2xf8E4M3FN>", "tensor<2xi32>", "tensor<complex<f32>>"]
    assert (b.tolist(), c.tolist()) == ([1, 2], 1 + 2j)
    assert parse_attributes(" [ ] ") == []


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("dense<1> : tensor<i32>", "<arguments>: expected a list of constants"),
        ("[dense<1> : tensor<i32>, 1]", "<arguments>: argument 1: expected a dense constant"),
        ("[dense<1.0> : tensor<i32>]", "<arguments>: argument 0: expected integer elements"),
        ('[dense<1> : tensor<i32>} : () -> () "a.b"() {value = 1]', "<arguments>: argument 0: "),
        ("[,]", "<arguments>: argument 0: "),
    ],
)
def test_errors_in_attributes_of_the_command_line(text: str, error: str) -> None:
    with pytest.raises(ProgramError) as caught:
        parse_attributes(text)
    assert str(caught.value).startswith(error)


ADD = "func.func @f(%a: tensor<4xf32>, %b: tensor<3xf32>) {\n  "


@pytest.mark.parametrize(
    ("source", "error"),
    [
        ("func.func @f() {", "x.mlir:11:15: expected operation name in quotes"),
        (ADD + "%0 = stablehlo.add %a, %c : tensor<4xf32> return }", "x.mlir:12:26: use of undeclared SSA value name"),
        (
            ADD + "%0 = stablehlo.add %a, %b : tensor<4xf32> return }",
            "x.mlir:12:26: use of value '%b' expects different type than prior uses: "
            "'tensor<4xf32>' vs 'tensor<3xf32>' (prior use here: x.mlir:11:33)",
        ),
        (
            ADD + '%0 = "stablehlo.add"(%a, %a) : (tensor<4xf32>, tensor<4xf32>) -> tensor<3xf32> return }',
            "x.mlir:12:8: stablehlo.add: requires the same shape for all operands and results",
        ),
        (ADD + "other.op %a return }", "x.mlir:12:3: other.op: unknown op (an op of another dialect"),
        (ADD + "stablehlo.ad %a return }", "x.mlir:12:3: stablehlo.ad: unknown op"),
        (ADD + "check.expect_eq %a return }", "x.mlir:12:3: check.expect_eq: expected a form such as"),
        (ADD + "call @g() : () -> () return }", "x.mlir:12:3: func.call: 'g' does not reference a valid function"),
        ("func.func @f() {return}\nfunc.func @f() {return}", "x.mlir:12:1: redefinition of symbol named 'f' ("),
        (
            'func.func @f() { "a.b"()[^bb1] : () -> ()\n ^bb1: return }',
            "x.mlir:11:18: a.b: expected cf.br, cf.cond_br,",
        ),
        ('"a.b"() : () -> ()', "x.mlir:11:1: a.b: an op outside a function is not supported"),
        (
            'func.func @f() { "a.b"() ({ "c.d"(%x) : (tensor<f32>) -> ()\n'
            ' %x = "e.f"() : () -> tensor<f32> }) : () -> () return }',
            "x.mlir:11:29: c.d: expected operands that are defined before",
        ),
        (
            "func.func @f(%a: tensor<2x!quant.uniform<i3:f32, 0.5:3>>) { return }",
            "x.mlir:11:1: func.func: type !quant.uniform<i3:f32, 5.000000e-01:3> is not supported: expected",
        ),
        ("func.func @f(%a: tensor<?xf32, 7 : i32>) { return }", "x.mlir:11:1: func.func: type tensor<?xf32, 7"),
        (
            "func.func @f() { %0 = stablehlo.constant dense<0.0> : tensor<9223372036854775807x2xf32> return }",
            "x.mlir:11:23: stablehlo.constant: constant of type tensor<9223372036854775807x2xf32>: ",
        ),
        ('func.func @f() { "a.\\FF"() : () -> () return }', 'x.mlir:11:18: expected a name in UTF-8, got "a.\\FF"'),
        (
            "func.func @f() {}\0",
            "x.mlir: expected MLIR (text, bytecode, a portable artifact), a file of jax.export, or HLO, got a",
        ),
        ("\ud800", "x.mlir: expected valid Unicode"),
        (b"\nfunc\xff", "x.mlir:12:5: expected UTF-8 (a program is MLIR (text"),
        (b"ML\xefR\x0dStableHLO_v1.0.0\x00", "x.mlir: not valid MLIR bytecode: "),
        (b"ML\xefR\x0dMLIR\x00\x01", "x.mlir: not valid MLIR bytecode: "),
        ('"a"() {c = #stablehlo.conv<[b, 0, f]x[o, i, 0]->[4294967296, b, f]>} : () -> ()', "x.mlir: not valid MLIR: "),
        (
            "func.func @f() {\n%0 = stablehlo.constant dense<(1., 2.)> : tensor<2xbf16>",
            "x.mlir:12:25: expected a complex",
        ),
        ('"chlo.a"() {broadcast_dimensions = array<i64: 0, -1>}', "x.mlir:11:13: expected broadcast_dimensions of at"),
        ("(" * 1001, "x.mlir:11:1001: expected at most 1000 nested brackets, got more"),
    ],
)
def test_errors_are_one_line_with_their_place(
    source: str | bytes, error: str, capfd: pytest.CaptureFixture[str]
) -> None:
    assert message(source).startswith(error)
    assert capfd.readouterr().err == ""


def test_brackets_in_strings_and_comments_do_not_nest() -> None:
    (op,) = operations(f'"a.b"() {{s = "{"(" * 300}"}} : () -> () // {"(" * 300}')
    assert op.attributes == {"s": "(" * 300}


def test_an_empty_program_has_no_functions() -> None:
    assert parse("// nothing\n").functions == {}


def test_it_is_imported_without_jax() -> None:
    code = (
        "import sys; from minihlo.interp.parse.parser import parse\n"
        "parse('func.func @f() { return }'); print('jax' in sys.modules)"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == f"False{os.linesep}"
