/* The tensor part's functions a whole array at a time, for the tests to call through ctypes. */
#include "../../../simulator/tensor/formats.h"
#include "../../../simulator/tensor/mma_arith.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT void batch_to_f32(int format, const uint32_t *codes, float *out, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        out[i] = tc_to_f32((enum tc_format)format, codes[i]);
}

EXPORT void batch_from_f32(int format, const uint32_t *bits, uint32_t *out, int64_t count, int round,
                           unsigned flags, const uint32_t *random) {
    for (int64_t i = 0; i < count; i++)
        out[i] = tc_from_f32((enum tc_format)format, tc_f32_of_bits(bits[i]), (enum tc_round)round, flags,
                             random ? random[i] : 0);
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

EXPORT int batch_k(const struct batch_rule *r) {
    return rule_of(r).k;
}

EXPORT int64_t batch_row_bytes(const struct batch_rule *r) {
    struct tc_mma_rule rule = rule_of(r);
    return (int64_t)tc_row_bytes(&rule, rule.a);
}

/* d[m][n] in place; generic selects the element-by-element path. */
EXPORT void batch_mma(const struct batch_rule *r, const uint8_t *a, const uint8_t *b, const uint8_t *sfa,
                      const uint8_t *sfb, uint32_t *d, int m, int n, int accumulate, int generic) {
    struct tc_mma_rule rule = rule_of(r);
    size_t scales = rule.scale_block ? (size_t)(rule.k / rule.scale_block) : 0;
    struct tc_mma_operands in = {
        a, b, tc_row_bytes(&rule, rule.a), tc_row_bytes(&rule, rule.b), sfa, sfb, scales, scales};
    uint32_t *rows[256];
    for (int top = 0; top < m; top += 256) {
        int count = m - top < 256 ? m - top : 256;
        for (int i = 0; i < count; i++)
            rows[i] = d + (size_t)(top + i) * (size_t)n;
        (generic ? tc_mma_tile_generic : tc_mma_tile)(&rule, &in, rows, count, n, accumulate);
        in.a += (size_t)count * in.a_stride;
        in.sfa += (size_t)count * in.sfa_stride;
    }
}

EXPORT int batch_isa(const char *name) {
    return tc_mma_force_isa(name);
}
