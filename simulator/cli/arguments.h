/* Kernel arguments from the command line: i32:5, buf:1024=FILE, map:... (ptxsim --help). */
#ifndef SIM_CLI_ARGUMENTS_H
#define SIM_CLI_ARGUMENTS_H

#include <stdbool.h>

#include "sim.h"

#define MAX_ARGUMENTS 64

struct argument {
    uint8_t bytes[128] __attribute__((aligned(64)));
    void *buffer;
    size_t buffer_bytes;
    const char *dump;
};

struct arguments {
    struct argument list[MAX_ARGUMENTS];
    size_t count;
};

/* Reads a whole number of at most `most` in decimal, 0x... or 0...; returns what follows it, NULL if there is
 * none. */
const char *read_natural(const char *text, uint64_t most, uint64_t *number);
/* Reads the number of CTAs to check: 0, or EXIT_NOT_RUN after a message. */
int read_ctas(const char *text, uint64_t *number);
/* Reads X, X,Y or X,Y,Z, of which those left out are 1: 0, or EXIT_NOT_RUN after a message. */
int read_triple(const char *option, const char *text, uint32_t triple[3]);
/* Adds the argument that a text describes; false if it describes none, sometimes after a message. */
bool read_argument(struct arguments *all, struct sim *sim, const char *text);

#endif
