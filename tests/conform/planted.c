/* A chip of the tests: some operations on f8E4M3FN in plain C, with one fault that FAULT names. */
#include <math.h>
#include <string.h>
#include "minihlo.h"

#define NONE 0
#define SATURATES_WRONG 1
#define FLUSHES_IN_TAIL 2
#define ROUNDS_TWICE 3
#ifndef FAULT
#define FAULT NONE
#endif

static double number(uint8_t code)
{
    int field = code >> 3 & 15, mantissa = code & 7;
    double size = field ? ldexp(8 + mantissa, field - 10) : ldexp(mantissa, -9);
    if ((code & 0x7F) == 0x7F)
        return NAN;
    return code & 0x80 ? -size : size;
}

/* To nearest, ties to even, with so many bits after the first one, and none below 2^least. */
static double rounded(double x, int bits, int least)
{
    int exponent;
    double unit;
    if (x == 0 || !isfinite(x))
        return x;
    frexp(x, &exponent);
    unit = ldexp(1, exponent - 1 - bits < least ? least : exponent - 1 - bits);
    return copysign(rint(fabs(x) / unit) * unit, x);
}

static uint8_t code(double x)
{
    int sign = signbit(x) ? 0x80 : 0, exponent;
    if (isnan(x))
        return 0x7F;
#if FAULT == SATURATES_WRONG
    if (fabs(x) == 672)
        return (uint8_t)(sign | 0x7D);
#endif
#if FAULT == ROUNDS_TWICE
    x = rounded(x, 5, -20);
#endif
    x = fabs(rounded(x, 3, -9));
    if (x > 448)
        return (uint8_t)(sign | 0x7F);
    if (x < ldexp(1, -6))
        return (uint8_t)(sign | (int)ldexp(x, 9));
    frexp(x, &exponent);
    return (uint8_t)(sign | (exponent + 6) << 3 | ((int)ldexp(x, 4 - exponent) & 7));
}

/* With one element for all where an operand is a scalar. */
static double at(const struct minihlo_case *of, const void *const *operands, int n, unsigned long i)
{
    return number(((const uint8_t *)operands[n])[of->operands[n].rank ? i : 0]);
}

static const char *dots(const struct minihlo_case *of, const uint8_t *x, const uint8_t *y, float *result)
{
    unsigned long rows = of->operands[0].shape[0], terms = of->operands[0].shape[1], columns = of->operands[1].shape[1];
    unsigned long i, j, k;
    for (i = 0; i < rows; i++)
        for (j = 0; j < columns; j++) {
            volatile float sum = 0; /* rounded to f32 after each term */
            for (k = 0; k < terms; k++)
                sum = sum + (float)(number(x[i * terms + k]) * number(y[k * columns + j]));
            result[i * columns + j] = sum;
        }
    return 0;
}

const char *minihlo_run(const char *op, const struct minihlo_case *of, const void *const *operands, void *result)
{
    uint8_t *out = result;
    unsigned long i, n = of->result.count;
    int is_f8 = strcmp(of->operands[0].type, "f8E4M3FN") == 0;
    int are_f8 = is_f8 && of->operand_count == 2 && strcmp(of->operands[1].type, "f8E4M3FN") == 0;
    if (strcmp(op, "dot_general") == 0 && are_f8 && strcmp(of->result.type, "f32") == 0)
        return dots(of, operands[0], operands[1], result);
    if (strcmp(op, "convert") == 0 && strcmp(of->operands[0].type, "f32") == 0 && of->result.bytes == 1) {
        for (i = 0; i < n; i++)
            out[i] = code(((const float *)operands[0])[i]);
        return 0;
    }
    if (!is_f8 || strcmp(of->result.type, "f8E4M3FN") != 0)
        return "only f8E4M3FN";
    if (strcmp(op, "add") != 0 && strcmp(op, "multiply") != 0 && strcmp(op, "maximum") != 0)
        return "no such operation";
    for (i = 0; i < n; i++) {
        double x = at(of, operands, 0, i), y = at(of, operands, 1, i);
        out[i] = code(op[0] == 'a' ? x + y : op[1] == 'u' ? x * y : isnan(x) || isnan(y) ? NAN : x >= y ? x : y);
#if FAULT == FLUSHES_IN_TAIL
        if (i >= n / 8 * 8 && (out[i] & 0x78) == 0)
            out[i] &= 0x80; /* what is left when vectors of eight are done */
#endif
    }
    return 0;
}
