/* How long fences take (fences.h). */
#include "fences.h"

#include <string.h>

static const struct insn *insn_of(const struct warp *warp, const struct split *split) {
    return &warp->cta->cluster->launch->module->code[split->pc];
}

/* HW (measured, H200: fence_rounds): the fences of an SM come in rounds.  A round has one fence of each
 * sub-partition, of those that begin at the same time.  A fence that begins later waits for the next round,
 * whose fences end together. */
static void take_place(const struct chip *chip, const struct warp *warp, ticks at) {
    struct sm_time *sm = sm_of(warp->cta);
    struct warp_time *time = warp->time;
    struct fence_rounds *rounds = &sm->fences;
    const struct before_fence behind = {sm->touched, sm->copies};
    uint32_t part = 1u << warp->index % SM_PARTS;
    while (at >= rounds->over && rounds->waited) {
        *rounds = (struct fence_rounds){.number = rounds->number + 1,
                                        .began = rounds->over - chip->fence_follows,
                                        .over = rounds->next_over,
                                        .behind = rounds->next_behind};
    }
    if (at >= rounds->over) {
        *rounds =
            (struct fence_rounds){.number = rounds->number + 1, .began = at, .over = at, .behind = behind};
    }
    bool waits = at > rounds->began + chip->fence_joins || (rounds->parts & part) != 0;
    time->round = rounds->number + waits;
    rounds->waited |= waits;
    rounds->parts |= part;
    if (waits) { /* the round under way already covers these */
        time->touched_fenced = later(time->touched_fenced, rounds->behind.touched);
        time->copies_fenced = later(time->copies_fenced, rounds->behind.copies);
        rounds->next_behind = behind;
    }
}

/* Returns when the fence's round begins to ask memory. */
static ticks in_turn(const struct chip *chip, const struct fence_rounds *rounds, const struct warp_time *time) {
    ticks turn = time->round > rounds->number    ? rounds->over - chip->fence_follows
                 : time->round == rounds->number ? rounds->began
                                                 : 0;
    return later(time->fenced, turn);
}

/* The end of the fence's round, one of whose fences ends at `over` at the earliest. */
static ticks round_over(struct fence_rounds *rounds, const struct warp_time *time, ticks over) {
    if (time->round > rounds->number) {
        return rounds->next_over = later(rounds->next_over, over);
    }
    return time->round < rounds->number ? over : (rounds->over = later(rounds->over, over));
}

/* HW (measured, H200: hand_over_cycles, ring_hand_over_cycles): a fence beyond the CTA takes longer if any warp
 * of its SM issued copies since this warp's last fence, or if copies are under way.  It waits for those that
 * have left the SM when it asks, which is some time after its begin. HW (measured, H200 and H100:
 * stores_and_word_cycles, fenced_stores_cycles): it waits until memory has answered its SM's earlier stores. HW
 * (measured, H200: fence_after_lines_cycles): behind any load or store of its SM it takes longer than behind
 * none, even if that was answered long ago. */
ticks fence_begin(const struct warp *warp, ticks at, ticks takes, bool behind_copies) {
    const struct chip *chip = &timing_of(warp)->chip;
    struct sm_time *sm = sm_of(warp->cta);
    struct warp_time *time = warp->time;
    bool stored = chip->store_answered > 0 && sm->stores_out > 0;
    ticks answered = stored ? sm->stores_out + chip->store_answered : 0;
    if (chip->fence_follows > 0) {
        take_place(chip, warp, at);
    }
    bool touched = sm->touched != time->touched_fenced;
    time->fence_takes = takes + (touched ? chip->fence_gpu_touched : 0);
    time->touched_fenced = sm->touched;
    time->fenced = time->fence_began = at;
    time->fence_waits = behind_copies && chip->fence_gpu_asks > 0;
    time->fenced_copies = behind_copies && sm->copies != time->copies_fenced;
    time->copies_fenced = sm->copies;
    ticks least = later(at + time->fence_takes, answered);
    if (chip->fence_follows > 0) {
        least = round_over(&sm->fences, time, least);
    }
    return least;
}

static ticks over_alone(const struct chip *chip, const struct sm_time *sm, const struct warp_time *time) {
    ticks completed = 0, taken = chip->store_answered > 0 ? time_stores_taken(sm, time->fenced) : 0;
    ticks least = taken > 0 ? taken + chip->store_answered : 0;
    ticks asked = time->fence_began + chip->fence_gpu_asks;
    asked = chip->fence_gpu_asks > 0 ? later(asked, least) : asked;
    for (uint32_t i = 0; i < COMPLETIONS; i++) {
        const struct completion *completion = &sm->completions[i];
        completed = completion->sent <= asked ? later(completed, completion->done) : completed;
    }
    bool behind = time->fenced_copies || (time->fence_waits && completed > time->fenced);
    if (chip->fence_gpu_copies == 0 || !behind) {
        return later(least, time->fenced + time->fence_takes);
    }
    least = later(least, time->fenced + chip->fence_gpu_copies);
    return later(least, completed + chip->fence_gpu_completed);
}

static ticks fence_over(const struct chip *chip, struct sm_time *sm, struct warp_time *time) {
    if (chip->fence_follows == 0) {
        return over_alone(chip, sm, time);
    }
    time->fenced = in_turn(chip, &sm->fences, time);
    return round_over(&sm->fences, time, over_alone(chip, sm, time));
}

/* A fence that stands before an instruction delays only the split that is at that instruction. */
ticks time_fenced(const struct warp *warp, const struct split *split, ticks ready) {
    struct warp_time *time = warp->time;
    bool own = time->prepared == split->pc + 1;
    if (time->fenced != 0 && (own || time->prepared == 0)) {
        ready = later(ready, fence_over(&timing_of(warp)->chip, sm_of(warp->cta), time));
    }
    return own ? later(ready, time->released) : ready;
}

/* Starts a fence before the split's next instruction. */
static void prepare(const struct warp *warp, const struct split *split, ticks at, bool behind_copies) {
    warp->time->prepared = split->pc + 1;
    warp->time->released = fence_begin(warp, at, timing_of(warp)->chip.fence_gpu, behind_copies);
}

/* HW (measured, H200: fence_behind_stores_cycles): it ends some time after the SM's earlier stores to shared
 * memory; an SM's fences of this kind end one after another. */
ticks fence_stored(const struct warp *warp, ticks at) {
    const struct chip *chip = &timing_of(warp)->chip;
    struct sm_time *sm = sm_of(warp->cta);
    if (chip->fence_shared_stored == 0) {
        return at + chip->fence_async_shared;
    }
    ticks stored = sm->stored_here > 0 ? sm->stored_here + chip->fence_shared_stored : 0;
    ticks turn = sm->fence > 0 ? sm->fence + chip->fence_shared_interval : 0;
    return sm->fence = later(later(at + chip->fence_async_shared, stored), turn);
}

/* ---- before a release ---- */

static bool arrival_releases(const struct insn *insn) {
    return insn->timing == FAMILY_CLUSTER_ARRIVE && strstr(insn->name, ".relaxed") == NULL;
}

/* HW (measured, H200: cluster_exchange_cycles): a releasing arrival at the cluster barrier waits until its
 * stores to other CTAs have arrived; the model waits for all stores of its SM. */
static ticks stores_far(const struct warp *warp) {
    const struct chip *chip = &timing_of(warp)->chip;
    ticks free = sm_of(warp->cta)->remote.free;
    return chip->remote_release > 0 && free > 0 ? free + chip->remote_release : 0;
}

/* HW: machine code has a fence before a releasing arrival at the cluster barrier, which behind copies takes as
 * long as any (published: tma2dmcast_throughput; measured, H200: cluster_barrier_behind_copies_cycles).  With
 * cluster_arrive_fences = 2 the time of an idle fence is included in cluster_barrier_wake. */
ticks time_before(const struct warp *warp, const struct split *split, ticks ready) {
    const struct chip *chip = &timing_of(warp)->chip;
    const struct insn *insn = insn_of(warp, split);
    bool arrives = arrival_releases(insn);
    if (arrives) {
        ready = later(ready, stores_far(warp));
    }
    bool behind_copies = sm_of(warp->cta)->copies != warp->time->copies_fenced;
    bool fences = arrives && chip->cluster_arrive_fences > 0 && behind_copies;
    if ((!fences && insn->timing != FAMILY_MBARRIER_RELEASE) || warp->time->prepared == split->pc + 1) {
        return ready;
    }
    bool idle_in_wake = arrives && chip->cluster_arrive_fences > 1;
    ticks begins = idle_in_wake ? later(ready, chip->fence_gpu) - chip->fence_gpu : ready;
    prepare(warp, split, begins, arrives || chip->release_behind_copies > 0);
    return time_fenced(warp, split, ready);
}

/* ---- before a word that CTAs share ---- */

/* A store or atomic on global memory with release semantics beyond the cluster. */
static bool releases(const struct insn *insn) {
    return insn->timing == FAMILY_MEMORY && (insn->space == SP_GLOBAL || insn->space == SP_GENERIC) &&
           (strstr(insn->name, ".release") != NULL || strstr(insn->name, ".acq_rel") != NULL) &&
           (strstr(insn->name, ".gpu") != NULL || strstr(insn->name, ".sys") != NULL);
}

/* HW (measured, H200 and H100: stores_and_word_cycles): ptxas puts a GPU-scope fence before such an
 * instruction. */
bool time_word(const struct warp *warp, const struct split *split, ticks ready) {
    const struct insn *insn = insn_of(warp, split);
    if (timing_of(warp)->chip.store_answered == 0 || ready == NEVER || split->resumed ||
        warp->time->prepared == split->pc + 1 || !releases(insn) || time_left_out(warp, split, insn)) {
        return false;
    }
    prepare(warp, split, ready, true);
    return true;
}
