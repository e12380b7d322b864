/* Moving matrix fragments (PTX ISA, Warp Level Matrix Instructions: ldmatrix, stmatrix, movmatrix). */
#include "hazard/hazard.h"
#include "isa/opcodes.h"
#include "machine/count.h"

enum { ROW_BYTES = 16 };

/* Finds the rows in shared memory, whose addresses the lanes hold; checks and counts the accesses. */
static enum next take_rows(struct run *run, const struct insn *insn, uint32_t rows, bool store,
                           struct cta *ctas[LANES], uint32_t offsets[LANES]) {
    for (uint32_t i = 0; i < rows; i++) {
        uint64_t address = lane_u64(run, insn->op[insn->nop - 1], (int)i) + (uint64_t)insn->offset;
        ctas[i] = shared_cta(run, address & ~WINDOW_MASK, ROW_BYTES, ROW_BYTES, (int)i, true, &offsets[i]);
        if (ctas[i] == NULL) {
            return FAIL;
        }
    }
    uint32_t used = rows == LANES ? ALL_LANES : (1u << rows) - 1;
    if (run->cluster->checks) {
        hazard_lanes(run, run->cta, offsets, used, ROW_BYTES,
                     ACCESS_MIXED | (store ? ACCESS_WRITE : ACCESS_READ));
    }
    count_shared(run, offsets, used, ROW_BYTES, store);
    return NEXT;
}

/* op: registers, address. */
static enum next exec_move(struct run *run, const struct insn *insn, uint32_t mask, bool store) {
    uint32_t count = insn->matrix.count, rows = count * 8, offsets[LANES];
    uint16_t tile[4][8][8];
    struct cta *ctas[LANES];
    (void)mask;
    if (take_rows(run, insn, rows, store, ctas, offsets) == FAIL) {
        return FAIL;
    }
    for (uint32_t i = 0; !store && i < rows; i++) { /* lane i holds the address of row i % 8 of matrix i / 8 */
        memcpy(tile[i / 8][i % 8], ctas[i]->shared + offsets[i], ROW_BYTES);
    }
    /* Thread t holds elements 2 (t % 4) and 2 (t % 4) + 1 of row t / 4; transposed: of column t / 4. */
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

/* ---- 8-bit elements: m16n16.trans loads 16 rows, m8n16 loads 8 rows of packed elements, m16n8.trans stores 8
 * rows ---- */

enum byte_form { BYTES_16X16, BYTES_8X16, BYTES_STORE };
enum packing { PACKED_NOT, PACKED_4, PACKED_6 };

/* Unpacks 16 elements of 4 or 6 bits to the low bits of a byte each (CUTLASS then shifts 4-bit elements to the
 * middle, where mma expects them: cute/atom/mma_traits_sm120.hpp, fp4_shift_A). */
static void unpack_row(uint8_t bytes[ROW_BYTES], unsigned packing) {
    uint8_t packed[ROW_BYTES + 1] = {0};
    unsigned bits = packing == PACKED_4 ? 4 : 6;
    memcpy(packed, bytes, ROW_BYTES);
    for (unsigned i = 0; i < ROW_BYTES && packing != PACKED_NOT; i++) {
        unsigned at = i * bits, pair = packed[at / 8] | (unsigned)packed[at / 8 + 1] << 8;
        bytes[i] = (uint8_t)(pair >> at % 8 & ((1u << bits) - 1));
    }
}

/* Row and column of byte `byte` of register `reg` of thread t (cute/atom/copy_traits_sm100.hpp:
 * SM100_U8x8_LDSM_T, SM100_U8x4_STSM_T, SM100_SU4_DU8x16). Transposed, a register holds 2 rows of 2 columns. */
static void byte_place(unsigned form, int t, int reg, int byte, int *r, int *c) {
    if (form == BYTES_8X16) {
        *r = t / 4;
        *c = t % 4 * 4 + byte;
    } else {
        *r = form == BYTES_STORE ? t % 4 * 2 + byte % 2 : t % 4 * 4 + reg * 2 + byte % 2;
        *c = t / 4 + byte / 2 * 8;
    }
}

/* op: registers, address. */
static enum next exec_bytes(struct run *run, const struct insn *insn, uint32_t mask) {
    unsigned form = insn->matrix.byte_form;
    bool store = form == BYTES_STORE;
    uint32_t height = form == BYTES_16X16 ? 16 : 8, rows = insn->matrix.count * height;
    uint32_t registers = form == BYTES_16X16 ? 2 : 1, offsets[LANES];
    uint8_t tile[LANES][ROW_BYTES];
    struct cta *ctas[LANES];
    (void)mask;
    if (take_rows(run, insn, rows, store, ctas, offsets) == FAIL) {
        return FAIL;
    }
    for (uint32_t i = 0; !store && i < rows; i++) {
        memcpy(tile[i], ctas[i]->shared + offsets[i], ROW_BYTES);
        unpack_row(tile[i], insn->matrix.packing);
    }
    for (uint32_t i = 0; i < insn->matrix.count * registers; i++) {
        uint8_t *lanes = row(run, insn->op[i]);
        uint8_t (*matrix)[ROW_BYTES] = tile + i / registers * height;
        for (int at = 0; at < LANES * 4; at++) {
            int r, c;
            byte_place(form, at / 4, (int)(i % registers), at % 4, &r, &c);
            *(store ? &matrix[r][c] : &lanes[at]) = store ? lanes[at] : matrix[r][c];
        }
    }
    for (uint32_t i = 0; store && i < rows; i++) {
        memcpy(ctas[i]->shared + offsets[i], tile[i], ROW_BYTES);
    }
    return NEXT;
}

static enum next exec_ldmatrix(struct run *run, const struct insn *insn, uint32_t mask) {
    return exec_move(run, insn, mask, false);
}

static enum next exec_stmatrix(struct run *run, const struct insn *insn, uint32_t mask) {
    return exec_move(run, insn, mask, true);
}

/* enum byte_form; -1: 16-bit elements. */
static int decode_byte_form(struct decoder *d, bool store) {
    static const char *const shapes[] = {"m16n16", "m8n16", "m16n8"};
    static const char *const sources[] = {"b4x16_p64", "b6x16_p32"};
    int form = mod_of(d, COUNTED(shapes));
    if (form >= 0 && mod(d, "b8x16")) {
        d->insn->matrix.packing = (uint8_t)(mod_of(d, COUNTED(sources)) + 1);
    }
    if (form >= 0 && (form == BYTES_STORE) != store) {
        decode_fail(d, "this shape exists only for the other of ldmatrix and stmatrix");
    }
    d->insn->matrix.byte_form = (uint8_t)form;
    return form;
}

void decode_matrix_move(struct decoder *d) {
    const bool store = named(d, "stmatrix");
    static const char *const counts[] = {"x1", "x2", "x4"};
    struct insn *insn = d->insn;
    bool sync = mod(d, "sync"), aligned = mod(d, "aligned");
    int count = mod_of(d, COUNTED(counts)), bytes = decode_byte_form(d, store);
    bool shape = bytes < 0 && mod(d, "m8n8"), pairs = bytes == BYTES_16X16;
    insn->matrix.transposed = mod(d, "trans");
    unsigned space = mod_space(d, SP_GENERIC), type = insn->matrix.packing != PACKED_NOT ? T_B8 : mod_type(d);
    if (!sync || !aligned || !(shape || bytes >= 0) || count < 0 || space == SP_GLOBAL ||
        type != (shape ? T_B16 : T_B8)) {
        decode_fail(d, "expected .sync.aligned.m8n8.{x1,x2,x4}.b16 or a form for 8 bits");
    }
    if (bytes >= 0 &&
        (insn->matrix.transposed != (bytes != BYTES_8X16) || (pairs && count == 2) ||
         (bytes == BYTES_8X16 && insn->matrix.packing == PACKED_NOT) || d->parser->module->sm < 100)) {
        decode_fail(d, "this form for 8 bits does not exist or needs sm_100 or later");
    }
    need_operands(d, 2, 2);
    int n = emit_vector(d, &d->op[store ? 1 : 0], !store, T_B32);
    if (n != 1 << (count + pairs)) {
        decode_fail(d, "%d registers; expected %d", n, 1 << (count + pairs));
    }
    insn->space = (uint8_t)space;
    emit_address(d, &d->op[store ? 0 : 1]);
    insn->matrix.count = (uint8_t)(1 << count);
    insn->aligned = 1;
    insn->fn = bytes >= 0 ? exec_bytes : store ? exec_stmatrix : exec_ldmatrix;
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
        decode_fail(d, "expected .sync.aligned.m8n8.trans.b16");
    }
    EMIT_OPERANDS(d, T_B32, T_B32);
    d->insn->aligned = 1;
    d->insn->fn = exec_movmatrix;
}
