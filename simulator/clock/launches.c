/* Times at which a launch begins and ends, and at which the next one may begin. */
#include "timing.h"

static uint32_t ctas_of_cluster(const struct launch *launch) {
    return launch->cluster[0] * launch->cluster[1] * launch->cluster[2];
}

/* A launch is simulated to its end before the next one begins, also if that is a dependent one that starts
 * sooner. So each launch begins with free resources; overlap.c remembers what earlier launches took of them. */
static void release_all(struct timing *timing) {
    for (uint64_t i = 0; i < timing->chip.sms; i++) {
        memset(&timing->sm[i], 0, offsetof(struct sm_time, split));
    }
    timing->l2_load.server = timing->l2_store.server = timing->hbm.server = (struct server){0};
    timing->l2_loads_until = 0;
}

/* HW (measured, H200 and H100: dependent_start_cycles, h200_observed cta_counts): a dependent launch begins
 * sooner without clusters. */
static ticks dependent_from(const struct launch *launch) {
    const struct timing *timing = launch->timing;
    const struct chip *chip = &timing->chip;
    bool alone = !launch->clustered && chip->dependent_gap_alone > 0;
    return timing->before_triggered + (alone ? chip->dependent_gap_alone : chip->dependent_gap);
}

/* HW (measured, H100 and H200: h200_observed launch_parameters, call_starts): a launch's parameters come from
 * HBM only if the launch before read more from HBM than L2 holds. */
static bool parameters_far(struct timing *timing) {
    const struct chip *chip = &timing->chip;
    return timing->hbm.server.busy > rate_ticks(chip->hbm_rate, chip->l2_bytes);
}

bool time_launch_begin(struct launch *launch) {
    struct timing *timing = launch->timing;
    const struct chip *chip = &timing->chip;
    ticks free_at = launch->dependent ? dependent_from(launch) : timing->before_end + chip->launch_gap;
    timing->begin = later(timing->host, timing->launches == 0 ? 0 : free_at);
    timing->host += chip->host_launch;
    timing->parameters_far = parameters_far(timing); /* before release_all clears it */
    release_all(timing);
    timing->found.bytes = 0;
    memset(&timing->running, 0, sizeof timing->running);
    timing->dispatched = timing->begin;
    timing->first_start = timing->first_end = NEVER;
    timing->last_end = 0;
    timing->ended = 0;
    timing->triggered = timing->end = timing->begin;
    timing->ntriggered = 0;
    timing->counted = timing->counted_with_ends = 0;
    timing->replaced = NEVER;
    timing->room = time_room(launch);
    for (uint32_t i = 0; i < chip->sms; i++) { /* drops CTAs that are gone by now */
        struct sm_time *sm = &timing->sm[i];
        uint32_t kept = 0;
        for (uint32_t j = 0; j < sm->ntenants; j++) {
            if (sm->tenants[j].until > timing->begin) {
                sm->tenants[kept++] = sm->tenants[j];
            }
        }
        sm->ntenants = sm->nolder = kept;
        memset(sm->l1, 0, sm->l1_lines * sizeof *sm->l1);
    }
    return time_islands(launch, ctas_of_cluster(launch));
}

/* HW (measured, H200: h200_observed cta_counts): the unit that starts CTAs counts their triggers and ends one
 * after another.  Returns when this one has been counted. */
static ticks count(struct timing *timing, ticks at) {
    if (timing->chip.cta_count_interval == 0) {
        return at;
    }
    timing->counted = later(timing->counted, at) + timing->chip.cta_count_interval;
    return timing->counted;
}

/* Remembers a CTA that a dependent launch may find on the SM; if there is no room, those that leave last. */
static void remember(struct sm_time *sm, struct tenant tenant) {
    const uint32_t room = sizeof sm->tenants / sizeof *sm->tenants;
    if (sm->ntenants < room) {
        sm->tenants[sm->ntenants++] = tenant;
        return;
    }
    uint32_t first = sm->nolder < room ? sm->nolder : 0;
    for (uint32_t i = first; i < room; i++) {
        first = sm->tenants[i].until < sm->tenants[first].until ? i : first;
    }
    sm->tenants[first] = tenant;
}

void time_cluster_end(struct launch *launch, struct cluster *cluster, ticks at) {
    struct timing *timing = launch->timing;
    struct island *island = &timing->islands[cluster->island];
    timing->last_end = later(timing->last_end, at);
    ticks counted = at;
    for (uint32_t i = 0; i < cluster->nctas; i++) {
        counted = count(timing, at);
    }
    if (at < timing->counted_with_ends) { /* HW: an end does not wait for triggers before it */
        timing->counted_with_ends = counted;
    }
    ticks gone = counted + timing->chip.cta_end;
    for (uint32_t i = 0; i < cluster->nctas; i++) { /* HW: an SM ends its CTAs one after another */
        gone = later(gone, timing->sm[cluster->ctas[i].sm].last_gone + timing->chip.sm_end_interval);
    }
    for (uint32_t i = 0; i < cluster->nctas; i++) {
        const struct cta *cta = &cluster->ctas[i];
        timing->sm[cta->sm].last_gone = gone;
        remember(&timing->sm[cta->sm], (struct tenant){gone, SHARED_RESERVED + launch->shared_bytes,
                                                       launch->warps * LANES, time_cta_registers(launch)});
        timing->triggered = later(timing->triggered, cta->triggered != 0 ? cta->triggered : counted);
    }
    island->resident--;
    island->gone[island->ended++ % PLACES] = gone;
    timing->end = later(timing->end, gone);
    timing->first_end = gone < timing->first_end ? gone : timing->first_end;
    timing->ended += cluster->nctas;
}

static void take_busy(struct timed_launch *listed, const struct timing *timing) {
    for (uint64_t i = 0; i < timing->chip.sms; i++) {
        const struct sm_time *sm = &timing->sm[i];
        ticks taken[SIM_RESOURCES] = {[SIM_SHARED] = sm->shared.busy,
                                      [SIM_TENSOR] = sm->tensor.busy,
                                      [SIM_LOAD_PORT] = sm->load_port.busy,
                                      [SIM_STORE_PORT] = sm->store_port.busy};
        for (int j = 0; j < SM_PARTS; j++) { /* the mean of the SM's four */
            taken[SIM_ISSUE] += sm->part[j].issued / SM_PARTS;
            taken[SIM_ALU] += sm->part[j].pipe[PIPE_ALU].busy / SM_PARTS;
            taken[SIM_FMA] += sm->part[j].pipe[PIPE_FMA].busy / SM_PARTS;
            taken[SIM_SPECIAL] += sm->part[j].pipe[PIPE_SPECIAL].busy / SM_PARTS;
            taken[SIM_WARP_MMA] += sm->part[j].mma.busy / SM_PARTS;
        }
        for (int j = 0; j < SIM_RESOURCES; j++) {
            listed->busy[j] += taken[j];
            listed->busiest[j] = later(listed->busiest[j], taken[j]);
        }
    }
    listed->busy[SIM_L2] = listed->busiest[SIM_L2] = timing->l2_load.server.busy; /* includes stores */
    listed->busy[SIM_HBM] = listed->busiest[SIM_HBM] = timing->hbm.server.busy;
}

static void list(struct launch *launch) {
    struct timing *timing = launch->timing;
    if (timing->launches < MAX_LAUNCHES) {
        timing->running.kernel = launch->kernel->name;
        timing->running.start = timing->first_start;
        timing->running.end = timing->end;
        timing->running.alone = timing->end - later(timing->first_start, timing->before_end);
        timing->running.ctas = launch->ncluster * ctas_of_cluster(launch);
        take_busy(&timing->running, timing);
        if (!path_lines(&timing->running.path, launch->module, timing->running.lines)) {
            launch_no_memory(launch);
        }
        timing->launch[timing->launches] = timing->running;
    }
}

void time_warp_end(struct warp *warp, ticks at) {
    struct timing *timing = timing_of(warp);
    struct timed_launch *listed = &timing->running;
    path_end(timing, island_of(timing, warp->cta), warp, at);
    timeline_life(timing, warp, at);
    listed->lived[warp->index] += at - warp->time->began;
    for (int i = 0; i < WAIT_KINDS; i++) {
        listed->waited[warp->index][i] += warp->time->waited[i];
    }
}

/* HW (measured, H200: h200_observed call_starts): after the last CTA's end the SMs are flushed one after
 * another, while that end is still being counted. */
static ticks flush_time(const struct timing *timing) {
    uint64_t sms = timing->ended < timing->chip.sms ? timing->ended : timing->chip.sms;
    return sms * timing->chip.sm_flush_interval;
}

void time_launch_end(struct launch *launch) {
    struct timing *timing = launch->timing;
    if (timing->ended > 0) { /* HW: ends are counted one after another */
        timing->end = later(timing->end, timing->first_end + timing->ended * timing->chip.cta_end_interval);
    }
    if (timing->counted_with_ends > timing->chip.trigger_ahead) {
        timing->triggered = later(timing->triggered, timing->counted_with_ends - timing->chip.trigger_ahead);
    }
    ticks drained = timing->end + timing->chip.launch_drain, stored = 0;
    for (uint64_t i = 0; timing->chip.store_answered > 0 && i < timing->chip.sms; i++) {
        stored = later(stored, time_stores_taken(&timing->sm[i], NEVER));
        stored = later(stored, timing->sm[i].parts_seen);
    }
    if (stored > 0) { /* HW (measured, H200: h200_observed cta_counts): however long ago the store was */
        ticks seen = later(timing->last_end + timing->chip.launch_drain, stored) + flush_time(timing);
        drained = later(drained, seen) +
                  (launch->dependent ? timing->chip.launch_flush : timing->chip.launch_flush_alone);
    }
    list(launch);
    timing->kernel = timing->first_start == NEVER ? 0 : timing->end - timing->first_start;
    timing->end = later(later(timing->end, drained), timing->before_end);
    timing->before_end = timing->end;
    timing->before_triggered = timing->triggered;
    timing->before_ending = timing->first_end;
    timing->before_counted = timing->counted;
    timing->launches++;
}

void time_triggered(struct run *run) {
    if (run->cta->triggered == 0) {
        struct timing *timing = run->launch->timing;
        run->cta->triggered = timing->issued;
        ticks counted = timing->counted_with_ends = count(timing, timing->issued);
        timing->triggered = later(timing->triggered, counted);
        bool all = ++timing->ntriggered == run->launch->ncluster * ctas_of_cluster(run->launch);
        timing->replaced = all ? counted + timing->chip.dependent_gap : NEVER; /* supposed */
    }
}

void time_host_waits(struct timing *timing) {
    timing->host = later(timing->host, timing->before_end);
}
