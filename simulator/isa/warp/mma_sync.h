/* insn->matrix.form of mma.sync and mma.sp, and its execution. */
#ifndef SIM_ISA_MMA_H
#define SIM_ISA_MMA_H

#include "machine/machine.h"
#include "tensorcore/mma/arith.h"

/* m16n8k...: A has 4 or 2 registers, B has 4, 2 or 1, C and D have 4 (f32) or 2 (f16). */
struct mma_form {
    struct tc_mma_rule rule; /* rule.k: products per element; sparse A: selected ones */
    int a_regs, b_regs, d_regs;
    int scales;        /* scales per row; 0: no block scaling */
    bool contains;     /* one element per byte, .e2m1 in its middle bits (PTX ISA, mma: .kind::f8f6f4) */
    bool nibbles;      /* .s4, .u4: two elements per byte */
    bool sparse;       /* metadata and selector follow C */
    bool ordered;      /* .sp::ordered_metadata */
    uint32_t selector; /* which lanes supply the metadata */
};

enum next exec_mma(struct run *run, const struct insn *insn, uint32_t mask);

#endif
