"""The ops of the machine that runs groups of elementwise ops: an instruction is a row of whole numbers.

A row is (op, result, first operand, second operand, third operand …). Results and operands are registers, which hold a
block of 32-bit words each, unless something else is said. Words are f32, or the codes of minifloats, or all ones and
all zeros for true and false; bf16 and f16 are held as f32.
"""

from __future__ import annotations

#: From memory, (op, result, leaf): words, upper halves of words, bytes, booleans. Through (op, result, leaf, table).
#: The last is of f16.
LOAD_32, LOAD_16, LOAD_8, LOAD_BOOL, LOAD_TABLE_F32, LOAD_TABLE_8, LOAD_F16 = range(7)
#: To memory, (op, output, operand); the last of the codes of f16.
STORE_32, STORE_16, STORE_8, STORE_BOOL, STORE_F16 = range(10, 15)
#: On f32.
ADD, SUBTRACT, MULTIPLY, DIVIDE, MAXIMUM, MINIMUM, REMAINDER = range(20, 27)
NEGATE, ABS, SQRT, FLOOR, CEIL, ROUND, ROUND_AWAY, SIGN = range(27, 35)
EQ, NE, LT, LE = range(40, 44)
#: On words.
SELECT, AND, OR, XOR, NOT, TRUTH = range(50, 56)
#: To bf16 and back to f32, the same of f16; to the codes of f16. To codes (op, result, operand, parameters), or so by
#: (op, result, operand, table).
TO_BF16, ROUND_F16, TO_F16, ENCODE, ENCODE_TABLE = range(60, 65)
#: Lookups (op, result, operand, table): by bytes, and by the lower and the upper halves of words in tables of f32. And
#: by two operands (op, result, first, second, table, bits of the second, last index).
LOOK_UP_F32, LOOK_UP_8, LOOK_UP_LOW, LOOK_UP_HIGH, PAIR_F32, PAIR_8 = range(70, 76)
#: On f32, by way of f64 (`functions.py`): (op, result, operand, parameters), of which the first is an address.
EXP, RSQRT, LOG, LOG1P, EXPM1, TANH, LOGISTIC, SIN, COS = FUNCTIONS = range(80, 89)
#: On whole numbers of 32 bits: arithmetic; rotations to the left (op, result, operand, amount); quotients, truncated
#: and, by one positive number that all elements are, floored; comparisons; to and
#: from f32, bytes with a sign, zeros above the highest bit that is set, and bits that are set. Smaller ones are held
#: with their sign, or zeros, above them.
ADD_WORDS, SUBTRACT_WORDS, MULTIPLY_WORDS, SHIFT_LEFT, SHIFT_LOGICAL, SHIFT_ARITHMETIC, ROTATE = range(100, 107)
DIVIDE_SIGNED, DIVIDE_UNSIGNED, REMAINDER_SIGNED, REMAINDER_UNSIGNED = range(107, 111)
FLOOR_SIGNED, FLOOR_UNSIGNED = range(111, 113)
MAXIMUM_SIGNED, MAXIMUM_UNSIGNED, MINIMUM_SIGNED, MINIMUM_UNSIGNED = range(113, 117)
EQ_WORDS, LT_SIGNED, LT_UNSIGNED = range(117, 120)
OF_SIGNED, OF_UNSIGNED, TO_SIGNED, TO_UNSIGNED, SIGN_BYTE, LEADING_ZEROS, BITS_SET = range(120, 127)
#: On rows of elements, where others of the program's values are one number for each row: the sum, the largest or the
#: smallest of each row into what is there, and sums that are rounded to bf16 and f16; what is there at first, a
#: constant; and each number along its row.
SUM_ROW, MAXIMUM_ROW, MINIMUM_ROW, SUM_ROW_BF16, SUM_ROW_F16, START_ROW, ALONG_ROW = range(127, 134)
#: Ops on two f32, of which the second is a number for each row.
BY_ROW = {ADD: 134, SUBTRACT: 135, MULTIPLY: 136, DIVIDE: 137}
ADD_BY_ROW, SUBTRACT_BY_ROW, MULTIPLY_BY_ROW = BY_ROW[ADD], BY_ROW[SUBTRACT], BY_ROW[MULTIPLY]
#: Into the totals of the rows or of the columns, (op, nothing, operand).
FOLD_ADD, FOLD_MAXIMUM, FOLD_MINIMUM = range(200, 203)

#: How many of the numbers after the result of an op on blocks are registers; of those that are not here, one.
OPERANDS = {
    **dict.fromkeys(range(ADD, NEGATE), 2),
    **dict.fromkeys(range(EQ, LE + 1), 2),
    **dict.fromkeys((AND, OR, XOR), 2),
    SELECT: 3,
    **dict.fromkeys(range(ADD_WORDS, ROTATE), 2),
    **dict.fromkeys(range(DIVIDE_SIGNED, OF_SIGNED), 2),
}

#: Parts of a program: on pieces of rows, on numbers for rows, and on pieces for the first block only.
OF_PIECES, OF_ROWS, ONCE = range(3)
