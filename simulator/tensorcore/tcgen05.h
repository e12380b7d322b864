/* tcgen05.mma and tcgen05.cp on the memories of one CTA or a CTA pair, in the steps of an asynchronous
 * operation: check at issue, read, write. The caller decides when each step happens; nothing here knows of
 * warps, barriers or time. In a pair, CTA 0 is the even one; descriptors and TMEM addresses apply to both CTAs
 * alike. */
#ifndef TENSOR_TCGEN05_H
#define TENSOR_TCGEN05_H

#include "tmem.h"

enum {
    TC_MMA_MAX_M = 256,
    TC_MMA_MAX_N = 256,
    TC_ROW_BYTES = 32, /* K of one instruction in bytes, in every kind */
    TC_MAX_READS = 4,
};

struct tc_cta {
    const uint8_t *smem;
    uint32_t smem_bytes;
    struct tmem *tmem;
};

struct tc_mma {
    struct tc_instruction in;
    bool a_in_tmem;
    uint32_t a_tmem;
    struct tc_matrix_descriptor a, b;
    uint32_t d_tmem, sfa_tmem, sfb_tmem;
    uint32_t e_tmem;            /* metadata of a sparse A */
    bool accumulate;            /* enable-input-d */
    uint32_t disabled_lanes[8]; /* disable-output-lane: 128 lanes of the even CTA, then of the odd one */
};

/* Memory that an MMA reads and writes in each CTA. */
struct tc_mma_footprint {
    int a_chunks, b_chunks; /* 16-byte chunks of shared memory read */
    uint32_t a[TC_MAX_CHUNKS], b[TC_MAX_CHUNKS];
    struct tmem_region d; /* written, and read when accumulating */
    int reads;
    struct tmem_region read[TC_MAX_READS]; /* A in TMEM, SFA, SFB, metadata */
};

/* Checks the operation against one CTA of the group, at issue, and fills in the footprint. */
bool tc_mma_check(const struct tc_mma *mma, const struct tc_cta *cta, struct tc_mma_footprint *footprint,
                  struct tc_why *why);

/* A and B as read from shared memory, with the rows of all CTAs of the group. */
struct tc_mma_data {
    uint8_t a[TC_MMA_MAX_M][TC_ROW_BYTES];
    uint8_t b[TC_MMA_MAX_N * 2 * TC_ROW_BYTES]; /* rows of TC_ROW_BYTES; with a sparse A, twice that */
};

/* Reads shared memory of CTA `rank` (0, or 0 and 1 in a pair), which has its share of the rows of A and B. */
void tc_mma_read(const struct tc_mma *mma, const struct tc_mma_footprint *footprint, const struct tc_cta *cta,
                 int rank, struct tc_mma_data *data);
/* In CTA `rank`, reads scales, metadata, A in TMEM and the accumulator, and writes D. Returns -1, or a lane of
 * tensor memory whose metadata is illegal; D is not written then. *idle: -1, or a lane whose illegal metadata
 * does not matter (tc_sparse_idle). */
int tc_mma_write(const struct tc_mma *mma, const struct tc_mma_data *data, const struct tc_cta *cta, int rank,
                 int *idle);

/* Reads and writes at once, for all CTAs of the group. */
void tc_mma_execute(const struct tc_mma *mma, const struct tc_mma_footprint *footprint,
                    const struct tc_cta *ctas);

/* tcgen05.cp: copies the chunks that tmem_check_cp listed. */
void tc_cp_read(const uint8_t *smem, const uint32_t *chunks, int count, uint8_t *data);

#endif
