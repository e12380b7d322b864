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

/* Adds the argument that a text describes; false if it describes none, sometimes after a message. */
bool read_argument(struct arguments *all, struct sim *sim, const char *text);

#endif
