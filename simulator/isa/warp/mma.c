/* mma.sync (PTX ISA, Warp Level Matrix Instructions: mma), with and without block scales. */
#include <string.h>

#include "isa/opcodes.h"
#include "machine/count.h"
#include "machine/machine.h"
#include "tensorcore/mma/arith.h"

/* ---- mma.sync: 16 x 8 x k.  A: 4 (or 2) registers, B: 2 (or 1), C and D: 4 (f32) or 2 (f16) ---- */

struct mma_form {
    struct tc_mma_rule rule;
    int a_regs, b_regs, d_regs;
    int scales;    /* a row, of block scaling; 0: none */
    bool contains; /* each element in a byte of its own, .e2m1 in its middle (PTX ISA, mma: .kind::f8f6f4) */
};

/* A register covers 4 bytes of K; thread t's lie at byte 4 (t % 4) of its row, later pairs 16 bytes on. */
static void gather_fragment(const struct run *run, const struct insn *insn, int first, int regs, int row_groups,
                            uint8_t out[][32]) {
    for (int reg = 0; reg < regs; reg++) {
        const uint32_t *lanes = row(run, insn->op[first + reg]);
        for (int t = 0; t < LANES; t++) {
            memcpy(&out[t / 4 + reg % row_groups * 8][reg / row_groups * 16 + t % 4 * 4], &lanes[t], 4);
        }
    }
}

/* Elements of 4 and 6 bits to their byte's low bits, where the sums want them. */
static void take_out(enum tc_format format, uint8_t *bytes, size_t count) {
    int bits = tc_formats[format].bits;
    for (size_t i = 0; bits < 8 && i < count; i++) {
        bytes[i] = bits == 4 ? bytes[i] >> 2 & 15 : bytes[i] & 63;
    }
}

/* ---- block scaling (PTX ISA, Block Scaling for mma.sync) ----
 * op, after C: the scales of A, their byte and thread, those of B.  Of A, lane 4 r + 2 thread + h supplies row
 * r + 8 h; of B, lane 4 c + thread column c (the same layouts as cute/atom/mma_traits_sm120.hpp, SFALayout). */
static bool read_selector(struct run *run, const struct insn *insn, int at, int scales, uint32_t threads,
                          uint32_t *byte, uint32_t *thread) {
    *byte = lane_u32(run, insn->op[at], 0) & 0xffff;
    *thread = lane_u32(run, insn->op[at + 1], 0) & 0xffff;
    bool legal = *thread < threads && *byte + (uint32_t)scales <= 4 && *byte % (uint32_t)scales == 0;
    for (int l = 1; l < LANES; l++) {
        legal &= (lane_u32(run, insn->op[at], l) & 0xffff) == *byte &&
                 (lane_u32(run, insn->op[at + 1], l) & 0xffff) == *thread;
    }
    if (!legal) {
        (void)sim_report(run, SIM_ERROR, "mma-scales", -1,
                         "byte %u of thread %u as the place of %d scales a row: PTX has no such place, or not "
                         "all lanes name the same",
                         *byte, *thread, scales);
    }
    return legal;
}

static bool gather_scales(struct run *run, const struct insn *insn, int at, int scales, uint8_t sfa[16][4],
                          uint8_t sfb[8][4]) {
    uint32_t byte_a, thread_a, byte_b, thread_b;
    if (!read_selector(run, insn, at + 1, scales, 2, &byte_a, &thread_a) ||
        !read_selector(run, insn, at + 4, scales, 4, &byte_b, &thread_b)) {
        return false;
    }
    for (uint32_t i = 0; i < 16; i++) {
        uint32_t word = lane_u32(run, insn->op[at], (int)(i % 8 * 4 + thread_a * 2 + i / 8)) >> 8 * byte_a;
        memcpy(sfa[i], &word, sizeof word);
    }
    for (uint32_t j = 0; j < 8; j++) {
        uint32_t word = lane_u32(run, insn->op[at + 3], (int)(j * 4 + thread_b)) >> 8 * byte_b;
        memcpy(sfb[j], &word, sizeof word);
    }
    return true;
}

static enum next exec_mma(struct run *run, const struct insn *insn, uint32_t mask) {
    const struct mma_form *form = insn->matrix.form;
    uint8_t a[16][32] = {{0}}, b[8][32] = {{0}};
    uint32_t d[16][8], *rows[16];
    int first_a = form->d_regs, first_b = first_a + form->a_regs, first_c = first_b + form->b_regs;
    bool half = form->rule.d == TC_F16;
    (void)mask;
    gather_fragment(run, insn, first_a, form->a_regs, 2, a);
    gather_fragment(run, insn, first_b, form->b_regs, 1, b);
    if (form->contains) {
        take_out(form->rule.a, a[0], sizeof a);
        take_out(form->rule.b, b[0], sizeof b);
    }
    uint8_t sfa[16][4], sfb[8][4];
    if (form->scales != 0 && !gather_scales(run, insn, first_c + form->d_regs, form->scales, sfa, sfb)) {
        return FAIL;
    }
    for (int i = 0; i < 16; i++) {
        rows[i] = d[i];
    }
    for (int reg = 0; reg < form->d_regs; reg++) {
        const uint32_t *lanes = row(run, insn->op[first_c + reg]);
        for (int t = 0; t < LANES; t++) {
            if (half) {
                d[t / 4 + reg * 8][t % 4 * 2] = lanes[t] & 0xffff;
                d[t / 4 + reg * 8][t % 4 * 2 + 1] = lanes[t] >> 16;
            } else {
                d[t / 4 + reg / 2 * 8][t % 4 * 2 + reg % 2] = lanes[t];
            }
        }
    }
    struct tc_mma_operands operands = {.a = a[0], .b = b[0], .a_stride = 32, .b_stride = 32};
    if (form->scales != 0) {
        operands.sfa = sfa[0];
        operands.sfb = sfb[0];
        operands.sfa_stride = operands.sfb_stride = sizeof sfa[0];
    }
    tc_mma_tile(&form->rule, &operands, rows, 16, 8, true);
    for (int reg = 0; reg < form->d_regs; reg++) {
        uint32_t *lanes = row(run, insn->op[reg]);
        for (int t = 0; t < LANES; t++) {
            lanes[t] = half ? (d[t / 4 + reg * 8][t % 4 * 2] & 0xffff) | d[t / 4 + reg * 8][t % 4 * 2 + 1] << 16
                            : d[t / 4 + reg / 2 * 8][t % 4 * 2 + reg % 2];
        }
    }
    run->worker->counters.tensor_instructions++;
    run->worker->counters.tensor_macs += (uint64_t)(16 * 8 * form->rule.k);
    return NEXT;
}

static int emit_list(struct decoder *d, int at, bool write) {
    uint32_t count;
    const struct pop *list = elements(&d->op[at], &count);
    for (uint32_t i = 0; i < count; i++) {
        emit(d, write ? dst(d, &list[i], T_B32) : src(d, &list[i], T_B32));
    }
    return (int)count;
}

static bool format_of(unsigned type, enum tc_format *format) {
    *format = type == T_F16    ? TC_F16
              : type == T_BF16 ? TC_BF16
              : type == T_TF32 ? TC_TF32
              : type == T_E4M3 ? TC_E4M3
              : type == T_E5M2 ? TC_E5M2
              : type == T_S8   ? TC_S8
              : type == T_U8   ? TC_U8
                               : TC_FORMATS;
    return *format != TC_FORMATS;
}

static int narrow_format(struct decoder *d) {
    static const char *const names[] = {"e4m3", "e5m2", "e3m2", "e2m3", "e2m1", NULL};
    static const enum tc_format formats[] = {TC_E4M3, TC_E5M2, TC_E3M2, TC_E2M3, TC_E2M1};
    for (int i = 0; i < d->nmods; i++) { /* in the mnemonic's order */
        for (int j = 0; !d->used[i] && names[j] != NULL; j++) {
            if (d->mods[i].length == 4 && memcmp(d->mods[i].text, names[j], 4) == 0) {
                d->used[i] = true;
                return (int)formats[j];
            }
        }
    }
    decode_fail(d, "not with these element types");
}

/* What RTX 50 and GB10 have of their own. */
static void need_sm_120(struct decoder *d) {
    const struct module *module = d->parser->module;
    const char last = module->target[strlen(module->target) - 1];
    if (module->sm / 10 != 12 || (last != 'a' && last != 'f')) {
        decode_fail(d, "a kind of mma.sync needs sm_120a or its family");
    }
}

/* .kind::f8f6f4, and the kinds with block scales. */
static void decode_kind(struct decoder *d, struct mma_form *form, int kind) {
    enum { F8F6F4, MXF8F6F4, MXF4, MXF4NVF4 };
    static const char *const sizes[] = {"scale_vec::1X", "scale_vec::2X", "scale_vec::4X", NULL};
    bool packed = kind >= MXF4, scaled = kind != F8F6F4;
    int size = mod_of(d, sizes);
    bool shape = mod(d, packed ? "m16n8k64" : "m16n8k32");
    unsigned to = mod_type(d);
    enum tc_format a = (enum tc_format)narrow_format(d), b = (enum tc_format)narrow_format(d);
    unsigned from = mod_type(d);
    need_sm_120(d);
    if (!shape || to != from || (to != T_F32 && (scaled || to != T_F16)) ||
        (packed && (a != TC_E2M1 || b != TC_E2M1)) || mod(d, "block_scale") != scaled) {
        decode_fail(d, "this kind, shape and types do not go together");
    }
    form->contains = !packed;
    form->rule = tc_rule_tcgen05(a, b, to == T_F16 ? TC_F16 : TC_F32);
    if (scaled) {
        bool ue4m3 = mod(d, "ue4m3");
        int least = kind == MXF8F6F4 ? 0 : 1;
        size = size < 0 && kind != MXF4NVF4 ? least : size;
        if (ue4m3 == mod(d, "ue8m0") || size < least || (size == 2) != (size > least) ||
            (kind != MXF4NVF4 && (size != least || ue4m3)) || (ue4m3 && size != 2)) {
            decode_fail(d, "this kind, scale type and scale vector do not go together");
        }
        form->scales = 1 << size;
        form->rule = packed ? tc_rule_mxf4(ue4m3 ? TC_UE4M3 : TC_UE8M0, 64 >> size) : tc_rule_mxf8f6f4(a, b);
    }
    form->a_regs = 4;
    form->b_regs = 2;
    form->d_regs = to == T_F16 ? 2 : 4;
}

/* {byte-id, thread-id}: 16-bit registers or numbers. */
static void emit_selector(struct decoder *d, int at) {
    uint32_t count;
    const struct pop *list = elements(&d->op[at], &count);
    if (count != 2) {
        decode_fail(d, "a scale's place is {byte-id, thread-id}");
    }
    for (uint32_t i = 0; i < count; i++) {
        emit(d, src(d, &list[i], T_U16));
    }
}

static void decode_plain(struct decoder *d, struct mma_form *form) {
    static const char *const shapes[] = {"m16n8k4", "m16n8k8", "m16n8k16", "m16n8k32", NULL};
    static const int depth[] = {4, 8, 16, 32};
    int shape = mod_of(d, shapes);
    unsigned to = mod_type(d), a_type = mod_type(d), b_type = mod_type(d), c_type = mod_type(d);
    enum tc_format a, b;
    if (shape < 0 || !format_of(a_type, &a) || !format_of(b_type, &b) || to != c_type ||
        (to != T_F32 && to != T_F16 && to != T_S32)) {
        decode_fail(d, "only dense .row.col forms m16n8k4 to k32 with matching sums");
    }
    int k = depth[shape], bytes = (int)ptx_type_bytes(a_type) * k;
    enum tc_format result = to == T_F32 ? TC_F32 : to == T_F16 ? TC_F16 : TC_S32;
    form->rule = tc_rule_mma_sync(a, b, result, k);
    form->rule.two_passes &= d->parser->module->sm < 120; /* there the instruction is that of .kind::f8f6f4 */
    form->a_regs = bytes / 8;
    form->b_regs = bytes / 16;
    form->d_regs = result == TC_F16 ? 2 : 4;
    if (bytes > 32 || bytes < 16) {
        decode_fail(d, "fragments of the wrong size for this shape and type");
    }
}

void decode_mma(struct decoder *d) {
    static const char *const kinds[] = {"kind::f8f6f4", "kind::mxf8f6f4", "kind::mxf4", "kind::mxf4nvf4", NULL};
    struct mma_form *form = parse_take(d->parser, sizeof *form);
    if (mod(d, "sp") || mod(d, "sp::ordered_metadata")) {
        decode_fail(d, "sparse matrices are not supported");
    }
    bool sync = mod(d, "sync"), aligned = mod(d, "aligned"), layout = mod(d, "row") && mod(d, "col");
    bool saturate = mod(d, "satfinite");
    int kind = mod_of(d, kinds);
    if (!sync || !aligned || !layout) {
        decode_fail(d, "only .sync.aligned and .row.col");
    }
    if (kind >= 0) {
        decode_kind(d, form, kind);
    } else {
        decode_plain(d, form);
    }
    form->rule.saturate = saturate;
    need_operands(d, form->scales != 0 ? 8 : 4, form->scales != 0 ? 8 : 4);
    if (emit_list(d, 0, true) != form->d_regs || emit_list(d, 1, false) != form->a_regs ||
        emit_list(d, 2, false) != form->b_regs || emit_list(d, 3, false) != form->d_regs) {
        decode_fail(d, "fragments of the wrong size for this shape and type");
    }
    for (int i = 4; i < d->nop; i += 2) {
        emit(d, src(d, &d->op[i], T_B32));
        emit_selector(d, i + 1);
    }
    d->insn->ndst = (uint8_t)form->d_regs;
    d->insn->matrix.form = form;
    d->insn->aligned = 1;
    d->insn->fn = exec_mma;
}
