/* Decodes the wgmma mnemonics (PTX ISA, Asynchronous Warpgroup Level Matrix Instructions). */
#include <stdlib.h>

#include "isa/opcodes.h"
#include "isa/warp/mma_sync.h"
#include "warpgroup.h"

static bool parse_shape(struct decoder *d, int *n, int *k) {
    for (int i = 0; i < d->nmods; i++) {
        const struct token *t = &d->mods[i];
        if (!d->used[i] && t->length > 4 && t->length < 16 && memcmp(t->text, "m64n", 4) == 0) {
            char text[16] = {0}, *end;
            memcpy(text, t->text + 4, t->length - 4);
            *n = (int)strtol(text, &end, 10);
            if (*end != 'k') {
                return false;
            }
            *k = (int)strtol(end + 1, &end, 10);
            d->used[i] = true;
            return *end == '\0';
        }
    }
    return false;
}

static bool format_of(unsigned type, enum tc_format *format, int *k) {
    static const struct {
        uint8_t type, format;
    } formats[] = {{T_F16, TC_F16},   {T_BF16, TC_BF16}, {T_TF32, TC_TF32}, {T_E4M3, TC_E4M3},
                   {T_E5M2, TC_E5M2}, {T_S8, TC_S8},     {T_U8, TC_U8}};
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
        if (formats[i].type == type) {
            *format = (enum tc_format)formats[i].format;
            *k = 32 / (int)ptx_type_bytes(type);
            return true;
        }
    }
    return false;
}

static bool sign_of(struct decoder *d, const struct operand_text *written) {
    int64_t value = immediate(d, written);
    if (value != 1 && value != -1) {
        decode_fail(d, "imm-scale is %lld; expected 1 or -1", (long long)value);
    }
    return value < 0;
}

static bool flag_of(struct decoder *d, const struct operand_text *written) {
    int64_t value = immediate(d, written);
    if (value != 0 && value != 1) {
        decode_fail(d, "imm-trans is %lld; expected 0 or 1", (long long)value);
    }
    return value != 0;
}

static void decode_mma_async(struct decoder *d) {
    struct insn *insn = d->insn;
    struct wgmma_form *form = parse_take(d->parser, sizeof *form);
    int n = 0, k = 0, ka = 0, kb = 0;
    enum tc_format a, b;
    form->sparse = mod(d, "sp");
    if (!parse_shape(d, &n, &k)) {
        decode_fail(d, "this form is not supported");
    }
    unsigned to = mod_type(d);
    bool saturate = mod(d, "satfinite");
    int whole = k, stored = form->sparse ? k / 2 : k; /* K of a row of B; stored K of a row of A */
    if (!format_of(mod_type(d), &a, &ka) || !format_of(mod_type(d), &b, &kb) || ka != stored || kb != stored ||
        whole % 2 != 0 || n < 8 || n > 256 || n % 8 != 0) {
        decode_fail(d, "this shape and these types do not go together");
    }
    enum tc_format result = to == T_F32 ? TC_F32 : to == T_F16 ? TC_F16 : to == T_S32 ? TC_S32 : TC_FORMATS;
    if (result == TC_FORMATS || (result == TC_S32) != (a == TC_S8 || a == TC_U8) ||
        (result == TC_F16 && (a == TC_BF16 || a == TC_TF32))) {
        decode_fail(d, "no sums of type .%s with these operands", ptx_type_name(to));
    }
    bool can_transpose = a == TC_F16 || a == TC_BF16;
    bool in_registers = d->nop > 1 && d->op[1].kind == PO_VECTOR;
    bool integer = result == TC_S32;
    int metadata = form->sparse ? 2 : 0; /* metadata and selector, after B */
    int expected = metadata + (integer ? 4 : 6 + (can_transpose ? (in_registers ? 1 : 2) : 0));
    need_operands(d, expected, expected);
    form->rule = tc_rule_wgmma(a, b, result);
    form->rule.saturate = saturate;
    form->rule.k = stored;
    int at = 4 + metadata;
    if (!integer) {
        form->rule.negate_a = sign_of(d, &d->op[at++]);
        form->rule.negate_b = sign_of(d, &d->op[at++]);
    }
    form->a = (struct tc_operand_shape){a, 64, stored, false, false};
    form->b = (struct tc_operand_shape){b, n, whole, false, false};
    if (can_transpose && !in_registers) {
        form->a.mn_major = flag_of(d, &d->op[at++]);
    }
    if (can_transpose) {
        form->b.mn_major = flag_of(d, &d->op[at]);
    }
    int count = emit_vector(d, &d->op[0], true, T_B32), registers = n / (result == TC_F16 ? 4 : 2);
    if (count != registers) {
        decode_fail(d, "D has %d registers; expected %d", count, registers);
    }
    if (in_registers) {
        count = emit_vector(d, &d->op[1], false, T_B32);
        if (count != 4) {
            decode_fail(d, "A has %d registers; expected 4", count);
        }
        for (uint32_t i = 0; i < 4; i++) {
            if (d->op[1].sub[i].kind != PO_REG) {
                decode_fail(d, "A has to be in registers");
            }
        }
    } else {
        emit(d, src(d, &d->op[1], T_B64));
    }
    emit(d, src(d, &d->op[2], T_B64));
    if (form->sparse) {
        form->selector = emit_metadata(d, 3, &form->rule, tc_sparse_unit(form->rule.a));
    }
    emit(d, src(d, &d->op[3 + metadata], T_PRED));
    insn->wgmma.a_registers = in_registers ? 4 : 0;
    insn->wgmma.n = (uint16_t)n;
    insn->wgmma.form = form;
    insn->reg_async = 1;
    insn->fn = wgmma_mma;
}

void decode_wgmma(struct decoder *d) {
    struct insn *insn = d->insn;
    insn->aligned = 1;
    bool mma = mod(d, "mma_async"), fence = mod(d, "fence"), commit = mod(d, "commit_group");
    bool wait = mod(d, "wait_group");
    if (d->parser->module->sm >= 120) {
        decode_fail(d, "sm_120 and later have no wgmma");
    }
    if (!mod(d, "sync") || !mod(d, "aligned")) {
        decode_fail(d, "expected .sync.aligned");
    }
    if (mma) {
        decode_mma_async(d);
    } else if (fence || commit) {
        need_operands(d, 0, 0);
        insn->fn = fence ? wgmma_fence : wgmma_commit_group;
    } else if (wait) {
        need_operands(d, 1, 1);
        insn->group.pending = (uint32_t)immediate(d, &d->op[0]);
        insn->fn = wgmma_wait_group;
    } else {
        decode_fail(d, "expected .mma_async, .fence, .commit_group or .wait_group");
    }
}
