/* Shared by the files of the tile path: tile_body.h, compiled once per instruction set. */
#ifndef TENSOR_MMA_TILE_H
#define TENSOR_MMA_TILE_H

#include "arith.h"

enum { TC_LEAST_LARGEST = -133 }; /* lower bound on the largest exponent: measured on an H200 */

/* Rounds sum * 2^unit_exponent to the rule's result format. */
uint32_t tc_round_sum(const struct tc_mma_rule *rule, int64_t sum, int unit_exponent);
uint32_t tc_mma_nan(const struct tc_mma_rule *rule);

static inline uint32_t tc_mma_element_at(const struct tc_mma_rule *rule, const struct tc_mma_operands *in,
                                         int i, int j, uint32_t c) {
    return tc_mma_element(rule, in->a + i * in->a_stride, in->b + j * in->b_stride,
                          in->sfa ? in->sfa + i * in->sfa_stride : NULL,
                          in->sfb ? in->sfb + j * in->sfb_stride : NULL, c);
}

typedef void tc_tile_function(const struct tc_mma_rule *rule, const struct tc_mma_operands *in,
                              uint32_t *const *d, int m, int n, bool accumulate);
tc_tile_function tc_tile_portable;
#ifdef NVFP4_HAVE_AVX2
tc_tile_function tc_tile_avx2;
#endif
#ifdef NVFP4_HAVE_AVX512
tc_tile_function tc_tile_avx512;
#endif

#endif
