/* Checks for waits that may miss a phase of their mbarrier.
 *
 * A wait distinguishes a phase only from its neighbours: by parity, or by a state of the current or the
 * preceding phase (PTX ISA, mbarrier.test_wait). So a phase must not end before every thread that waits for the
 * preceding one has seen that one complete. Both sides are checked, each when it happens, so that one of them
 * reports in every schedule: the end of a phase must come after the waits for the preceding phase, and a
 * waiting thread must know that the phases before the awaited one are over. */
#include "async.h"

static const char kind[] = "missed-phase";

void phase_needs(struct run *run, struct mbarrier *b) {
    b->awaits_async = true;
    if (b->gathered != NULL) {
        causal_join(run->cluster, b->gathered, run->warp->clock);
    }
}

bool phase_ends_here(const struct run *run, const struct mbarrier *b, uint32_t count) {
    if (b->gathered == NULL || b->awaits_async || b->tx != 0 || count != b->pending) {
        return false;
    }
    for (uint32_t i = 0; i < run->cluster->nclock_indices; i++) {
        if (b->gathered->causal[i] > run->warp->clock->causal[i]) {
            return false;
        }
    }
    return true;
}

/* True if the warp knows enough of earlier phases that its test cannot mistake one phase for another. */
static bool knows(const struct run *run, const struct mbarrier *b, uint32_t phase, bool by_parity) {
    if (!by_parity) {
        return b->phase <= phase; /* the barrier is in the state's phase or the next */
    }
    return phase <= b->first_phase + 1 || run->warp->clock->causal[b->clock_index] + 1 >= phase;
}

static void check_known(struct run *run, const struct mbarrier *b, uint32_t phase, bool by_parity) {
    if (knows(run, b, phase, by_parity)) {
        return;
    }
    (void)sim_report_pair(
        run, SIM_ERROR, kind, -1, b->last_insn,
        by_parity ? "waits by parity for phase %u of the mbarrier at %#x, and nothing tells this thread that "
                    "the phase before is over: it may have missed one"
                  : "waits with the state of phase %u of the mbarrier at %#x, which is neither the current "
                    "nor the preceding phase",
        phase - 1 - b->first_phase, b->offset);
}

/* A warp that waits by parity for a phase that it has seen end goes on at once: a mistake if the next phase's
 * bytes are on their way, since nobody issues them before the warp is done with the phase before. */
static void check_new(struct run *run, const struct mbarrier *b, const struct last_wait *last) {
    if (last->insn == NULL || last->phase != b->phase || (b->tx == 0 && !b->awaits_async)) {
        return;
    }
    (void)sim_report_pair(
        run, SIM_REVIEW, kind, -1, last->insn,
        "waits by parity for phase %u of the mbarrier at %#x, which this warp has seen end before, "
        "while operations of phase %u are on their way: the wait is over at once; should the "
        "parity have changed?",
        b->phase - 1 - b->first_phase, b->offset, b->phase - b->first_phase);
}

void phase_tested(struct run *run, struct mbarrier *b, uint32_t phase, bool by_parity) {
    check_known(run, b, phase, by_parity);
    if (b->phase == phase) {
        if (by_parity) {
            check_new(run, b, &b->last_waits[run->warp->index]);
        }
        warp_tick(run->warp); /* signals sent before now do not cover this wait */
        b->last_waits[run->warp->index] =
            (struct last_wait){run->insn, phase, run->warp->clock->causal[run->warp->number]};
    }
}

static void report_missed(const struct mbarrier *b, const struct warp *warp, const struct insn *wait) {
    sim_note(
        b->cta->cluster->launch, SIM_ERROR, kind, b->cta, (int)warp->index, -1, wait, b->last_insn,
        "nothing orders this wait for a phase of the mbarrier at %#x before the end of the next one, phase "
        "%u: a thread that comes later misses its phase",
        b->offset, b->phase - b->first_phase);
}

/* True for a suspended wait whose phase is complete, but which has not run before the next phase ends. */
static bool missed_wakeup(struct warp *warp, const struct split *split, const struct mbarrier *b) {
    return split->wait.kind == WAIT_MBARRIER && split->wait.object == b && split->wait.ready(warp, split);
}

void phase_completes(const struct mbarrier *b) {
    for (uint32_t i = 0; i < b->cta->nwarps; i++) {
        struct warp *warp = &b->cta->warps[i];
        const struct last_wait *last = &b->last_waits[i];
        if (last->insn != NULL && last->phase == b->phase && b->gathered->causal[warp->number] < last->time) {
            report_missed(b, warp, last->insn);
        }
        for (uint32_t j = 0; j < warp->nsplits; j++) {
            if (missed_wakeup(warp, warp->splits[j], b)) {
                report_missed(b, warp, &warp->cta->cluster->launch->module->code[warp->splits[j]->pc]);
            }
        }
    }
}
