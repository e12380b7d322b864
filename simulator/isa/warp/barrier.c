/* Barriers of CTAs, warps and clusters (PTX ISA: bar, barrier, bar.warp.sync, barrier.cluster). */
#include "async/async.h"
#include "hazard/hazard.h"
#include "isa/opcodes.h"
#include "warp.h"

enum { BAR_SYNC, BAR_ARRIVE, BAR_RED };
enum { RED_POPC, RED_AND, RED_OR };

/* The lanes of a warp that wait at a barrier. */
static uint32_t waiting(const struct warp *warp, const struct named_barrier *bar) {
    uint32_t here = 0;
    for (uint32_t i = 0; i < warp->nsplits; i++) {
        const struct wait *wait = &warp->splits[i]->wait;
        const bool waits = wait->kind == WAIT_BAR && wait->object == bar && wait->b == bar->generation;
        here |= waits ? warp->splits[i]->mask : 0;
    }
    return here;
}

/* The lanes of a warp that arrive in several parts, each for itself, cover what all of them did.  Lanes that
 * have ended are not waited for (PTX ISA: barrier). */
static void join_parts(const struct cta *cta, const struct named_barrier *bar, const struct run *last) {
    for (uint32_t i = 0; i < cta->nwarps; i++) {
        const struct warp *warp = &cta->warps[i];
        const uint32_t here = waiting(warp, bar) | (last != NULL && last->warp == warp ? last->mask : 0);
        if (here != 0 && here == warp->live) {
            bar->gathered->per_lane[warp->number] = bar->gathered->acquired[warp->number];
        }
    }
}

/* last: who completes it; NULL: threads that ended. */
static void complete(struct cta *cta, struct named_barrier *bar, const struct run *last) {
    if (bar->in_parts) {
        join_parts(cta, bar, last);
    } else if (bar->arrived == cta->nthreads && bar->expected == 0) {
        shadow_met(cta);
    }
    bar->in_parts = false;
    bar->arrived = bar->whole = 0;
    bar->generation++;
    bar->result_all = bar->all;
    bar->result_any = bar->any;
    bar->result_count = bar->count;
    bar->all = true;
    bar->any = false;
    bar->count = 0;
    if (bar->gathered != NULL) {
        vclock_copy(cta->cluster, bar->released, bar->gathered);
        vclock_clear(cta->cluster, bar->gathered);
    }
    cta->cluster->events++;
}

/* A barrier with a count counts warps (PTX ISA: barrier): one whose lanes have all arrived or ended counts
 * whole. */
static void fill_warp(struct named_barrier *bar, const struct warp *warp, uint32_t here) {
    const uint32_t own = 1u << warp->index;
    if (bar->expected != 0 && here != 0 && here == warp->live && (bar->whole & own) == 0) {
        bar->arrived += (uint32_t)__builtin_popcount(~here);
        bar->whole |= own;
    }
}

void barriers_lost(struct cta *cta, const struct warp *of) {
    for (int i = 0; i < NAMED_BARRIERS; i++) {
        struct named_barrier *bar = &cta->bars[i];
        if (bar->arrived > 0) {
            fill_warp(bar, of, waiting(of, bar));
        }
        if (bar->arrived > 0 && bar->arrived >= (bar->expected == 0 ? cta->live_threads : bar->expected)) {
            complete(cta, bar, NULL);
        }
    }
}

static enum next arrive(struct run *run, const struct insn *insn, uint32_t mask, uint32_t number,
                        uint32_t threads) {
    struct named_barrier *bar = &run->cta->bars[number];
    if (bar->arrived > 0 && bar->expected != threads) {
        return sim_report(run, SIM_ERROR, "barrier-count", -1,
                          "barrier %u is used with %u threads while others wait on it with %u", number, threads,
                          bar->expected);
    }
    bar->expected = threads;
    if (insn->aligned && threads != 0) { /* HW: an aligned barrier counts whole warps */
        bar->arrived += LANES;
        bar->whole |= 1u << run->warp->index;
    } else {
        bar->arrived += (uint32_t)__builtin_popcount(mask);
        fill_warp(bar, run->warp, waiting(run->warp, bar) | mask);
    }
    if (insn->barrier.action == BAR_RED) {
        uint32_t yes = pred(run, insn->op[insn->nop - 1]) & mask;
        bar->all = bar->all && yes == mask;
        bar->any = bar->any || yes != 0;
        bar->count += (uint32_t)__builtin_popcount(yes);
    }
    if (run->cluster->checks) {
        if (bar->gathered == NULL) {
            bar->gathered = vclock_make(run->cluster);
            bar->released = vclock_make(run->cluster);
        }
        vclock_publish(run, bar->gathered);
        bar->in_parts |= mask != run->warp->live;
    }
    if (threads != 0 && bar->arrived > threads) {
        return sim_report(run, SIM_ERROR, "barrier-count", -1, "barrier %u expects %u threads and %u arrived",
                          number, threads, bar->arrived);
    }
    if (bar->arrived >= (threads == 0 ? run->cta->live_threads : threads)) {
        complete(run->cta, bar, run);
    }
    return NEXT;
}

/* op: [d], barrier, [threads], [predicate] */
static enum next exec_bar(struct run *run, const struct insn *insn, uint32_t mask) {
    struct split *split = run->split;
    int at = insn->barrier.action == BAR_RED ? 1 : 0;
    uint32_t number = lane_u32(run, insn->op[at], __builtin_ctz(mask));
    uint32_t threads = insn->barrier.has_count ? lane_u32(run, insn->op[at + 1], __builtin_ctz(mask)) : 0;
    if (number >= NAMED_BARRIERS || threads % LANES != 0 || threads > 1024 ||
        (insn->barrier.has_count && threads == 0)) {
        return sim_report(run, SIM_ERROR, "barrier-count", -1, "barrier %u with %u threads", number, threads);
    }
    struct named_barrier *bar = &run->cta->bars[number];
    if (!split->resumed) {
        uint32_t generation = bar->generation;
        enum next next = arrive(run, insn, mask, number, threads);
        if (next != NEXT || insn->barrier.action == BAR_ARRIVE) {
            return next;
        }
        run->worker->counters.barrier_waits++;
        if (bar->generation == generation) {
            run->worker->counters.barrier_waits_blocked++;
            return wait_for(
                run,
                (struct wait){
                    .kind = WAIT_BAR, .a = number, .b = generation, .object = bar, .what = "named barrier"});
        }
    }
    if (run->cluster->checks) {
        vclock_observe(run, bar->released);
        vclock_meet(run);
    }
    warp_synced(run, ALL_LANES);
    if (insn->barrier.action == BAR_RED && insn->type == T_PRED) {
        bool result = insn->barrier.reduction == RED_AND ? bar->result_all : bar->result_any;
        set_pred(run, insn->op[0], mask, result ? ALL_LANES : 0);
    } else if (insn->barrier.action == BAR_RED) {
        uint32_t *d = row(run, insn->op[0]), count = bar->result_count;
        LANEWISE(mask, d[l] = count);
    }
    return NEXT;
}

/* op: member mask. The lanes may wait at different bar.warp.sync instructions. */
static enum next exec_warp_sync(struct run *run, const struct insn *insn, uint32_t mask) {
    struct warp *warp = run->warp;
    uint32_t named = lane_u32(run, insn->op[0], __builtin_ctz(mask)), passed = run->split->mask & ~mask;
    uint32_t same = lanes_with(run, insn->op[0], mask, named);
    if (mask != same) { /* lanes with another mask synchronise separately */
        (void)add_split(run, mask & ~same, run->split->pc);
        run->split->mask &= ~mask | same;
        run->mask = mask = same;
    }
    uint32_t here = mask;
    if ((named & mask) != mask) {
        return sim_report(run, SIM_ERROR, "member-mask", __builtin_ctz(mask & ~named),
                          "bar.warp.sync with a member mask %#x that leaves the executing lane out", named);
    }
    for (uint32_t i = 0; i < warp->nsplits; i++) {
        const struct split *other = warp->splits[i];
        if (other != run->split && other->wait.kind == WAIT_WARP_SYNC && other->wait.a == named) {
            here |= other->mask;
        }
    }
    if ((here & named & warp->live) != (named & warp->live)) {
        if (passed != 0) { /* lanes that the predicate leaves out do not wait */
            (void)add_split(run, passed, run->split->pc + 1);
            run->split->mask = mask;
        }
        return wait_for(run,
                        (struct wait){.kind = WAIT_WARP_SYNC, .a = named, .what = "lanes of bar.warp.sync"});
    }
    for (uint32_t i = 0; i < warp->nsplits; i++) {
        struct split *other = warp->splits[i];
        if (other != run->split && other->wait.kind == WAIT_WARP_SYNC && other->wait.a == named) {
            other->wait.kind = WAIT_NONE;
            other->pc++;
        }
    }
    warp_synced(run, here & named);
    return NEXT;
}

static void decode_warp_sync(struct decoder *d) {
    if (!mod(d, "sync")) {
        decode_fail(d, "expected bar.warp.sync");
    }
    need_operands(d, 1, 1);
    emit(d, src(d, &d->op[0], T_B32));
    d->insn->fn = exec_warp_sync;
}

/* ---- clusters ---- */

static enum next exec_cluster_arrive(struct run *run, const struct insn *insn, uint32_t mask) {
    struct cluster *cluster = run->cluster;
    uint32_t live = 0;
    cluster->cluster_arrived += (uint32_t)__builtin_popcount(mask);
    run->warp->cluster_arrivals |= mask;
    run->warp->cluster_open |= mask;
    if (run->cluster->checks && !insn->barrier.relaxed) {
        vclock_publish(run, cluster->cluster_gathered);
    } else if (run->cluster->checks) {
        relaxed_signal(run, cluster->cluster_gathered);
    }
    for (uint32_t i = 0; i < cluster->nctas; i++) {
        live += cluster->ctas[i].live_threads;
    }
    if (cluster->cluster_arrived >= live) {
        clusters_complete(cluster);
    }
    return NEXT;
}

void clusters_complete(struct cluster *cluster) {
    cluster->cluster_arrived = 0;
    cluster->cluster_generation++;
    for (uint32_t i = 0; i < cluster->nctas; i++) {
        for (uint32_t j = 0; j < cluster->ctas[i].nwarps; j++) {
            cluster->ctas[i].warps[j].cluster_open = 0;
        }
    }
    if (cluster->cluster_gathered != NULL) {
        vclock_copy(cluster, cluster->cluster_released, cluster->cluster_gathered);
        vclock_clear(cluster, cluster->cluster_gathered);
    }
    cluster->events++;
}

static enum next exec_cluster_wait(struct run *run, const struct insn *insn, uint32_t mask) {
    struct warp *warp = run->warp;
    (void)insn;
    if (!run->split->resumed) {
        if ((warp->cluster_arrivals & mask) != mask) {
            return sim_report(run, SIM_ERROR, "cluster-barrier", __builtin_ctz(mask & ~warp->cluster_arrivals),
                              "barrier.cluster.wait without barrier.cluster.arrive before it");
        }
        run->worker->counters.barrier_waits++;
        if (warp->cluster_open & mask) {
            run->worker->counters.barrier_waits_blocked++;
            return wait_for(run, (struct wait){.kind = WAIT_CLUSTER,
                                               .b = run->cluster->cluster_generation,
                                               .what = "cluster barrier"});
        }
    }
    warp->cluster_arrivals &= ~mask;
    if (run->cluster->checks) {
        vclock_observe(run, run->cluster->cluster_released);
        vclock_meet(run);
    }
    warp_synced(run, ALL_LANES);
    return NEXT;
}

static void decode_cluster(struct decoder *d) {
    bool wait = mod(d, "wait");
    if (!wait && !mod(d, "arrive")) {
        decode_fail(d, "expected .arrive or .wait");
    }
    (void)mod(d, "acquire");
    (void)mod(d, "release");
    d->insn->barrier.relaxed = mod(d, "relaxed");
    d->insn->aligned = mod(d, "aligned");
    need_operands(d, 0, 0);
    d->insn->fn = wait ? exec_cluster_wait : exec_cluster_arrive;
}

void decode_bar(struct decoder *d) {
    static const char *const reductions[] = {"popc", "and", "or"};
    struct insn *insn = d->insn;
    bool old = d->mnemonic.text[3] != 'r'; /* `bar` is always aligned, `barrier` need not be */
    if (mod(d, "warp")) {
        decode_warp_sync(d);
        return;
    }
    if (mod(d, "cluster")) {
        decode_cluster(d);
        return;
    }
    (void)mod(d, "cta");
    insn->aligned = mod(d, "aligned") || old;
    static const char *const actions[] = {"sync", "arrive", "red"};
    int action = mod_of(d, COUNTED(actions));
    if (action < 0) {
        decode_fail(d, "expected .sync, .arrive or .red");
    }
    insn->barrier.action = (uint8_t)action;
    int at = 0, last = d->nop;
    insn->fn = exec_bar;
    if (insn->barrier.action == BAR_RED) {
        int reduction = mod_of(d, COUNTED(reductions));
        insn->type = (uint8_t)mod_type(d);
        if (reduction < 0 || insn->type != (reduction == RED_POPC ? T_U32 : T_PRED) || d->nop < 3) {
            decode_fail(d, "there is no form for this reduction and type");
        }
        insn->barrier.reduction = (uint8_t)reduction;
        emit_dst(d, &d->op[at++], insn->type);
        last--;
    }
    if (last - at < (action == BAR_ARRIVE ? 2 : 1) || last - at > 2) { /* who arrives says how many meet */
        decode_fail(d, "%d operands", d->nop);
    }
    emit(d, src(d, &d->op[at], T_U32));
    if (last - at == 2) {
        emit(d, src(d, &d->op[at + 1], T_U32));
        insn->barrier.has_count = true;
    }
    if (insn->barrier.action == BAR_RED) {
        emit(d, src(d, &d->op[last], T_PRED));
    }
}
