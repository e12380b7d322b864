/* Launches one after another: when one begins, where and when its CTAs start, and when the next may. */
#include <stdlib.h>

#include "timing.h"

#define REGISTER_UNIT 8 /* of a thread */

static uint32_t least(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

/* HW: a warp's registers come in units of 256 (published: CUDA programming guide, occupancy), and stay the
 * CTA's, whatever setmaxnreg does.  0: not known. */
static uint32_t registers_of(const struct launch *launch) {
    uint32_t of_thread = (launch->kernel->registers + REGISTER_UNIT - 1) / REGISTER_UNIT * REGISTER_UNIT;
    return launch->timing->chip.sm_registers == 0 ? 0 : of_thread * launch->warps * LANES;
}

/* Clusters of this launch that one SM of theirs holds at a time. */
static uint32_t room_of(const struct launch *launch) {
    const struct chip *chip = &launch->timing->chip;
    uint32_t by_shared = (uint32_t)(chip->sm_shared_bytes / (SHARED_RESERVED + launch->shared_bytes));
    uint32_t by_threads = (uint32_t)chip->sm_threads / (launch->warps * LANES);
    uint32_t registers = registers_of(launch);
    uint32_t by_registers = registers == 0 ? PLACES : (uint32_t)chip->sm_registers / registers;
    uint32_t room = least(least(by_shared, by_threads), least((uint32_t)chip->sm_ctas, by_registers));
    return room == 0 ? 1 : least(room, PLACES);
}

/* SMs that a cluster can share lie in one processing cluster; what is left over of one stays idle. */
static bool make_islands(struct launch *launch, uint32_t ctas) {
    struct timing *timing = launch->timing;
    const struct chip *chip = &timing->chip;
    uint32_t sms = (uint32_t)chip->sms, part = 0, size;
    for (uint32_t i = 0; i < timing->nislands; i++) {
        free(timing->islands[i].events);
    }
    free(timing->islands);
    timing->nislands = 0;
    timing->islands = calloc(sms, sizeof *timing->islands);
    for (uint32_t first = 0; timing->islands != NULL && first < sms; first += size) {
        size = (uint32_t)(part++ < chip->processing_clusters_whole ? chip->processing_cluster_sms
                                                                   : chip->processing_cluster_short_sms);
        uint32_t end = least(first + size, sms);
        for (uint32_t sm = first; sm + ctas <= end; sm += ctas) {
            timing->islands[timing->nislands].first_sm = sm;
            timing->islands[timing->nislands++].sms = ctas;
        }
    }
    if (timing->islands != NULL && timing->nislands == 0) { /* a cluster larger than any */
        timing->islands[timing->nislands++].sms = least(ctas, sms);
    }
    return timing->islands != NULL;
}

static void release(struct server *server) {
    server->free = server->busy = 0;
}

static uint32_t ctas_of_cluster(const struct launch *launch) {
    return launch->cluster[0] * launch->cluster[1] * launch->cluster[2];
}

/* A launch is run to its end before the next one begins, so that a dependent one, which starts earlier than
 * that, would find all that the one before has booked.  Each launch finds the chip free: what two that overlap
 * take from each other is not seen. */
static void release_all(struct timing *timing) {
    for (uint64_t i = 0; i < timing->chip.sms; i++) {
        struct sm_time *sm = &timing->sm[i];
        struct server *const of_sm[] = {&sm->shared,      &sm->lsu,       &sm->async_copies, &sm->tensor,
                                        &sm->copy_engine, &sm->load_port, &sm->store_port,   &sm->remote,
                                        &sm->barrier,     &sm->load_lines};
        for (size_t j = 0; j < sizeof of_sm / sizeof *of_sm; j++) {
            release(of_sm[j]);
        }
        sm->stored_here = sm->fence = 0;
        sm->arrivals_out = sm->stores_out = sm->last_gone = sm->far_until = sm->far_answered = 0;
        sm->parts_seen = 0;
        memset(sm->completions, 0, sizeof sm->completions);
        memset(sm->taken, 0, sizeof sm->taken);
        sm->ncompletions = sm->copies = sm->touched = 0;
        sm->tensor_user = sm->tensor_groups[0] = sm->tensor_groups[1] = NULL;
        sm->tensor_three = false;
        sm->parameters = sm->parameters_from = sm->parameters_kept = 0;
        memset(&sm->mmas, 0, sizeof sm->mmas);
        memset(&sm->fences, 0, sizeof sm->fences);
        for (int j = 0; j < SM_PARTS; j++) {
            struct part *part = &sm->part[j];
            part->issue = part->issued = part->dispatch = 0;
            part->last = NULL;
            release(&part->mma);
            release(&part->tmem);
            for (int k = 0; k < PIPES; k++) {
                release(&part->pipe[k]);
            }
        }
    }
    release(&timing->l2_load->server);
    release(&timing->l2_store->server);
    release(&timing->hbm->server);
    timing->l2_loads_until = 0;
    memset(&timing->past_end, 0, sizeof timing->past_end);
}

/* HW (measured, H200 and H100: dependent_start_cycles, h200_cta_counts): a dependent launch comes sooner where
 * the kernel before ends right behind its trigger, and without clusters. */
static ticks dependent_from(const struct launch *launch) {
    const struct timing *timing = launch->timing;
    const struct chip *chip = &timing->chip;
    bool alone = !launch->clustered && chip->dependent_gap_alone > 0;
    ticks triggered = timing->before_triggered + (alone ? chip->dependent_gap_alone : chip->dependent_gap);
    ticks ended = timing->before_gone + chip->dependent_gap_ended;
    return chip->dependent_gap_ended > 0 && ended < triggered ? ended : triggered;
}

/* HW (measured, H100 and H200: h100_launch_parameters, h200_call_starts): a launch's parameters come from HBM
 * where the launch before has read more from it than L2 holds, and in no other calls. */
static bool parameters_far(struct timing *timing) {
    const struct chip *chip = &timing->chip;
    return timing->hbm->server.busy > rate_ticks(chip->hbm_rate, chip->l2_bytes);
}

bool time_launch_begin(struct launch *launch) {
    struct timing *timing = launch->timing;
    const struct chip *chip = &timing->chip;
    ticks free_at = launch->dependent ? dependent_from(launch) : timing->before_end + chip->launch_gap;
    timing->begin = later(timing->host, timing->launches == 0 ? 0 : free_at);
    timing->host += chip->host_launch;
    timing->parameters_far = parameters_far(timing); /* before what HBM has done is forgotten */
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
    timing->room = room_of(launch);
    for (uint32_t i = 0; i < chip->sms; i++) { /* who has gone by now is in no one's way */
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
    return make_islands(launch, ctas_of_cluster(launch));
}

/* Whether one more CTA of this launch fits beside those of the launch before that are still there. */
static bool fits(const struct launch *launch, const struct island *island, const struct sm_time *sm, ticks at) {
    const struct chip *chip = &launch->timing->chip;
    uint64_t count = island->resident + 1;
    uint64_t shared = count * (SHARED_RESERVED + launch->shared_bytes), ctas = count;
    uint64_t threads = count * launch->warps * LANES, registers = count * registers_of(launch);
    for (uint32_t i = 0; i < sm->nolder; i++) {
        if (sm->tenants[i].until > at) {
            shared += sm->tenants[i].shared_bytes;
            threads += sm->tenants[i].threads;
            registers += sm->tenants[i].registers;
            ctas++;
        }
    }
    /* HW (measured, H200: kernel_pair_us, before_wait, h200_launch_ends): what is L1 and what shared memory
     * changes on an idle SM only. */
    if (chip->sm_split_fixed != 0 && ctas > count && shared > sm->split) {
        return false;
    }
    return count == 1 && ctas == 1 ? true
                                   : shared <= chip->sm_shared_bytes && threads <= chip->sm_threads &&
                                         ctas <= chip->sm_ctas && registers <= chip->sm_registers;
}

/* HW (CUDA C++ Programming Guide, Compute Capability 9.0): what an SM can give shared memory, in KB. */
static const uint64_t splits[] = {0, 8, 16, 32, 64, 100, 132, 164, 196, 228};

/* An SM that is idle gives shared memory what as many CTAs of this launch take as it holds. */
static void split_for(const struct launch *launch, const struct island *island, struct sm_time *sm, ticks at) {
    for (uint32_t i = 0; i < sm->nolder; i++) {
        if (sm->tenants[i].until > at) {
            return;
        }
    }
    uint64_t wanted = launch->timing->room * (SHARED_RESERVED + launch->shared_bytes);
    for (uint32_t i = 0; island->resident == 0 && i < sizeof splits / sizeof *splits; i++) {
        sm->split = splits[i] * 1024;
        if (sm->split >= wanted) {
            break;
        }
    }
}

static ticks earliest(const struct launch *launch, const struct island *island, ticks from) {
    ticks at = from;
    for (uint32_t s = 0; s < island->sms; s++) {
        const struct sm_time *sm = &launch->timing->sm[island->first_sm + s];
        while (!fits(launch, island, sm, at)) { /* until the next one has left */
            ticks next = NEVER;
            for (uint32_t i = 0; i < sm->nolder; i++) {
                if (sm->tenants[i].until > at && sm->tenants[i].until < next) {
                    next = sm->tenants[i].until;
                }
            }
            if (next == NEVER) {
                return at;
            }
            at = next;
        }
    }
    return at;
}

/* CTAs that the first SM of a cluster's place holds at that time, of this launch and of those before. */
static uint32_t held(const struct launch *launch, const struct island *island, ticks at) {
    const struct sm_time *sm = &launch->timing->sm[island->first_sm];
    uint32_t count = island->resident;
    for (uint32_t i = 0; i < sm->nolder; i++) {
        count += sm->tenants[i].until > at;
    }
    return count;
}

/* When there is a place for one more: an SM's CTAs go in the order of their ends. */
static ticks freed(const struct island *island, uint32_t room) {
    return island->started < room ? 0 : island->gone[(island->started - room) % PLACES];
}

/* Whether what starts CTAs has messages of ends to hear then. */
static bool counts_at(const struct timing *timing, ticks at) {
    return at < timing->counted || (at >= timing->before_ending && at < timing->before_counted);
}

bool time_place(struct launch *launch, ticks before, uint32_t *island, ticks *start) {
    struct timing *timing = launch->timing;
    const struct chip *chip = &timing->chip;
    ticks best = NEVER;
    uint32_t least_held = 0;
    for (uint32_t i = 0; i < timing->nislands; i++) {
        const struct island *candidate = &timing->islands[i];
        if (candidate->resident >= timing->room) {
            continue;
        }
        ticks at =
            earliest(launch, candidate,
                     later(timing->dispatched, later(freed(candidate, timing->room), candidate->next_start)));
        uint32_t holds = held(launch, candidate, at);
        if (at < best || (at == best && holds < least_held)) {
            best = at;
            least_held = holds;
            *island = i;
        }
    }
    if (best == NEVER || best >= before) {
        return false;
    }
    struct island *chosen = &timing->islands[*island];
    ticks heard = launch->clustered && counts_at(timing, best) ? chosen->sms * chip->cta_count_interval : 0;
    timing->dispatched = later(timing->dispatched, best) + chosen->sms * chip->cta_start_interval + heard +
                         (launch->clustered ? chip->cluster_start_interval : 0) +
                         (launch->clustered && chosen->sms == 1 ? chip->cluster_start_one : 0);
    for (uint32_t i = 0; i < chosen->sms; i++) {
        split_for(launch, chosen, &timing->sm[chosen->first_sm + i], best);
    }
    chosen->resident++;
    chosen->started++;
    *start = best + chip->cta_start + (launch->clustered ? chip->cluster_start : 0);
    chosen->next_start = best + chip->sm_start_interval + (launch->warps - 1) * chip->warp_start_interval;
    timing->first_start = *start < timing->first_start ? *start : timing->first_start;
    return true;
}

/* HW (measured, H200: h200_cta_counts): what starts CTAs hears of each one's trigger and of its end, one after
 * another. */
static ticks count(struct timing *timing, ticks at) {
    if (timing->chip.cta_count_interval == 0) {
        return at;
    }
    timing->counted = later(timing->counted, at) + timing->chip.cta_count_interval;
    return timing->counted;
}

/* The SM keeps who leaves latest, as far as it has room: those are in the way of a dependent launch. */
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
    if (at < timing->counted_with_ends) { /* HW: it does not wait for triggers that came before it */
        timing->counted_with_ends = counted;
    }
    ticks gone = counted + timing->chip.cta_end;
    for (uint32_t i = 0; i < cluster->nctas; i++) { /* HW: an SM takes its CTAs down one after another */
        gone = later(gone, timing->sm[cluster->ctas[i].sm].last_gone + timing->chip.sm_end_interval);
    }
    for (uint32_t i = 0; i < cluster->nctas; i++) {
        const struct cta *cta = &cluster->ctas[i];
        timing->sm[cta->sm].last_gone = gone;
        remember(&timing->sm[cta->sm], (struct tenant){gone, SHARED_RESERVED + launch->shared_bytes,
                                                       launch->warps * LANES, registers_of(launch)});
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
        for (int j = 0; j < SM_PARTS; j++) { /* an SM's share of its four */
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
    listed->busy[SIM_L2] = listed->busiest[SIM_L2] = timing->l2_load->server.busy; /* stores too */
    listed->busy[SIM_HBM] = listed->busiest[SIM_HBM] = timing->hbm->server.busy;
}

static void list(const struct launch *launch) {
    struct timing *timing = launch->timing;
    if (timing->launches < MAX_LAUNCHES) {
        timing->running.kernel = launch->kernel->name;
        timing->running.start = timing->first_start;
        timing->running.end = timing->end;
        timing->running.alone = timing->end - later(timing->first_start, timing->before_end);
        timing->running.ctas = launch->ncluster * ctas_of_cluster(launch);
        take_busy(&timing->running, timing);
        timing->launch[timing->launches] = timing->running;
    }
}

/* A warp has ended: what it waited for is its place's. */
void time_warp_end(struct warp *warp, ticks at) {
    struct timing *timing = warp->cta->cluster->launch->timing;
    struct timed_launch *listed = &timing->running;
    path_end(timing, island_of(timing, warp->cta), warp, at);
    timeline_life(timing, warp, at);
    listed->lived[warp->index] += at - warp->time->began;
    for (int i = 0; i < WAIT_KINDS; i++) {
        listed->waited[warp->index][i] += warp->time->waited[i];
    }
}

/* HW (measured, H200: h200_call_starts): behind its last CTA's end a launch's SMs are asked, one after another,
 * to have their stores seen, while that end is still being heard of. */
static ticks asked_to_flush(const struct timing *timing) {
    uint64_t sms = timing->ended < timing->chip.sms ? timing->ended : timing->chip.sms;
    return sms * timing->chip.sm_flush_interval;
}

void time_launch_end(struct launch *launch) {
    struct timing *timing = launch->timing;
    if (timing->ended > 0) { /* HW: the chip counts them one after another */
        timing->end = later(timing->end, timing->first_end + timing->ended * timing->chip.cta_end_interval);
    }
    if (timing->counted_with_ends > timing->chip.trigger_ahead) {
        timing->triggered = later(timing->triggered, timing->counted_with_ends - timing->chip.trigger_ahead);
    }
    timing->before_gone = timing->end;
    ticks drained = timing->end + timing->chip.launch_drain, stored = 0;
    for (uint64_t i = 0; timing->chip.store_answered > 0 && i < timing->chip.sms; i++) {
        stored = later(stored, time_stores_taken(&timing->sm[i], NEVER));
        stored = later(stored, timing->sm[i].parts_seen);
    }
    if (stored > 0) { /* HW (measured, H200: h200_cta_counts): however long ago that was */
        ticks seen = later(timing->last_end + timing->chip.launch_drain, stored) + asked_to_flush(timing);
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
        timing->replaced = all ? counted + timing->chip.dependent_gap : NEVER; /* supposed: by one */
    }
}

void time_host_waits(struct timing *timing) {
    timing->host = later(timing->host, timing->before_end);
}
