/* Execution of the tcgen05 instructions that a whole warp executes: allocation, ld, st, waits and fences. */
#include <stdlib.h>

#include "clock/timing.h"
#include "tcgen05_state.h"

/* ---- alloc, dealloc, relinquish_alloc_permit ---- */

static bool room_again(struct warp *warp, const struct split *split) {
    const struct tensor *tensor = warp->cta->tensor;
    struct tmem trial = tensor->tmem;
    struct tc_why why;
    uint32_t address;
    return tmem_alloc(&trial, split->wait.a, &address, &why) != TMEM_ALLOC_WAIT;
}

static bool check_group(struct run *run, struct tensor *tensor, int cta_group) {
    struct tc_why why;
    if (tmem_check_cta_group(&tensor->tmem, cta_group, &why)) {
        return true;
    }
    (void)tensor_refuse(run, "cta-group", &why);
    return false;
}

/* True if the running warp knows, by any signal, that `warp` of the cluster has reached clock value `time`. */
static bool knows_of(const struct run *run, uint32_t warp, uint32_t time) {
    const struct vector_clock *clock = run->warp->clock;
    return clock->causal[warp] >= time || clock->acquired[warp] >= time;
}

/* PTX ISA, tcgen05.alloc: with .cta_group::2 the issuing warp must make sure that the peer CTA has been
 * launched. */
static void check_peer_runs(struct run *run) {
    const uint32_t warps = run->launch->warps, peer = run->cta->rank ^ 1;
    bool runs = peer >= run->cluster->nctas;
    for (uint32_t i = 0; !runs && i < warps; i++) {
        runs = knows_of(run, peer * warps + i, 1);
    }
    if (!runs) {
        (void)sim_report(run, SIM_REVIEW, "pair-alloc", -1,
                         "tcgen05.alloc for a pair of CTAs before this warp knows that the other CTA runs");
    }
}

/* The columns of a pair are one allocation: a B300 ends the launch if one CTA frees them before the other has
 * allocated (CUTLASS issue 3435). */
static void check_peer_has(struct run *run, int column) {
    const uint32_t rank = run->cta->rank ^ 1, unit = (uint32_t)column / TMEM_UNIT_COLUMNS;
    struct cta *peer = rank < run->cluster->nctas ? &run->cluster->ctas[rank] : NULL;
    const struct tensor *tensor = peer == NULL ? NULL : tensor_of(run, peer);
    if (peer != NULL &&
        (tensor->alloc[unit].time == 0 || !knows_of(run, tensor->alloc[unit].warp, tensor->alloc[unit].time))) {
        (void)sim_report_pair(
            run, SIM_ERROR, "pair-dealloc", -1, NULL,
            "tcgen05.dealloc of a pair of CTAs, and nothing orders it after the other one's tcgen05.alloc");
    }
}

/* op: number of columns, address in shared memory. */
enum next tensor_alloc(struct run *run, const struct insn *insn, uint32_t mask) {
    const struct tensor_form *form = insn->tcgen05.form;
    struct tensor *tensor = tensor_of(run, run->cta);
    struct tc_why why;
    uint64_t columns, to;
    uint32_t address, offset, offsets[LANES];
    if (!check_group(run, tensor, form->cta_group) ||
        !tensor_uniform(run, insn->op[0], mask, "the column count of tcgen05.alloc", &columns) ||
        !tensor_uniform(run, insn->op[1], mask, "the destination of tcgen05.alloc", &to)) {
        return FAIL;
    }
    to = (to + (uint64_t)form->offset[1]) & ~WINDOW_MASK;
    struct cta *cta = shared_cta(run, to, 4, 4, -1, true, &offset);
    if (cta == NULL) {
        return FAIL;
    }
    switch (tmem_alloc(&tensor->tmem, (uint32_t)columns, &address, &why)) {
    case TMEM_ALLOC_ILLEGAL:
        return tensor_refuse(run, "tensor-memory", &why);
    case TMEM_ALLOC_WAIT:
        return wait_for(run, (struct wait){.kind = WAIT_ASYNC,
                                           .a = (uint32_t)columns,
                                           .ready = room_again,
                                           .what = "free columns of tensor memory (tcgen05.alloc)"});
    default:
        break;
    }
    memcpy(cta->shared + offset, &address, sizeof address);
    if (run->cluster->checks) { /* one write, attributed to the first lane */
        if (form->cta_group == 2) {
            check_peer_runs(run);
        }
        for (uint32_t i = 0; i < columns / TMEM_UNIT_COLUMNS; i++) {
            const uint32_t unit = (uint32_t)tmem_column(address) / TMEM_UNIT_COLUMNS + i;
            tensor->alloc[unit].warp = run->warp->number;
            tensor->alloc[unit].time = run->warp->clock->acquired[run->warp->number];
        }
        offsets[__builtin_ctz(mask)] = offset;
        hazard_lanes(run, cta, offsets, mask & -mask, 4, ACCESS_WRITE);
    }
    return NEXT;
}

/* op: number of columns, address. */
enum next tensor_dealloc(struct run *run, const struct insn *insn, uint32_t mask) {
    const struct tensor_form *form = insn->tcgen05.form;
    struct tensor *tensor = tensor_of(run, run->cta);
    struct tc_why why;
    uint64_t columns, address;
    if (!check_group(run, tensor, form->cta_group) ||
        !tensor_uniform(run, insn->op[0], mask, "the column count of tcgen05.dealloc", &columns) ||
        !tensor_uniform(run, insn->op[1], mask, "the address of tcgen05.dealloc", &address)) {
        return FAIL;
    }
    if (!tmem_dealloc(&tensor->tmem, (uint32_t)address, (uint32_t)columns, &why)) {
        return tensor_refuse(run, "tensor-memory", &why);
    }
    if (run->cluster->checks && form->cta_group == 2) {
        check_peer_has(run, tmem_column((uint32_t)address));
    }
    if (run->cluster->checks) {
        use_freed(run, run->cta, tmem_column((uint32_t)address), (int)columns);
    }
    run->cluster->events++;
    return NEXT;
}

enum next tensor_relinquish(struct run *run, const struct insn *insn, uint32_t mask) {
    const struct tensor_form *form = insn->tcgen05.form;
    struct tensor *tensor = tensor_of(run, run->cta);
    (void)mask;
    if (!check_group(run, tensor, form->cta_group)) {
        return FAIL;
    }
    (void)tmem_relinquish(&tensor->tmem, NULL);
    return NEXT;
}

/* ---- ld and st ---- */

struct access_op {
    struct tmem_access access;
    struct stream *stream;
    uint8_t *regs;
    int count;
};

typedef uint32_t lanes_of[LANES];

static void ld_read(struct async_op *op) {
    const struct access_op *a = op->payload;
    const struct tensor *tensor = op->cta->tensor;
    tmem_load(&tensor->tmem, &a->access, (lanes_of *)(void *)op->data);
}

static void ld_write(struct async_op *op) {
    const struct access_op *a = op->payload;
    const lanes_of *data = (const lanes_of *)(const void *)op->data;
    for (int r = 0; r < a->count; r++) {
        if (!op->insn->op[r].sink) {
            memcpy(a->regs + op->insn->op[r].off, data[r], ROW32);
        }
    }
}

static void access_complete(struct async_op *op) {
    struct access_op *a = op->payload;
    a->stream->pending--;
}

static void ld_poison(struct async_op *op) {
    const struct access_op *a = op->payload;
    for (int r = 0; r < a->count; r++) {
        if (!op->insn->op[r].sink) {
            memset(a->regs + op->insn->op[r].off, POISON_BYTE, ROW32);
        }
    }
}

static void st_write(struct async_op *op) {
    const struct access_op *a = op->payload;
    struct tensor *tensor = op->cta->tensor;
    tmem_store(&tensor->tmem, &a->access, (const lanes_of *)(const void *)op->data);
}

static void access_timed(struct run *run, struct async_op *op) {
    const struct access_op *a = op->payload;
    event_add_stage(run->launch->timing, op, op->cta, time_tcgen05_access(run, (uint32_t)a->count * ROW32),
                    ASYNC_DONE);
}

static const struct async_kind ld_kind = {"tcgen05.ld", ld_read, ld_write,    access_complete,
                                          ld_poison,    NULL,    access_timed};
static const struct async_kind st_kind = {"tcgen05.st", NULL, st_write,    access_complete,
                                          NULL,         NULL, access_timed};

/* Marks (sign 1) the registers of a tcgen05.ld as written by a pending operation, or unmarks them (-1). */
static void mark_rows(struct warp *warp, const struct function *function, const struct insn *insn, int sign) {
    for (int r = 0; r < insn->ndst; r++) {
        *pending_row(warp, function, insn->op[r]) += (uint32_t)(sign * PENDING_WRITE);
    }
}

/* op: registers, address. */
enum next tensor_access(struct run *run, const struct insn *insn, uint32_t mask) {
    const struct tensor_form *form = insn->tcgen05.form;
    bool load = insn->ndst > 0;
    int count = insn->nop - 1;
    struct tensor_warp *warp = tensor_warp(run);
    struct tmem_region regions[TMEM_MAX_REGIONS];
    struct tc_why why;
    uint64_t address;
    if (!tensor_uniform(run, insn->op[count], mask, "the tensor memory address", &address)) {
        return FAIL;
    }
    if (mask != ALL_LANES) {
        return sim_report(run, SIM_ERROR, "divergent-aligned", -1, "%s needs all 32 lanes of a warp",
                          insn->name);
    }
    struct tmem_access access = form->access;
    struct tensor *tensor = run->cta->tensor;
    access.address += (uint32_t)address; /* to the constant offset */
    if (tmem_lane(access.address) >= TMEM_LANES) {
        /* Review: PTX has lanes 0 to 127, but kernels that work on real chips number an odd CTA's lanes from
         * 128. */
        (void)sim_report(run, SIM_REVIEW, "tensor-memory-lane", -1,
                         "%s at lane %d, taken modulo 128: a CTA has 128 lanes", insn->name,
                         tmem_lane(access.address));
        access.address &= (uint32_t)(TMEM_LANES - 1) << 16 | 0xffff;
    }
    uint32_t own = run->warp->index % 4 * TMEM_QUARTER_LANES;
    if (own != 0 && tmem_lane(access.address) < TMEM_QUARTER_LANES) {
        /* Review: by the PTX ISA a warp accesses only its own quarter. A kernel that gives the first quarter's
         * lane in all four warps had right results on a B200, as if the lane were relative to the warp's
         * quarter. */
        (void)sim_report(run, SIM_REVIEW, "tensor-memory-lane", -1,
                         "%s at lane %d in a warp that reaches lanes %u to %u: taken as one of those",
                         insn->name, tmem_lane(access.address), own, own + TMEM_QUARTER_LANES - 1);
        access.address += own << 16;
    }
    int touched = tmem_check_access(&tensor->tmem, &access, (int)run->warp->index % 4, regions, &why);
    if (touched == 0) {
        return tensor_refuse(run, "tensor-memory", &why);
    }
    struct stream *stream = load ? &warp->loads : &warp->stores;
    if (load && run->warp->npending == MAX_PENDING) {
        return sim_report(run, SIM_INCOMPLETE, "tcgen05-register", -1, "more than %d tcgen05.ld without a wait",
                          MAX_PENDING);
    }
    if (run->cluster->checks) {
        if (!stream_open(run, stream, true)) {
            return FAIL;
        }
        struct tmem_use use = {load ? USE_LD : USE_ST, !load, load, 0, stream->clock_index, stream->epoch};
        for (int i = 0; i < touched; i++) {
            use_region(run, run->cta, &regions[i], &use);
        }
    }
    struct async_op *op =
        async_new(run, load ? &ld_kind : &st_kind, -1, sizeof(struct access_op), (size_t)count * ROW32);
    struct access_op *a = op->payload;
    *a = (struct access_op){access, stream, run->base[BASE_REGS], count};
    op->queue = stream;
    stream->pending++;
    for (int r = 0; !load && r < count; r++) {
        memcpy(op->data + (size_t)r * ROW32, row(run, insn->op[r]), ROW32);
    }
    if (load) {
        *pending_new(run) = (struct in_flight){insn, run->split->function, GROUP_OF_LOAD, 0, 0};
        mark_rows(run->warp, run->split->function, insn, 1);
    }
    async_issue(run, op);
    return NEXT;
}

/* ---- wait and fences ---- */

static bool nothing_pending(struct warp *warp, const struct split *split) {
    (void)warp;
    return ((const struct stream *)split->wait.object)->pending == 0;
}

static enum next wait_stream(struct run *run, struct stream *stream, const char *what) {
    if (stream->pending != 0) {
        return wait_for(
            run, (struct wait){.kind = WAIT_ASYNC, .object = stream, .ready = nothing_pending, .what = what});
    }
    if (run->cluster->checks && stream->clock_index != 0) {
        stream->waited = stream->epoch++;
        run->warp->clock->acquired[stream->clock_index] = stream->waited;
    }
    return NEXT;
}

static void release_rows(struct warp *warp) {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < warp->npending; i++) {
        if (warp->in_flight[i].group == GROUP_OF_LOAD) {
            mark_rows(warp, warp->in_flight[i].function, warp->in_flight[i].insn, -1);
        } else {
            warp->in_flight[kept++] = warp->in_flight[i];
        }
    }
    warp->npending = kept;
}

enum next tensor_wait_ld(struct run *run, const struct insn *insn, uint32_t mask) {
    struct tensor_warp *warp = tensor_warp(run);
    (void)insn;
    (void)mask;
    enum next next = wait_stream(run, &warp->loads, "its tcgen05.ld (tcgen05.wait::ld)");
    if (next != NEXT) {
        return next;
    }
    release_rows(run->warp);
    return NEXT;
}

/* CUTLASS's epilogues use registers before wait::ld, and nvcc moves uses there; chips seem to stall such a use.
 * So it waits for the data, but does not count as having waited for the load. */
enum next tensor_register_use(struct run *run, const struct insn *load, bool written) {
    struct tensor_warp *warp = tensor_warp(run);
    (void)sim_report_pair(run, written ? SIM_ERROR : SIM_REVIEW, "tcgen05-register", -1, load,
                          "%s a register that a pending tcgen05.ld fills: PTX requires tcgen05.wait::ld first",
                          written ? "writes" : "reads");
    if (warp->loads.pending != 0) {
        return wait_for(run, (struct wait){.kind = WAIT_ASYNC,
                                           .object = &warp->loads,
                                           .ready = nothing_pending,
                                           .what = "the tcgen05.ld whose register it uses"});
    }
    release_rows(run->warp);
    return NEXT;
}

enum next tensor_wait_st(struct run *run, const struct insn *insn, uint32_t mask) {
    struct tensor_warp *warp = tensor_warp(run);
    (void)insn;
    (void)mask;
    return wait_stream(run, &warp->stores, "its tcgen05.st (tcgen05.wait::st)");
}

enum next tensor_fence_before(struct run *run, const struct insn *insn, uint32_t mask) {
    struct tensor_warp *warp = tensor_warp(run);
    (void)insn;
    (void)mask;
    struct stream *streams[] = {&warp->loads, &warp->stores};
    for (int i = 0; run->cluster->checks && i < 2; i++) {
        if (streams[i]->clock_index != 0) {
            run->warp->clock->acquired[streams[i]->clock_index + 1] = streams[i]->waited;
        }
    }
    return NEXT;
}

enum next tensor_fence_after(struct run *run, const struct insn *insn, uint32_t mask) {
    struct tensor_warp *warp = tensor_warp(run);
    (void)insn;
    (void)mask;
    for (uint32_t i = 0; run->cluster->checks && i < run->cluster->nclock_indices; i++) {
        if (warp->ordered[i] < run->warp->clock->acquired[i]) {
            warp->ordered[i] = run->warp->clock->acquired[i];
        }
    }
    return NEXT;
}
