"""The instructions of the matrix tiles (Intel AMX), as assembly: eight registers of 16 rows of 64 bytes.

One instruction multiplies tiles of 16 x 64 and 64 x 16 bytes and adds the products to 16 x 16 sums of 32 bits. It takes
as long as 16 products of f64. A number of more than one byte is split into digits: signed bytes, base 256. The
products of digits are summed separately for each power of 256, in registers of their own.

numba has no such instructions, so `instructions` generates them as inline assembly.
"""

from __future__ import annotations

from typing import Any

from .instructions import _intrinsic, _ir, _types, inner

#: The rows of a tile, the bytes of a row, and the bytes of a tile.
LINES, WIDTH, BYTES = 16, 64, 1024
#: How many tile registers there are, and how many of them may hold sums: at least two hold operands.
_REGISTERS, SUMS = 8, 6
#: The largest number of digits of one operand, and of both operands together.
DIGITS, BOTH = 4, SUMS + 1


def blocks(digits: int, others: int) -> tuple[int, int]:
    """The number of rows and of columns of tiles whose sums are formed together.

    With several sums in turn, no instruction has to wait for the result of the one before.
    """
    powers = digits + others - 1
    return (2, 2) if powers == 1 else (2, 1) if powers <= SUMS // 2 else (1, 1)


def _products(digits: int, others: int) -> str:
    """The assembly that adds the products of one column of tiles to the sums.

    Its operands are the addresses of two rows of tiles of x, of two columns of tiles of y, and the bytes of a tile row.
    """
    high, wide = blocks(digits, others)
    powers = digits + others - 1
    left = [((i, d), (j, e)) for i in range(high) for j in range(wide) for d in range(digits) for e in range(others)]
    free = list(range(high * wide * powers, _REGISTERS))
    held: dict[tuple[str, int, int], int] = {}
    lines, latest = [], -1

    def uses(tile: tuple[str, int, int]) -> int:
        return sum((tile[1:] == pair[0]) if tile[0] == "x" else (tile[1:] == pair[1]) for pair in left)

    def total(pair: tuple[tuple[int, int], tuple[int, int]]) -> int:
        (i, d), (j, e) = pair
        return (i * wide + j) * powers + d + e

    while left:
        # The product with the fewest loads, if possible of another sum than the one before.
        pair = min(left, key=lambda p: ((("x", *p[0]) not in held) + (("y", *p[1]) not in held), total(p) == latest))
        for tile in (("x", *pair[0]), ("y", *pair[1])):
            if tile not in held:
                if not free:
                    needed = {("x", *pair[0]), ("y", *pair[1])}
                    free.append(held.pop(min((t for t in held if t not in needed), key=uses)))
                held[tile] = free.pop()
                at = tile[1] + (2 if tile[0] == "y" else 0)
                lines.append(f"tileloadd {tile[2] * BYTES}(${at},$4,1), %tmm{held[tile]}")
        latest = total(pair)
        lines.append(f"tdpbssd %tmm{held['y', *pair[1]]}, %tmm{held['x', *pair[0]]}, %tmm{latest}")
        left.remove(pair)
    return "\n".join(lines)


def _assembly(builder: Any, text: str, args: list[Any], clobbered: tuple[str, ...]) -> None:
    kind = _ir.FunctionType(_ir.VoidType(), [a.type for a in args])
    lost = [f"~{{{name}}}" for name in ("memory", *clobbered)]
    builder.asm(kind, text, ",".join(["r"] * len(args) + lost), args, side_effect=True)


def instructions(text: str, count: int, *constants: int, clobbered: tuple[str, ...] = ()) -> Any:
    """A function for numba that runs the assembly `text`. It takes `count` addresses; the constants follow them."""

    def generate(context: Any, builder: Any, _: Any, args: Any) -> Any:
        _assembly(builder, text, [*args, *(_ir.Constant(_ir.IntType(64), c) for c in constants)], clobbered)
        return context.get_dummy_value()

    address = _types.int64
    if count == 0:
        return _intrinsic(lambda _context: (_types.void(), generate))
    if count == 1:
        return _intrinsic(lambda _context, _a: (_types.void(address), generate))
    return _intrinsic(lambda _context, _a, _b, _c, _d: (_types.void(*[address] * 4), generate))


configure = instructions("ldtilecfg ($0)", 1)
release = instructions("tilerelease", 0)
clear = instructions("\n".join(f"tilezero %tmm{i}" for i in range(SUMS)), 0)
store_sums = instructions("\n".join(f"tilestored %tmm{i}, {i * BYTES}($0,$1,1)" for i in range(SUMS)), 1, WIDTH)


def permutation(stored: str) -> Any:
    """Looks 64 bytes up in a table of 256 bytes: source, table, target, mask. Only the bytes of the mask are read.

    `stored` is how the results, in zmm0, are written; k1 is the mask.
    """
    return instructions(
        f"""kmovq $3, %k1
vmovdqu8 ($0), %zmm0{{%k1}}{{z}}
vpmovb2m %zmm0, %k2
vmovdqu8 ($1), %zmm1
vmovdqu8 128($1), %zmm3
vmovdqa64 %zmm0, %zmm2
vpermi2b 64($1), %zmm1, %zmm0
vpermi2b 192($1), %zmm3, %zmm2
vmovdqu8 %zmm2, %zmm0{{%k2}}
{stored}""",
        4,
        clobbered=("zmm0", "zmm1", "zmm2", "zmm3", "k1", "k2"),
    )


#: A lookup after which the bytes that are not in the mask are zero.
look_up = permutation("vmovdqu8 %zmm0, %zmm0{%k1}{z}\nvmovdqu8 %zmm0, ($2)")
_STEPS = {
    (d, e): instructions(_products(d, e), 4, WIDTH)
    for d in range(1, DIGITS + 1)
    for e in range(1, DIGITS + 1)
    if d + e <= BOTH
}
_step_11, _step_12, _step_13, _step_14 = (_STEPS[1, e] for e in (1, 2, 3, 4))
_step_21, _step_22, _step_23, _step_24 = (_STEPS[2, e] for e in (1, 2, 3, 4))
_step_31, _step_32, _step_33, _step_34 = (_STEPS[3, e] for e in (1, 2, 3, 4))
_step_41, _step_42, _step_43 = (_STEPS[4, e] for e in (1, 2, 3))


@inner
def step(kind, a, b, c, d):
    """Add the products of one column of tiles. `kind` is 10 times the digits of x, plus the digits of y."""
    if kind == 11:
        _step_11(a, b, c, d)
    elif kind == 12:
        _step_12(a, b, c, d)
    elif kind == 13:
        _step_13(a, b, c, d)
    elif kind == 14:
        _step_14(a, b, c, d)
    elif kind == 21:
        _step_21(a, b, c, d)
    elif kind == 22:
        _step_22(a, b, c, d)
    elif kind == 23:
        _step_23(a, b, c, d)
    elif kind == 24:
        _step_24(a, b, c, d)
    elif kind == 31:
        _step_31(a, b, c, d)
    elif kind == 32:
        _step_32(a, b, c, d)
    elif kind == 33:
        _step_33(a, b, c, d)
    elif kind == 34:
        _step_34(a, b, c, d)
    elif kind == 41:
        _step_41(a, b, c, d)
    elif kind == 42:
        _step_42(a, b, c, d)
    else:
        _step_43(a, b, c, d)
