/* Structured sparse A (PTX ISA, Sparse matrix storage). A row is divided into chunks of four units, of which
 * two are stored. Four bits of metadata per chunk give their positions: the first in the low two bits, the
 * second above. A unit is a 16-bit element, an 8-bit element or a pair of 4-bit elements; a tf32 element is two
 * units that stay together. */
#ifndef TENSOR_MMA_SPARSE_H
#define TENSOR_MMA_SPARSE_H

#include "arith.h"

enum { TC_SPARSE_MAX_CHUNKS = 16 }; /* per row */

struct tc_sparse {
    const uint8_t *chunks; /* metadata, one byte per chunk, row by row */
    size_t stride;         /* bytes from row to row */
    int unit;              /* bytes of a unit */
};

static inline int tc_sparse_unit(enum tc_format a) {
    return tc_formats[a].bits >= 16 ? 2 : 1;
}

/* True if PTX defines this metadata; `ordered`: the first position must be below the second. */
bool tc_sparse_legal(uint8_t metadata, enum tc_format a, bool ordered);
/* True if illegal metadata does not matter: it gives one position twice, and both stored units of the chunk are
 * zero, as CUTLASS's compressor writes chunks of zeros. `row`: the row's first stored unit. */
bool tc_sparse_idle(uint8_t metadata, enum tc_format a, const uint8_t *row, int chunk);

/* The lane, and which four bits of its register, that hold the metadata of a chunk of one of a warp's 16 rows
 * in mma.sp and wgmma.mma_async.sp; a row has `chunks` chunks. Each group of four lanes serves rows g and g +
 * 8; if not all of its lanes take part, the selector chooses one or two. Same as cute's ELayouts in
 * mma_traits_sm90_gmma_sparse.hpp and mma_traits_sm120_sparse.hpp; the PTX ISA has figures. */
int tc_sparse_place(enum tc_format a, int chunks, uint32_t selector, int row, int chunk, int *nibble);
/* Number of selectors that exist for rows of `chunks` chunks. */
static inline uint32_t tc_sparse_selectors(int chunks) {
    return TC_SPARSE_MAX_CHUNKS / (uint32_t)chunks;
}

/* tc_mma_tile for a sparse A and a rule of k products: rows of A have the k stored elements, rows of B have 2
 * k, of which the metadata selects k for each row of A. The others do not take part, even if they are NaN. The
 * metadata must be legal. */
void tc_mma_sparse_tile(const struct tc_mma_rule *rule, const struct tc_mma_operands *in,
                        const struct tc_sparse *sparse, uint32_t *const *d, int m, int n, bool accumulate);

#endif
