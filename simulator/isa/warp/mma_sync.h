/* insn->matrix.form of mma.sync and mma.sp, and its execution. */
#ifndef SIM_ISA_MMA_H
#define SIM_ISA_MMA_H

#include "machine/machine.h"
#include "tensorcore/mma/arith.h"

/* 16 x 8 x k.  A: 4 (or 2) registers, B: 4, 2 or 1, C and D: 4 (f32) or 2 (f16). */
struct mma_form {
    struct tc_mma_rule rule; /* k: products of a row, those that metadata chooses if A is sparse */
    int a_regs, b_regs, d_regs;
    int scales;    /* a row, of block scaling; 0: none */
    bool contains; /* each element in a byte of its own, .e2m1 in its middle (PTX ISA, mma: .kind::f8f6f4) */
    bool nibbles;  /* .s4, .u4: two in a byte */
    bool sparse;   /* the operands after C: metadata, ... */
    bool ordered;  /* .sp::ordered_metadata */
    uint32_t selector; /* ... and which lanes' metadata, a constant */
};

enum next exec_mma(struct run *run, const struct insn *insn, uint32_t mask);

#endif
