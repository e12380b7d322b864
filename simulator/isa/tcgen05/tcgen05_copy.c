/* Execution of tcgen05.cp, tcgen05.shift and tcgen05.commit. */
#include <stdlib.h>

#include "clock/timing.h"
#include "tcgen05_pipe.h"

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
        pipe_poison(c->ctas[i], &c->region);
    }
}

static void cp_timed(struct run *run, struct async_op *op) {
    event_add_stage(run->launch->timing, op, op->cta, time_tcgen05_copy(run), ASYNC_DONE);
}

static const struct async_kind cp_kind = {"tcgen05.cp", cp_read, cp_write, NULL, cp_poison, NULL, cp_timed};

/* op: address, descriptor. */
enum next pipe_cp(struct run *run, const struct insn *insn, uint32_t mask) {
    const struct tensor_form *form = insn->tcgen05.form;
    FOR_LANES(rest, mask) {
        int lane = LANE(rest);
        struct tc_why why;
        struct tensor_warp *warp = tensor_warp(run);
        struct cp_op c = {.cp = {.shape = form->cp_shape, .format = form->cp_format}};
        if (!pipe_prepare(run, form->cta_group, c.ctas, &c.count)) {
            return FAIL;
        }
        c.cp.address = (uint32_t)(lane_u64(run, insn->op[0], lane) + (uint64_t)form->offset[0]);
        if (!tc_decode_tcgen05_descriptor(lane_u64(run, insn->op[1], lane), &c.cp.source, &why)) {
            return tensor_refuse(run, "matrix-descriptor", &why);
        }
        for (int i = 0; i < c.count; i++) {
            struct tc_cta cta = pipe_view(c.ctas[i]);
            c.nchunks = tmem_check_cp(cta.tmem, &c.cp, cta.smem_bytes, c.chunks, &c.region, &why);
            if (c.nchunks == 0) {
                return tensor_refuse(run, "tensor-operand", &why);
            }
        }
        if (run->cluster->checks) {
            if (!stream_open(run, &warp->pipe, false)) {
                return FAIL;
            }
            struct epoch epoch = pipe_epoch(run, warp);
            struct tmem_use use = {USE_CP, true, false, 0, epoch.clock_index, epoch.value};
            for (int i = 0; i < c.count; i++) {
                pipe_reads_shared(run, c.ctas[i], c.chunks, c.nchunks, &epoch);
                use_region(run, c.ctas[i], &c.region, &use);
            }
        }
        async_start(run, &cp_kind, lane, &c, sizeof c, (size_t)c.count * CP_BYTES, &warp->pipe);
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

enum next pipe_shift(struct run *run, const struct insn *insn, uint32_t mask) {
    const struct tensor_form *form = insn->tcgen05.form;
    FOR_LANES(rest, mask) {
        int lane = LANE(rest);
        struct shift_op s = {0};
        struct tmem_region region;
        struct tc_why why;
        struct tensor_warp *warp = tensor_warp(run);
        if (!pipe_prepare(run, form->cta_group, s.ctas, &s.count)) {
            return FAIL;
        }
        s.address = (uint32_t)(lane_u64(run, insn->op[0], lane) + (uint64_t)form->offset[0]);
        (void)sim_report(
            run, SIM_REVIEW, "unverified-instruction", lane,
            "tcgen05.shift is modelled as lanes 1-31 of a quarter moving to 0-30, not verified on a chip");
        for (int i = 0; i < s.count; i++) {
            struct tc_cta cta = pipe_view(s.ctas[i]);
            if (!tmem_check_shift(cta.tmem, s.address, &region, &why)) {
                return tensor_refuse(run, "tensor-operand", &why);
            }
        }
        if (run->cluster->checks) {
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
        async_start(run, &shift_kind, lane, &s, sizeof s, 0, &warp->pipe);
    }
    return NEXT;
}

/* ---- commit ---- */

struct commit_op {
    struct mbarrier *barriers[MAX_CLUSTER];
    uint32_t count;
    struct vector_clock *clock;
};

static void commit_complete(struct async_op *op) {
    const struct commit_op *c = op->payload;
    for (uint32_t i = 0; i < c->count; i++) {
        mbarrier_async_arrive(op, c->barriers[i], c->clock);
    }
    if (c->clock != NULL) {
        vclock_release(op->cluster, c->clock);
    }
}

static void commit_timed(struct run *run,
                         struct async_op *op) { /* the queue makes it wait for earlier operations */
    struct timing *timing = run->launch->timing;
    event_add_stage(timing, op, op->cta, timing->issued + timing->chip.tcgen05_commit_latency, ASYNC_DONE);
}

static const struct async_kind commit_kind = {"tcgen05.commit", NULL, NULL, commit_complete, NULL, NULL,
                                              commit_timed};

/* op: barrier, [mask of CTAs with multicast]. */
enum next pipe_commit(struct run *run, const struct insn *insn, uint32_t mask) {
    const struct tensor_form *form = insn->tcgen05.form;
    FOR_LANES(rest, mask) {
        int lane = LANE(rest), count;
        struct cta *ctas[2];
        struct tensor_warp *warp = tensor_warp(run);
        struct commit_op c = {0};
        if (!pipe_prepare(run, form->cta_group, ctas, &count)) {
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
        if (run->cluster->checks) {
            /* The arrival releases the end of this thread's operations and what the thread had acquired before
             * issuing them, but not the thread's own ordinary accesses. */
            if (!stream_open(run, &warp->pipe, false)) {
                return FAIL;
            }
            c.clock = vclock_make(run->cluster);
            vclock_join(run->cluster, c.clock, run->warp->clock);
            vclock_forget_own(run, c.clock);
            struct epoch epoch = pipe_epoch(run, warp); /* it arrives once the operations before it are done */
            for (uint32_t i = 0; i < c.count; i++) {
                remote_note(run, c.barriers[i]->cta, &epoch);
            }
            c.clock->acquired[warp->pipe.clock_index] = warp->pipe.epoch++;
        }
        async_start(run, &commit_kind, lane, &c, sizeof c, 0, &warp->pipe);
    }
    return NEXT;
}
