/* Scheduler with simulated time: the warp with the earliest time runs next, and an operation takes effect when
 * it is due. SMs advance in windows; memory serves their requests between two windows. */
#include "async/async.h"
#include "clock/timing.h"
#include "interp/interp.h"

static void add_warp(struct timing *timing, struct warp *warp, ticks at) {
    warp->time->due = at;
    event_add(timing, island_of(timing, warp->cta), (struct event){.at = at, .warp = warp});
}

/* ---- clusters ---- */

uint32_t timed_room(const struct launch *launch) {
    uint64_t most = (uint64_t)launch->timing->chip.sms * launch->timing->chip.sm_ctas;
    return (uint32_t)(launch->ncluster < most ? launch->ncluster : most);
}

/* Starts up to `most` clusters that find room before time `before`; false if none did. */
static bool start_clusters(struct worker *worker, ticks before, uint32_t most) {
    struct launch *launch = worker->launch;
    struct timing *timing = launch->timing;
    uint32_t island = 0, count = 0;
    ticks start;
    for (; count < most && atomic_load(&launch->next_cluster) < launch->ncluster &&
           time_place(launch, before, &island, &start);
         count++) {
        if (worker->active == worker->made) {
            cluster_make(worker);
        }
        struct cluster *cluster = worker->resident[worker->active++];
        const struct island *place = &timing->islands[island];
        cluster->island = island;
        for (uint32_t i = 0; i < cluster->nctas; i++) {
            cluster->ctas[i].sm = place->first_sm + i % place->sms;
        }
        cluster_start(cluster, atomic_fetch_add(&launch->next_cluster, 1));
        cluster->seen_events = cluster->events;
        for (uint32_t i = 0; i < cluster->nctas * launch->warps; i++) {
            struct warp *warp = &cluster->ctas[i / launch->warps].warps[i % launch->warps];
            warp_time_start(warp, start);
            path_start(timing, place, warp, start);
            add_warp(timing, warp, start);
        }
    }
    return count > 0;
}

/* The cluster's warps have ended: its place is free, though its stores may still be in flight. */
static void end_cluster(struct cluster *cluster, ticks at) {
    cluster->left = true;
    time_cluster_end(cluster->launch, cluster, at);
}

static void collect(struct worker *worker) {
    for (uint32_t i = 0; i < worker->active;) {
        struct cluster *cluster = worker->resident[i];
        if (!cluster->failed && !(cluster->left && cluster->nops == 0)) {
            i++;
            continue;
        }
        cluster_finish(cluster);
        worker_progress(worker, cluster->nctas);
        if (cluster->failed) {
            atomic_store(&worker->launch->stop, true);
        }
        worker->resident[i] = worker->resident[--worker->active];
        worker->resident[worker->active] = cluster;
    }
}

/* ---- a window ---- */

/* Wakes the cluster's warps that waited for an event which has happened. */
static void wake(struct cluster *cluster, struct timing *timing, ticks at) {
    if (cluster->events == cluster->seen_events) {
        return;
    }
    cluster->seen_events = cluster->events;
    for (uint32_t i = 0; i < cluster->nctas; i++) {
        struct cta *cta = &cluster->ctas[i];
        for (uint32_t j = 0; j < cta->nwarps; j++) {
            struct warp *warp = &cta->warps[j];
            if (warp->nsplits == 0 || (!warp->time->blocked && !warp->time->partly)) {
                continue;
            }
            const struct split *next = warp_next(warp);
            if (warp->time->blocked ? next != NULL : next != NULL && next->resumed) {
                ticks due = warp->time->blocked ? NEVER : warp->time->due;
                warp->time->wait = next->waited;
                ticks woken = time_wake(timing, warp, at);
                if (woken < due) {
                    add_warp(timing, warp, woken);
                }
            }
        }
    }
}

/* HW: among the warps of a sub-partition, the one that issued last keeps issuing as long as it can. True if
 * `warp` must let that warp go first at time `at`. */
static bool yields(struct warp *warp, ticks at) {
    const struct sm_time *sm = sm_of(warp->cta);
    struct warp *last = sm->part[warp->index % SM_PARTS].last;
    if (last == NULL || last == warp || last->nsplits == 0 || last->time->blocked || last->time->next > at ||
        last->time->due > at || /* it sleeps until then, or until what it waits for comes */
        sm_of(last->cta) != sm) {
        return false;
    }
    const struct split *split = warp_next(last);
    if (split == NULL || time_operands(last, split) > at || time_ready(last, split) > at) {
        return false;
    }
    if (time_stores(last, split) && time_stores(warp, warp_next(warp))) { /* stores take turns */
        return false;
    }
    /* With machine code, when an MMA kept both from issuing, the first choice goes first: see issue_beside. */
    return !warp->cta->cluster->launch->reordered || last->time->chosen <= warp->time->chosen;
}

/* Schedules the warp's next turn at time `at`; what one of its splits waits for may wake it earlier. */
static void look_again(struct warp *warp, struct timing *timing, ticks at) {
    for (uint32_t i = 0; !warp->time->partly && i < warp->nsplits; i++) {
        enum wait_kind kind = warp->splits[i]->wait.kind;
        if (kind != WAIT_NONE && kind != WAIT_CONVERGE && kind != WAIT_WARP_SYNC) {
            warp->time->partly = true;
            warp->time->slept = timing->now;
        }
    }
    add_warp(timing, warp, at);
}

/* Runs the warp until it waits, ends, or another event of its island is due. */
static void run_from(struct warp *warp, struct worker *worker, struct island *island, ticks until) {
    struct timing *timing = worker->launch->timing;
    struct cluster *cluster = warp->cta->cluster;
    while (!cluster->failed) {
        const struct split *split = warp->nsplits == 0 ? NULL : warp_next(warp);
        if (split == NULL) {
            break;
        }
        if (warp->time->early) { /* the last warp of its warpgroup will wake it */
            warp->time->due = NEVER;
            return;
        }
        ticks at = time_ready(warp, split);
        if (time_word(warp, split, at)) {
            at = time_ready(warp, split);
        }
        if (at == NEVER) { /* ready only after memory has answered, between two windows */
            look_again(warp, timing, until);
            return;
        }
        if (split->resumed) { /* another split may have run meanwhile: not before what this one waited for */
            at = later(at, timing->now);
        }
        /* A store that waits for the port queues behind stores that have waited longer. */
        bool behind = at > timing->now && time_stores(warp, split);
        if (at >= until || event_next(&island->agenda) < at + behind || yields(warp, at)) {
            look_again(warp, timing, at);
            return;
        }
        timing->now = at;
        (void)run_warp(warp, worker, 1);
        wake(cluster, timing, at);
        if (event_next(&island->agenda) <= at) { /* warps due at the same time alternate */
            look_again(warp, timing, at);
            return;
        }
    }
    if (warp->nsplits > 0) {
        warp->time->blocked = true;
        warp->time->wait = warp->splits[0]->wait.kind;
        warp->time->slept = timing->now;
    } else {
        time_warp_end(warp, timing->now);
        if (!cluster->left && !cluster_live(cluster)) {
            end_cluster(cluster, timing->now);
        }
    }
}

static void run_island(struct worker *worker, struct island *island, ticks until) {
    struct timing *timing = worker->launch->timing;
    while (event_next(&island->agenda) < until) {
        struct event event = event_take(&island->agenda);
        timing->now = event.at;
        if (event.warp != NULL) {
            if (!event.warp->cta->cluster->failed && event.at == event.warp->time->due) {
                event.warp->time->partly = false;
                run_from(event.warp, worker, island, until);
            }
            continue;
        }
        ticks due = time_mma_due(timing, event.op->cta, event.op->turn);
        if (due > event.at) {
            event_add_stage(timing, event.op, event.op->cta, due, event.stage);
            continue;
        }
        struct cluster *cluster = event.op->cluster;
        timing->signalled = 0;
        path_operation(timing, event.op->path, event.op->kind->name);
        if (event.stage == ASYNC_DONE) {
            timeline_operation(timing, event.op->cta, event.op->kind->name, event.op->issued);
        }
        async_due(timing, event.op, event.stage);
        wake(cluster, timing, event.at);
    }
}

static ticks earliest(const struct timing *timing) {
    ticks first = NEVER;
    for (uint32_t i = 0; i < timing->nislands; i++) {
        const ticks next = event_next(&timing->islands[i].agenda);
        first = next < first ? next : first;
    }
    return first;
}

/* Returns the time of the next event, after starting the clusters that begin before its window. Clusters start
 * in order, each in the place that is free first, and that place is known only up to the next event. */
static ticks next_event(struct worker *worker) {
    struct timing *timing = worker->launch->timing;
    ticks first;
    do {
        first = earliest(timing);
    } while (first == NEVER ? start_clusters(worker, NEVER, 1)
                            : start_clusters(worker, first - first % WINDOW, UINT32_MAX));
    return first;
}

/* An interrupted launch's time is that until then. */
static void end_all(struct worker *worker, ticks at) {
    for (uint32_t i = 0; i < worker->active; i++) {
        struct cluster *cluster = worker->resident[i];
        for (uint32_t j = 0; j < cluster->nctas * worker->launch->warps && !cluster->left; j++) {
            struct warp *warp = &cluster->ctas[j / worker->launch->warps].warps[j % worker->launch->warps];
            if (warp->nsplits > 0) {
                time_warp_end(warp, at);
            }
        }
        if (!cluster->left) {
            end_cluster(cluster, at);
        }
    }
}

void run_timed(struct worker *worker) {
    struct launch *launch = worker->launch;
    struct timing *timing = launch->timing;
    worker->footprint = &timing->footprint;
    if (!time_launch_begin(launch)) {
        launch_no_memory(launch);
        return;
    }
    for (;;) {
        ticks first = next_event(worker), until = first - first % WINDOW + WINDOW;
        if (worker->active == 0 || atomic_load(&launch->stop) || launch_interrupted(launch)) {
            break;
        }
        if (first == NEVER) {
            report_deadlock(worker->resident[0]);
            collect(worker);
            break;
        }
        for (uint32_t i = 0; i < timing->nislands; i++) {
            run_island(worker, &timing->islands[i], until);
        }
        time_settle(timing);
        timeline_window(timing, until - WINDOW, until);
        collect(worker);
        worker_progress(worker, 0);
        if (timing->no_memory) {
            launch_no_memory(launch);
        }
    }
    if (launch_interrupted(launch)) {
        end_all(worker, timing->now);
    }
    time_launch_end(launch);
}
