/* The order in which L2 and HBM serve the requests of a window. */
#include "timing.h"

#define PART_BYTES 512 /* the least that a copy gets in a turn */
#define MOST_PARTS 8

/* HW (measured, H100: cold_box_cycles): copies of several SMs take turns at L2 and HBM, part by part.  Copies
 * that are asked for at once therefore all end late. */
static uint32_t parts_of(const struct request *request) {
    uint64_t parts = request->op == NULL || request->store ? 1 : request->bytes / PART_BYTES;
    return parts < 1 ? 1 : parts > MOST_PARTS ? MOST_PARTS : (uint32_t)parts;
}

/* Books a part of a request at L2 or HBM; returns how long it waits.
 * HW (measured, H200: box_shared_ns): data that L2 is giving another SM too has a rate
 * of its own, and the SMs of a TPC receive it together. */
static ticks serve_part(struct timing *timing, const struct request *request, bool far, ticks at,
                        uint32_t parts) {
    const struct chip *chip = &timing->chip;
    const uint64_t from_l2[] = {chip->l2_load_rate, chip->l2_box_rate, chip->l2_warp_rate};
    const uint64_t from_hbm[] = {chip->hbm_rate, chip->hbm_box_rate, chip->hbm_warp_rate};
    if (far) {
        return time_queued(timing, &timing->hbm, at,
                           from_hbm[request->by_block ? ASKED_BY_BLOCK : request->asker],
                           request->missed / parts);
    }
    uint64_t bytes = (request->bytes - request->shared) / parts, given = request->given / parts;
    ticks length = rate_ticks(from_l2[request->asker], bytes);
    length += chip->l2_shared_rate > 0 ? rate_ticks(chip->l2_shared_rate, given) : 0;
    length = time_outside(timing, length);
    ticks end = time_shared(timing, &timing->l2_load, at, length);
    timing->l2_loads_until = later(timing->l2_loads_until, end);
    return end - length - at;
}

/* Sets every load's wait for L2 (near) or HBM (far). */
static void take_turns(struct timing *timing, bool far) {
    struct shared_resource *resource = far ? &timing->hbm : &timing->l2_load;
    struct agenda *turns = &timing->turns;
    uint32_t all = timing->nrequests, next = 0;
    uint64_t turn_now = 0;
    for (uint32_t i = 0; i < timing->chip.sms; i++) {
        timing->sm[i].turn = 0;
    }
    while (next < all || turns->count > 0) {
        while (next < all && (turns->count == 0 || timing->requests[next].at <= resource->server.free)) {
            struct request *request = &timing->requests[next];
            uint64_t bytes = far ? request->missed : request->bytes;
            if (!request->store && bytes > 0) {
                struct sm_time *sm = &timing->sm[request->sm];
                sm->turn = (sm->turn > turn_now ? sm->turn : turn_now) + bytes / parts_of(request);
                event_put(timing, turns, (struct event){.at = sm->turn, .number = next});
            }
            next++;
        }
        if (turns->count == 0) {
            break;
        }
        struct event turn = event_take(turns);
        struct request *request = &timing->requests[turn.number];
        uint32_t parts = parts_of(request);
        ticks wait = serve_part(timing, request, far, request->at, parts);
        turn_now = turn.at;
        if (far) {
            request->far = later(request->far, wait);
        } else {
            request->near = later(request->near, wait);
        }
        if (++turn.stage < parts) {
            turn.at += (far ? request->missed : request->bytes) / parts;
            struct sm_time *sm = &timing->sm[request->sm];
            sm->turn = later(sm->turn, turn.at);
            event_put(timing, turns, turn);
        }
    }
}

void time_turns(struct timing *timing) {
    take_turns(timing, false);
    take_turns(timing, true);
}
