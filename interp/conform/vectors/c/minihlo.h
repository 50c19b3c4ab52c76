/* The interface between test vectors and the function under test. It needs C99 and <stdint.h>, no heap, no files. */
#ifndef MINIHLO_H
#define MINIHLO_H
#include <stdint.h>

/* An array of codes, row by row. A code is an unsigned integer of `bytes` bytes in the machine's own byte order: the
 * bit pattern of a number, in its lowest bits; 0 and 1 for i1. */
struct minihlo_tensor {
    const char *type;       /* "f8E4M3FN" */
    int bytes;              /* of a code: 1, 2, 4 or 8 */
    int rank;               /* 0 to 3; 0 is a scalar */
    unsigned long shape[3];
    unsigned long count;    /* of elements */
};

struct minihlo_case {
    const char *name;       /* "add.f8E4M3FN.array"; "" in a session */
    const char *op;         /* "add" */
    const char *attributes; /* "comparison_direction=LT compare_type=FLOAT", "body=add"; or "" */
    int operand_count;
    struct minihlo_tensor operands[4];
    struct minihlo_tensor result;
};

/* The function under test. It writes result.count codes to `result`, which is aligned for all of them, and returns 0;
 * or it returns the reason why it does not support the case. */
const char *minihlo_run(const char *op, const struct minihlo_case *of, const void *const *operands, void *result);

/* Beside the expected code of the element at `place`, the codes from `low` to `high` are acceptable. */
struct minihlo_choice {
    unsigned long place;
    uint64_t low, high;
};

struct minihlo_vector {
    struct minihlo_case of;
    const void *operands[4];
    const void *expected;
    const struct minihlo_choice *choices; /* in the order of places */
    unsigned long choice_count;
    uint64_t nan[2][2];                   /* the codes of the result's type that are NaN, as intervals */
    int nan_count;
    int is_open;                          /* a sum, or blocks: other codes than the expected ones are for `judge` */
};

#endif
