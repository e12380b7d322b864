/* Times at which a warp's instructions issue and their results are ready. */
#include "fences.h"
#include "machine_code.h"
#include "operands.h"

/* Returns the time until which the hardware holds the instruction back because of an earlier one. */
static ticks kept_back(const struct warp *warp, enum clock_family family) {
    switch (family) {
    case FAMILY_MBARRIER_ARRIVE:
    case FAMILY_MBARRIER_RELEASE:
    case FAMILY_MBARRIER_TEST:
        return warp->time->copy_held;
    case FAMILY_CLUSTER_WAIT:
        return warp->cta->cluster->barrier_over;
    default:
        return 0;
    }
}

/* ptxas reorders a basic block so that independent instructions fill each other's waits, which PTX does not
 * show. Without machine code, arithmetic therefore issues in PTX order without waiting for its operands
 * (ORDER_FREE), memory instructions wait for their operands, and instructions that order or end a block wait
 * for everything before. */
enum order { ORDER_FREE, ORDER_OPERANDS, ORDER_ALL, ORDER_MACHINE };

static const struct cost no_cost = {.pipe = PIPES};

static enum order order_of(enum clock_family family) {
    switch (family) {
    case FAMILY_MEMORY:
        return ORDER_OPERANDS;
    case FAMILY_SHUFFLE:
    case FAMILY_VOTE:
    case FAMILY_REDUX:
    case FAMILY_WARP_MMA:
        return ORDER_FREE;
    default:
        return family >= FAMILY_ALU && family <= FAMILY_LONG ? ORDER_FREE : ORDER_ALL;
    }
}

static bool is_wgmma(const struct insn *insn) {
    return insn->timing == FAMILY_TENSOR && strncmp(insn->name, "wgmma.mma", 9) == 0;
}

/* HW (measured, H200: wgmma_interval_cycles, 2 warpgroups): warps alternate at MMAs with A in shared memory. */
static bool from_shared(const struct insn *insn) {
    return is_wgmma(insn) && insn->wgmma.a_registers == 0;
}

/* HW (measured, H200: consumer_lap_cycles, 64 operations, 2 and 3 warpgroups): while the tensor cores work for
 * one warpgroup, another's MMA with A in registers does not issue; other instructions do. */
static ticks tensor_turn(const struct warp *warp, const struct insn *insn, const struct sm_time *sm) {
    bool another =
        sm->tensor_user != NULL && sm->tensor_user != &warp->cta->warps[warp->index / SM_PARTS * SM_PARTS];
    bool turns = another && !warp->cta->cluster->launch->reordered;
    return turns && is_wgmma(insn) && insn->wgmma.a_registers != 0 ? sm->tensor.free : 0;
}

/* With machine code, instructions issue in its order, each after the stall count of the one before, when its
 * scoreboard barriers have cleared and its pipes are free.  The stall counts already cover the latencies of
 * arithmetic. */
static ticks machine_ready(const struct machine_code *machine, const struct warp_time *time,
                           const struct part *part, ticks ready, ticks operands) {
    ready = later(later(ready, operands), time->last + machine->before);
    for (unsigned i = 0; i < READ_BARRIERS; i++) {
        ready = machine->waits >> i & 1 ? later(ready, time->read[i]) : ready;
    }
    for (unsigned i = 0; i < PIPES; i++) {
        ready = machine->pipe[i] != 0 ? later(ready, part->pipe[i].free) : ready;
    }
    return ready;
}

bool time_stores(const struct warp *warp, const struct split *split) {
    const struct insn *insn = &warp->cta->cluster->launch->module->code[split->pc];
    return insn->timing == FAMILY_MEMORY && insn->ndst == 0 &&
           (insn->space == SP_GLOBAL || insn->space == SP_GENERIC);
}

/* HW (measured, H200: beside_mma_cycles by the profiler): uniform instructions are not slowed beside MMAs. */
static bool only_uniform(const struct machine_code *machine, const struct insn *insn) {
    return machine->beside == 0 && insn->timing >= FAMILY_ALU && insn->timing <= FAMILY_LONG;
}

#define PARAMETER_LINES                                                                                        \
    32 /* lines of 64 bytes (ULDC), followed by as many of 32 bytes (LDC), the grid's sizes first (sass.py) */

/* The lines of `had`, and the same bytes as lines of the other kind. */
static uint64_t parameters_near(uint64_t had) {
    uint64_t near = had;
    for (uint32_t i = 0; 2 * i + 2 < PARAMETER_LINES; i++) {
        uint64_t line = (uint64_t)1 << i | (uint64_t)3 << (PARAMETER_LINES + 1 + 2 * i);
        near |= (had & line) != 0 ? line : 0;
    }
    return near;
}

/* HW (measured, H200: h200_observed launch_parameters, launch_ends): each SM fetches a launch's parameters line
 * by line when a warp first reads them, and later readers wait for the first line.  Lines that neither LDC nor
 * ULDC had read before a dependent launch began take longer. */
static ticks wait_for_parameters(const struct timing *timing, struct sm_time *sm,
                                 const struct machine_code *machine, ticks come) {
    const struct chip *chip = &timing->chip;
    uint64_t missing = machine->parameters & ~sm->parameters;
    if (machine->parameters == 0 || (missing == 0 && sm->parameters_from <= come)) {
        return come;
    }
    bool late = missing != 0 && chip->parameters_late > 0 && come >= timing->replaced;
    if (late && (missing & ~parameters_near(sm->parameters_kept)) != 0) {
        return come + chip->parameters_late;
    }
    ticks first = come + (timing->parameters_far ? chip->parameters_hbm : chip->parameters_l2);
    if (sm->parameters_from == 0 || first < sm->parameters_from) {
        sm->parameters_from = first;
    }
    uint32_t more = (uint32_t)__builtin_popcountll(missing) - (missing != 0 && sm->parameters == 0);
    return later(come, sm->parameters_from) + more * chip->parameter_line;
}

ticks time_ready(const struct warp *warp, const struct split *split) {
    const struct launch *launch = warp->cta->cluster->launch;
    const struct insn *insn = &launch->module->code[split->pc];
    struct sm_time *sm = sm_of(warp->cta);
    const struct chip *chip = &launch->timing->chip;
    struct warp_time *time = warp->time;
    if (time->early) {
        return NEVER;
    }
    ticks ready = time_fenced(warp, split, time->next);
    if (split->resumed) {
        return ready;
    }
    if (insn->timing == FAMILY_FREE) { /* a move of a value that memory has not delivered waits for it */
        return time_operands_ready(warp, split, insn, insn->ndst, PIPES) == NEVER ? NEVER : ready;
    }
    const struct machine_code *machine = machine_code_of(launch->module, split->pc);
    struct cost cost = machine != NULL ? no_cost : time_cost(warp, insn);
    ticks operands = time->operands = time_operands_ready(warp, split, insn, 0, cost.pipe);
    if (operands == NEVER) {
        return NEVER;
    }
    const struct part *part = &sm->part[warp->index % SM_PARTS];
    enum order order = machine != NULL ? ORDER_MACHINE : order_of((enum clock_family)insn->timing);
    switch (order) {
    case ORDER_MACHINE:
        ready =
            later(machine_ready(machine, time, part, ready, operands),
                  wait_for_parameters(launch->timing, sm, machine, later(ready, time->last + machine->before)));
        break;
    case ORDER_FREE:
        break;
    case ORDER_OPERANDS:
        ready = later(ready, operands);
        break;
    default:
        ready = later(later(ready, operands), time->started);
    }
    if (time_left_out(warp, split, insn)) {
        return time->chosen = later(ready, part->issue);
    }
    ready = later(ready, later(kept_back(warp, (enum clock_family)insn->timing), tensor_turn(warp, insn, sm)));
    if (insn->timing == FAMILY_GRID_WAIT && launch->dependent) {
        ready = later(ready, launch->timing->before_end + chip->dependent_release);
    }
    ready = time_before(warp, split, ready);
    ready = later(ready, part->issue);
    if (cost.pipe != PIPES) {
        ticks taken = part->pipe[cost.pipe].free;
        ready = later(ready, taken > chip->assembled_ahead ? taken - chip->assembled_ahead : 0);
    } else if (insn->timing == FAMILY_WARP_MMA) {
        ready = later(ready, part->mma.free);
    } else if (insn->timing == FAMILY_MEMORY) {
        ticks taken = sm->shared.free;
        ready = later(ready, taken > chip->memory_queue ? taken - chip->memory_queue : 0);
        if (time_stores(warp, split)) {
            ticks out = later(sm->stores_out, launch->timing->l2_store.server.free);
            ready = later(ready, out > chip->store_queue ? out - chip->store_queue : 0);
        }
    } else if (time_lsu_interval(chip, (enum clock_family)insn->timing) != 0 &&
               sm->lsu.free > chip->memory_queue) {
        ready = later(ready, sm->lsu.free - chip->memory_queue);
    }
    time->chosen = ready;
    return machine != NULL && !only_uniform(machine, insn) ? later(ready, part->dispatch) : ready;
}

/* ---- issue ---- */

/* HW (measured, H200: fence_behind_stores_cycles, no fence): a warp arrives at a barrier after its stores to
 * shared memory. */
static void issue_barrier(struct warp *warp, struct sm_time *sm, ticks at, const struct chip *chip) {
    at = chip->fence_shared_stored > 0 ? later(at, warp->time->stored) : at;
    warp->time->arrived =
        booked(&sm->barrier, at, chip->barrier_arrive_interval) + chip->barrier_arrive_interval;
}

static void issue_cluster_arrive(struct run *run, struct sm_time *sm, ticks at, const struct chip *chip) {
    bool is_alone = run->cluster->nctas == 1 && chip->cluster_arrive_alone > 0;
    ticks interval = is_alone ? chip->cluster_arrive_alone : chip->cluster_arrive_interval;
    run->warp->time->arrived = booked(&sm->barrier, at, interval) + interval;
}

/* Registers of a store beyond 4 bytes a lane. */
static ticks registers_more(const struct insn *insn) {
    bool stores = insn->timing == FAMILY_MEMORY && insn->ndst == 0;
    uint32_t operands = insn->nop > 1 ? insn->nop - 1u : 1u; /* without the address */
    return stores ? operands * (ptx_type_bytes(insn->type) == 8 ? 2u : 1u) - 1u : 0;
}

/* HW (measured, H200: warp states of consumer_lap_cycles and beside_mma_cycles): while an MMA with A in
 * registers runs, a sub-partition issues at most one arithmetic instruction of any warp every four cycles.  An
 * MMA with A in shared memory does not slow it. */
static void issue_beside(const struct sm_time *sm, struct part *part, ticks at, ticks beside, ticks interval) {
    ticks end = time_mma_runs(sm, at), start = sm->mmas.start;
    ticks free = at - (at >= start ? (at - start) % interval : 0) + beside;
    part->dispatch = free < end ? free : later(end, part->dispatch);
}

/* Books an instruction's machine code: its pipes, when the next one may issue, and when its operands have been
 * read. Stall counts cover the latencies of pipes; special functions have a latency here. */
static void issue_machine(struct run *run, const struct insn *insn, const struct machine_code *machine,
                          unsigned share) {
    struct timing *timing = run->launch->timing;
    struct sm_time *sm = sm_of(run->cta);
    struct warp_time *time = run->warp->time;
    struct part *part = &sm->part[run->warp->index % SM_PARTS];
    ticks at = timing->issued, special = at;
    for (unsigned i = 0; i < PIPES; i++) {
        if (machine->pipe[i] != 0) {
            ticks length = time_beside(timing, sm, share + SHARE_PIPES + i, at, machine->pipe[i]);
            ticks start = booked(&part->pipe[i], at, length);
            special = i == PIPE_SPECIAL ? start + timing->chip.special_latency : special;
        }
    }
    if (machine->beside != 0) {
        issue_beside(sm, part, at, machine->beside, timing->chip.wgmma_dispatch);
    }
    sm->parameters |= machine->parameters;
    sm->parameters_kept |= at < timing->replaced ? machine->parameters : 0;
    if (machine->opens != 0) {
        time->read[machine->opens - 1] =
            at + timing->chip.operand_read + registers_more(insn) * timing->chip.operand_read_more;
    }
    if (machine->order != 0) {
        time->last = at + machine->after;
    }
    if (insn->timing >= FAMILY_ALU && insn->timing <= FAMILY_LONG) {
        time_results_ready(run->warp, run->split, insn, special, PIPES);
    }
}

void time_issue(struct run *run, const struct insn *insn) {
    struct timing *timing = run->launch->timing;
    const struct chip *chip = &timing->chip;
    struct warp *warp = run->warp;
    struct warp_time *time = warp->time;
    struct sm_time *sm = sm_of(warp->cta);
    struct part *part = &sm->part[warp->index % SM_PARTS];
    ticks at = timing->issued = timing->now;
    enum clock_family family = (enum clock_family)insn->timing;
    timing->wavefronts = run->worker->counters.shared_wavefronts;
    timing->footprint.mask = timing->footprint.remote = 0;
    timing->signalled = 0;
    time->prepared = 0;
    time->fenced = 0;
    path_issue(timing, warp, insn);
    if (family == FAMILY_FREE) {
        time_results_ready(warp, run->split, insn,
                           time_operands_ready(warp, run->split, insn, insn->ndst, PIPES), PIPES);
        return;
    }
    if (run->split->resumed) {
        return;
    }
    part->last = family == FAMILY_TENSOR && from_shared(insn) ? NULL : warp;
    const struct machine_code *machine = machine_code_of(run->launch->module, run->split->pc);
    struct cost cost = machine != NULL ? no_cost : time_cost(warp, insn);
    ticks start = later(at, time->operands);
    ticks slots = machine != NULL ? machine->slots : insn->machine * chip->issue_interval;
    unsigned share = warp->index % SM_PARTS * PART_SHARES;
    part->issue = at + time_beside(timing, sm, share + SHARE_SLOTS, at, slots);
    time->next = machine != NULL ? at : part->issue;
    part->issued += slots;
    if (cost.pipe != PIPES) {
        ticks length =
            time_beside(timing, sm, share + SHARE_PIPES + cost.pipe, at, insn->machine * cost.interval);
        start = later(start, booked(&part->pipe[cost.pipe], at, length));
    }
    if (machine != NULL) {
        issue_machine(run, insn, machine, share);
    } else if (order_of(family) == ORDER_FREE) {
        time->started = later(time->started, start);
        path_started(warp, time->started);
    }
    if (cost.pipe != PIPES) {
        ticks last = start + (insn->machine - 1u) * cost.interval;
        time_results_ready(warp, run->split, insn, last + cost.latency, cost.pipe);
        return;
    }
    switch (family) {
    case FAMILY_SHUFFLE:
    case FAMILY_VOTE:
    case FAMILY_REDUX: {
        ticks interval = time_lsu_interval(chip, family);
        ticks taken = later(start, booked(&sm->lsu, at, interval));
        ticks latency = machine != NULL && family == FAMILY_VOTE ? 0 : time_lsu_latency(chip, family);
        time_results_ready(warp, run->split, insn, taken + latency, PIPES);
        break;
    }
    case FAMILY_WARP_MMA:
        timing->tensor_works = true;
        (void)booked(&part->mma, at, time_beside(timing, sm, share + SHARE_MMA, at, insn->matrix.mma_ticks));
        /* HW (measured, H100: warp_mma_cycles): the sub-partition issues nothing else meanwhile. */
        part->issue = later(part->issue, at + chip->warp_mma_hold);
        time_results_ready(warp, run->split, insn, start + chip->warp_mma_latency, PIPES);
        break;
    case FAMILY_BRANCH:
        time->next = at + (machine != NULL && machine->order == 0 ? 0 : chip->branch_interval);
        break;
    case FAMILY_CLOCK:
        time_results_ready(warp, run->split, insn, at + chip->clock_read_latency, PIPES);
        time->next = later(time->next, at + chip->clock_read_interval);
        break;
    case FAMILY_BARRIER:
        issue_barrier(warp, sm, at, chip);
        break;
    case FAMILY_WARP_SYNC:
        time->next = at + chip->warp_sync_latency;
        break;
    case FAMILY_TENSOR_WAIT:
        time->next = at + chip->wgmma_wait_latency;
        break;
    case FAMILY_SET_REGISTERS:
        time->next = at + chip->set_registers_latency;
        break;
    case FAMILY_CLUSTER_ARRIVE:
        issue_cluster_arrive(run, sm, at, chip);
        timing->generation = run->cluster->cluster_generation;
        break;
    case FAMILY_MBARRIER_ARRIVE:
    case FAMILY_MBARRIER_RELEASE:
        time->next = at + chip->mbarrier_arrive_interval;
        timing->signalled = family == FAMILY_MBARRIER_RELEASE ? chip->remote_signal : 0;
        break;
    case FAMILY_MBARRIER_TEST:
        time_results_ready(warp, run->split, insn, at + chip->mbarrier_test_latency, PIPES);
        break;
    case FAMILY_FENCE_CTA:
        time->next = at + (strstr(insn->name, "mbarrier_init") != NULL && chip->fence_mbarrier_init > 0
                               ? chip->fence_mbarrier_init
                               : chip->fence_cta);
        break;
    case FAMILY_FENCE_GPU:
        time->next = fence_begin(warp, at, chip->fence_gpu, chip->release_behind_copies > 0);
        break;
    case FAMILY_FENCE_ASYNC:
        time->next = fence_begin(warp, at, chip->fence_async, chip->release_behind_copies > 0);
        break;
    case FAMILY_FENCE_ASYNC_SHARED:
        time->next = fence_stored(warp, at);
        break;
    case FAMILY_COPY:
        time->next = at + chip->copy_issue_interval;
        time->copy_held = at + (strstr(insn->name, ".tensor") != NULL ? chip->tensor_copy_barrier_hold
                                                                      : chip->copy_barrier_hold);
        break;
    case FAMILY_GRID_LAUNCH:
        time_triggered(run);
        break;
    default:
        break;
    }
    if (machine != NULL) {
        time->next = later(time->next, at + time_until_next(machine, chip));
    }
}
