/* mbarrier objects (PTX ISA, Parallel Synchronization: mbarrier): phase, pending arrivals, tx-count. */
#include <stdio.h>
#include <stdlib.h>

#include "async.h"
#include "clock/timing.h"

#define SLOT_BYTES   8
#define MAX_BARRIERS 512              /* per CTA */
#define MAX_COUNT    ((1u << 20) - 1) /* PTX ISA: ranges of the counts */

struct mbarriers {
    uint32_t slots, count, room;
    uint32_t lowest, highest; /* offsets of the first and the last */
    uint16_t *index;          /* by 8-byte slot of shared memory: 1 + number of the barrier there; 0: none */
    struct mbarrier *barriers;
};

void mbarriers_make(struct cta *cta) {
    struct worker *worker = cta->cluster->worker;
    struct mbarriers *all = cta->mbarriers = run_take(worker, 1, sizeof *all);
    all->slots = cta->shared_bytes / SLOT_BYTES + 1;
    all->index = run_take(worker, all->slots, sizeof *all->index);
    all->room = MAX_BARRIERS;
    all->barriers = run_take(worker, all->room, sizeof *all->barriers);
}

void mbarriers_reset(struct mbarriers *all) {
    memset(all->index, 0, all->slots * sizeof *all->index);
    all->count = 0;
    all->lowest = UINT32_MAX;
    all->highest = 0;
}

void mbarriers_free(struct mbarriers *all) {
    if (all != NULL) {
        free(all->index);
        free(all->barriers);
        free(all);
    }
}

void fence_proxy_async(struct run *run) {
    if (run->cluster->checks) {
        vclock_fence_async(run->cluster, run->warp->clock);
        warp_tick(run->warp);
    }
}

void mbarriers_at_end(struct cluster *cluster, struct cta *cta) {
    for (uint32_t i = 0; i < cta->mbarriers->count; i++) {
        const struct mbarrier *b = &cta->mbarriers->barriers[i];
        if (b->valid && b->tx != 0) {
            sim_note(
                cluster->launch, SIM_ERROR, "tx-count", cta, -1, -1, b->last_insn, b->init_insn,
                "the kernel ends with a tx-count of %lld bytes on the mbarrier at %#x, phase %u: expect_tx "
                "and the copies' bytes disagree",
                (long long)b->tx, b->offset, b->phase);
        }
    }
}

/* True if another lane of the same mbarrier.init has just initialised this barrier. */
static bool just_made(const struct run *run, const struct mbarrier *b, uint32_t count) {
    return b->init_insn == run->insn && b->last_insn == run->insn && b->init_warp == run->warp->number &&
           b->phase == b->first_phase && b->expected == count && b->pending == count && b->tx == 0;
}

enum next mbarrier_init(struct run *run, uint64_t address, uint32_t count, int lane) {
    uint32_t offset;
    struct cta *cta = shared_cta(run, address, SLOT_BYTES, SLOT_BYTES, lane, true, &offset);
    if (cta == NULL) {
        return FAIL;
    }
    struct mbarriers *all = cta->mbarriers;
    uint16_t number = all->index[offset / SLOT_BYTES];
    if (count == 0 || count > MAX_COUNT) {
        return sim_report(run, SIM_ERROR, "mbarrier-count", lane,
                          "mbarrier.init with count %u; expected 1 to %u", count, MAX_COUNT);
    }
    if (number != 0 && all->barriers[number - 1].valid) {
        if (just_made(run, &all->barriers[number - 1], count)) { /* whole warps do this in ThunderKittens */
            sim_note(run->launch, SIM_REVIEW, "mbarrier-init", cta, (int)run->warp->index, lane, run->insn,
                     NULL, "lanes of a warp initialise the same mbarrier, with one count");
            return NEXT;
        }
        return sim_report(run, SIM_ERROR, "mbarrier-init", lane,
                          "mbarrier.init of a live mbarrier at %#x; it needs mbarrier.inval first", offset);
    }
    if (number == 0) {
        if (all->count == all->room) {
            return sim_report(run, SIM_INCOMPLETE, "mbarrier-init", lane, "more than %u mbarriers in a CTA",
                              all->room);
        }
        number = (uint16_t)++all->count;
        all->lowest = offset < all->lowest ? offset : all->lowest;
        all->highest = offset > all->highest ? offset : all->highest;
        all->index[offset / SLOT_BYTES] = number;
        memset(&all->barriers[number - 1], 0, sizeof(struct mbarrier));
        all->barriers[number - 1].clock_index = run->cluster->checks ? new_clock_index(run) : 0;
        if (run->cluster->failed) {
            return FAIL;
        }
    }
    struct mbarrier *b = &all->barriers[number - 1];
    b->valid = true;
    b->awaits_async = false;
    b->previous_remote_arrival = b->remote_arrival = NULL;
    b->first_phase = b->phase = b->phase + (b->phase & 1); /* round up to even: parity starts at 0 again */
    memset(b->last_waits, 0, sizeof b->last_waits);
    b->offset = offset;
    b->expected = b->pending = count;
    b->tx = 0;
    b->cta = cta;
    b->init_insn = b->last_insn = run->insn;
    b->init_warp = run->warp->number;
    b->init_lane = lane;
    if (run->cluster->checks) {
        b->init_time = run->warp->clock->acquired[run->warp->number];
        if (b->gathered == NULL) {
            b->gathered = vclock_make(run->cluster);
            b->released = vclock_make(run->cluster);
        }
        /* Phase numbers continue after inval and init, so that epochs from before stay in the past. */
    }
    return NEXT;
}

void mbarrier_untouched(struct run *run, const struct cta *cta, const uint32_t offsets[LANES], uint32_t mask,
                        uint32_t bytes, bool write) {
    const struct mbarriers *all = cta->mbarriers;
    FOR_LANES(rest, all->count > 0 ? mask : 0) {
        const uint32_t from = offsets[LANE(rest)], to = from + bytes;
        if (to <= all->lowest || from >= all->highest + SLOT_BYTES) {
            continue;
        }
        for (uint32_t slot = from / SLOT_BYTES; slot * SLOT_BYTES < to; slot++) {
            const uint16_t number = all->index[slot];
            if (number != 0 && all->barriers[number - 1].valid) {
                sim_note_at(run->launch, write ? SIM_ERROR : SIM_REVIEW, "mbarrier-memory", run->cta,
                            (int)run->warp->index, LANE(rest), slot * SLOT_BYTES, run->insn,
                            all->barriers[number - 1].init_insn,
                            write ? "an ordinary store to an mbarrier that has not been invalidated"
                                  : "an ordinary load of an mbarrier, which is opaque");
                return;
            }
        }
    }
}

/* Checks that the initialisation happened before this use, and is visible to the async proxy if `async`. */
static void check_init(struct run *run, const struct mbarrier *b, int lane, bool async) {
    const struct vector_clock *clock = run->warp->clock;
    uint32_t who = b->init_warp, when = b->init_time;
    bool fenced = clock->inits[who] >= when; /* PTX ISA, fence.mbarrier_init: a relaxed signal is enough then */
    if (clock->acquired[who] < when && !fenced) {
        /* Review only: CUTLASS initialises a barrier after its last fence and relies on a relaxed cluster
         * barrier. */
        bool relaxed = clock->causal[who] >= when;
        (void)sim_report_pair(
            run, relaxed ? SIM_REVIEW : SIM_ERROR, "mbarrier-init-race", lane, b->init_insn, "%s",
            relaxed ? "uses an mbarrier with only a relaxed signal after its initialisation, and no "
                      "fence.mbarrier_init by the thread that initialised it"
                    : "uses an mbarrier without a synchronisation with the thread that initialised it");
    }
    if (async && !fenced && clock->async[who] < when) {
        /* Reviews only: Triton uses a CTA barrier without a fence, and its kernels run; chips keep the order of
         * one thread's initialisation and its own copies. */
        bool met = clock->met[who] >= when, own = who == run->warp->number && b->init_lane == lane;
        (void)sim_report_pair(
            run, met || own ? SIM_REVIEW : SIM_ERROR, "mbarrier-init-fence", lane, b->init_insn, "%s",
            met   ? "an asynchronous operation signals an mbarrier whose initialisation was followed by a "
                    "barrier, but not by fence.mbarrier_init or fence.proxy.async"
            : own ? "an asynchronous operation signals an mbarrier that the same thread has initialised, "
                    "without fence.mbarrier_init or fence.proxy.async in between"
                  : "an asynchronous operation signals an mbarrier whose initialisation was not followed by "
                    "fence.mbarrier_init or fence.proxy.async");
    }
}

struct mbarrier *mbarrier_at(struct run *run, uint64_t address, int lane, bool own_only, bool async) {
    uint32_t offset;
    struct cta *cta = shared_cta(run, address, SLOT_BYTES, SLOT_BYTES, lane, own_only, &offset);
    if (cta == NULL) {
        return NULL;
    }
    uint16_t number = cta->mbarriers->index[offset / SLOT_BYTES];
    struct mbarrier *b = number == 0 ? NULL : &cta->mbarriers->barriers[number - 1];
    if (b == NULL || !b->valid) {
        (void)sim_report(run, SIM_ERROR, "no-mbarrier", lane,
                         "there is no initialised mbarrier at %#x of CTA rank %u", offset, cta->rank);
        return NULL;
    }
    if (run->cluster->checks) {
        if (!async) { /* for an asynchronous operation the issuer records when it completes */
            struct epoch epoch = warp_epoch(run, run->mask);
            remote_note(run, cta, &epoch);
        }
        check_init(run, b, lane, async);
    }
    b->last_insn = run->insn;
    return b;
}

static void complete_if_done(struct cluster *cluster, struct mbarrier *b) {
    if (b->pending != 0 || b->tx != 0) {
        return;
    }
    if (b->gathered != NULL) {
        phase_completes(b);
    }
    b->phase++;
    b->awaits_async = false;
    b->previous_remote_arrival = b->remote_arrival;
    b->remote_arrival = NULL;
    b->pending = b->expected;
    if (b->gathered != NULL) {
        vclock_join(cluster, b->released, b->gathered);
        b->released->acquired[b->clock_index] = b->released->causal[b->clock_index] = b->phase;
        vclock_clear(cluster, b->gathered);
    }
    cluster->events++;
}

void mbarrier_arrive(struct run *run, struct mbarrier *b, uint32_t count, bool publish) {
    if (count > b->pending) {
        (void)sim_report(run, SIM_ERROR, "mbarrier-arrivals", -1,
                         "%u arrivals at the mbarrier at %#x, whose phase %u has %u of %u pending", count,
                         b->offset, b->phase, b->pending, b->expected);
        return;
    }
    bool last = phase_ends_here(run, b, count);
    if (publish && b->gathered != NULL) {
        b->remote_arrival = run->cta != b->cta ? run->insn : b->remote_arrival;
        vclock_publish(run, b->gathered);
    } else if (b->gathered != NULL) {
        relaxed_signal(run, b->gathered);
    }
    b->pending -= count;
    if (run->launch->timing != NULL) {
        time_arrival(run, b->cta);
    }
    complete_if_done(run->cluster, b);
    if (last) {
        run->warp->clock->causal[b->clock_index] = b->phase;
    }
}

void mbarrier_expect_tx(struct run *run, struct mbarrier *b, int64_t bytes) {
    b->tx += bytes;
    if (b->tx > (int64_t)MAX_COUNT || b->tx < -(int64_t)MAX_COUNT) {
        (void)sim_report(run, SIM_ERROR, "tx-count", -1,
                         "the tx-count of the mbarrier at %#x leaves its range: %lld", b->offset,
                         (long long)b->tx);
    }
}

void mbarrier_take_tx(struct cluster *cluster, struct mbarrier *b, int64_t bytes) {
    b->tx -= bytes;
    complete_if_done(cluster, b);
}

/* Records an error at the instruction that issued the operation. */
#define ERROR_OF(op, kind, ...)                                                                                \
    sim_note((op)->cluster->launch, SIM_ERROR, kind, (op)->cta, (int)(op)->warp->index, (op)->lane,            \
             (op)->insn, NULL, __VA_ARGS__)

void mbarrier_complete_tx(const struct async_op *op, struct mbarrier *b, uint32_t phase, int64_t bytes) {
    if (!b->valid) {
        ERROR_OF(op, "no-mbarrier", "completes on an mbarrier that is no longer valid");
        op->cluster->failed = true;
        return;
    }
    if (b->phase != phase) {
        ERROR_OF(
            op, "tx-count",
            "its %lld bytes arrive in phase %u of the mbarrier at %#x, but it was issued in phase %u: that "
            "phase did not expect them",
            (long long)bytes, b->phase, b->offset, phase);
    }
    mbarrier_take_tx(op->cluster, b, bytes);
}

void mbarrier_async_arrive(const struct async_op *op, struct mbarrier *b, const struct vector_clock *clock) {
    if (!b->valid || b->pending == 0) {
        ERROR_OF(op, "mbarrier-arrivals", "one arrival too many at the mbarrier at %#x", b->offset);
        return;
    }
    if (clock != NULL && b->gathered != NULL) {
        vclock_join(op->cluster, b->gathered, clock);
    }
    b->awaits_async = true;
    b->pending--;
    complete_if_done(op->cluster, b);
}

struct epoch mbarrier_epoch(const struct run *run, const struct mbarrier *b) {
    return (struct epoch){b->clock_index, b->phase + 1, run->warp->clock, run->warp->number, run->insn};
}

void mbarrier_describe(char *to, size_t room, const struct warp *warp, const struct split *split) {
    const struct mbarrier *b = split->wait.object;
    (void)warp;
    (void)snprintf(to, room,
                   "mbarrier %#x of CTA rank %u, %s %u: in phase %u, %u of %u arrivals pending, tx %lld",
                   b->offset, b->cta->rank, split->wait.b ? "parity" : "phase", split->wait.a, b->phase,
                   b->pending, b->expected, (long long)b->tx);
}

enum next mbarrier_inval(struct run *run, uint64_t address, int lane) {
    struct mbarrier *b = mbarrier_at(run, address, lane, true, false);
    if (b == NULL) {
        return FAIL;
    }
    b->valid = false;
    return NEXT;
}
