/* insn->matrix.form of mma.sync, mma.sp and wmma, and their execution. */
#ifndef SIM_ISA_MMA_H
#define SIM_ISA_MMA_H

#include "machine/machine.h"
#include "ptx/parse.h"
#include "tensorcore/mma/arith.h"

enum { FRAGMENT_BYTES = 64, MOST_ROWS = 32 }; /* longest row of a fragment; rows of wmma's m32 and n32 */

/* m16n8k...: A has 4 or 2 registers, B has 4, 2 or 1, C and D have 4 (f32) or 2 (f16). */
struct mma_form {
    struct tc_mma_rule rule; /* rule.k: products per element; sparse A: selected ones */
    int m, n;
    int a_regs, b_regs, d_regs, c_regs;
    int scales;          /* scales per row; 0: no block scaling */
    bool contains;       /* one element per byte, .e2m1 in its middle bits (PTX ISA, mma: .kind::f8f6f4) */
    bool nibbles;        /* .s4, .u4: two elements per byte */
    bool sparse;         /* metadata and selector follow C */
    bool ordered;        /* .sp::ordered_metadata */
    uint32_t selector;   /* which lanes supply the metadata */
    bool c_half, d_half; /* wmma, m8n8k4: C, D are f16, whatever rule.d */
    bool a_rows, b_rows; /* m8n8k4: A, B are row-major */
    bool both;           /* .b1: .and, not .xor */
    uint8_t rounding;    /* .f64: enum rounding */
};

exec_function exec_mma, exec_mma_f64, exec_mma_b1;

/* Decodes mma.sync of .f64, .b1 or m8n8k4; false: it is none of these. The caller has taken .sync.aligned and
 * the layouts, and emits the operands. */
bool decode_rare_mma(struct decoder *d, struct mma_form *form);

/* Emits D, A, B and C as operands 0 to 3; refuses other sizes than the form's. */
void emit_fragments(struct decoder *d, const struct mma_form *form, unsigned type);
/* Emits the metadata register, operand `at`, and returns the constant selector behind it, which says whether
 * one lane of each four, a pair or all of them supply the metadata.  unit: tc_sparse_unit. */
uint32_t emit_metadata(struct decoder *d, int at, const struct tc_mma_rule *rule, int unit);

/* Collects a fragment from registers of 4 bytes along K: register i of thread t has bytes 4 (t % 4) of chunk i
 * / groups in row t / 4 of row group i % groups, of 8 rows each. A chunk has 16 bytes. */
void gather_fragment(const struct run *run, const struct insn *insn, int first, int regs, int groups,
                     uint8_t out[][FRAGMENT_BYTES]);

#endif
