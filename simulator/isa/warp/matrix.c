/* Matrix fragments of a warp (PTX ISA, Warp Level Matrix Instructions: ldmatrix, stmatrix, movmatrix, mma). */
#include "hazard/hazard.h"
#include "isa/opcodes.h"
#include "machine/count.h"
#include "tensorcore/mma/arith.h"

enum { ROW_BYTES = 16 };

/* op: registers, then the address; the address is in shared memory. */
static enum next exec_move(struct run *run, const struct insn *insn, uint32_t mask, bool store) {
    uint32_t count = insn->matrix.count, rows = count * 8, offsets[LANES];
    uint16_t tile[4][8][8];
    struct cta *ctas[LANES];
    (void)mask;
    for (uint32_t i = 0; i < rows; i++) { /* lane i names row i % 8 of matrix i / 8 */
        uint64_t address = lane_u64(run, insn->op[insn->nop - 1], (int)i) + (uint64_t)insn->offset;
        ctas[i] = shared_cta(run, address & ~WINDOW_MASK, ROW_BYTES, ROW_BYTES, (int)i, true, &offsets[i]);
        if (ctas[i] == NULL) {
            return FAIL;
        }
    }
    uint32_t used = rows == LANES ? ALL_LANES : (1u << rows) - 1;
    if (run->launch->checks && hazard_lanes(run, run->cta, offsets, used, ROW_BYTES,
                                            ACCESS_MIXED | (store ? ACCESS_WRITE : ACCESS_READ)) == FAIL) {
        return FAIL;
    }
    count_shared(run, offsets, used, ROW_BYTES, store);
    for (uint32_t i = 0; !store && i < rows; i++) {
        memcpy(tile[i / 8][i % 8], ctas[i]->shared + offsets[i], ROW_BYTES);
    }
    /* Thread t holds elements 2 (t % 4) and the next one of row t / 4, or of column t / 4 if transposed. */
    for (uint32_t m = 0; m < count; m++) {
        uint32_t *lanes = row(run, insn->op[m]);
        for (int t = 0; t < LANES; t++) {
            for (int half = 0; half < 2; half++) {
                int r = t / 4, c = t % 4 * 2 + half;
                uint16_t *element = insn->matrix.transposed ? &tile[m][c][r] : &tile[m][r][c];
                if (store) {
                    *element = (uint16_t)(lanes[t] >> (16 * half));
                } else if (half == 0) {
                    lanes[t] = *element;
                } else {
                    lanes[t] |= (uint32_t)*element << 16;
                }
            }
        }
    }
    for (uint32_t i = 0; store && i < rows; i++) {
        memcpy(ctas[i]->shared + offsets[i], tile[i / 8][i % 8], ROW_BYTES);
    }
    return NEXT;
}

static enum next exec_ldmatrix(struct run *run, const struct insn *insn, uint32_t mask) {
    return exec_move(run, insn, mask, false);
}

static enum next exec_stmatrix(struct run *run, const struct insn *insn, uint32_t mask) {
    return exec_move(run, insn, mask, true);
}

static void decode_move(struct decoder *d, bool store) {
    static const char *const counts[] = {"x1", "x2", "x4", NULL};
    struct insn *insn = d->insn;
    bool sync = mod(d, "sync"), aligned = mod(d, "aligned"), shape = mod(d, "m8n8");
    int count = mod_of(d, counts);
    insn->matrix.transposed = mod(d, "trans");
    unsigned space = mod_space(d, SP_GENERIC), type = mod_type(d);
    if (!sync || !aligned || !shape || count < 0 || type != T_B16 || space == SP_GLOBAL) {
        decode_fail(d, "only .sync.aligned.m8n8.{x1,x2,x4}.b16");
    }
    need_operands(d, 2, 2);
    uint32_t n;
    const struct pop *list = elements(&d->op[store ? 1 : 0], &n);
    if (n != 1u << count) {
        decode_fail(d, "%u registers; expected %u", n, 1u << count);
    }
    for (uint32_t i = 0; i < n; i++) {
        emit(d, store ? src(d, &list[i], T_B32) : dst(d, &list[i], T_B32));
    }
    insn->space = (uint8_t)space;
    emit_address(d, &d->op[store ? 0 : 1]);
    insn->matrix.count = (uint8_t)n;
    insn->aligned = 1;
    insn->ndst = store ? 0 : (uint8_t)n;
    insn->fn = store ? exec_stmatrix : exec_ldmatrix;
}

void decode_ldmatrix(struct decoder *d) {
    decode_move(d, false);
}

void decode_stmatrix(struct decoder *d) {
    decode_move(d, true);
}

static enum next exec_movmatrix(struct run *run, const struct insn *insn, uint32_t mask) {
    uint16_t tile[8][8];
    uint32_t *d = row(run, insn->op[0]);
    const uint32_t *a = row(run, insn->op[1]);
    (void)mask;
    for (int t = 0; t < LANES; t++) {
        tile[t / 4][t % 4 * 2] = (uint16_t)a[t];
        tile[t / 4][t % 4 * 2 + 1] = (uint16_t)(a[t] >> 16);
    }
    for (int t = 0; t < LANES; t++) {
        d[t] = tile[t % 4 * 2][t / 4] | (uint32_t)tile[t % 4 * 2 + 1][t / 4] << 16;
    }
    return NEXT;
}

void decode_movmatrix(struct decoder *d) {
    if (!mod(d, "sync") || !mod(d, "aligned") || !mod(d, "m8n8") || !mod(d, "trans") || mod_type(d) != T_B16) {
        decode_fail(d, "only .sync.aligned.m8n8.trans.b16");
    }
    need_operands(d, 2, 2);
    emit(d, dst(d, &d->op[0], T_B32));
    emit(d, src(d, &d->op[1], T_B32));
    d->insn->ndst = 1;
    d->insn->aligned = 1;
    d->insn->fn = exec_movmatrix;
}

/* ---- mma.sync: 16 x 8 x k.  A: 4 (or 2) registers, B: 2 (or 1), C and D: 4 (f32) or 2 (f16) ---- */

struct mma_form {
    struct tc_mma_rule rule;
    int a_regs, b_regs, d_regs;
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

static enum next exec_mma(struct run *run, const struct insn *insn, uint32_t mask) {
    const struct mma_form *form = insn->matrix.form;
    uint8_t a[16][32] = {{0}}, b[8][32] = {{0}};
    uint32_t d[16][8], *rows[16];
    int first_a = form->d_regs, first_b = first_a + form->a_regs, first_c = first_b + form->b_regs;
    bool half = form->rule.d == TC_F16;
    (void)mask;
    gather_fragment(run, insn, first_a, form->a_regs, 2, a);
    gather_fragment(run, insn, first_b, form->b_regs, 1, b);
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

void decode_mma(struct decoder *d) {
    static const char *const shapes[] = {"m16n8k4", "m16n8k8", "m16n8k16", "m16n8k32", NULL};
    static const int depth[] = {4, 8, 16, 32};
    struct mma_form *form = parse_take(d->parser, sizeof *form);
    if (mod(d, "sp") || mod(d, "sp::ordered_metadata")) {
        decode_fail(d, "sparse matrices are not supported");
    }
    bool sync = mod(d, "sync"), aligned = mod(d, "aligned");
    int shape = mod_of(d, shapes);
    bool layout = mod(d, "row") && mod(d, "col");
    bool saturate = mod(d, "satfinite");
    (void)mod(d, "kind::f8f6f4");
    unsigned to = mod_type(d), a_type = mod_type(d), b_type = mod_type(d), c_type = mod_type(d);
    enum tc_format a, b;
    if (!sync || !aligned || shape < 0 || !layout || !format_of(a_type, &a) || !format_of(b_type, &b) ||
        to != c_type || (to != T_F32 && to != T_F16 && to != T_S32)) {
        decode_fail(d, "only dense .row.col forms m16n8k4 to k32 with matching sums");
    }
    int k = depth[shape], bytes = (int)ptx_type_bytes(a_type) * k;
    enum tc_format result = to == T_F32 ? TC_F32 : to == T_F16 ? TC_F16 : TC_S32;
    form->rule = tc_rule_mma_sync(a, b, result, k);
    form->rule.saturate = saturate;
    form->a_regs = bytes / 8;
    form->b_regs = bytes / 16;
    form->d_regs = result == TC_F16 ? 2 : 4;
    need_operands(d, 4, 4);
    if (bytes > 32 || bytes < 16 || emit_list(d, 0, true) != form->d_regs ||
        emit_list(d, 1, false) != form->a_regs || emit_list(d, 2, false) != form->b_regs ||
        emit_list(d, 3, false) != form->d_regs) {
        decode_fail(d, "fragments of the wrong size for this shape and type");
    }
    d->insn->ndst = (uint8_t)form->d_regs;
    d->insn->matrix.form = form;
    d->insn->aligned = 1;
    d->insn->fn = exec_mma;
}
