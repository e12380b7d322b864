/* Execution of mma.sync and mma.sp (PTX ISA, Warp Level Matrix Instructions: mma), with and without block
 * scales. */
#include "mma_sync.h"

#include <string.h>

#include "machine/count.h"
#include "tensorcore/mma/sparse.h"

enum {
    M = 16,
    N = 8,
    ROW_BYTES = FRAGMENT_BYTES,
    UNPACKED = 2 * ROW_BYTES, /* one byte per 4-bit element */
};

void gather_fragment(const struct run *run, const struct insn *insn, int first, int regs, int groups,
                     uint8_t out[][ROW_BYTES]) {
    for (int reg = 0; reg < regs; reg++) {
        const uint32_t *lanes = row(run, insn->op[first + reg]);
        for (int r = 0; r < LANES / 4; r++) {
            memcpy(&out[r + reg % groups * 8][reg / groups * 16], &lanes[4 * r], 16);
        }
    }
}

/* Moves 4- and 6-bit elements to the low bits of their bytes, as tensorcore/ expects. */
static void take_out(enum tc_format format, uint8_t *bytes, size_t count) {
    int bits = tc_formats[format].bits;
    for (size_t i = 0; bits < 8 && i < count; i++) {
        bytes[i] = bits == 4 ? bytes[i] >> 2 & 15 : bytes[i] & 63;
    }
}

/* ---- block scaling (PTX ISA, Block Scaling for mma.sync) ----
 * op, after C: A's scales, their byte and thread selectors, then the same for B.  Lane 4 r + 2 thread + h has
 * A's scales of row r + 8 h; lane 4 c + thread has B's of column c (same layout as
 * cute/atom/mma_traits_sm120.hpp, SFALayout). */
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
        (void)sim_report(
            run, SIM_ERROR, "mma-scales", -1,
            "scale selector byte %u, thread %u for %d scales per row: illegal in PTX, or not the same "
            "in all lanes",
            *byte, *thread, scales);
    }
    return legal;
}

static bool gather_scales(struct run *run, const struct insn *insn, int at, int scales, uint8_t sfa[M][4],
                          uint8_t sfb[N][4]) {
    uint32_t byte_a, thread_a, byte_b, thread_b;
    if (!read_selector(run, insn, at + 1, scales, 2, &byte_a, &thread_a) ||
        !read_selector(run, insn, at + 4, scales, 4, &byte_b, &thread_b)) {
        return false;
    }
    for (uint32_t i = 0; i < M; i++) {
        uint32_t word = lane_u32(run, insn->op[at], (int)(i % 8 * 4 + thread_a * 2 + i / 8)) >> 8 * byte_a;
        memcpy(sfa[i], &word, sizeof word);
    }
    for (uint32_t j = 0; j < N; j++) {
        uint32_t word = lane_u32(run, insn->op[at + 3], (int)(j * 4 + thread_b)) >> 8 * byte_b;
        memcpy(sfb[j], &word, sizeof word);
    }
    return true;
}

/* Unpacks 4-bit integers to a byte each, the low nibble first. */
static void unpack_nibbles(enum tc_format format, const uint8_t *packed, uint8_t *out) {
    for (int i = 0; i < UNPACKED; i++) {
        uint8_t code = packed[i / 2] >> (i % 2 * 4) & 15;
        out[i] = format == TC_S8 && code >= 8 ? code | 0xf0 : code;
    }
}

/* ---- sparse A ---- */
static bool gather_metadata(struct run *run, const struct insn *insn, int at, int chunks,
                            uint8_t a[M][ROW_BYTES], uint8_t out[M][TC_SPARSE_MAX_CHUNKS]) {
    const struct mma_form *form = insn->matrix.form;
    for (int row = 0; row < M; row++) {
        for (int chunk = 0; chunk < chunks; chunk++) {
            int nibble;
            int lane = tc_sparse_place(form->rule.a, chunks, form->selector, row, chunk, &nibble);
            uint8_t metadata = lane_u32(run, insn->op[at], lane) >> 4 * nibble & 15;
            bool legal = tc_sparse_legal(metadata, form->rule.a, form->ordered);
            bool idle = !legal && tc_sparse_idle(metadata, form->rule.a, a[row], chunk);
            if (!legal) {
                (void)sim_report(run, idle ? SIM_REVIEW : SIM_ERROR, "sparse-metadata", lane,
                                 "metadata 0x%x (bits %d to %d) for row %d, chunk %d of A%s: %s", metadata,
                                 4 * nibble, 4 * nibble + 3, row, chunk, idle ? ", of zeros" : "",
                                 form->rule.a == TC_TF32 ? "for .tf32 only 0x4 and 0xe are defined"
                                 : form->ordered         ? "the two positions must be in increasing order"
                                                         : "the two positions must differ");
            }
            if (!legal && !idle) {
                return false;
            }
            out[row][chunk] = metadata;
        }
    }
    return true;
}

enum next exec_mma(struct run *run, const struct insn *insn, uint32_t mask) {
    const struct mma_form *form = insn->matrix.form;
    uint8_t a[M][ROW_BYTES] = {{0}}, b[N][ROW_BYTES] = {{0}}, wide_a[M][UNPACKED], wide_b[N][UNPACKED];
    uint32_t d[M][N], *rows[M];
    int first_a = form->d_regs, first_b = first_a + form->a_regs, first_c = first_b + form->b_regs;
    int after_c = first_c + form->d_regs;
    bool half = form->rule.d == TC_F16;
    (void)mask;
    count_mma(run, form->m, form->n, form->rule.k);
    if (run->launch->sim->options.no_values) {
        return NEXT;
    }
    gather_fragment(run, insn, first_a, form->a_regs, form->m / 8, a);
    gather_fragment(run, insn, first_b, form->b_regs, 1, b);
    if (form->contains) {
        take_out(form->rule.a, a[0], sizeof a);
        take_out(form->rule.b, b[0], sizeof b);
    }
    struct tc_mma_operands operands = {.a = a[0], .b = b[0], .a_stride = ROW_BYTES, .b_stride = ROW_BYTES};
    if (form->nibbles) {
        for (int i = 0; i < M; i++) {
            unpack_nibbles(form->rule.a, a[i], wide_a[i]);
        }
        for (int j = 0; j < N; j++) {
            unpack_nibbles(form->rule.b, b[j], wide_b[j]);
        }
        operands = (struct tc_mma_operands){
            .a = wide_a[0], .b = wide_b[0], .a_stride = UNPACKED, .b_stride = UNPACKED};
    }
    uint8_t chunks[M][TC_SPARSE_MAX_CHUNKS];
    struct tc_sparse sparse = {chunks[0], sizeof chunks[0], form->nibbles ? 2 : tc_sparse_unit(form->rule.a)};
    if (form->sparse) {
        int count = (int)tc_row_bytes(&form->rule, form->rule.a) / (2 * sparse.unit);
        if (!gather_metadata(run, insn, after_c, count, a, chunks)) {
            return FAIL;
        }
        after_c++;
    }
    uint8_t sfa[M][4], sfb[N][4];
    if (form->scales != 0) {
        if (!gather_scales(run, insn, after_c, form->scales, sfa, sfb)) {
            return FAIL;
        }
        operands.sfa = sfa[0];
        operands.sfb = sfb[0];
        operands.sfa_stride = operands.sfb_stride = sizeof sfa[0];
    }
    for (int i = 0; i < M; i++) {
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
    if (form->sparse) {
        tc_mma_sparse_tile(&form->rule, &operands, &sparse, rows, form->m, form->n, true);
    } else {
        tc_mma_tile(&form->rule, &operands, rows, form->m, form->n, true);
    }
    for (int reg = 0; reg < form->d_regs; reg++) {
        uint32_t *lanes = row(run, insn->op[reg]);
        for (int t = 0; t < LANES; t++) {
            lanes[t] = half ? (d[t / 4 + reg * 8][t % 4 * 2] & 0xffff) | d[t / 4 + reg * 8][t % 4 * 2 + 1] << 16
                            : d[t / 4 + reg / 2 * 8][t % 4 * 2 + reg % 2];
        }
    }
    return NEXT;
}
