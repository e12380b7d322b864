/* How the tensor cores add: one instruction computes each element of D as one fused sum of the accumulator and
 * all K products, bit for bit by the rule published with MMA-Sim (arXiv 2511.10909).
 *
 * A term is significand * 2^exponent.  A product's exponent is the sum of its operands' exponents (and of the
 * scales', where there are any); a subnormal number has its format's smallest exponent.
 *
 * All terms are aligned to the largest exponent, truncated toward zero to `fraction_bits` bits after the
 * point, and added exactly.  Zeros do not count for the largest exponent, and it is at least -133: measured on
 * an H200 (wgmma and mma.sync) where MMA-Sim lets a zero have -126; taken over for tcgen05.
 *
 * The sum is truncated to `result_fraction` bits (f32), or rounded to nearest even (f16).  A zero is +0.
 *
 * fp4 with block scales (`grouped`): the products of a group of 16 are added exactly, times the significands of
 * its two scales is one term, whose exponent is the sum of the two scales' exponents alone, be the sum zero or
 * not; a scale or an accumulator of zero has -126.
 *
 * A NaN, 0 * infinity or infinity - infinity gives the canonical NaN (0x7fffffff, or 0x7fff in f16); infinity
 * stays, and a finite sum beyond the format becomes infinity. */
#ifndef TENSOR_MMA_ARITH_H
#define TENSOR_MMA_ARITH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats.h"

enum {
    TC_FRACTION_MMA = 25,       /* wgmma and mma.sync f16/bf16/tf32, all of tcgen05 but fp4 with block scales */
    TC_FRACTION_WGMMA_FP8 = 13, /* Hopper's wgmma with fp8 operands; its f32 result keeps 13 bits too */
    TC_FRACTION_MXF4 = 35,
    TC_MXF4_GROUP = 16, /* elements of one exact integer sum, whatever the scales' block size */
    TC_MMA_MAX_K = 64,
};

struct tc_mma_rule {
    enum tc_format a, b;
    enum tc_format d; /* TC_F32, TC_F16 or TC_S32; the accumulator's format too */
    int k;
    int fraction_bits;
    int result_fraction;
    enum tc_format scale; /* TC_UE8M0 or TC_UE4M3, read where scale_block is not 0 */
    int scale_block;      /* elements of K that share a scale: 0 (no scales), 16 or 32 */
    bool grouped;         /* the fp4 rule: terms are groups of 16 */
    bool two_passes;      /* mma.sync with fp8 on sm_90, see tc_mma_element */
    bool negate_a, negate_b;
    bool saturate;    /* s32: clamp instead of wrapping */
    int d_scale_log2; /* the accumulator is read times 2^-d_scale_log2 (scale-input-d), 0 to 15 */
};

/* The rules of the instruction families, with every other field of *rule cleared. */
struct tc_mma_rule tc_rule_wgmma(enum tc_format a, enum tc_format b, enum tc_format d);
struct tc_mma_rule tc_rule_mma_sync(enum tc_format a, enum tc_format b, enum tc_format d, int k);
struct tc_mma_rule tc_rule_tcgen05(enum tc_format a, enum tc_format b, enum tc_format d);
struct tc_mma_rule tc_rule_mxf8f6f4(enum tc_format a, enum tc_format b);
struct tc_mma_rule tc_rule_mxf4(enum tc_format scale, int scale_block);

/* Bytes of one row of K elements: fp4 of a grouped rule has two codes a byte (the even k in the low nibble);
 * every other format of 8 bits or less takes a byte, its code in the low bits. */
size_t tc_row_bytes(const struct tc_mma_rule *rule, enum tc_format format);

/* Row-major operands: row i of A (M rows) and row j of B (N rows, so B is given as N x K) hold K codes each.
 * A row of scales holds k / scale_block bytes. */
struct tc_mma_operands {
    const uint8_t *a, *b;
    size_t a_stride, b_stride; /* bytes from row to row */
    const uint8_t *sfa, *sfb;
    size_t sfa_stride, sfb_stride;
};

/* One element by the rule as written above: the definition that the tile path is tested against.
 *
 * HW: ptxas 13.0 turns mma.sync with fp8 into conversions to f16 and two HMMA for sm_90: the sum of the
 * elements with k % 4 < 2, from zero, then the others onto it; the accumulator is added last, in f32 to nearest
 * even. */
uint32_t tc_mma_element(const struct tc_mma_rule *rule, const uint8_t *a, const uint8_t *b, const uint8_t *sfa,
                        const uint8_t *sfb, uint32_t c);

/* d[i][j] = A row i . B row j + (accumulate ? d[i][j] : 0) for i < m, j < n, a word an element (f16 in the low
 * half, the high half cleared).  Rows whose pointer is NULL are skipped.  Bit-equal to tc_mma_element. */
void tc_mma_tile(const struct tc_mma_rule *rule, const struct tc_mma_operands *in, uint32_t *const *d, int m,
                 int n, bool accumulate);

/* The tile path for one element at a time: for tests. */
void tc_mma_tile_generic(const struct tc_mma_rule *rule, const struct tc_mma_operands *in, uint32_t *const *d,
                         int m, int n, bool accumulate);

/* What tc_mma_tile runs on: "portable", "avx2" or "avx512" (NULL: the best).  False if this machine or build
 * has it not.  Not to be called while tiles are computed. */
bool tc_mma_force_isa(const char *name);

#endif
