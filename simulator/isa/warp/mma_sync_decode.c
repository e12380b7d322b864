/* Decodes mma.sync and mma.sp (PTX ISA, Warp Level Matrix Instructions: mma). */
#include <string.h>

#include "isa/opcodes.h"
#include "mma_sync.h"
#include "tensorcore/mma/sparse.h"

/* Takes the next element type from the mnemonic: the first call A's, the second B's. Sets *nibbles for .s4 and
 * .u4. */
static enum tc_format element_of(struct decoder *d, bool *nibbles) {
    static const struct {
        const char *name;
        enum tc_format format;
    } types[] = {{"f16", TC_F16},   {"bf16", TC_BF16}, {"tf32", TC_TF32}, {"e4m3", TC_E4M3},
                 {"e5m2", TC_E5M2}, {"e3m2", TC_E3M2}, {"e2m3", TC_E2M3}, {"e2m1", TC_E2M1},
                 {"s8", TC_S8},     {"u8", TC_U8},     {"s4", TC_S8},     {"u4", TC_U8}};
    for (int i = 0; i < d->nmods; i++) {
        for (size_t j = 0; !d->used[i] && j < sizeof types / sizeof *types; j++) {
            if (token_is(&d->mods[i], types[j].name)) {
                d->used[i] = true;
                *nibbles = types[j].name[1] == '4' && types[j].name[2] == '\0';
                return types[j].format;
            }
        }
    }
    decode_fail(d, "expected two element types that mma.sync has");
}

static bool is_narrow(enum tc_format format) {
    return format == TC_E4M3 || format == TC_E5M2 || format == TC_E3M2 || format == TC_E2M3 ||
           format == TC_E2M1;
}

/* Fails unless the target is of the sm_120 family. */
static void need_sm_120(struct decoder *d) {
    const struct module *module = d->parser->module;
    const char last = module->target[strlen(module->target) - 1];
    if (module->sm / 10 != 12 || (last != 'a' && last != 'f')) {
        decode_fail(d, "mma.sync with .kind needs target sm_120a, sm_120f or another of that family");
    }
}

/* Decodes mma with a .kind. */
static void decode_kind(struct decoder *d, struct mma_form *form, int kind) {
    enum { F8F6F4, MXF8F6F4, MXF4, MXF4NVF4 };
    static const char *const sizes[] = {"scale_vec::1X", "scale_vec::2X", "scale_vec::4X"};
    bool packed = kind >= MXF4, scaled = kind != F8F6F4, nibbles;
    int size = mod_of(d, COUNTED(sizes));
    bool shape =
        mod(d, packed ? (form->sparse ? "m16n8k128" : "m16n8k64") : (form->sparse ? "m16n8k64" : "m16n8k32"));
    unsigned to = mod_type(d);
    enum tc_format a = element_of(d, &nibbles), b = element_of(d, &nibbles);
    unsigned from = mod_type(d);
    need_sm_120(d);
    if (!shape || to != from || (to != T_F32 && (scaled || to != T_F16)) || !is_narrow(a) || !is_narrow(b) ||
        (packed && (a != TC_E2M1 || b != TC_E2M1)) || mod(d, "block_scale") != scaled ||
        form->sparse != form->ordered) {
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
    form->b_regs = form->sparse ? 4 : 2;
    form->d_regs = to == T_F16 ? 2 : 4;
}

/* Emits a scale operand: one register, with or without braces. */
static void emit_scales(struct decoder *d, int at) {
    uint32_t count;
    const struct operand_text *list = elements(&d->op[at], &count);
    if (count != 1) {
        decode_fail(d, "%u registers of scales; expected 1", count);
    }
    emit(d, src(d, list, T_B32));
}

/* Emits a scale selector {byte-id, thread-id}, each a 16-bit register or a number. */
static void emit_selector(struct decoder *d, int at) {
    if (emit_vector(d, &d->op[at], false, T_U16) != 2) {
        decode_fail(d, "a scale selector must be {byte-id, thread-id}");
    }
}

/* Decodes mma without a .kind. */
static void decode_plain(struct decoder *d, struct mma_form *form) {
    static const char *const shapes[] = {"m16n8k4",  "m16n8k8",   "m16n8k16", "m16n8k32",
                                         "m16n8k64", "m16n8k128", "m8n8k16",  "m8n8k32"};
    static const int depth[] = {4, 8, 16, 32, 64, 128, 16, 32};
    int shape = mod_of(d, COUNTED(shapes));
    unsigned to = mod_type(d);
    bool b_nibbles;
    enum tc_format a = element_of(d, &form->nibbles), b = element_of(d, &b_nibbles);
    unsigned c_type = mod_type(d);
    bool integer = a == TC_S8 || a == TC_U8;
    if (shape < 0 || to != c_type || (to != T_F32 && to != T_F16 && to != T_S32) || (to == T_S32) != integer ||
        form->nibbles != b_nibbles || (tc_formats[a].bits < 8 || tc_formats[b].bits < 8) ||
        tc_formats[a].bits != tc_formats[b].bits ||
        (tc_formats[a].bits >= 16 && (a != b || (to == T_F16 && a != TC_F16)))) {
        decode_fail(
            d,
            "expected a shape from m16n8k4 to m16n8k128, A and B of one width, and the same type for C and D");
    }
    const bool small = shape >= 6;
    int products = depth[shape] / (form->sparse ? 2 : 1);
    int bytes = tc_formats[a].bits * products / (form->nibbles ? 16 : 8); /* a row's, in registers */
    enum tc_format result = to == T_F32 ? TC_F32 : to == T_F16 ? TC_F16 : TC_S32;
    form->rule = tc_rule_mma_sync(a, b, result, products);
    form->rule.two_passes &= d->parser->module->sm < 120; /* sm_120 executes it as .kind::f8f6f4, in one pass */
    form->m = small ? 8 : 16;
    form->a_regs = bytes / (small ? 16 : 8);
    form->b_regs = bytes / (form->sparse ? 8 : 16);
    form->d_regs = result == TC_F16 || small ? 2 : 4;
    if (bytes > 32 || bytes < 16 || (form->sparse && bytes < 32 && (a == TC_E4M3 || a == TC_E5M2)) ||
        (small && (!integer || form->sparse || bytes != 16))) {
        decode_fail(d, "fragments of the wrong size for this shape and type");
    }
}

uint32_t emit_metadata(struct decoder *d, int at, const struct tc_mma_rule *rule, int unit) {
    emit(d, src(d, &d->op[at], T_B32));
    int chunks = (int)tc_row_bytes(rule, rule->a) / (2 * unit);
    int64_t selector = immediate(d, &d->op[at + 1]), last = (int64_t)tc_sparse_selectors(chunks) - 1;
    if (selector < 0 || selector > last) {
        decode_fail(d, "sparsity selector %lld: this shape and type have 0 to %lld", (long long)selector,
                    (long long)last);
    }
    return (uint32_t)selector;
}

void emit_fragments(struct decoder *d, const struct mma_form *form, unsigned type) {
    if (emit_vector(d, &d->op[0], true, type) != form->d_regs ||
        emit_vector(d, &d->op[1], false, type) != form->a_regs ||
        emit_vector(d, &d->op[2], false, type) != form->b_regs ||
        emit_vector(d, &d->op[3], false, type) != form->c_regs) {
        decode_fail(d, "fragments of the wrong size for this shape and type");
    }
}

static void decode_common(struct decoder *d, struct mma_form *form, bool sync_aligned) {
    static const char *const kinds[] = {"kind::f8f6f4", "kind::mxf8f6f4", "kind::mxf4", "kind::mxf4nvf4"};
    bool layout = mod(d, "row") && mod(d, "col"), saturate = mod(d, "satfinite");
    int kind = mod_of(d, COUNTED(kinds));
    if (!sync_aligned || !layout) {
        decode_fail(d, "expected .sync.aligned and .row.col");
    }
    if (kind >= 0) {
        decode_kind(d, form, kind);
    } else {
        decode_plain(d, form);
    }
    if (saturate && form->rule.d != TC_S32) {
        decode_fail(d, ".satfinite is for integers");
    }
    form->rule.saturate = saturate;
    form->c_regs = form->d_regs;
}

void decode_mma(struct decoder *d) {
    struct mma_form *form = parse_take(d->parser, sizeof *form);
    form->ordered = mod(d, "sp::ordered_metadata");
    form->sparse = form->ordered || mod(d, "sp");
    bool sync = mod(d, "sync"), aligned = mod(d, "aligned");
    d->insn->fn = exec_mma;
    form->m = 16;
    form->n = 8;
    unsigned type = T_B32;
    if (sync && aligned && decode_rare_mma(d, form)) {
        type = d->insn->fn == exec_mma_f64 ? T_F64 : T_B32;
    } else {
        decode_common(d, form, sync && aligned);
    }
    int operands = 4 + (form->sparse ? 2 : 0) + (form->scales != 0 ? 4 : 0);
    need_operands(d, operands, operands);
    emit_fragments(d, form, type);
    if (form->sparse) {
        form->selector = emit_metadata(d, 4, &form->rule, form->nibbles ? 2 : tc_sparse_unit(form->rule.a));
    }
    for (int i = form->sparse ? 6 : 4; i < d->nop; i += 2) {
        emit_scales(d, i);
        emit_selector(d, i + 1);
    }
    d->insn->matrix.form = form;
    d->insn->aligned = 1;
}
