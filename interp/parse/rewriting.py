"""Changes of MLIR for which jaxlib has no pass: operations of MHLO that XLA's optimizer makes become StableHLO's."""

from __future__ import annotations

import contextlib
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

from jaxlib.mlir import ir


def list_operations(root: ir.Operation, *prefixes: str) -> list[ir.Operation]:
    """Return an operation and all below it whose names begin with one of the prefixes, if there are any.

    `walk` hands out plain operations. Iterating over a block would make an instance of each op's own class, which
    imports those classes, and some of them fail on attributes that jaxlib cannot convert.
    """
    operations: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if not prefixes or op.name.startswith(prefixes):
            operations.append(op)
        return ir.WalkResult.ADVANCE

    root.walk(visit, ir.WalkOrder.PRE_ORDER)
    return operations


def replace_operands(op: ir.Operation, given: Mapping[ir.Value, ir.Value]) -> None:
    """Replace operands of an operation, in its regions too."""
    for inner in list_operations(op):
        for i, operand in enumerate(inner.operands):
            if operand in given:
                inner.operands[i] = given[operand]


def flatten_modules(module: ir.Module) -> ir.Module:
    """Return a module without modules in it: a copy in which their functions are `module::name`, or the name alone.

    Of functions of one name the innermost module around a call comes first.
    """
    if len(list_operations(module.operation, "builtin.module")) == 1:
        return module
    text: Any = module.operation.get_asm(enable_debug_info=True, print_generic_op_form=True)
    result = ir.Module.parse(text, module.context)
    top, operations = result.operation, list_operations(result.operation)
    paths: dict[ir.Operation, tuple[str, ...]] = {top: ()}
    places = Counter[ir.Operation]()  # of the next operation in each module
    moved: list[tuple[tuple[str, ...], ir.Operation]] = []
    given: list[ir.NamedAttribute] = []  # of modules within; an operation with other attributes is another key
    for op in operations[1:]:
        around: Any = op.parent
        if around not in paths:
            continue
        path, place = paths[around], places[around]
        places[around] += 1
        if op.name == "builtin.module":
            paths[op] = (*path, symbol_of(op) or f"module{place}")
            given += [op.attributes[i] for i in range(len(op.attributes)) if op.attributes[i].name != "sym_name"]
        else:
            moved.append((path, op))
    functions = [(path, symbol_of(op)) for path, op in moved if op.name == "func.func"]
    counts = Counter(name for _, name in functions)
    names = {(*path, name): name if counts[name] == 1 else "::".join((*path, name)) for path, name in functions}
    declared = set[str]()  # meshes, of which the first of a name is that of all
    old = [op for op in operations[1:] if op.parent == top]
    with result.context, ir.Location.unknown(), ir.InsertionPoint(result.body):
        for path, op in moved:
            name = symbol_of(op)
            if op.name != "func.func" and name in declared:
                continue
            clone: Any = op.clone()
            if op.name != "func.func":
                declared.add(name)
                continue
            for inner in list_operations(clone):
                _rename_symbols(inner, path, names)
            clone.attributes["sym_name"] = ir.StringAttr.get(names[(*path, name)])
    for op in old:
        op.erase()
    for attribute in given:
        if attribute.name not in top.attributes:
            top.attributes[attribute.name] = attribute.attr
    return result


def symbol_of(op: ir.Operation) -> str:
    """Return the name of a function or module; empty where it has none."""
    return op.attributes["sym_name"].value if "sym_name" in op.attributes else ""  # type: ignore[attr-defined]


def _rename_symbols(op: ir.Operation, path: tuple[str, ...], names: Mapping[tuple[str, ...], str]) -> None:
    """Rename what an operation refers to, in the module at a path."""

    def renamed(attribute: Any) -> ir.Attribute:
        text = str(attribute)
        if text.startswith("[@"):
            return ir.ArrayAttr.get([renamed(a) for a in attribute])
        parts = tuple(re.findall(r"@([\w$.-]+)", text)) if text.startswith("@") else ()
        known = ((*path[:i], *parts) for i in range(len(path), -1, -1))
        found = next((names[n] for n in known if n in names), None)
        return attribute if found is None else ir.FlatSymbolRefAttr.get(found)

    for key in [op.attributes[i].name for i in range(len(op.attributes))]:
        with contextlib.suppress(TypeError):  # of kinds that jaxlib does not hand out
            op.attributes[key] = renamed(op.attributes[key])


def lower_optimized(module: ir.Module) -> None:
    """Replace fusions by the operations in them, and bitcasts of elements of one width by transposes and reshapes."""
    for op in reversed(list_operations(module.operation, "mhlo.fusion")):  # those within others first
        block = op.regions[0].blocks[0]
        *body, end = [o for o in list_operations(op) if o.block == block]
        given = dict(zip(block.arguments, op.operands, strict=bool(len(block.arguments))))  # some capture operands
        with ir.InsertionPoint(op):
            for inner in body:
                clone: Any = inner.clone()
                replace_operands(clone, given)
                given.update(zip(inner.results, clone.results, strict=True))
        for result, value in zip(op.results, end.operands, strict=True):
            result.replace_all_uses_with(given.get(value, value))
        op.erase()
    for op in list_operations(module.operation, "mhlo.bitcast"):
        source, target = ir.RankedTensorType(op.operands[0].type), ir.RankedTensorType(op.results[0].type)
        widths = {getattr(t.element_type, "width", t.element_type) for t in (source, target)}
        if len(widths) == 1:
            with ir.InsertionPoint(op), op.location:
                op.results[0].replace_all_uses_with(_cast_layout(op, source, target))
            op.erase()


def _cast_layout(op: ir.Operation, source: ir.RankedTensorType, target: ir.RankedTensorType) -> ir.Value:
    """Return the elements in the order in which they lie in memory, read as another shape and memory layout.

    A memory layout lists dimensions from the one that changes fastest (XLA, Shapes and layout).
    """
    places = []
    for name, t in (("source_layout", source), ("result_layout", target)):
        layout: Any = op.attributes[name] if name in op.attributes else reversed(range(t.rank))
        places.append([int(d) for d in layout][::-1])
    value = _transpose(op.operands[0], places[0])
    shape = [target.shape[d] for d in places[1]]
    for name, element in (("reshape", source.element_type), ("bitcast_convert", target.element_type)):
        result = ir.RankedTensorType.get(shape, element)
        value = ir.Operation.create(f"stablehlo.{name}", [result], [value]).results[0]
    return _transpose(value, [places[1].index(d) for d in range(target.rank)])


def _transpose(value: ir.Value, order: list[int]) -> ir.Value:
    t = ir.RankedTensorType(value.type)
    result = ir.RankedTensorType.get([t.shape[d] for d in order], t.element_type)
    permutation: dict[str, ir.Attribute] = {"permutation": ir.DenseI64ArrayAttr.get(order)}
    return ir.Operation.create("stablehlo.transpose", [result], [value], permutation).results[0]
