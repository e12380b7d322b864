/* tcgen05 instructions that one thread issues to the tensor pipe: mma, cp, shift and commit.  A thread's
 * operations are performed in the order of issue, which the pipelined pairs ask for; what else it must not rely
 * on is left to the checks. */
#include <stdlib.h>

#include "clock/timing.h"
#include "state.h"

/* The CTAs of an operation: the issuing one, or its pair with the even one first. */
static int group_ctas(struct run *run, int cta_group, struct cta *ctas[2]) {
    uint32_t rank = run->cta->rank, even = rank & ~1u;
    if (cta_group == 1) {
        ctas[0] = run->cta;
        return 1;
    }
    if (even + 1 >= run->cluster->nctas) {
        (void)sim_report(
            run, SIM_ERROR, "cta-group", -1,
            "%s in CTA rank %u of a cluster of %u: .cta_group::2 needs the CTA of the other parity",
            run->insn->name, rank, run->cluster->nctas);
        return 0;
    }
    for (int i = 0; i < 2; i++) {
        ctas[i] = &run->cluster->ctas[even + (uint32_t)i];
        if (ctas[i]->live_threads == 0) {
            (void)sim_report(run, SIM_ERROR, "cta-group", -1, "%s after the peer CTA has exited",
                             run->insn->name);
            return 0;
        }
    }
    return 2;
}

static bool prepare(struct run *run, int cta_group, struct cta *ctas[2], int *count) {
    *count = group_ctas(run, cta_group, ctas);
    for (int i = 0; i < *count; i++) {
        struct tensor *tensor = tensor_of(run, ctas[i]);
        struct tc_why why;
        if (!tmem_check_cta_group(&tensor->tmem, cta_group, &why)) {
            (void)tensor_refuse(run, "cta-group", &why);
            return false;
        }
    }
    return *count != 0;
}

static struct tc_cta view(struct cta *cta) {
    struct tensor *tensor = cta->tensor;
    return (struct tc_cta){cta->shared, cta->shared_bytes, &tensor->tmem};
}

static void fill(struct cta *cta, const struct tmem_region *region) {
    struct tensor *tensor = cta->tensor;
    for (int lane = 0; lane < TMEM_LANES; lane++) {
        int inside = lane % TMEM_QUARTER_LANES - region->first_lane;
        if (region->quarters >> lane / TMEM_QUARTER_LANES & 1 && inside >= 0 && inside < region->lanes) {
            memset(&tensor->tmem.word[lane][region->column], POISON_BYTE, region->columns * sizeof(uint32_t));
        }
    }
}

/* Chunks of shared memory that will be read. */
static void record_chunks(struct run *run, struct cta *cta, const uint32_t *chunks, int count,
                          const struct epoch *epoch) {
    if (count > 0) {
        use_shared_read(run, cta, chunks[0]);
        hazard_granules(run, cta, chunks, (uint32_t)count, epoch);
    }
}

static struct epoch pipe_epoch(struct run *run, const struct tensor_warp *warp) {
    return (struct epoch){warp->pipe.clock_index, warp->pipe.epoch, run->warp->clock, run->warp->number,
                          run->insn};
}

/* ---- mma ---- */

struct mma_op {
    struct tc_mma mma;
    struct tc_mma_footprint footprint;
    struct cta *ctas[2];
    int count;
};

static void mma_read(struct async_op *op) {
    const struct mma_op *m = op->payload;
    for (int i = 0; !op->cluster->launch->no_values && i < m->count; i++) {
        struct tc_cta cta = view(m->ctas[i]);
        tc_mma_read(&m->mma, &m->footprint, &cta, i, (struct tc_mma_data *)(void *)op->data);
    }
}

static void mma_write(struct async_op *op) {
    const struct mma_op *m = op->payload;
    for (int i = 0; !op->cluster->launch->no_values && i < m->count; i++) {
        struct tc_cta cta = view(m->ctas[i]);
        int idle;
        int lane = tc_mma_write(&m->mma, (const struct tc_mma_data *)(const void *)op->data, &cta, i, &idle);
        if (lane >= 0 || idle >= 0) {
            char message[160];
            (void)snprintf(message, sizeof message,
                           "lane %d of tensor memory, columns %d on: metadata with places that are not in "
                           "increasing order%s",
                           lane >= 0 ? lane : idle, tmem_column(m->mma.e_tmem),
                           lane >= 0 ? "" : ", for stored zeros alone");
            sim_note(op->cluster->launch, lane >= 0 ? SIM_ERROR : SIM_REVIEW, "sparse-metadata", m->ctas[i], -1,
                     -1, op->insn, NULL, message);
        }
    }
}

static void mma_poison(struct async_op *op) {
    const struct mma_op *m = op->payload;
    for (int i = 0; !m->mma.accumulate && i < m->count; i++) { /* only what is overwritten whole */
        fill(m->ctas[i], &m->footprint.d);
    }
}

static void mma_timed(struct run *run, struct async_op *op) {
    const struct mma_op *m = op->payload;
    const struct tcgen05_shape shape = {(uint32_t)m->mma.in.m, (uint32_t)m->mma.in.n, m->mma.a_in_tmem,
                                        m->count == 2, m->mma.in.scales > 0};
    time_operation(run->launch->timing, op, op->cta, time_tcgen05_mma(run, &shape), ASYNC_DONE);
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
        record_chunks(run, m->ctas[i], m->footprint.a, m->footprint.a_chunks, &epoch);
        record_chunks(run, m->ctas[i], m->footprint.b, m->footprint.b_chunks, &epoch);
        for (int r = 0; r < m->footprint.reads; r++) {
            use_region(run, m->ctas[i], &m->footprint.read[r], &source);
        }
        use_region(run, m->ctas[i], &m->footprint.d, &d);
    }
    return true;
}

/* op: d, a (address or descriptor), b descriptor, instruction descriptor, enable-input-d, the metadata's
 * address if A is sparse, then the scale addresses or the lanes' masks. */
enum { M_D, M_A, M_B, M_IDESC, M_ENABLE, M_REST };

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
        mma->sfa_tmem = (uint32_t)(lane_u64(run, insn->op[rest], lane) + (uint64_t)form->offset[rest]);
        mma->sfb_tmem = (uint32_t)(lane_u64(run, insn->op[rest + 1], lane) + (uint64_t)form->offset[rest + 1]);
    }
    for (int i = 0; form->has_disabled && i < 4 * form->cta_group; i++) {
        mma->disabled_lanes[i] = lane_u32(run, insn->op[rest + i], lane);
    }
    return true;
}

static enum next exec_mma(struct run *run, const struct insn *insn, uint32_t mask) {
    const struct tensor_form *form = insn->tcgen05.form;
    FOR_LANES(rest, mask) {
        int lane = LANE(rest), count;
        struct cta *ctas[2];
        struct tc_why why;
        struct tensor_warp *warp = tensor_warp(run);
        if (!prepare(run, form->cta_group, ctas, &count)) {
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
            struct tc_cta cta = view(ctas[i]);
            legal = tc_mma_check(&m->mma, &cta, &m->footprint, &why);
            if (!legal) {
                (void)tensor_refuse(run, "tensor-operand", &why);
            }
        }
        if (!legal || (run->launch->checks && !check_mma(run, m))) {
            async_drop(op);
            return FAIL;
        }
        run->worker->counters.tensor_instructions++;
        run->worker->counters.tensor_macs +=
            (uint64_t)m->mma.in.m * (uint64_t)m->mma.in.n * (uint64_t)m->mma.in.k;
        /* HW: 128 lanes by N columns by 32 bytes of K in N / 2 cycles of each SM. */
        run->worker->counters.tensor_cycles += (uint64_t)m->mma.in.n / 2 * (uint64_t)count;
        async_issue(run, op);
    }
    return NEXT;
}

/* ---- cp ---- */

struct cp_op {
    struct tmem_cp cp;
    uint32_t chunks[TMEM_CP_MAX_CHUNKS];
    struct tmem_region region;
    struct cta *ctas[2];
    int nchunks, count;
};

enum { CP_BYTES = TMEM_CP_MAX_CHUNKS * TC_CHUNK_BYTES };

static void cp_read(struct async_op *op) {
    const struct cp_op *c = op->payload;
    for (int i = 0; i < c->count; i++) {
        tc_cp_read(c->ctas[i]->shared, c->chunks, c->nchunks, op->data + (size_t)i * CP_BYTES);
    }
}

static void cp_write(struct async_op *op) {
    const struct cp_op *c = op->payload;
    for (int i = 0; i < c->count; i++) {
        struct tensor *tensor = c->ctas[i]->tensor;
        tmem_cp_write(&tensor->tmem, &c->cp, op->data + (size_t)i * CP_BYTES);
    }
}

static void cp_poison(struct async_op *op) {
    const struct cp_op *c = op->payload;
    for (int i = 0; i < c->count; i++) {
        fill(c->ctas[i], &c->region);
    }
}

static void cp_timed(struct run *run, struct async_op *op) {
    time_operation(run->launch->timing, op, op->cta, time_tcgen05_copy(run), ASYNC_DONE);
}

static const struct async_kind cp_kind = {"tcgen05.cp", cp_read, cp_write, NULL, cp_poison, NULL, cp_timed};

/* op: address, descriptor. */
static enum next exec_cp(struct run *run, const struct insn *insn, uint32_t mask) {
    const struct tensor_form *form = insn->tcgen05.form;
    FOR_LANES(rest, mask) {
        int lane = LANE(rest), count;
        struct cta *ctas[2];
        struct tc_why why;
        struct tensor_warp *warp = tensor_warp(run);
        if (!prepare(run, form->cta_group, ctas, &count)) {
            return FAIL;
        }
        struct cp_op c = {.cp = {.shape = form->cp_shape, .format = form->cp_format}, .count = count};
        memcpy(c.ctas, ctas, sizeof ctas);
        c.cp.address = (uint32_t)(lane_u64(run, insn->op[0], lane) + (uint64_t)form->offset[0]);
        if (!tc_decode_tcgen05_descriptor(lane_u64(run, insn->op[1], lane), &c.cp.source, &why)) {
            return tensor_refuse(run, "matrix-descriptor", &why);
        }
        for (int i = 0; i < count; i++) {
            struct tc_cta cta = view(ctas[i]);
            c.nchunks = tmem_check_cp(cta.tmem, &c.cp, cta.smem_bytes, c.chunks, &c.region, &why);
            if (c.nchunks == 0) {
                return tensor_refuse(run, "tensor-operand", &why);
            }
        }
        if (run->launch->checks) {
            if (!stream_open(run, &warp->pipe, false)) {
                return FAIL;
            }
            struct epoch epoch = pipe_epoch(run, warp);
            struct tmem_use use = {USE_CP, true, false, 0, epoch.clock_index, epoch.value};
            for (int i = 0; i < count; i++) {
                record_chunks(run, ctas[i], c.chunks, c.nchunks, &epoch);
                use_region(run, ctas[i], &c.region, &use);
            }
        }
        struct async_op *op = async_new(run, &cp_kind, lane, sizeof c, (size_t)count * CP_BYTES);
        memcpy(op->payload, &c, sizeof c);
        op->queue = &warp->pipe;
        async_issue(run, op);
    }
    return NEXT;
}

/* ---- shift ---- */

struct shift_op {
    uint32_t address;
    struct cta *ctas[2];
    int count;
};

static void shift_write(struct async_op *op) {
    const struct shift_op *s = op->payload;
    for (int i = 0; i < s->count; i++) {
        struct tensor *tensor = s->ctas[i]->tensor;
        tmem_shift_down(&tensor->tmem, s->address);
    }
}

static const struct async_kind shift_kind = {"tcgen05.shift", NULL, shift_write, NULL, NULL, NULL, NULL};

static enum next exec_shift(struct run *run, const struct insn *insn, uint32_t mask) {
    const struct tensor_form *form = insn->tcgen05.form;
    FOR_LANES(rest, mask) {
        int lane = LANE(rest);
        struct shift_op s = {0};
        struct tmem_region region;
        struct tc_why why;
        struct tensor_warp *warp = tensor_warp(run);
        if (!prepare(run, form->cta_group, s.ctas, &s.count)) {
            return FAIL;
        }
        s.address = (uint32_t)(lane_u64(run, insn->op[0], lane) + (uint64_t)form->offset[0]);
        (void)sim_report(
            run, SIM_REVIEW, "unverified-instruction", lane,
            "tcgen05.shift is modelled as lanes 1-31 of a quarter moving to 0-30, which no chip has shown");
        for (int i = 0; i < s.count; i++) {
            struct tc_cta cta = view(s.ctas[i]);
            if (!tmem_check_shift(cta.tmem, s.address, &region, &why)) {
                return tensor_refuse(run, "tensor-operand", &why);
            }
        }
        if (run->launch->checks) {
            if (!stream_open(run, &warp->pipe, false)) {
                return FAIL;
            }
            struct tmem_use use = {USE_SHIFT, true, true, 0, warp->pipe.clock_index, warp->pipe.epoch};
            struct epoch epoch = pipe_epoch(run, warp);
            for (int i = 0; i < s.count; i++) {
                use_region(run, s.ctas[i], &region, &use);
                remote_note(run, s.ctas[i], &epoch);
            }
        }
        struct async_op *op = async_new(run, &shift_kind, lane, sizeof s, 0);
        memcpy(op->payload, &s, sizeof s);
        op->queue = &warp->pipe;
        async_issue(run, op);
    }
    return NEXT;
}

/* ---- commit ---- */

struct commit_op {
    struct mbarrier *barriers[MAX_CLUSTER];
    uint32_t count;
    struct clockv *clock;
};

static void commit_complete(struct async_op *op) {
    const struct commit_op *c = op->payload;
    for (uint32_t i = 0; i < c->count; i++) {
        mbarrier_async_arrive(op, c->barriers[i], c->clock);
    }
    if (c->clock != NULL) {
        clock_release(op->cluster, c->clock);
    }
}

static void commit_timed(struct run *run, struct async_op *op) { /* those before it keep it waiting */
    struct timing *timing = run->launch->timing;
    time_operation(timing, op, op->cta, timing->issued + timing->chip.tcgen05_commit_latency, ASYNC_DONE);
}

static const struct async_kind commit_kind = {"tcgen05.commit", NULL, NULL, commit_complete, NULL, NULL,
                                              commit_timed};

/* op: barrier, and with multicast the mask of CTAs. */
static enum next exec_commit(struct run *run, const struct insn *insn, uint32_t mask) {
    const struct tensor_form *form = insn->tcgen05.form;
    FOR_LANES(rest, mask) {
        int lane = LANE(rest), count;
        struct cta *ctas[2];
        struct tensor_warp *warp = tensor_warp(run);
        struct commit_op c = {0};
        if (!prepare(run, form->cta_group, ctas, &count)) {
            return FAIL;
        }
        uint64_t address = (lane_u64(run, insn->op[0], lane) + (uint64_t)form->offset[0]) & ~WINDOW_MASK;
        uint32_t targets = form->multicast ? lane_u32(run, insn->op[1], lane) & 0xffff : 0;
        if (form->multicast && (targets == 0 || targets >> run->cluster->nctas != 0)) {
            return sim_report(run, SIM_ERROR, "multicast-mask", lane,
                              "multicast mask %#x in a cluster of %u CTAs", targets, run->cluster->nctas);
        }
        if (!form->multicast) {
            targets = 1u << (address >> RANK_SHIFT & 0xff);
        }
        FOR_LANES(cta, targets) {
            uint64_t at = (address & RANK_MASK) | (uint64_t)LANE(cta) << RANK_SHIFT;
            c.barriers[c.count] = mbarrier_at(run, at, lane, false, true);
            if (c.barriers[c.count++] == NULL) {
                return FAIL;
            }
        }
        if (run->launch->checks) {
            /* Told is the end of this thread's operations and what was acquired before they were issued, but
             * not the thread's ordinary accesses: a commit does not release those. */
            if (!stream_open(run, &warp->pipe, false)) {
                return FAIL;
            }
            c.clock = clock_make(run->cluster);
            clock_join(run->cluster, c.clock, run->warp->clock);
            clock_forget_own(run, c.clock);
            struct epoch epoch = pipe_epoch(run, warp); /* it arrives when the operations before it are over */
            for (uint32_t i = 0; i < c.count; i++) {
                remote_note(run, c.barriers[i]->cta, &epoch);
            }
            c.clock->acquired[warp->pipe.clock_index] = warp->pipe.epoch++;
        }
        struct async_op *op = async_new(run, &commit_kind, lane, sizeof c, 0);
        memcpy(op->payload, &c, sizeof c);
        op->queue = &warp->pipe;
        async_issue(run, op);
    }
    return NEXT;
}

exec_fn tensor_pipe_fn(int which) {
    static const exec_fn fns[] = {
        [T_MMA] = exec_mma, [T_CP] = exec_cp, [T_SHIFT] = exec_shift, [T_COMMIT] = exec_commit};
    return fns[which];
}
