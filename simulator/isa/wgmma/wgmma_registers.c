/* Tracks the registers that pending wgmma accumulate into or read. */
#include "async/groups.h"
#include "warpgroup.h"

uint32_t wgmma_registers_used(const struct insn *insn) {
    return (uint32_t)insn->ndst + insn->wgmma.a_registers;
}

void wgmma_mark_registers(struct warp *warp, const struct function *function, const struct insn *insn,
                          int sign) {
    for (uint32_t i = 0; i < wgmma_registers_used(insn); i++) {
        int one = i < insn->ndst ? PENDING_WRITE : PENDING_READ;
        *pending_row(warp, function, insn->op[i]) += (uint32_t)(sign * one);
    }
}

/* True if all wgmma of the warp are done, uncommitted ones included. */
static bool all_done(struct warp *warp, const struct split *split) {
    uint32_t open = group_current(warp, GROUP_WGMMA);
    (void)split;
    return groups_done(warp, GROUP_WGMMA, open - 1, false) &&
           warp->groups->family[GROUP_WGMMA].unfinished[open % GROUPS_AHEAD] == 0;
}

/* nvcc inserts copies of accumulators between loop iterations. ptxas removes such a copy or waits before it, so
 * this waits too and is only a review. */
static enum next move_pending(struct run *run, const struct insn *first) {
    (void)sim_report_pair(run, SIM_REVIEW, "wgmma-register", -1, first,
                          "copies a register of a pending wgmma: ptxas must remove the copy or wait before it");
    if (all_done(run->warp, run->split)) {
        return NEXT;
    }
    return wait_for(
        run, (struct wait){.kind = WAIT_ASYNC, .ready = all_done, .what = "a wgmma whose registers it copies"});
}

enum next wgmma_register_use(struct run *run, const struct insn *insn, const struct insn *first,
                             uint32_t pending, bool written) {
    if (insn->cls == CL_MOVE) {
        return move_pending(run, first);
    }
    (void)sim_report_pair(run, SIM_ERROR, "wgmma-register", -1, first,
                          written
                              ? "writes a register that a pending wgmma %s: wgmma.wait_group has to come first"
                              : "reads a register that a pending wgmma %s: wgmma.wait_group has to come first",
                          pending >= PENDING_WRITE ? "accumulates into" : "still reads");
    return NEXT;
}

void wgmma_release_registers(struct run *run, uint32_t upto) {
    struct warp *warp = run->warp;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < warp->npending; i++) {
        struct in_flight *flight = &warp->in_flight[i];
        if (flight->group <= upto) {
            wgmma_mark_registers(warp, flight->function, flight->insn, -1);
            if (run->cluster->checks && run->warp->clock->acquired[flight->clock_index] < flight->number) {
                run->warp->clock->acquired[flight->clock_index] = flight->number;
            }
        } else {
            warp->in_flight[kept++] = *flight;
        }
    }
    warp->npending = kept;
}
