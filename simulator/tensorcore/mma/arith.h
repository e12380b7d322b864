/* The tensor cores' arithmetic: an instruction computes each element of D as one fused sum of the accumulator
 * and all K products, bit for bit by the rule published with MMA-Sim (arXiv 2511.10909).
 *
 * A term is significand * 2^exponent.  A product's exponent is the sum of its operands' exponents (and of the
 * scales', if there are any); a subnormal number has its format's smallest exponent.
 *
 * All terms are aligned to the largest exponent, truncated toward zero to `fraction_bits` bits after the point,
 * and added exactly.  Zeros do not take part in finding the largest exponent, which is at least -133 (measured
 * on an H200 for wgmma and mma.sync; MMA-Sim gives a zero -126; assumed for tcgen05).
 *
 * The sum is truncated to `result_fraction` bits (f32) or rounded to nearest even (f16).  A zero result is +0.
 *
 * fp4 with block scales (`grouped`): the products of a group of 16 are added exactly; this sum times the
 * significands of the group's two scales is one term.  Its exponent is the sum of the two scales' exponents,
 * even if the sum is zero.  A zero scale or accumulator has exponent -126.
 *
 * A NaN, 0 * infinity or infinity - infinity gives the canonical NaN (0x7fffffff, in f16 0x7fff); an infinity
 * remains, and a finite sum beyond the format becomes infinity. */
#ifndef TENSOR_MMA_ARITH_H
#define TENSOR_MMA_ARITH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "formats.h"

enum {
    TC_FRACTION_MMA = 25,       /* wgmma and mma.sync with f16, bf16, tf32; tcgen05 except block-scaled fp4 */
    TC_FRACTION_WGMMA_FP8 = 13, /* Hopper's wgmma with fp8; its f32 result keeps 13 bits too */
    TC_FRACTION_MXF4 = 35,
    TC_MXF4_GROUP = 16, /* elements per exact integer sum, whatever the scales' block size */
    TC_MMA_MAX_K = 64,
};

struct tc_mma_rule {
    enum tc_format a, b;
    enum tc_format d; /* TC_F32, TC_F16 or TC_S32; also the accumulator's format */
    int k;
    int fraction_bits;
    int result_fraction;
    enum tc_format scale; /* TC_UE8M0 or TC_UE4M3; unused if scale_block is 0 */
    int scale_block;      /* elements of K that share a scale: 16 or 32; 0: no scales */
    bool grouped;         /* the fp4 rule: terms are groups of 16 */
    bool two_passes;      /* mma.sync with fp8 on sm_90: see tc_mma_element */
    bool negate_a, negate_b;
    bool saturate;    /* s32: clamp instead of wrapping */
    int d_scale_log2; /* scale-input-d, 0 to 15: the accumulator counts times 2^-d_scale_log2 */
};

/* The rules of the instruction families; fields that are not arguments are cleared. */
struct tc_mma_rule tc_rule_wgmma(enum tc_format a, enum tc_format b, enum tc_format d);
struct tc_mma_rule tc_rule_mma_sync(enum tc_format a, enum tc_format b, enum tc_format d, int k);
struct tc_mma_rule tc_rule_tcgen05(enum tc_format a, enum tc_format b, enum tc_format d);
struct tc_mma_rule tc_rule_mxf8f6f4(enum tc_format a, enum tc_format b);
struct tc_mma_rule tc_rule_mxf4(enum tc_format scale, int scale_block);

/* Bytes of a row of K elements. In a grouped rule a byte holds two fp4 codes (even k in the low nibble);
 * otherwise a format of 8 bits or less uses a byte per element, with the code in the low bits. */
size_t tc_row_bytes(const struct tc_mma_rule *rule, enum tc_format format);

/* Row-major operands: A has M rows and B has N rows of K codes each. A row of scales: k / scale_block bytes. */
struct tc_mma_operands {
    const uint8_t *a, *b;
    size_t a_stride, b_stride; /* bytes from row to row */
    const uint8_t *sfa, *sfb;
    size_t sfa_stride, sfb_stride;
};

/* One element by the rule above: the definition that the tile path is tested against.
 *
 * HW: for sm_90, ptxas 13.0 turns mma.sync with fp8 into conversions to f16 and two HMMA: the first sums the
 * elements with k % 4 < 2, starting from zero, the second adds the others; the accumulator is added last, in
 * f32, rounded to nearest even. */
uint32_t tc_mma_element(const struct tc_mma_rule *rule, const uint8_t *a, const uint8_t *b, const uint8_t *sfa,
                        const uint8_t *sfb, uint32_t c);

/* d[i][j] = A row i . B row j + (accumulate ? d[i][j] : 0) for i < m, j < n, one word per element (f16 in the
 * low half, upper half zero). Rows with a NULL pointer are skipped. Bit-equal to tc_mma_element. */
void tc_mma_tile(const struct tc_mma_rule *rule, const struct tc_mma_operands *in, uint32_t *const *d, int m,
                 int n, bool accumulate);

/* tc_mma_tile, element by element with tc_mma_element: for integer and two-pass rules, and for tests. */
void tc_mma_tile_generic(const struct tc_mma_rule *rule, const struct tc_mma_operands *in, uint32_t *const *d,
                         int m, int n, bool accumulate);

/* Selects the instruction set of tc_mma_tile: "portable", "avx2" or "avx512"; NULL: the best. False if this
 * machine or build lacks it. Must not be called while tiles are computed. */
bool tc_mma_force_isa(const char *name);

#endif
