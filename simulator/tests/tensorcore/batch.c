/* Functions of tensorcore/ on whole arrays, for tests to call through ctypes. */
#include "batch.h"

#include <stdlib.h>

#include "tensorcore/mma/arith.h"
#include "tensorcore/mma/formats.h"
#include "tensorcore/tcgen05.h"

void batch_to_f32(int format, const uint32_t *codes, float *out, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        out[i] = tc_to_f32((enum tc_format)format, codes[i]);
    }
}

void batch_from_f32(int format, const uint32_t *bits, uint32_t *out, int64_t count, int round, unsigned flags,
                    const uint32_t *random) {
    for (int64_t i = 0; i < count; i++) {
        out[i] = tc_from_f32((enum tc_format)format, tc_f32_of_bits(bits[i]), (enum tc_round)round, flags,
                             random ? random[i] : 0);
    }
}

struct batch_rule {
    int32_t family, a, b, d, k, scale, scale_block, negate_a, negate_b, saturate, d_scale_log2;
};
enum { WGMMA, MMA_SYNC, TCGEN05, MXF8F6F4, MXF4 };

static struct tc_mma_rule rule_of(const struct batch_rule *r) {
    enum tc_format a = (enum tc_format)r->a, b = (enum tc_format)r->b, d = (enum tc_format)r->d;
    struct tc_mma_rule rule = r->family == WGMMA      ? tc_rule_wgmma(a, b, d)
                              : r->family == MMA_SYNC ? tc_rule_mma_sync(a, b, d, r->k)
                              : r->family == TCGEN05  ? tc_rule_tcgen05(a, b, d)
                              : r->family == MXF8F6F4 ? tc_rule_mxf8f6f4(a, b)
                                                      : tc_rule_mxf4((enum tc_format)r->scale, r->scale_block);
    rule.negate_a = r->negate_a;
    rule.negate_b = r->negate_b;
    rule.saturate = r->saturate;
    rule.d_scale_log2 = r->d_scale_log2;
    return rule;
}

int batch_k(const struct batch_rule *r) {
    return rule_of(r).k;
}

int64_t batch_row_bytes(const struct batch_rule *r) {
    struct tc_mma_rule rule = rule_of(r);
    return (int64_t)tc_row_bytes(&rule, rule.a);
}

/* Updates d[m][n]; `generic` selects the element-by-element path. */
void batch_mma(const struct batch_rule *r, const uint8_t *a, const uint8_t *b, const uint8_t *sfa,
               const uint8_t *sfb, uint32_t *d, int m, int n, int accumulate, int generic) {
    struct tc_mma_rule rule = rule_of(r);
    size_t scales = rule.scale_block ? (size_t)(rule.k / rule.scale_block) : 0;
    struct tc_mma_operands in = {
        a, b, tc_row_bytes(&rule, rule.a), tc_row_bytes(&rule, rule.b), sfa, sfb, scales, scales};
    uint32_t *rows[256];
    for (int top = 0; top < m; top += 256) {
        int count = m - top < 256 ? m - top : 256;
        for (int i = 0; i < count; i++) {
            rows[i] = d + (size_t)(top + i) * (size_t)n;
        }
        (generic ? tc_mma_tile_generic : tc_mma_tile)(&rule, &in, rows, count, n, accumulate);
        in.a += (size_t)count * in.a_stride;
        in.sfa += (size_t)count * in.sfa_stride;
    }
}

int batch_isa(const char *name) {
    return tc_mma_force_isa(name);
}

/* ---- descriptors ---- */

static void copy_why(const struct tc_why *why, char *text) {
    memcpy(text, why->text, sizeof why->text);
}

static bool decode_matrix(int wgmma, uint64_t bits, struct tc_matrix_descriptor *d, char *text) {
    struct tc_why why = {0};
    bool ok = (wgmma ? tc_decode_wgmma_descriptor : tc_decode_tcgen05_descriptor)(bits, d, &why);
    copy_why(&why, text);
    return ok;
}

int batch_matrix(int wgmma, uint64_t bits, uint32_t out[5], char *text) {
    struct tc_matrix_descriptor d = {0};
    if (!decode_matrix(wgmma, bits, &d, text)) {
        return 0;
    }
    uint32_t fields[5] = {d.start, d.leading_offset, d.stride_offset, d.base_offset, d.swizzle};
    memcpy(out, fields, sizeof fields);
    return 1;
}

/* Returns the number of chunks, -1 if refused. */
int batch_operand(int wgmma, uint64_t bits, int format, int rows, int k, int mn_major, int padded,
                  const uint8_t *smem, uint32_t smem_bytes, uint32_t *chunks, uint8_t *out, int64_t row_stride,
                  char *text) {
    struct tc_matrix_descriptor d;
    struct tc_operand_shape shape = {(enum tc_format)format, rows, k, mn_major, padded};
    struct tc_why why = {0};
    if (!decode_matrix(wgmma, bits, &d, text)) {
        return -1;
    }
    int count = tc_operand_chunks(&d, &shape, smem_bytes, chunks, &why);
    copy_why(&why, text);
    if (count >= 0) {
        tc_operand_gather(smem, &shape, chunks, out, (size_t)row_stride);
    }
    return count;
}

/* 1 decoded, 0 refused, -1 not modelled. */
int batch_instruction(uint32_t bits, int kind, int cta_group, int ws, int scales, int32_t out[20], char *text) {
    struct tc_instruction in;
    struct tc_why why = {0};
    bool ok = tc_decode_instruction(bits, (enum tc_kind)kind, cta_group, ws, scales, &in, &why);
    copy_why(&why, text);
    if (!ok) {
        return why.unmodelled ? -1 : 0;
    }
    int32_t fields[20] = {in.m,
                          in.n,
                          in.k,
                          in.a_mn_major,
                          in.b_mn_major,
                          in.sfa_id,
                          in.sfb_id,
                          in.scales,
                          in.max_shift,
                          (int32_t)in.rule.a,
                          (int32_t)in.rule.b,
                          (int32_t)in.rule.d,
                          in.rule.fraction_bits,
                          in.rule.result_fraction,
                          (int32_t)in.rule.scale,
                          in.rule.scale_block,
                          in.rule.grouped,
                          in.rule.negate_a,
                          in.rule.negate_b,
                          in.rule.saturate};
    memcpy(out, fields, sizeof fields);
    return 1;
}

/* ---- tensor memory ---- */

struct tmem *batch_tmem_new(void) {
    struct tmem *t = malloc(sizeof *t);
    if (t) {
        tmem_init(t);
    }
    return t;
}

void batch_tmem_free(struct tmem *t) {
    free(t);
}

uint32_t *batch_tmem_words(struct tmem *t) {
    return t->word[0];
}

/* 0 done, 1 has to wait, 2 illegal */
int batch_alloc(struct tmem *t, uint32_t columns, uint32_t *address, char *text) {
    struct tc_why why = {0};
    int result = (int)tmem_alloc(t, columns, address, &why);
    copy_why(&why, text);
    return result;
}

enum { DEALLOC, RELINQUISH, EXIT, CTA_GROUP };

int batch_manage(struct tmem *t, int what, uint32_t address, uint32_t columns, char *text) {
    struct tc_why why = {0};
    bool ok = what == DEALLOC      ? tmem_dealloc(t, address, columns, &why)
              : what == RELINQUISH ? tmem_relinquish(t, &why)
              : what == EXIT       ? tmem_check_exit(t, &why)
                                   : tmem_check_cta_group(t, (int)columns, &why);
    copy_why(&why, text);
    return ok;
}

/* Moves registers[r][thread]. Returns the number of regions, 0 if refused; a region is 5 numbers. */
int batch_access(struct tmem *t, int store, int shape, int num, int pack, uint32_t address, uint32_t half_split,
                 int warp, uint32_t (*registers)[32], int32_t *out, char *text) {
    struct tmem_access access = {(enum tmem_ld_shape)shape, num, pack, address, half_split};
    struct tmem_region regions[TMEM_MAX_REGIONS];
    struct tc_why why = {0};
    int count = tmem_check_access(t, &access, warp, regions, &why);
    copy_why(&why, text);
    if (count && store) {
        tmem_store(t, &access, (const uint32_t (*)[32])registers);
    } else if (count) {
        tmem_load(t, &access, registers);
    }
    for (int i = 0; i < count; i++) {
        int32_t fields[5] = {regions[i].quarters, regions[i].first_lane, regions[i].lanes, regions[i].column,
                             regions[i].columns};
        memcpy(out + 5 * i, fields, sizeof fields);
    }
    return count;
}

int batch_cp(struct tmem *t, int shape, uint32_t address, uint64_t bits, const uint8_t *smem,
             uint32_t smem_bytes, char *text) {
    struct tmem_cp cp = {(enum tmem_cp_shape)shape, TMEM_CP_PLAIN, address, {0}};
    uint32_t chunks[TMEM_CP_MAX_CHUNKS];
    uint8_t data[TMEM_CP_MAX_CHUNKS * TC_CHUNK_BYTES];
    struct tmem_region region;
    struct tc_why why = {0};
    if (!decode_matrix(0, bits, &cp.source, text)) {
        return 0;
    }
    int count = tmem_check_cp(t, &cp, smem_bytes, chunks, &region, &why);
    copy_why(&why, text);
    if (count) {
        tc_cp_read(smem, chunks, count, data);
        tmem_cp_write(t, &cp, data);
    }
    return count;
}

int batch_shift(struct tmem *t, uint32_t address, char *text) {
    struct tmem_region region;
    struct tc_why why = {0};
    bool ok = tmem_check_shift(t, address, &region, &why);
    copy_why(&why, text);
    if (ok) {
        tmem_shift_down(t, address);
    }
    return ok;
}

struct batch_mma {
    uint64_t a, b;
    uint32_t idesc, d_tmem, a_tmem, sfa_tmem, sfb_tmem, e_tmem;
    int32_t kind, cta_group, ws, scales, a_in_tmem, accumulate, d_scale_log2;
    uint32_t disabled[8];
};

/* 1 done, 0 refused, -1 not modelled. */
int batch_tcgen05_mma(const struct batch_mma *m, struct tmem *const *tmem, uint8_t *const *smem,
                      uint32_t smem_bytes, char *text) {
    struct tc_mma mma = {0};
    struct tc_mma_footprint footprint;
    struct tc_why why = {0};
    struct tc_cta ctas[2];
    for (int i = 0; i < m->cta_group; i++) {
        ctas[i] = (struct tc_cta){smem[i], smem_bytes, tmem[i]};
    }
    bool ok =
        tc_decode_instruction(m->idesc, (enum tc_kind)m->kind, m->cta_group, m->ws, m->scales, &mma.in, &why) &&
        (m->a_in_tmem || tc_decode_tcgen05_descriptor(m->a, &mma.a, &why)) &&
        tc_decode_tcgen05_descriptor(m->b, &mma.b, &why);
    mma.in.rule.d_scale_log2 = m->d_scale_log2;
    mma.a_in_tmem = m->a_in_tmem;
    mma.a_tmem = m->a_tmem;
    mma.d_tmem = m->d_tmem;
    mma.sfa_tmem = m->sfa_tmem;
    mma.sfb_tmem = m->sfb_tmem;
    mma.e_tmem = m->e_tmem;
    mma.accumulate = m->accumulate;
    memcpy(mma.disabled_lanes, m->disabled, sizeof m->disabled);
    for (int i = 0; ok && i < m->cta_group; i++) {
        ok = tc_mma_check(&mma, &ctas[i], &footprint, &why);
    }
    copy_why(&why, text);
    if (!ok) {
        return why.unmodelled ? -1 : 0;
    }
    tc_mma_execute(&mma, &footprint, ctas);
    return 1;
}
