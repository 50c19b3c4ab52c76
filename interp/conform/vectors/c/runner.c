/* Runs minihlo_run on every vector, writes the results for `minihlo conform judge`, and counts mismatches.
 *
 *     cc -std=c99 runner.c yours.c -o runner
 *     ./runner RESULTS [PREFIX]      (PREFIX: only cases whose names start so)
 *
 * Exit status: 0 without mismatches, 1 with some, 2 if the file cannot be written. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "vectors.h"

#define FAMILIES (sizeof minihlo_families / sizeof *minihlo_families)

static union {
    uint64_t aligned;
    unsigned char bytes[MINIHLO_MOST_BYTES];
} result;

static uint64_t code(const void *codes, int bytes, unsigned long i)
{
    switch (bytes) {
    case 1: return ((const uint8_t *)codes)[i];
    case 2: return ((const uint16_t *)codes)[i];
    case 4: return ((const uint32_t *)codes)[i];
    default: return ((const uint64_t *)codes)[i];
    }
}

static int is_nan(const struct minihlo_vector *v, uint64_t c)
{
    int i;
    for (i = 0; i < v->nan_count; i++)
        if (c >= v->nan[i][0] && c <= v->nan[i][1])
            return 1;
    return 0;
}

/* Counts the results that are not acceptable, and those that are a choice; shows the first mismatch. */
static unsigned long check(const struct minihlo_vector *v, unsigned long *choices)
{
    const struct minihlo_tensor *of = &v->of.result;
    unsigned long i, k = 0, wrong = 0, first = 0;
    for (i = 0; i < of->count; i++) {
        uint64_t got = code(result.bytes, of->bytes, i), right = code(v->expected, of->bytes, i);
        int fits = got == right || (is_nan(v, got) && is_nan(v, right)), chosen = 0;
        for (; k < v->choice_count && v->choices[k].place <= i; k++)
            if (v->choices[k].place == i && got >= v->choices[k].low && got <= v->choices[k].high)
                chosen = 1;
        if (!fits && chosen)
            ++*choices;
        else if (!fits && !wrong++)
            first = i;
    }
    if (wrong) {
        int n;
        printf("%s: %lu of %lu %s; [%lu]", v->of.name, wrong, of->count,
               v->is_open ? "are for judge" : "are wrong", first);
        for (n = 0; n < v->of.operand_count && v->of.operands[n].count == of->count && !v->is_open; n++)
            printf(" 0x%" PRIX64, code(v->operands[n], v->of.operands[n].bytes, first));
        printf(" => 0x%" PRIX64 " expected 0x%" PRIX64 "\n", code(result.bytes, of->bytes, first),
               code(v->expected, of->bytes, first));
    }
    return wrong;
}

int main(int argc, char **argv)
{
    unsigned long f, i, n, cases = 0, wrong = 0, open = 0, choices = 0, unsupported = 0;
    const char *prefix = argc > 2 ? argv[2] : "";
    FILE *out = argc > 1 ? fopen(argv[1], "w") : NULL;
    if (!out) {
        fprintf(stderr, "expected a file to write results to, got %s\n", argc > 1 ? argv[1] : "none");
        return 2;
    }
    fprintf(out, "minihlo.results/1\nvectors %s\n", MINIHLO_VECTORS);
    for (f = 0; f < FAMILIES; f++)
        for (i = 0; i < minihlo_families[f].count; i++) {
            const struct minihlo_vector *v = &minihlo_families[f].vectors[i];
            const struct minihlo_tensor *of = &v->of.result;
            const char *why;
            if (strncmp(v->of.name, prefix, strlen(prefix)) != 0)
                continue;
            memset(result.bytes, 0xA5, sizeof result.bytes); /* what is not written shows */
            fprintf(out, "case %s\n", v->of.name);
            fflush(out); /* if the function ends the program, the file shows in which case */
            why = minihlo_run(v->of.op, &v->of, v->operands, result.bytes);
            cases++;
            if (why) {
                unsupported++;
                fprintf(out, "unsupported %s\n", why);
                continue;
            }
            for (n = 0; n < of->count; n++)
                fprintf(out, "%0*" PRIX64 "%s", 2 * of->bytes, code(result.bytes, of->bytes, n),
                        n % 32 == 31 || n + 1 == of->count ? "\n" : " ");
            *(v->is_open ? &open : &wrong) += check(v, &choices);
        }
    fprintf(out, "end %lu\n", cases);
    n = ferror(out);
    if (fclose(out) || n) {
        fprintf(stderr, "%s cannot be written\n", argv[1]);
        return 2;
    }
    printf("%lu cases, %lu unsupported: %lu results are wrong, %lu are another choice, %lu are for judge\n",
           cases, unsupported, wrong, choices, open);
    return wrong != 0;
}
