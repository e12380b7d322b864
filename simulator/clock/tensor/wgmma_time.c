/* wgmma: when an SM's tensor cores run each warpgroup's MMAs. */
#include <string.h>

#include "clock/timing.h"

/* Cycles lost when the previous MMA was another warpgroup's.  HW (measured, H200: consumer_lap_cycles): none
 * with A in registers. */
static ticks switch_cost(const struct run *run, uint32_t n, bool a_in_registers) {
    const struct chip *chip = &run->launch->timing->chip;
    struct sm_time *sm = sm_of(run->cta);
    const void *group = &run->cta->warps[run->warp->index / SM_PARTS * SM_PARTS];
    bool same = sm->tensor_user == group || sm->tensor_user == NULL;
    sm->tensor_user = group;
    ticks shared = n * chip->wgmma_switch_column_shared;
    shared = shared < chip->wgmma_switch_most_shared ? shared : chip->wgmma_switch_most_shared;
    return same || a_in_registers ? 0 : shared;
}

/* Without machine code.  HW (measured, H200: consumer_lap_cycles): an MMA with A in registers blocks the issue
 * of its sub-partitions until it starts.  Other instructions run beside the last MMA of a group, and beside the
 * first, where ptxas puts some. */
static void hold_issue(const struct run *run, const struct wgmma_fields *form, ticks until) {
    const struct chip *chip = &run->launch->timing->chip;
    ticks slots = form->moved * chip->issue_interval, alu = form->moved_alu * chip->alu_interval;
    uint32_t first = run->warp->index / SM_PARTS * SM_PARTS;
    for (uint32_t i = first; i < first + SM_PARTS && i < run->cta->nwarps; i++) {
        struct part *part = &sm_of(run->cta)->part[i % SM_PARTS];
        part->issue = later(part->issue, until) + slots;
        part->issued += slots;
        if (form->moved != 0) {
            ticks done = booked(&part->pipe[PIPE_ALU], part->issue - slots, alu) + alu;
            struct warp_time *time = run->cta->warps[i].time;
            time->next = later(time->next, later(done, part->issue));
        }
    }
}

static ticks end_of(const struct queued_mma *mma) {
    return mma->start + mma->length;
}

static void drop_done(struct mma_queue *queue, ticks now) {
    uint32_t ended = queue->count == MMA_QUEUE ? 1 : 0;
    while (ended < queue->count && queue->mma[ended].start + queue->mma[ended].done <= now) {
        ended++;
    }
    queue->count -= ended;
    memmove(queue->mma, queue->mma + ended, queue->count * sizeof queue->mma[0]);
}

/* Returns where a warpgroup's MMA goes in the queue: behind its last one if that has not ended by `ready`,
 * ahead of other warpgroups' waiting MMAs; otherwise at the end. */
static uint32_t place_of(const struct mma_queue *queue, const void *group, ticks ready) {
    for (uint32_t i = queue->count; i > 0; i--) {
        if (queue->mma[i - 1].group == group) {
            return end_of(&queue->mma[i - 1]) >= ready ? i : queue->count;
        }
    }
    return queue->count;
}

/* HW (measured, H200: warp states of consumer_lap_cycles): an MMA with A in registers leaves its warp at once
 * and waits for its turn.  A warpgroup keeps the tensor cores while its next MMA arrives in time
 * (beside_mma_cycles, 2 warpgroups).  Returns when the results are there, unless another MMA is put before this
 * one. */
static ticks queue_mma(struct sm_time *sm, struct queued_mma mma, ticks now, ticks ready) {
    struct mma_queue *queue = &sm->mmas;
    drop_done(queue, now);
    uint32_t at = place_of(queue, mma.group, ready);
    memmove(queue->mma + at + 1, queue->mma + at, (queue->count - at) * sizeof mma);
    mma.start = later(ready, at > 0 ? end_of(&queue->mma[at - 1]) : sm->tensor.free);
    queue->mma[at] = mma;
    queue->count++;
    for (uint32_t i = at + 1; i < queue->count; i++) {
        struct queued_mma *next = &queue->mma[i];
        next->start = later(next->start, end_of(&queue->mma[i - 1]));
    }
    if (mma.start > sm->tensor.free) {
        queue->before = queue->end;
        queue->start = mma.start;
    }
    queue->end = sm->tensor.free = end_of(&queue->mma[queue->count - 1]);
    sm->tensor.busy += mma.length;
    return mma.start + mma.done;
}

ticks time_mma_due(const struct timing *timing, const struct cta *cta, uint64_t turn) {
    const struct mma_queue *queue = &timing->sm[cta->sm].mmas;
    for (uint32_t i = 0; turn != 0 && i < queue->count; i++) {
        if (queue->mma[i].turn == turn) {
            return queue->mma[i].start + queue->mma[i].done;
        }
    }
    return 0;
}

ticks time_mma_runs(const struct sm_time *sm, ticks at) {
    const struct mma_queue *queue = &sm->mmas;
    return at < queue->before ? queue->before : at >= queue->start ? queue->end : 0;
}

void time_mma_early(struct run *run) {
    run->warp->time->early = true;
}

/* HW (measured, H200: wgmma_late_warp_first_cycles): the warps of a warpgroup leave an MMA together, when the
 * last one has issued it. */
static void meet(struct run *run) {
    struct timing *timing = run->launch->timing;
    ticks next = run->warp->time->next;
    uint32_t first = run->warp->index / SM_PARTS * SM_PARTS;
    for (uint32_t i = first; i < first + SM_PARTS && i < run->cta->nwarps; i++) {
        struct warp *warp = &run->cta->warps[i];
        if (warp->time->early) {
            warp->time->early = false;
            warp->time->next = later(warp->time->next, next);
            warp->time->due = warp->time->next;
            event_add(timing, island_of(timing, run->cta),
                      (struct event){.at = warp->time->next, .warp = warp});
        }
    }
}

/* HW (measured, H200): m64nNk16 takes N / 2 cycles, or as long as its operands take from shared memory. */
ticks time_wgmma(struct run *run, uint64_t *turn) {
    const struct wgmma_fields *form = &run->insn->wgmma;
    struct timing *timing = run->launch->timing;
    uint32_t n = form->n;
    bool a_in_registers = form->a_registers != 0;
    const struct chip *chip = &timing->chip;
    ticks sums = n * chip->wgmma_column;
    ticks reads =
        a_in_registers ? chip->wgmma_least_registers : chip->wgmma_read_a + n * chip->wgmma_read_column;
    ticks latency = a_in_registers ? chip->wgmma_latency_registers : chip->wgmma_latency_shared;
    ticks length = later(sums, reads) + switch_cost(run, n, a_in_registers);
    struct sm_time *sm = sm_of(run->cta);
    length = time_beside(timing, sm, SHARE_TENSOR, timing->issued, length);
    timing->tensor_works = true;
    meet(run);
    if (a_in_registers && run->launch->reordered) {
        const void *group = &run->cta->warps[run->warp->index / SM_PARTS * SM_PARTS];
        *turn = ++sm->mmas.turns;
        struct queued_mma mma = {.turn = *turn, .group = group, .length = length, .done = sums + latency};
        return queue_mma(sm, mma, timing->issued, timing->issued + chip->wgmma_start);
    }
    ticks start = booked(&sm->tensor, timing->issued, length);
    ticks wanted = n * chip->wgmma_read_column + (a_in_registers ? 0 : chip->wgmma_read_a);
    ticks read = booked(&sm->shared, timing->issued, wanted) + wanted;
    sm->tensor.free = later(sm->tensor.free, read);
    if (a_in_registers) {
        hold_issue(run, form, start);
    }
    return start + latency + sums;
}
