/* Execution of tcgen05.mma: reads descriptors, checks operands, issues the operation. */
#include <stdlib.h>

#include "clock/timing.h"
#include "tcgen05_pipe.h"

struct mma_op {
    struct tc_mma mma;
    struct tc_mma_footprint footprint;
    struct cta *ctas[2];
    int count;
};

static void mma_read(struct async_op *op) {
    const struct mma_op *m = op->payload;
    for (int i = 0; !op->cluster->launch->no_values && i < m->count; i++) {
        struct tc_cta cta = pipe_view(m->ctas[i]);
        tc_mma_read(&m->mma, &m->footprint, &cta, i, (struct tc_mma_data *)(void *)op->data);
    }
}

static void mma_write(struct async_op *op) {
    const struct mma_op *m = op->payload;
    for (int i = 0; !op->cluster->launch->no_values && i < m->count; i++) {
        struct tc_cta cta = pipe_view(m->ctas[i]);
        int idle;
        int lane = tc_mma_write(&m->mma, (const struct tc_mma_data *)(const void *)op->data, &cta, i, &idle);
        if (lane >= 0 || idle >= 0) {
            sim_note(op->cluster->launch, lane >= 0 ? SIM_ERROR : SIM_REVIEW, "sparse-metadata", m->ctas[i], -1,
                     -1, op->insn, NULL,
                     "lane %d of tensor memory, from column %d on: metadata whose positions are not in "
                     "increasing order%s",
                     lane >= 0 ? lane : idle, tmem_column(m->mma.e_tmem),
                     lane >= 0 ? "" : ", only for stored zeros");
        }
    }
}

static void mma_poison(struct async_op *op) {
    const struct mma_op *m = op->payload;
    for (int i = 0; !m->mma.accumulate && i < m->count; i++) { /* only if D is overwritten completely */
        pipe_poison(m->ctas[i], &m->footprint.d);
    }
}

static void mma_timed(struct run *run, struct async_op *op) {
    const struct mma_op *m = op->payload;
    const struct tcgen05_shape shape = {(uint32_t)m->mma.in.m, (uint32_t)m->mma.in.n, m->mma.a_in_tmem,
                                        m->count == 2, m->mma.in.scales > 0};
    event_add_stage(run->launch->timing, op, op->cta, time_tcgen05_mma(run, &shape), ASYNC_DONE);
}

static const struct async_kind mma_kind = {"tcgen05.mma", mma_read, mma_write, NULL,
                                           mma_poison,    NULL,     mma_timed};

static uint32_t mma_tag(const struct tc_mma *mma) {
    return mma->d_tmem ^ (uint32_t)mma->in.kind << 12 ^ (uint32_t)(mma->in.m >> 5) << 24 ^
           (uint32_t)mma->in.n << 26 ^ (uint32_t)(mma->in.n >> 6) << 9;
}

static bool check_mma(struct run *run, struct mma_op *m) {
    struct tensor_warp *warp = tensor_warp(run);
    if (!stream_open(run, &warp->pipe, false)) {
        return false;
    }
    struct epoch epoch = pipe_epoch(run, warp);
    struct tmem_use source = {USE_MMA_SOURCE, false, true, mma_tag(&m->mma), epoch.clock_index, epoch.value};
    struct tmem_use d = {USE_MMA, true, m->mma.accumulate, mma_tag(&m->mma), epoch.clock_index, epoch.value};
    for (int i = 0; i < m->count; i++) {
        pipe_reads_shared(run, m->ctas[i], m->footprint.a, m->footprint.a_chunks, &epoch);
        pipe_reads_shared(run, m->ctas[i], m->footprint.b, m->footprint.b_chunks, &epoch);
        for (int r = 0; r < m->footprint.reads; r++) {
            use_region(run, m->ctas[i], &m->footprint.read[r], &source);
        }
        use_region(run, m->ctas[i], &m->footprint.d, &d);
    }
    return true;
}

/* op: D's address, A (address or descriptor), B's descriptor, instruction descriptor, enable-input-d,
 * [metadata's address if A is sparse], [two scale addresses, or the masks of disabled lanes]. */
enum { M_D, M_A, M_B, M_IDESC, M_ENABLE, M_REST };

/* CUTLASS puts the scale factor ID into the two highest bits of a scale address, where no lane number reaches
 * (cute/arch/mma_sm100_desc.hpp). They are dropped: the MMA takes the ID from the instruction descriptor. */
static uint32_t scale_address(const struct run *run, const struct insn *insn, int operand, int lane) {
    const uint32_t id_bits = 3U << 30;
    return (uint32_t)(lane_u64(run, insn->op[operand], lane) + (uint64_t)insn->tcgen05.form->offset[operand]) &
           ~id_bits;
}

static bool decode_mma(struct run *run, const struct insn *insn, int lane, struct tc_mma *mma) {
    const struct tensor_form *form = insn->tcgen05.form;
    struct tc_why why;
    if (!tc_decode_instruction(lane_u32(run, insn->op[M_IDESC], lane), form->kind, form->cta_group, form->ws,
                               form->scales, &mma->in, &why)) {
        (void)tensor_refuse(run, "instruction-descriptor", &why);
        return false;
    }
    if (mma->in.sparse != form->sparse) {
        (void)sim_report(run, SIM_ERROR, "instruction-descriptor", lane,
                         "sparsity (bit 2 of the instruction descriptor) is %d for %s", mma->in.sparse,
                         insn->name);
        return false;
    }
    int rest = M_REST;
    if (form->sparse) {
        mma->e_tmem = (uint32_t)(lane_u64(run, insn->op[rest], lane) + (uint64_t)form->offset[rest]);
        rest++;
    }
    mma->in.rule.d_scale_log2 = form->d_scale_log2;
    mma->d_tmem = (uint32_t)(lane_u64(run, insn->op[M_D], lane) + (uint64_t)form->offset[M_D]);
    mma->a_in_tmem = form->a_in_tmem;
    uint64_t a = lane_u64(run, insn->op[M_A], lane), b = lane_u64(run, insn->op[M_B], lane);
    if (form->a_in_tmem) {
        mma->a_tmem = (uint32_t)(a + (uint64_t)form->offset[M_A]);
    }
    if ((!form->a_in_tmem && !tc_decode_tcgen05_descriptor(a, &mma->a, &why)) ||
        !tc_decode_tcgen05_descriptor(b, &mma->b, &why)) {
        (void)tensor_refuse(run, "matrix-descriptor", &why);
        return false;
    }
    mma->accumulate = pred(run, insn->op[M_ENABLE]) >> lane & 1;
    if (mma->in.scales) {
        mma->sfa_tmem = scale_address(run, insn, rest, lane);
        mma->sfb_tmem = scale_address(run, insn, rest + 1, lane);
    }
    for (int i = 0; form->has_disabled && i < 4 * form->cta_group; i++) {
        mma->disabled_lanes[i] = lane_u32(run, insn->op[rest + i], lane);
    }
    return true;
}

enum next pipe_mma(struct run *run, const struct insn *insn, uint32_t mask) {
    const struct tensor_form *form = insn->tcgen05.form;
    FOR_LANES(rest, mask) {
        int lane = LANE(rest), count;
        struct cta *ctas[2];
        struct tc_why why;
        struct tensor_warp *warp = tensor_warp(run);
        if (!pipe_prepare(run, form->cta_group, ctas, &count)) {
            return FAIL;
        }
        struct async_op *op =
            async_new(run, &mma_kind, lane, sizeof(struct mma_op) + 64, sizeof(struct tc_mma_data));
        struct mma_op *m = op->payload;
        op->queue = &warp->pipe;
        m->count = count;
        memcpy(m->ctas, ctas, sizeof ctas);
        bool legal = decode_mma(run, insn, lane, &m->mma);
        for (int i = 0; legal && i < count; i++) {
            struct tc_cta cta = pipe_view(ctas[i]);
            legal = tc_mma_check(&m->mma, &cta, &m->footprint, &why);
            if (!legal) {
                (void)tensor_refuse(run, "tensor-operand", &why);
            }
        }
        if (!legal || (run->cluster->checks && !check_mma(run, m))) {
            async_drop(op);
            return FAIL;
        }
        count_mma(run, m->mma.in.m, m->mma.in.n, m->mma.in.k);
        /* HW: each SM multiplies 128 lanes x N columns x 32 bytes of K in N / 2 cycles. */
        run->worker->counters.tensor_cycles += (uint64_t)m->mma.in.n / 2 * (uint64_t)count;
        async_issue(run, op);
    }
    return NEXT;
}
