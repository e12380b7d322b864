/* Units that work beside the warps: the copy engine, the way between CTAs of a cluster, tensor cores. */
#include "timing.h"

ticks time_copy_start(struct run *run) {
    struct timing *timing = run->launch->timing;
    struct sm_time *sm = sm_of(run->cta);
    sm->copies++;
    return booked(&sm->copy_engine, timing->issued, timing->chip.copy_engine_interval);
}

ticks time_engine_read(struct run *run, ticks start, uint64_t bytes) {
    const struct chip *chip = &run->launch->timing->chip;
    return start + chip->copy_read_latency + rate_ticks(chip->sm_store_rate, bytes);
}

ticks time_remote(struct run *run, uint64_t bytes) {
    struct timing *timing = run->launch->timing;
    ticks length = rate_ticks(timing->chip.remote_rate, bytes);
    return booked(&sm_of(run->cta)->remote, timing->issued, length) + length + timing->chip.remote_latency;
}

/* What the pipe loses where the MMA before was another warpgroup's. */
static ticks switch_cost(const struct run *run, uint32_t n, bool a_in_registers) {
    const struct chip *chip = &run->launch->timing->chip;
    struct sm_time *sm = sm_of(run->cta);
    const void *group = &run->cta->warps[run->warp->index / SM_PARTS * SM_PARTS];
    bool same = sm->tensor_user == group || sm->tensor_user == NULL;
    for (int i = 0; i < 2 && sm->tensor_groups[i] != group; i++) {
        sm->tensor_three |= i == 1 && sm->tensor_groups[i] != NULL;
        if (sm->tensor_groups[i] == NULL) {
            sm->tensor_groups[i] = group;
            break;
        }
    }
    sm->tensor_user = group;
    ticks column = sm->tensor_three ? chip->wgmma_switch_column_three : chip->wgmma_switch_column_registers;
    ticks shared = n * chip->wgmma_switch_column_shared;
    shared = shared < chip->wgmma_switch_most_shared ? shared : chip->wgmma_switch_most_shared;
    return same ? 0 : a_in_registers ? n * column : shared;
}

/* HW (measured, H200: consumer_lap_cycles): an MMA with A in registers stays at the head of its sub-partition's
 * issue until the tensor core takes its registers, which it does when the MMA starts, and nothing else issues
 * there: instructions run beside the last MMA of a group and beside the first, where ptxas puts some. */
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

/* HW (measured, H100: beside_mma_cycles; H200: consumer_lap_cycles): by machine code, how long from its begin
 * an MMA with A in registers holds the issue.  What stands between two of a group is issued beside the first
 * where all of it fits, at two cycles an instruction; where it does not, nothing is for three quarters of that
 * MMA. */
static ticks held_on(const struct chip *chip, const struct wgmma_fields *form, ticks sums) {
    if (form->between == 0) {
        return chip->machine_hold;
    }
    return form->between * chip->machine_beside > sums ? form->n * chip->machine_hold_column : 0;
}

/* HW (measured, H200): m64nNk16 in N / 2 cycles, and in no less than its operands take from shared memory. */
ticks time_wgmma(struct run *run, const struct wgmma_fields *form) {
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
    ticks start =
        booked(&sm->tensor, timing->issued, time_beside(timing, sm, SHARE_TENSOR, timing->issued, length));
    ticks wanted = n * chip->wgmma_read_column + (a_in_registers ? 0 : chip->wgmma_read_a);
    ticks read = booked(&sm->shared, timing->issued, wanted) + wanted;
    sm->tensor.free = later(sm->tensor.free, read);
    timing->tensor_works = true;
    if (a_in_registers) {
        hold_issue(run, form, start + (run->launch->reordered ? held_on(chip, form, sums) : 0));
    }
    return start + latency + sums;
}
