/* mma.sync of .f64, .b1 and m8n8k4 (PTX ISA, Warp Level Matrix Instructions: mma). */
#include <math.h>

#include "isa/opcodes.h"
#include "isa/scalar/rounding.h"
#include "mma_sync.h"
#include "tensorcore/half.h"

/* ---- .f64: D has register i of thread t in row t / 4 + 8 (i / 2), column 2 (t % 4) + i % 2 ----
 * HW: one fma after the other in the order of K, starting from C (MMA-Sim, arXiv 2511.10909). */
enum next exec_mma_f64(struct run *run, const struct insn *insn, uint32_t mask) {
    const struct mma_form *form = insn->matrix.form;
    const int groups = form->m / 8, first_a = form->d_regs, first_b = first_a + form->a_regs;
    double a[16][16], b[8][16], d[16][8];
    (void)mask;
    for (int t = 0; t < LANES; t++) {
        for (int i = 0; i < form->a_regs; i++) {
            a[t / 4 + i % groups * 8][i / groups * 4 + t % 4] =
                ((const double *)row(run, insn->op[first_a + i]))[t];
        }
        for (int i = 0; i < form->b_regs; i++) {
            b[t / 4][i * 4 + t % 4] = ((const double *)row(run, insn->op[first_b + i]))[t];
        }
        for (int i = 0; i < form->d_regs; i++) {
            d[t / 4 + i / 2 * 8][t % 4 * 2 + i % 2] =
                ((const double *)row(run, insn->op[first_b + form->b_regs + i]))[t];
        }
    }
    const unsigned before = rounding_set(form->rounding);
    for (int i = 0; i < form->m; i++) {
        for (int j = 0; j < form->n; j++) {
            for (int k = 0; k < form->rule.k; k++) {
                d[i][j] = fma(a[i][k], b[j][k], d[i][j]);
            }
        }
    }
    rounding_restore(before);
    for (int i = 0; i < form->d_regs; i++) {
        double *lanes = row(run, insn->op[i]);
        for (int t = 0; t < LANES; t++) {
            lanes[t] = d[t / 4 + i / 2 * 8][t % 4 * 2 + i % 2];
        }
    }
    count_mma(run, form->m, form->n, form->rule.k);
    return NEXT;
}

/* ---- .b1: counts the ones of A xor B, or of A and B ---- */
enum next exec_mma_b1(struct run *run, const struct insn *insn, uint32_t mask) {
    const struct mma_form *form = insn->matrix.form;
    const int first_a = form->d_regs, first_b = first_a + form->a_regs, first_c = first_b + form->b_regs;
    uint8_t a[16][FRAGMENT_BYTES] = {{0}}, b[8][FRAGMENT_BYTES] = {{0}};
    (void)mask;
    gather_fragment(run, insn, first_a, form->a_regs, form->m / 8, a);
    gather_fragment(run, insn, first_b, form->b_regs, 1, b);
    for (int reg = 0; reg < form->d_regs; reg++) {
        uint32_t *to = row(run, insn->op[reg]);
        const uint32_t *from = row(run, insn->op[first_c + reg]);
        for (int t = 0; t < LANES; t++) {
            uint32_t count = from[t];
            for (int at = 0; at < form->rule.k / 8; at++) {
                const uint32_t x = a[t / 4 + reg / 2 * 8][at], y = b[t % 4 * 2 + reg % 2][at];
                count += (uint32_t)__builtin_popcount(form->both ? x & y : x ^ y);
            }
            to[t] = count;
        }
    }
    count_mma(run, form->m, form->n, form->rule.k);
    return NEXT;
}

/* ---- m8n8k4 of .f16: four products, one for each four lanes and the four that are 16 further ---- */

enum { QUAD_ROWS = 8, QUAD_K = 4 };

static uint32_t half_of(const struct run *run, struct operand pair, int lane, int which) {
    return lane_u32(run, pair, lane) >> 16 * which & 0xffff;
}

/* Row and column of element i of a lane's fragment of C or D. */
static void quad_place(bool half, int lane, int i, int *r, int *c) {
    const int upper = lane / 16 * 4;
    *r = half ? lane % 4 + upper : (lane & 1) + (i & 2) + upper;
    *c = half ? i : (i & 4) + (lane & 2) + (i & 1);
}

/* HW: ptxas makes other instructions of it for these chips; the sum of four products and C is an assumption. */
static enum next exec_mma_quads(struct run *run, const struct insn *insn, uint32_t mask) {
    const struct mma_form *form = insn->matrix.form;
    const int first_a = form->d_regs, first_b = first_a + form->a_regs, first_c = first_b + form->b_regs;
    (void)mask;
    for (int quad = 0; quad < 4; quad++) {
        uint16_t a[QUAD_ROWS][QUAD_K], b[QUAD_ROWS][QUAD_K]; /* b: by column */
        uint32_t d[QUAD_ROWS][QUAD_ROWS], *rows[QUAD_ROWS];
        for (int j = 0; j < QUAD_ROWS; j++) {
            const int lane = quad * 4 + j % 4 + j / 4 * 16, upper = j / 4 * 4;
            rows[j] = d[j];
            for (int i = 0; i < 4; i++) {
                const uint16_t x = (uint16_t)half_of(run, insn->op[first_a + i / 2], lane, i % 2);
                const uint16_t y = (uint16_t)half_of(run, insn->op[first_b + i / 2], lane, i % 2);
                *(form->a_rows ? &a[j][i] : &a[i + upper][j % 4]) = x;
                *(form->b_rows ? &b[i + upper][j % 4] : &b[j][i]) = y;
            }
            for (int i = 0; i < 8; i++) {
                int r, c;
                quad_place(form->c_half, lane, i, &r, &c);
                uint32_t bits = form->c_half ? half_of(run, insn->op[first_c + i / 2], lane, i % 2)
                                             : lane_u32(run, insn->op[first_c + i], lane);
                d[r][c] =
                    form->c_half && form->rule.d == TC_F32 ? tc_bits_of_f32(tc_to_f32(TC_F16, bits)) : bits;
            }
        }
        struct tc_mma_operands in = {
            .a = (const uint8_t *)a, .b = (const uint8_t *)b, .a_stride = sizeof a[0], .b_stride = sizeof b[0]};
        tc_mma_tile(&form->rule, &in, rows, QUAD_ROWS, QUAD_ROWS, true);
        for (int j = 0; j < QUAD_ROWS; j++) {
            const int lane = quad * 4 + j % 4 + j / 4 * 16;
            for (int i = 0; i < 8; i++) {
                int r, c;
                quad_place(form->d_half, lane, i, &r, &c);
                uint32_t *to = (uint32_t *)row(run, insn->op[form->d_half ? i / 2 : i]) + lane;
                uint32_t bits = form->d_half && form->rule.d == TC_F32
                                    ? tc_from_f32(TC_F16, tc_f32_of_bits(d[r][c]), TC_RN, 0, 0)
                                    : d[r][c];
                *to = !form->d_half ? bits : i % 2 == 0 ? bits : *to | bits << 16;
            }
        }
    }
    count_mma(run, 4 * QUAD_ROWS, QUAD_ROWS, QUAD_K);
    return NEXT;
}

static void decode_f64(struct decoder *d, struct mma_form *form) {
    static const char *const shapes[] = {"m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16"};
    const int shape = mod_of(d, COUNTED(shapes));
    form->rounding = (uint8_t)mod_rounding(d);
    if (shape < 0 || !mod(d, "row") || !mod(d, "col") || form->rounding > RND_RP) {
        decode_fail(d,
                    "expected .row.col, m8n8k4 or m16n8k4 to m16n8k16, and a rounding of .rn, .rz, .rm, .rp");
    }
    form->m = shape == 0 ? 8 : 16;
    form->rule.k = shape == 0 ? 4 : 2 << shape;
    form->a_regs = form->m * form->rule.k / LANES;
    form->b_regs = form->rule.k / 4;
    form->d_regs = form->c_regs = form->m / 4;
    d->insn->fn = exec_mma_f64;
}

static void decode_b1(struct decoder *d, struct mma_form *form) {
    static const char *const shapes[] = {"m8n8k128", "m16n8k128", "m16n8k256"};
    const int shape = mod_of(d, COUNTED(shapes));
    form->both = mod(d, "and");
    const bool types = mod(d, "s32") && mod(d, "s32"), layouts = mod(d, "row") && mod(d, "col");
    if (shape < 0 || !types || !layouts || form->both == mod(d, "xor") || !mod(d, "popc")) {
        decode_fail(d, "expected .row.col, m8n8k128, m16n8k128 or m16n8k256, .s32, and .xor.popc or .and.popc");
    }
    form->m = shape == 0 ? 8 : 16;
    form->rule.k = shape == 2 ? 256 : 128;
    form->a_regs = form->m * form->rule.k / LANES / LANES;
    form->b_regs = form->rule.k / 128;
    form->d_regs = form->c_regs = form->m / 4;
    d->insn->fn = exec_mma_b1;
}

/* The next of .row and .col in the order written; fails if there is none. */
static bool takes_row(struct decoder *d) {
    for (int i = 0; i < d->nmods; i++) {
        const bool is_row = token_is(&d->mods[i], "row");
        if (!d->used[i] && (is_row || token_is(&d->mods[i], "col"))) {
            d->used[i] = true;
            return is_row;
        }
    }
    decode_fail(d, "expected .row or .col");
}

static void decode_quads(struct decoder *d, struct mma_form *form) {
    form->a_rows = takes_row(d);
    form->b_rows = takes_row(d);
    const unsigned to = mod_type(d), a = mod_type(d), b = mod_type(d), from = mod_type(d);
    if (a != T_F16 || b != T_F16 || (to != T_F16 && to != T_F32) || (from != T_F16 && from != T_F32)) {
        decode_fail(d, "m8n8k4 is for .f16 with .f16 or .f32 for C and D, or for .f64");
    }
    form->d_half = to == T_F16;
    form->c_half = from == T_F16;
    form->rule = tc_rule_mma_sync(TC_F16, TC_F16, form->d_half && form->c_half ? TC_F16 : TC_F32, QUAD_K);
    form->a_regs = form->b_regs = 2;
    form->d_regs = form->d_half ? 4 : 8;
    form->c_regs = form->c_half ? 4 : 8;
    d->insn->fn = exec_mma_quads;
}

bool decode_rare_mma(struct decoder *d, struct mma_form *form) {
    int doubles = 0, bits = 0;
    bool quads = false;
    for (int i = 0; i < d->nmods; i++) {
        doubles += token_is(&d->mods[i], "f64");
        bits += token_is(&d->mods[i], "b1");
        quads |= token_is(&d->mods[i], "m8n8k4");
    }
    if (doubles == 4) {
        while (mod(d, "f64")) {
        }
        decode_f64(d, form);
    } else if (bits == 2) {
        while (mod(d, "b1")) {
        }
        decode_b1(d, form);
    } else if (quads) {
        form->m = 8;
        (void)mod(d, "m8n8k4");
        decode_quads(d, form);
    } else {
        return false;
    }
    return true;
}
