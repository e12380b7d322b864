/* Prints the GPU backends' tiles and what they select, as JSON, from the library's own tables.  Needs no GPU
 * and no nvcc: tile selection is host code.
 *
 * tile_table: {"hopper": TABLE, "blackwell": TABLE, "geforce": TABLE}, and a TABLE has
 *
 * - "tiles": for each name the columns of the backend's config;
 * - "grouped_tiles": likewise the grouped GEMM's; "experts_tiles": those for experts; "narrow_tiles": on
 * Hopper, those for few rows of A;
 * - "resources": for each name a CTA's threads and bytes of shared memory, on Blackwell also columns of TMEM.
 *
 * tile_table BACKEND SMS SHAPE ...: {SHAPE: {"tile": name, "ctas": of the grid, "cost_ps": predicted}, ...},
 * where SHAPE is MxNxK or MxNxKxL.  GeForce has "cost_cycles" in place of "cost_ps"; a narrow tile has its
 * layout too.
 *
 * Exit status 2 for a backend, a number or a shape that it does not understand. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "tile_table.h"

static const struct {
    const char *name;
    void (*tiles)(void);
    void (*selection)(const struct tile_question *question);
} backends[] = {
    {"hopper", print_hopper_tiles, print_hopper_selection},
    {"blackwell", print_blackwell_tiles, print_blackwell_selection},
    {"geforce", print_geforce_tiles, print_geforce_selection},
};
enum { BACKENDS = sizeof backends / sizeof *backends };

#define USAGE "usage: tile_table [hopper|blackwell|geforce SMS MxNxK[xL] ...]\n"

static int refuse(const char *what, const char *found, const char *expected) {
    (void)fprintf(stderr, "tile_table: %s is '%s'; expected %s\n" USAGE, what, found, expected);
    return 2;
}

/* Reads MxNxK or MxNxKxL, with nothing after it. */
static int read_shape(const char *text, struct tile_question *question) {
    char excess;
    question->l = 1;
    int found = sscanf(text, "%" SCNd64 "x%" SCNd64 "x%" SCNd64 "%c", &question->m, &question->n, &question->k,
                       &excess);
    if (found == 4) {
        found = sscanf(text, "%" SCNd64 "x%" SCNd64 "x%" SCNd64 "x%" SCNd64 "%c", &question->m, &question->n,
                       &question->k, &question->l, &excess) -
                1;
    }
    return found == 3 && question->m > 0 && question->n > 0 && question->k > 0 && question->l > 0;
}

int main(int count, char **words) {
    if (count == 2 && (strcmp(words[1], "--help") == 0 || strcmp(words[1], "-h") == 0)) {
        printf(USAGE "Prints all tiles, or the tile that the library chooses for each shape, as JSON.\n");
        return 0;
    }
    if (count == 1) {
        for (int i = 0; i < BACKENDS; i++) {
            printf("%s\n  \"%s\": ", i > 0 ? "," : "{", backends[i].name);
            backends[i].tiles();
        }
        printf("\n}\n");
        return 0;
    }
    int backend = 0;
    while (backend < BACKENDS && strcmp(words[1], backends[backend].name) != 0) {
        backend++;
    }
    if (backend == BACKENDS) {
        return refuse("BACKEND", words[1], "hopper, blackwell or geforce");
    }
    struct tile_question question = {0};
    char excess;
    if (count < 3 || sscanf(words[2], "%d%c", &question.sms, &excess) != 1 || question.sms < 2) {
        return refuse("SMS", count < 3 ? "" : words[2], "the number of a chip's SMs, 2 or more");
    }
    for (int i = 3; i < count; i++) { /* checks all of them before it prints anything */
        if (!read_shape(words[i], &question)) {
            return refuse("SHAPE", words[i], "MxNxK or MxNxKxL, each 1 or more");
        }
    }
    printf("{");
    for (int i = 3; i < count; i++) {
        (void)read_shape(words[i], &question);
        printf("%s\"%s\": ", i > 3 ? ",\n " : "", words[i]);
        backends[backend].selection(&question);
    }
    printf("}\n");
    return 0;
}
