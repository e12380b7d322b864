/* Decodes tcgen05's instruction descriptors (PTX ISA, Instruction descriptor; one table per group of kinds). */
#include "descriptor.h"

static const char *const tc_kind_names[TC_KINDS] = {"f16",      "tf32", "f8f6f4",  "i8",
                                                    "mxf8f6f4", "mxf4", "mxf4nvf4"};

static uint32_t field(uint32_t bits, int low, int width) {
    return bits >> low & ((1u << width) - 1);
}

static bool reserved(uint32_t bits, int low, int width, enum tc_kind kind, struct tc_why *why) {
    uint32_t value = field(bits, low, width);
    if (!value) {
        return true;
    }
    return tc_refuse(why, "instruction descriptor of kind::%s: bits %d-%d are reserved and must be 0, not 0x%x",
                     tc_kind_names[kind], low, low + width - 1, value);
}

static bool block_scaled(enum tc_kind kind) {
    return kind == TC_KIND_MXF8F6F4 || kind == TC_KIND_MXF4 || kind == TC_KIND_MXF4NVF4;
}

static bool operand_format(enum tc_kind kind, uint32_t code, char operand, enum tc_format *out,
                           struct tc_why *why) {
    static const enum tc_format narrow[8] = {TC_E4M3, TC_E5M2, TC_FORMATS, TC_E2M3,
                                             TC_E3M2, TC_E2M1, TC_FORMATS, TC_FORMATS};
    enum tc_format format = TC_FORMATS;
    switch (kind) {
    case TC_KIND_F16:
        format = code == 0 ? TC_F16 : code == 1 ? TC_BF16 : TC_FORMATS;
        break;
    case TC_KIND_TF32:
        format = code == 2 ? TC_TF32 : TC_FORMATS;
        break;
    case TC_KIND_I8:
        format = code == 0 ? TC_U8 : code == 1 ? TC_S8 : TC_FORMATS;
        break;
    case TC_KIND_F8F6F4:
    case TC_KIND_MXF8F6F4:
        format = narrow[code];
        break;
    default:
        format = code == 1 ? TC_E2M1 : TC_FORMATS;
    }
    *out = format;
    if (format == TC_FORMATS) {
        return tc_refuse(why, "instruction descriptor of kind::%s: %ctype is %u, which this kind does not have",
                         tc_kind_names[kind], operand, code);
    }
    return true;
}

/* The type of D: bits 4-5, in kinds without block scaling. */
static bool result_format(enum tc_kind kind, uint32_t code, enum tc_format a, enum tc_format b,
                          enum tc_format *out, struct tc_why *why) {
    static const enum tc_format formats[4] = {TC_F16, TC_F32, TC_S32, TC_FORMATS};
    *out = formats[code];
    bool legal = kind == TC_KIND_I8     ? *out == TC_S32
                 : kind == TC_KIND_TF32 ? *out == TC_F32
                                        : *out == TC_F32 || (*out == TC_F16 && a != TC_BF16 && b != TC_BF16);
    if (!legal) {
        return tc_refuse(
            why, "instruction descriptor of kind::%s: dtype is %u (%s), which does not go with %s and %s",
            tc_kind_names[kind], code, *out == TC_FORMATS ? "undefined" : tc_formats[*out].name,
            tc_formats[a].name, tc_formats[b].name);
    }
    return true;
}

/* PTX ISA, Matrix Shape, table of kinds and shapes; Transpose and Negate: N of a transposed 8-bit B. */
static bool check_shape(const struct tc_instruction *in, struct tc_why *why) {
    int step, least;
    bool pair = in->cta_group == 2, m_ok;
    if (in->ws) {
        m_ok = in->m == 32 || in->m == 64 || in->m == 128;
        if (!m_ok || pair || (in->n != 64 && in->n != 128 && in->n != 256)) {
            return tc_refuse(
                why,
                "instruction descriptor: M = %d, N = %d: .ws has M 32, 64 or 128, N 64, 128 or 256 and "
                "cta_group::1",
                in->m, in->n);
        }
        return true;
    }
    if (pair) {
        m_ok = in->m == 128 || in->m == 256;
        step = in->kind == TC_KIND_I8 ? 32 : 16;
    } else if (block_scaled(in->kind)) {
        m_ok = in->m == 128;
        step = 8;
    } else {
        m_ok = in->m == 64 || in->m == 128;
        step = in->m == 64 && in->kind != TC_KIND_I8 ? 8 : 16;
    }
    least = step;
    if (in->kind == TC_KIND_I8 && !pair && in->m == 64 && (in->n == 8 || in->n == 24)) {
        step = least = 8; /* 8, 16, 24, 32, 48, ... */
    }
    if (in->b_mn_major && tc_formats[in->rule.b].bits <= 8 && step < 16 * in->cta_group) {
        step = least = 16 * in->cta_group;
    }
    if (!m_ok) {
        return tc_refuse(why, "instruction descriptor: M = %d is not a shape of kind::%s with cta_group::%d",
                         in->m, tc_kind_names[in->kind], in->cta_group);
    }
    if (in->n < least || in->n > 256 || in->n % step) {
        return tc_refuse(
            why,
            "instruction descriptor: N = %d with M = %d, kind::%s, cta_group::%d: N must be a multiple "
            "of %d from %d to 256",
            in->n, in->m, tc_kind_names[in->kind], in->cta_group, step, least);
    }
    return true;
}

/* Scale type, scale factor IDs and block size of the block-scaled kinds (PTX ISA, Valid combinations of
 * scale_vectorsize with types and MMA-Kind; Scale Factor A ID; Scale Factor B ID). */
static bool decode_scales(uint32_t bits, int scales, struct tc_instruction *out, struct tc_why *why) {
    const char *kind = tc_kind_names[out->kind];
    int natural = out->kind == TC_KIND_MXF8F6F4 ? 1 : 2;
    if (!scales) {
        if (out->kind == TC_KIND_MXF4NVF4) {
            return tc_refuse(why, "kind::mxf4nvf4 needs .scale_vec::2X, ::4X, .block16 or .block32");
        }
        scales = natural;
    }
    if (scales != natural && !(out->kind == TC_KIND_MXF4NVF4 && scales == 4)) {
        return tc_refuse(why, "kind::%s has no .scale_vec::%dX", kind, scales);
    }
    bool ue8m0 = field(bits, 23, 1);
    if (!ue8m0 && scales != 4) {
        return tc_refuse(why,
                         "instruction descriptor of kind::%s: scale type (bit 23) must be 1 (ue8m0) with %s",
                         kind, scales == 1 ? "scale_vec::1X" : "scale_vec::2X");
    }
    out->scales = scales;
    out->sfb_id = (int)field(bits, 4, 2);
    out->sfa_id = (int)field(bits, 29, 2);
    for (int i = 0; i < 2; i++) {
        int id = i ? out->sfb_id : out->sfa_id;
        if (id % scales) {
            return tc_refuse(
                why, "instruction descriptor of kind::%s: scale factor %c ID is %d, scale_vec::%dX has %s",
                kind, i ? 'B' : 'A', id, scales, scales == 4 ? "only 0" : "0 and 2");
        }
    }
    out->rule.scale = ue8m0 ? TC_UE8M0 : TC_UE4M3;
    out->rule.scale_block = out->rule.k / scales;
    return true;
}

bool tc_decode_instruction(uint32_t bits, enum tc_kind kind, int cta_group, bool ws, int scales,
                           struct tc_instruction *out, struct tc_why *why) {
    struct tc_instruction in = {.kind = kind, .cta_group = cta_group, .ws = ws};
    bool scaled = block_scaled(kind), fp4 = scaled && kind != TC_KIND_MXF8F6F4;
    enum tc_format a, b, d = TC_F32;
    in.sparse = field(bits, 2, 1);
    bool selects = in.sparse && (kind == TC_KIND_F16 || kind == TC_KIND_TF32);
    in.selector = selects ? (int)field(bits, 0, 1) : 0;
    if (!reserved(bits, selects, 2 - selects, kind, why) || !reserved(bits, 6, 1, kind, why)) {
        return false;
    }
    if (scaled) {
        if (!reserved(bits, 3, 1, kind, why) || !reserved(bits, 24, 3, kind, why)) {
            return false;
        }
        if (fp4 ? !reserved(bits, 12, 1, kind, why) : !reserved(bits, 31, 1, kind, why)) {
            return false;
        }
        if (fp4 && field(bits, 31, 1)) {
            return tc_unmodelled(
                why, "instruction descriptor of kind::%s: K = 96 (bit 31) is sm_103a's and not modelled",
                tc_kind_names[kind]);
        }
    } else if (!reserved(bits, 23, 1, kind, why) || !reserved(bits, 29, 1, kind, why)) {
        return false;
    }
    if (kind != TC_KIND_I8 && !scaled && field(bits, 3, 1)) {
        return tc_refuse(why, "instruction descriptor of kind::%s: saturate (bit 3) is for integers only",
                         tc_kind_names[kind]);
    }
    if (!operand_format(kind, field(bits, 7, 3), 'a', &a, why) ||
        !operand_format(kind, field(bits, 10, fp4 ? 2 : 3), 'b', &b, why)) {
        return false;
    }
    if (!scaled && !result_format(kind, field(bits, 4, 2), a, b, &d, why)) {
        return false;
    }
    in.rule = kind == TC_KIND_MXF8F6F4 ? tc_rule_mxf8f6f4(a, b)
              : fp4                    ? tc_rule_mxf4(TC_UE8M0, 32)
                                       : tc_rule_tcgen05(a, b, d);
    in.rule.saturate = kind == TC_KIND_I8 && field(bits, 3, 1);
    in.rule.negate_a = field(bits, 13, 1);
    in.rule.negate_b = field(bits, 14, 1);
    if (kind == TC_KIND_I8 && (in.rule.negate_a || in.rule.negate_b)) {
        return tc_refuse(why, "instruction descriptor of kind::i8: negate (bits 13, 14) is not for integers");
    }
    in.a_mn_major = field(bits, 15, 1);
    in.b_mn_major = field(bits, 16, 1);
    if (fp4 && (in.a_mn_major || in.b_mn_major)) {
        return tc_refuse(why,
                         "instruction descriptor of kind::%s: transpose (bits 15, 16): fp4 must be K-major",
                         tc_kind_names[kind]);
    }
    in.n = (int)field(bits, 17, 6) << 3;
    in.m = scaled ? (int)field(bits, 27, 2) << 7 : (int)field(bits, 24, 5) << 4;
    in.k = in.rule.k * (in.sparse ? 2 : 1);
    if (!scaled) {
        in.max_shift = (int)field(bits, 30, 2);
    }
    if (in.max_shift && !ws) {
        return tc_refuse(why, "instruction descriptor: maximum shift (bits 30-31) is for .ws only");
    }
    if (!check_shape(&in, why) || (scaled && !decode_scales(bits, scales, &in, why))) {
        return false;
    }
    if (in.sparse && in.m / cta_group != 128) {
        return scaled ? tc_refuse(why,
                                  "instruction descriptor of kind::%s: M = %d with a sparse A: a pair has 256",
                                  tc_kind_names[kind], in.m)
                      : tc_unmodelled(
                            why, "a sparse A of M = %d with cta_group::%d: its data path layout is in figures",
                            in.m, cta_group);
    }
    if (!scaled && scales) {
        return tc_refuse(why, "kind::%s has no scale factors", tc_kind_names[kind]);
    }
    *out = in;
    return true;
}

/* PTX ISA, Valid Combinations of Type-Size, Major-ness and Swizzling. */
bool tc_check_operand(const struct tc_instruction *in, bool is_b, const struct tc_matrix_descriptor *desc,
                      struct tc_why *why) {
    bool mn_major = is_b ? in->b_mn_major : in->a_mn_major, atom32 = desc->swizzle == TC_SWIZZLE_128B_ATOM32;
    bool is_tf32 = in->kind == TC_KIND_TF32;
    if (mn_major && is_tf32 != atom32) {
        return tc_refuse(why, "matrix descriptor of %c: transposed %s needs %s", is_b ? 'B' : 'A',
                         is_tf32 ? "tf32" : "elements of 8 or 16 bits",
                         is_tf32 ? "128-byte swizzle with 32-byte atomicity (mode 1)"
                                 : "another swizzle than 128 bytes with 32-byte atomicity (mode 1)");
    }
    return true;
}

static struct tc_operand_shape operand_shape(const struct tc_instruction *in, enum tc_format format, int rows,
                                             int k, bool mn_major) {
    bool contained = in->kind == TC_KIND_F8F6F4 || in->kind == TC_KIND_MXF8F6F4;
    struct tc_operand_shape shape = {format, rows, k, mn_major, contained && tc_formats[format].bits < 8};
    return shape;
}

struct tc_operand_shape tc_a_shape(const struct tc_instruction *in) {
    return operand_shape(in, in->rule.a, in->m / in->cta_group, in->rule.k, in->a_mn_major);
}

struct tc_operand_shape tc_b_shape(const struct tc_instruction *in) {
    return operand_shape(in, in->rule.b, in->n / in->cta_group, in->k, in->b_mn_major);
}
