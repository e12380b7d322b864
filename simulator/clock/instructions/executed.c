/* Books what is known only after an instruction has been executed, and wakes waiting warps. */
#include "machine_code.h"
#include "operands.h"

void time_skipped(struct run *run, const struct insn *insn) {
    struct timing *timing = run->launch->timing;
    struct part *part = &sm_of(run->cta)->part[run->warp->index % SM_PARTS];
    const struct machine_code *machine = machine_code_of(run->launch->module, run->split->pc);
    sm_of(run->cta)->parameters |= machine != NULL ? machine->parameters : 0;
    if (insn->timing != FAMILY_FREE) {
        ticks slots = machine != NULL ? machine->slots : timing->chip.issue_interval;
        part->issue = timing->now + slots;
        part->issued += slots;
        run->warp->time->next =
            machine != NULL ? timing->now + time_until_next(machine, &timing->chip) : part->issue;
        run->warp->time->last = timing->now;
    }
}

/* Running MMAs read B from shared memory, partly ahead of time; returns how long `length` of other accesses
 * takes. */
static ticks beside_reads(struct sm_time *sm, const struct chip *chip, ticks at, ticks length) {
    if (time_mma_runs(sm, at) <= at) {
        return length;
    }
    ticks start = later(at, sm->shared.free), spare = chip->wgmma_column - chip->wgmma_read_column;
    ticks more = (start - sm->shared.free) * spare / chip->wgmma_column;
    sm->reads_ahead =
        sm->reads_ahead + more < chip->wgmma_reads_ahead ? sm->reads_ahead + more : chip->wgmma_reads_ahead;
    ticks between = length < sm->reads_ahead ? length : sm->reads_ahead;
    sm->reads_ahead -= between;
    return between + (length - between) * chip->wgmma_column / spare;
}

static void executed_memory(struct run *run, const struct insn *insn) {
    struct timing *timing = run->launch->timing;
    const struct chip *chip = &timing->chip;
    struct sm_time *sm = sm_of(run->cta);
    ticks at = timing->issued;
    uint64_t wavefronts = run->worker->counters.shared_wavefronts - timing->wavefronts;
    const struct footprint *footprint = &timing->footprint;
    if (footprint->remote != 0) { /* another CTA's shared memory */
        ticks done = time_remote(run, footprint->remote);
        time_results_ready(run->warp, run->split, insn, done, PIPES);
    } else if (wavefronts > 0) {
        bool slower = insn->ndst == 0 && chip->shared_store_interval > 0;
        ticks interval = slower ? chip->shared_store_interval : chip->shared_interval;
        ticks length = beside_reads(sm, chip, at, wavefronts * interval);
        length = time_beside(timing, sm, SHARE_SHARED, at, length);
        ticks end = booked(&sm->shared, at, length) + length;
        if (insn->ndst == 0) {
            run->warp->time->stored = sm->stored_here = end;
        }
        time_results_ready(run->warp, run->split, insn, end - chip->shared_interval + chip->shared_latency,
                           PIPES);
    }
    if (footprint->mask != 0) {
        time_global(run, insn);
    } else if (footprint->remote == 0 && wavefronts == 0) { /* atomics and local memory */
        bool far = insn->space == SP_GLOBAL || insn->space == SP_GENERIC;
        bool atomic = insn->cls == CL_ATOM;
        time_results_ready(run->warp, run->split, insn,
                           at + (!atomic ? chip->l1_latency
                                 : far   ? chip->l2_latency
                                         : chip->shared_latency),
                           PIPES);
    }
}

/* HW (measured, H200: cluster_ring_cycles): an arrival through the cluster window leaves the SM, also if it
 * goes to its own CTA, lane by lane.  A releasing arrival travels during the fence before it. */
void time_arrival(struct run *run, const struct cta *to) {
    struct timing *timing = run->launch->timing;
    if (run->insn->timing == FAMILY_MBARRIER_ARRIVE && strstr(run->insn->name, "shared::cluster") != NULL) {
        struct sm_time *sm = sm_of(run->cta);
        ticks way = to == run->cta ? timing->chip.window_arrival : timing->chip.remote_arrival;
        sm->arrivals_out = later(sm->arrivals_out, timing->issued) + timing->chip.remote_arrival_interval;
        timing->signalled = later(timing->signalled, way + sm->arrivals_out - timing->issued);
    }
}

void time_executed(struct run *run, const struct insn *insn, enum next next) {
    struct timing *timing = run->launch->timing;
    struct warp_time *time = run->warp->time;
    const struct chip *chip = &timing->chip;
    if (insn->timing == FAMILY_MEMORY) {
        executed_memory(run, insn);
    } else if (insn->timing == FAMILY_PREFETCH && timing->footprint.mask != 0 && chip->l2_prefetched > 0) {
        time_global(run, insn);
    } else if (insn->timing == FAMILY_BARRIER && next == NEXT && !run->split->resumed &&
               insn->barrier.action != 1) { /* it completes the barrier; bar.arrive does not wait */
        time->next = time->arrived + chip->barrier_wake;
    } else if (insn->timing == FAMILY_CLUSTER_ARRIVE &&
               run->cluster->cluster_generation != timing->generation) {
        run->cluster->barrier_over = time->arrived + (run->cluster->nctas > 1 ? chip->cluster_barrier_wake
                                                                              : chip->cluster_barrier_alone);
    }
}

ticks time_wake(struct timing *timing, struct warp *warp, ticks at) {
    const struct chip *chip = &timing->chip;
    struct warp_time *time = warp->time;
    const struct sm_time *sm = sm_of(warp->cta);
    ticks wake = at;
    switch (time->wait) {
    case WAIT_BAR:
        wake = later(at, sm->barrier.free) + chip->barrier_wake;
        break;
    case WAIT_CLUSTER:
        wake = later(at, warp->cta->cluster->barrier_over);
        break;
    case WAIT_MBARRIER:
        wake = at + chip->mbarrier_wake + timing->signalled;
        break;
    default:
        break;
    }
    wake = later(wake, time->next);
    time->waited[time->wait] += wake - time->slept;
    path_wake(timing, warp, wake);
    timeline_wait(timing, warp, wake);
    time->next = wake;
    time->blocked = time->partly = false;
    return wake;
}

uint64_t time_clock_register(const struct timing *timing, unsigned kind) {
    if (kind == SR_GLOBALTIMER || kind == SR_GLOBALTIMER_LO || kind == SR_GLOBALTIMER_HI) {
        return timing->now / TICKS * 1000 / time_clock(timing); /* whole ns */
    }
    return timing->now / TICKS;
}
