/* Resources of launches that overlap.  Launches are simulated one after another, but a dependent launch begins
 * before the one before has ended.  Each window of time remembers what earlier launches took, and the later
 * launch gets the rest.  The earlier one is already simulated and loses nothing; in a row of calls each pays
 * for the one before. */
#include "timing.h"

#define LOAD_WINDOWS 8            /* HBM's load is a mean over these: about as long as a request takes */
#define LEAST_SPARE  (WINDOW / 8) /* left in each window, so that every launch makes progress */

static struct slice *slice_of(struct shared_resource *resource, uint64_t launch, uint64_t window) {
    struct slice *slice = &resource->slices[window % SLICES];
    if (slice->window != window) {
        *slice = (struct slice){.window = window, .launch = launch};
    } else if (slice->launch != launch) {
        slice->launch = launch;
        slice->before += slice->taken;
        slice->taken = 0;
    }
    return slice;
}

ticks time_shared(const struct timing *timing, struct shared_resource *resource, ticks at, ticks length) {
    ticks now = later(resource->server.free, at);
    resource->server.busy += length;
    while (length > 0) {
        struct slice *slice = slice_of(resource, timing->launches, now / WINDOW);
        ticks rest = WINDOW - now % WINDOW, spare = slice->before < WINDOW ? WINDOW - slice->before : 0;
        ticks most = rest * spare / WINDOW, done = length < most ? length : most;
        now += done < length ? rest : length * WINDOW / spare;
        slice->taken += done;
        length -= done;
    }
    resource->server.free = now;
    return now;
}

ticks time_queued(const struct timing *timing, struct shared_resource *resource, ticks at, uint64_t rate,
                  uint64_t bytes) {
    ticks length = time_outside(timing, rate_ticks(rate, bytes));
    return time_shared(timing, resource, at, length) - length - at;
}

/* HW: HBM's latency grows long before HBM is full, since banks and channels are not used evenly: with the third
 * power of the load on an H200 (measured: load_rate), with the load on a B200 (published: tma2d_throughput). It
 * does not add to the queue for HBM's rate (measured, H200: box_rate, first_stage_cycles). */
ticks time_loaded(const struct timing *timing, ticks at) {
    uint64_t window = at / WINDOW, first = window < LOAD_WINDOWS ? 0 : window - LOAD_WINDOWS;
    ticks busy = 0, all = LOAD_WINDOWS * WINDOW;
    for (uint64_t i = first; i < window; i++) {
        const struct slice *slice = &timing->hbm.slices[i % SLICES];
        busy += slice->window == i ? slice->before + slice->taken : 0;
    }
    busy = busy < all ? busy : all;
    ticks longer = timing->chip.hbm_loaded;
    for (uint64_t i = 0; i < timing->chip.hbm_loaded_power; i++) {
        longer = longer * busy / all;
    }
    return longer;
}

static uint16_t sum(uint16_t a, ticks b) {
    return a + b < UINT16_MAX ? (uint16_t)(a + b) : UINT16_MAX;
}

ticks time_beside(const struct timing *timing, struct sm_time *sm, unsigned share, ticks at, ticks length) {
    uint64_t window = at / WINDOW;
    struct sm_slice *slice = &sm->slices[window % SM_SLICES];
    if (slice->window != window) {
        *slice = (struct sm_slice){.window = window, .launch = timing->launches};
    } else if (slice->launch != timing->launches) {
        slice->launch = timing->launches;
        for (int i = 0; i < SHARES; i++) {
            slice->before[i] = sum(slice->before[i], slice->taken[i]);
            slice->taken[i] = 0;
        }
    }
    slice->taken[share] = sum(slice->taken[share], length);
    ticks before = slice->before[share];
    return before == 0 ? length
                       : length * WINDOW / (before < WINDOW - LEAST_SPARE ? WINDOW - before : LEAST_SPARE);
}
