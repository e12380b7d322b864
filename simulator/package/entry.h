/* What the library's entry points on the simulator share. */
#ifndef PACKAGE_ENTRY_H
#define PACKAGE_ENTRY_H

#include <stdbool.h>

#include "../../submission/core/backend.h"

#define SIZE_LIMIT ((int64_t)1 << 20) /* keeps every product of sizes in these files below 2^63 */

/* A tensor of the host. */
struct range {
    const char *name;
    const void *pointer;
    int64_t bytes;
};

/* Makes tensors the simulated device's memory for a call.  Absent ones are left out, and one that overlaps a
 * registered one, whose `bytes` become 0.  forget_ranges returns the call's `status`. */
int32_t register_ranges(struct range *ranges, int64_t count);
int32_t forget_ranges(const struct range *ranges, int64_t count, int32_t status);

/* NVFP4_BACKEND decides the simulated chip, unless NVFP4_SIMULATE_CHIP names one. */
void choose_chip(void);

/* True if a call that asks for this backend runs on the CPU. */
bool on_cpu(int32_t wanted);

#endif
