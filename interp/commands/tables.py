"""`minihlo formats` and `minihlo ops`: tables made from the records of the formats and ops."""

from __future__ import annotations

import argparse
import inspect

import numpy as np

from ...ops.blocks.formats import BLOCK_FORMATS, BlockFormat
from ...ops.blocks.stablehlo import quantizer
from ...ops.close import hint
from ...ops.minifloat.formats import FORMATS, Format, Nan
from ...ops.op import EXACT, SPECIFICATION_VERSION, Op, describe, full_name
from ...ops.op import ops as all_ops
from ...ops.types import ELEMENT_TYPES
from ..errors import InputError
from ..values.printing import code_text, number_text, number_texts
from .terminal import print_table

#: Wider formats have too many codes to list.
_MOST_CODE_BITS = 16


def formats(options: argparse.Namespace) -> int:
    """Print the table of formats, or one format, or its codes. Raises InputError for a name that is not a format's."""
    if options.name is None:
        if options.codes:
            raise InputError("--codes: expected a format, as in minihlo formats f8E4M3FN --codes, got none")
        facts = [_facts(f) for f in FORMATS.values()]
        print_table(list(facts[0]), [list(f.values()) for f in facts])
        blocks = [_block_facts(f) for f in BLOCK_FORMATS.values()]
        print_table(list(blocks[0]), [list(f.values()) for f in blocks])
        return 0
    if options.name in BLOCK_FORMATS:
        return _block_format(BLOCK_FORMATS[options.name], options.codes)
    fmt = (FORMATS | {f.dtype_name: f for f in FORMATS.values() if f.has_dtype}).get(options.name)
    if fmt is None:
        known = (*FORMATS, *BLOCK_FORMATS)
        raise InputError(f"expected a format, got {options.name!r}{hint(options.name, known)}")
    if not options.codes:
        print("\n".join(f"{name:18} {value}" for name, value in _facts(fmt).items()))
        return 0
    if fmt.bits > _MOST_CODE_BITS:
        raise InputError(f"--codes: expected a format of at most 16 bits, got {fmt.name}")
    texts = number_texts(fmt, np.arange(1 << fmt.bits).astype(fmt.code_dtype))
    print("\n".join(f"{code_text(code, fmt.bits)}  {_fields(code, fmt)}  {text}" for code, text in enumerate(texts)))
    return 0


def _block_format(fmt: BlockFormat, codes: bool) -> int:
    """Print the facts of a block format, and the program that quantizes to it."""
    if codes:
        raise InputError(f"--codes: expected a floating-point format, such as f8E4M3FN, got {fmt.name}")
    print("\n".join(f"{name:20} {value}" for name, value in _block_facts(fmt).items()))
    shape = (2, 2 * fmt.size) if len(fmt.block) == 1 else tuple(2 * n for n in fmt.block)
    print(f"\n{quantizer(fmt, shape)}")
    return 0


def _block_facts(fmt: BlockFormat) -> dict[str, str]:
    return {
        "block format": fmt.name,
        "elements": fmt.element,
        "block": "x".join(map(str, fmt.block)),
        "scale": fmt.scale,
        "scale of the tensor": fmt.tensor_scale or "none",
        "rule": fmt.rule,
        "largest element": f"{fmt.largest:g}" if fmt.element_format else "127/64",
        "bits of a block": str(fmt.bits),
        "bits of an element": f"{fmt.bits / fmt.size:.4g}",
        "source": fmt.source,
    }


def _facts(fmt: Format) -> dict[str, str]:
    least = 1 << fmt.mantissa_bits  # the code of the smallest normal number
    return {
        "MLIR": fmt.name,
        "numpy, ml_dtypes": fmt.dtype_name,
        "bits": str(fmt.bits),
        "sign": str(int(fmt.is_signed)),
        "exponent": str(fmt.exponent_bits),
        "mantissa": str(fmt.mantissa_bits),
        "bias": str(fmt.bias),
        "largest": _short(fmt, fmt.max_code),
        "smallest normal": _short(fmt, least if fmt.has_subnormals else 0),
        "smallest": _short(fmt, int(fmt.has_zero)),
        "infinity": "no" if fmt.infinity_code is None else code_text(fmt.infinity_code, fmt.bits),
        "NaN": "none" if fmt.nan is Nan.NONE else f"{code_text(fmt.nan_code or 0, fmt.bits)}: {fmt.nan.value}",
        "-0": "yes" if fmt.has_negative_zero else "no" if fmt.has_zero else "no zero",
    }


def _short(fmt: Format, code: int) -> str:
    text = number_text(fmt, code)
    return text if len(text) <= 12 else f"{float(text):.6g}"


def _fields(code: int, fmt: Format) -> str:
    """Sign, exponent and mantissa in binary."""
    bits = f"{code:0{fmt.bits}b}"
    exponent = int(fmt.is_signed)
    mantissa = exponent + fmt.exponent_bits
    fields = bits[:exponent], bits[exponent:mantissa], bits[mantissa:]
    return ".".join(f for f in fields if f)


def ops(options: argparse.Namespace) -> int:
    """Print the table of ops, or one op by element type. Raises InputError for a name that is not an op's."""
    records = all_ops()
    if options.name is None:
        rows = [[name, describe(r.types), r.accuracy.text, r.summary] for name, r in sorted(records.items())]
        print_table(["op", "element types", "accuracy", "meaning"], rows)
        return 0
    record = records.get(full_name(options.name))
    if record is None:
        names = [name.removeprefix("stablehlo.") for name in records]
        raise InputError(f"expected an op, got {options.name!r}{hint(options.name, names)} (minihlo ops lists all)")
    print(f"{record.name}\n\n{inspect.cleandoc(record.doc)}\n")
    if record.specification is not None:
        print(f"Specification (StableHLO {SPECIFICATION_VERSION}): {record.specification}\n")
    for element in (t for t in ELEMENT_TYPES.values() if t.has_dtype or t in record.types):
        print(f"{element.name:14} {_support(record, element.name)}")
    return 0


def _support(record: Op, name: str) -> str:
    element = ELEMENT_TYPES[name]
    if element not in record.types:
        return "not supported"
    # Integers and booleans are never rounded.
    rounded = element.is_float or element.is_complex or record.values == "regions"
    return record.accuracy.text if rounded else EXACT.text
