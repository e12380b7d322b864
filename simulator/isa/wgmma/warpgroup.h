/* wgmma: a warpgroup's state, an operation in flight, and the registers it uses. */
#ifndef SIM_ISA_WGMMA_H
#define SIM_ISA_WGMMA_H

#include "async/async.h"
#include "tensorcore/descriptor.h"
#include "tensorcore/mma/arith.h"
#include "tensorcore/mma/sparse.h"

#define WGMMA_AHEAD 64 /* most wgmma that a warp may be ahead of its warpgroup */

struct warpgroup {
    uint32_t issued[4];   /* by warp */
    uint32_t clock_index; /* index in vector clocks: operations waited for */
    struct async_op *operations[WGMMA_AHEAD];
    struct vector_clock *issuers; /* what came before the issue of a wgmma by its four warps */
};

/* insn->wgmma.form: the shape and types of a wgmma.mma_async. */
struct wgmma_form {
    struct tc_mma_rule rule;
    struct tc_operand_shape a, b;
    bool sparse;
    uint32_t selector; /* sparsity selector: which lanes supply the metadata */
};

struct wgmma {
    struct warpgroup *owner;
    uint32_t number, issued;
    const struct insn *insn;
    struct warp *warp[4];
    uint8_t *regs[4];
    uint32_t group[4];
    struct tc_mma_rule rule;
    struct tc_operand_shape a_shape, b_shape;
    uint64_t a_bits, b_bits;
    bool accumulate;
    int na, nb;
    struct vector_clock *clock; /* what the four warps had acquired */
    uint32_t a_chunks[TC_MAX_CHUNKS], b_chunks[TC_MAX_CHUNKS];
    uint8_t metadata[64][TC_SPARSE_MAX_CHUNKS]; /* by row of a sparse A */
    bool names_twice;                           /* some metadata selects the same element twice */
};

enum { WGMMA_B_BYTES = 64 }; /* a row of B; with a sparse A twice the bytes of A's row */

struct wgmma_data {
    _Alignas(16) uint8_t a[64][32], b[256][WGMMA_B_BYTES];
    uint32_t d[]; /* 64 rows of N */
};

struct warpgroup *warpgroups_make(struct worker *worker, uint32_t count);
void warpgroups_reset(struct warpgroup *groups, uint32_t count);
void warpgroups_free(struct warpgroup *groups);
/* Reports that insn reads or writes a register which the pending wgmma `first` uses; `pending` is the
 * register's entry in reg_pending. */
enum next wgmma_register_use(struct run *run, const struct insn *insn, const struct insn *first,
                             uint32_t pending, bool written);

static inline struct operand op_of(const struct wgmma *mma, int at) {
    return mma->insn->op[at];
}

/* Number of registers in op[] that a wgmma uses: D's, then A's if A is in registers. */
uint32_t wgmma_registers_used(const struct insn *insn);
/* Marks these registers as in use (sign 1) or free (-1). */
void wgmma_mark_registers(struct warp *warp, const struct function *function, const struct insn *insn,
                          int sign);
/* Frees the registers of the groups up to `upto`, which have been waited for. */
void wgmma_release_registers(struct run *run, uint32_t upto);

exec_function wgmma_fence, wgmma_commit_group, wgmma_wait_group, wgmma_mma;

#endif
