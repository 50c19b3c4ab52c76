/* Answers minihlo's requests with minihlo_run: a session of operations over standard input and output.
 *
 *     cc -std=c99 session.c yours.c -o session
 *     minihlo conform 'exec:--session ./session' */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "minihlo.h"

static char attributes[256], names[5][32], op[64];

/* Codes travel with their lowest byte first. On a machine with another order their bytes are swapped. */
static void swap(unsigned char *codes, unsigned long count, int bytes)
{
    const uint16_t one = 1;
    unsigned long i;
    int b;
    if (*(const unsigned char *)&one)
        return;
    for (i = 0; i < count; i++, codes += bytes)
        for (b = 0; b < bytes / 2; b++) {
            unsigned char other = codes[b];
            codes[b] = codes[bytes - 1 - b];
            codes[bytes - 1 - b] = other;
        }
}

static void read_tensor(const char *line, const char *word, struct minihlo_tensor *t, char *name)
{
    char format[40];
    unsigned long *s = t->shape;
    int i;
    memset(t, 0, sizeof *t);
    sprintf(format, "%s %%31s %%d %%d %%lu %%lu %%lu", word);
    sscanf(line, format, name, &t->bytes, &t->rank, s, s + 1, s + 2);
    t->type = name;
    for (t->count = 1, i = 0; i < t->rank; i++)
        t->count *= s[i];
}

int main(void)
{
    char line[512];
    struct minihlo_case of;
    memset(&of, 0, sizeof of);
    puts("minihlo-exec 1 operations");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        unsigned long size, used = 0;
        line[strcspn(line, "\n")] = 0;
        if (sscanf(line, "operation %63s", op) == 1) {
            of.name = "", of.op = op, of.attributes = attributes, of.operand_count = 0;
            attributes[0] = 0;
        } else if (strncmp(line, "attribute ", 10) == 0 && strlen(attributes) + strlen(line) < sizeof attributes) {
            strcat(strcat(attributes, attributes[0] ? " " : ""), line + 10);
            *strchr(attributes + strlen(attributes) - strlen(line + 10), ' ') = '=';
        } else if (strncmp(line, "operand ", 8) == 0 && of.operand_count < 4) {
            read_tensor(line, "operand", &of.operands[of.operand_count], names[of.operand_count]);
            of.operand_count++;
        } else if (strncmp(line, "result ", 7) == 0) {
            read_tensor(line, "result", &of.result, names[4]);
        } else if (sscanf(line, "data %lu", &size) == 1) {
            unsigned long wanted = of.result.count * of.result.bytes;
            const void *operands[4] = {0, 0, 0, 0};
            const char *why;
            unsigned char *memory = malloc(size + wanted + 48), *at = memory, *result;
            int i;
            if (!memory)
                return 1;
            for (i = 0; i < of.operand_count; i++, used = (used + 7) / 8 * 8) { /* each aligned for its codes */
                unsigned long n = of.operands[i].count * of.operands[i].bytes;
                operands[i] = at = memory + used;
                if (fread(at, 1, n, stdin) != n)
                    return 1;
                swap(at, of.operands[i].count, of.operands[i].bytes);
                used += n;
            }
            result = memory + used;
            memset(result, 0xA5, wanted);
            why = minihlo_run(op, &of, operands, result);
            if (why) {
                printf("unsupported %s\n", why);
            } else {
                swap(result, of.result.count, of.result.bytes);
                printf("data %lu\n", wanted);
                fwrite(result, 1, wanted, stdout);
            }
            fflush(stdout);
            free(memory);
        }
    }
    return 0;
}
