/* The extended GEMM's tiles for few rows of A, for host and device: transposed ones
 * (blackwell_grouped_config.h), whose rows of B are 256 columns of a plain product, or gate and up of 128
 * columns from two tensors.  They read no rows of A that do not exist, and pairs of CTAs that share a tile's K
 * keep more of the chip busy. */
#ifndef BLACKWELL_EXTENDED_CONFIG_H
#define BLACKWELL_EXTENDED_CONFIG_H

#include "../grouped/blackwell_grouped_config.h"

#define MOST_FEW_ROWS 128 /* rows of A in a tile */

/* Columns as in BLACKWELL_CONFIGS but for the last; the name has the most rows of A and the pairs. */
#define BLACKWELL_FEW_ROWS_CONFIGS(X)                                                                          \
    X(m128k1, MOST_FEW_ROWS / 2, 5, 2, 0, 1)                                                                   \
    X(m128k2, MOST_FEW_ROWS / 2, 5, 2, 0, 2)                                                                   \
    X(m128k4, MOST_FEW_ROWS / 2, 5, 2, 0, 4)

/* CTAs that have sums of the same outputs: the pairs, or all CTAs if each has sums of gate or of up. */
static inline int blackwell_sharers(const struct blackwell_config *config, int gated) {
    return (gated ? config->ctas : 1) * config->split_k;
}

static inline int blackwell_few_rows_shared_bytes(const struct blackwell_config *config, int gated) {
    return blackwell_shared_bytes(config) + RECEIVED_BYTES(config->tile_n, blackwell_sharers(config, gated));
}

#endif
