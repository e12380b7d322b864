/* The order in which L2 and HBM serve the requests of a window. */
#include <stdlib.h>

#include "timing.h"

#define PART_BYTES 512 /* the least that a copy gets in a turn */
#define MOST_PARTS 8

/* HW (measured, H100: cold_box_cycles): copies of several SMs take turns at L2 and HBM, part by part.  Copies
 * that are asked for at once therefore all end late. */
static uint32_t parts_of(const struct request *request) {
    uint64_t parts = request->op == NULL || request->store ? 1 : request->bytes / PART_BYTES;
    return parts < 1 ? 1 : parts > MOST_PARTS ? MOST_PARTS : (uint32_t)parts;
}

static bool before(const struct turn *a, const struct turn *b) {
    return a->key != b->key ? a->key < b->key : a->request < b->request;
}

static void push_turn(struct turns *turns, struct turn turn) {
    uint32_t at = turns->count++;
    for (; at > 0 && before(&turn, &turns->heap[(at - 1) / 2]); at = (at - 1) / 2) {
        turns->heap[at] = turns->heap[(at - 1) / 2];
    }
    turns->heap[at] = turn;
}

static struct turn pop_turn(struct turns *turns) {
    struct turn first = turns->heap[0], last = turns->heap[--turns->count];
    uint32_t at = 0;
    for (uint32_t child = 1; child < turns->count; child = 2 * at + 1) {
        child += child + 1 < turns->count && before(&turns->heap[child + 1], &turns->heap[child]);
        if (!before(&turns->heap[child], &last)) {
            break;
        }
        turns->heap[at] = turns->heap[child];
        at = child;
    }
    turns->heap[at] = last;
    return first;
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
        return time_queued(timing, timing->hbm, at,
                           from_hbm[request->by_block ? ASKED_BY_BLOCK : request->asker],
                           request->missed / parts);
    }
    uint64_t bytes = (request->bytes - request->shared) / parts, given = request->given / parts;
    ticks length = rate_ticks(from_l2[request->asker], bytes);
    length += chip->l2_shared_rate > 0 ? rate_ticks(chip->l2_shared_rate, given) : 0;
    length = time_outside(timing, length);
    ticks end = time_shared(timing, timing->l2_load, at, length);
    timing->l2_loads_until = later(timing->l2_loads_until, end);
    return end - length - at;
}

/* Sets every load's wait for L2 (near) or HBM (far). */
static bool take_turns(struct timing *timing, bool far) {
    struct shared_resource *resource = far ? timing->hbm : timing->l2_load;
    struct turns *turns = &timing->turns;
    uint32_t all = timing->nrequests, next = 0;
    uint64_t turn_now = 0;
    if (all > turns->room) {
        struct turn *grown = realloc(turns->heap, 2 * (size_t)all * sizeof *grown);
        if (grown == NULL) {
            return false;
        }
        turns->heap = grown;
        turns->room = 2 * all;
    }
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
                push_turn(turns, (struct turn){sm->turn, next, 0});
            }
            next++;
        }
        if (turns->count == 0) {
            break;
        }
        struct turn turn = pop_turn(turns);
        struct request *request = &timing->requests[turn.request];
        uint32_t parts = parts_of(request);
        ticks wait = serve_part(timing, request, far, request->at, parts);
        turn_now = turn.key;
        if (far) {
            request->far = later(request->far, wait);
        } else {
            request->near = later(request->near, wait);
        }
        if (++turn.part < parts) {
            turn.key += (far ? request->missed : request->bytes) / parts;
            struct sm_time *sm = &timing->sm[request->sm];
            sm->turn = sm->turn > turn.key ? sm->turn : turn.key;
            push_turn(turns, turn);
        }
    }
    return true;
}

bool time_turns(struct timing *timing) {
    return take_turns(timing, false) && take_turns(timing, true);
}
