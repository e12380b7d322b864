/* Structured sparse A (PTX ISA, Sparse matrix storage): of each chunk of four units of a row two are stored,
 * and four bits of metadata say which: the place of the first in the low two bits, that of the second above.  A
 * unit is two bytes of elements of 16 bits, one byte of elements of 8 bits or of pairs of 4 bits; a tf32
 * element is two units that stay together. */
#ifndef TENSOR_MMA_SPARSE_H
#define TENSOR_MMA_SPARSE_H

#include "arith.h"

enum { TC_SPARSE_MAX_CHUNKS = 16 }; /* of a row */

struct tc_sparse {
    const uint8_t *chunks; /* the metadata of each chunk, a byte each, row by row */
    size_t stride;         /* bytes from row to row */
    int unit;              /* bytes */
};

static inline int tc_sparse_unit(enum tc_format a) {
    return tc_formats[a].bits >= 16 ? 2 : 1;
}

/* Whether PTX gives this metadata a meaning; `ordered`: only with the first place before the second. */
bool tc_sparse_legal(uint8_t metadata, enum tc_format a, bool ordered);
/* Whether metadata without a meaning decides nothing: it names one place twice, and the chunk's two stored
 * units, of which `row` is the row's first one, are zeros (CUTLASS's compressor writes so where a chunk is all
 * zeros). */
bool tc_sparse_idle(uint8_t metadata, enum tc_format a, const uint8_t *row, int chunk);

/* Where mma.sp and wgmma.mma_async.sp have the metadata of a chunk of one of a warp's 16 rows, `chunks` a row:
 * the lane, and which four bits of its register.  Of a group of four lanes (rows g and g + 8) the selector
 * names one or two, where not all take part.  The same as cute's ELayouts in mma_traits_sm90_gmma_sparse.hpp
 * and mma_traits_sm120_sparse.hpp; PTX ISA: in figures. */
int tc_sparse_place(enum tc_format a, int chunks, uint32_t selector, int row, int chunk, int *nibble);
/* Selectors are below this. */
static inline uint32_t tc_sparse_selectors(int chunks) {
    return TC_SPARSE_MAX_CHUNKS / (uint32_t)chunks;
}

/* As tc_mma_tile, for a rule of k products: rows of A hold the k elements that are stored, rows of B the 2 k of
 * which the metadata chooses k for each row of A.  What is not chosen does not take part, NaN or not.  Metadata
 * has to be legal. */
void tc_mma_sparse_tile(const struct tc_mma_rule *rule, const struct tc_mma_operands *in,
                        const struct tc_sparse *sparse, uint32_t *const *d, int m, int n, bool accumulate);

#endif
