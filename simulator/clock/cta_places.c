/* Where CTAs find a place: the SMs of each cluster, and which of them has room first. */
#include <stdlib.h>

#include "timing.h"

#define REGISTER_UNIT 8 /* HW: registers of a thread are allocated in units of this many */

static uint32_t least(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

/* HW: a warp's registers come in units of 256 (published: CUDA programming guide, occupancy); setmaxnreg does
 * not give any back to other CTAs. */
uint32_t time_cta_registers(const struct launch *launch) {
    uint32_t of_thread = (launch->kernel->registers + REGISTER_UNIT - 1) / REGISTER_UNIT * REGISTER_UNIT;
    return launch->timing->chip.sm_registers == 0 ? 0 : of_thread * launch->warps * LANES;
}

uint32_t time_room(const struct launch *launch) {
    const struct chip *chip = &launch->timing->chip;
    uint32_t by_shared = (uint32_t)(chip->sm_shared_bytes / (SHARED_RESERVED + launch->shared_bytes));
    uint32_t by_threads = (uint32_t)chip->sm_threads / (launch->warps * LANES);
    uint32_t registers = time_cta_registers(launch);
    uint32_t by_registers = registers == 0 ? PLACES : (uint32_t)chip->sm_registers / registers;
    uint32_t room = least(least(by_shared, by_threads), least((uint32_t)chip->sm_ctas, by_registers));
    return room == 0 ? 1 : least(room, PLACES);
}

/* HW: the SMs of a cluster lie in one GPC; SMs of a GPC that are left over stay idle. */
bool time_islands(struct launch *launch, uint32_t ctas) {
    struct timing *timing = launch->timing;
    const struct chip *chip = &timing->chip;
    uint32_t sms = (uint32_t)chip->sms, part = 0, size;
    for (uint32_t i = 0; i < timing->nislands; i++) {
        free(timing->islands[i].agenda.events);
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
    if (timing->islands != NULL && timing->nislands == 0) { /* a cluster larger than any GPC */
        timing->islands[timing->nislands++].sms = least(ctas, sms);
    }
    return timing->islands != NULL;
}

/* True if one more CTA of this launch fits on the SM beside CTAs of earlier launches. */
static bool fits(const struct launch *launch, const struct island *island, const struct sm_time *sm, ticks at) {
    const struct chip *chip = &launch->timing->chip;
    uint64_t count = island->resident + 1;
    uint64_t shared = count * (SHARED_RESERVED + launch->shared_bytes), ctas = count;
    uint64_t threads = count * launch->warps * LANES, registers = count * time_cta_registers(launch);
    for (uint32_t i = 0; i < sm->nolder; i++) {
        if (sm->tenants[i].until > at) {
            shared += sm->tenants[i].shared_bytes;
            threads += sm->tenants[i].threads;
            registers += sm->tenants[i].registers;
            ctas++;
        }
    }
    /* HW (measured, H200: kernel_pair_us, before_wait, h200_observed launch_ends): the split of L1 and shared
     * memory changes on an idle SM only. */
    if (chip->sm_split_fixed != 0 && ctas > count && shared > sm->split) {
        return false;
    }
    return count == 1 && ctas == 1 ? true
                                   : shared <= chip->sm_shared_bytes && threads <= chip->sm_threads &&
                                         ctas <= chip->sm_ctas && registers <= chip->sm_registers;
}

/* HW (CUDA C++ Programming Guide, compute capability 9.0): sizes that shared memory can have, in KB. */
static const uint64_t splits[] = {0, 8, 16, 32, 64, 100, 132, 164, 196, 228};

/* An idle SM makes its shared memory large enough for as many CTAs of this launch as it can hold. */
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
        while (!fits(launch, island, sm, at)) { /* until the next older CTA has left */
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

/* CTAs of all launches that the island's first SM holds at `at`. */
static uint32_t held(const struct launch *launch, const struct island *island, ticks at) {
    const struct sm_time *sm = &launch->timing->sm[island->first_sm];
    uint32_t count = island->resident;
    for (uint32_t i = 0; i < sm->nolder; i++) {
        count += sm->tenants[i].until > at;
    }
    return count;
}

/* Returns when the island has a place for one more cluster: places become free in the order of ends. */
static ticks freed(const struct island *island, uint32_t room) {
    return island->started < room ? 0 : island->gone[(island->started - room) % PLACES];
}

/* True if ends of CTAs are being counted at `at`. */
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
                         (launch->clustered ? chip->cluster_start_interval : 0);
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
