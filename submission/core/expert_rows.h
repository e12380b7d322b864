/* Which rows belong to an expert (enum custom_kernel_tokens), for host and device.  Internal. */
#ifndef CORE_EXPERT_ROWS_H
#define CORE_EXPERT_ROWS_H

#include "scale_layout.h"

/* A count or an end, brought into the range from 0 to `rows`. */
static inline ON_HOST_AND_DEVICE int32_t clamped_count(int32_t count, int32_t rows) {
    return count < 0 ? 0 : count < rows ? count : rows;
}

/* The row after the last one of sorted experts 0 to e, from that of experts 0 to e - 1 and the clamped count or
 * end of expert e: at most `rows`.  Also joins two runs of experts, so that they can be scanned in parallel. */
static inline ON_HOST_AND_DEVICE int32_t joined_end(int32_t tokens, int32_t before, int32_t value,
                                                    int32_t rows) {
    if (tokens == CUSTOM_KERNEL_TOKENS_ENDED) {
        return before > value ? before : value;
    }
    return value < rows - before ? before + value : rows;
}

#endif
