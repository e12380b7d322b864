/* Which asynchronous operations of a launch are delayed (schedule.h). */
#include "schedule.h"

#include <stdlib.h>

/* A map's key besides the cluster: a module has fewer than 2^22 instructions, a cluster fewer than 2^10 warps.
 */
static uint64_t minor_of(const struct issue *issue) {
    return (uint64_t)issue->warp << 54 | (uint64_t)issue->pc << 32 | issue->occurrence;
}

bool schedule_delay(struct schedule *schedule, const struct issue *issue) {
    uint32_t *delayed = number_at(&schedule->delayed, issue->cluster, minor_of(issue));
    if (delayed != NULL) {
        *delayed = 1;
    }
    return delayed != NULL;
}

static bool is_delayed(const struct schedule *schedule, const struct issue *issue) {
    return schedule->all || number_of(&schedule->delayed, issue->cluster, minor_of(issue)) != 0;
}

uint32_t schedule_issued(struct schedule *schedule, const struct run *run, const char *kind, int lane,
                         bool *prompt) {
    struct issue issue = {run->cluster->number, run->warp->number,
                          (uint32_t)(run->insn - run->launch->module->code), 1};
    schedule->issues++;
    *prompt = true;
    if (schedule->count >= schedule->most) {
        return 0;
    }
    uint32_t *so_far = number_at(&schedule->issued, issue.cluster, minor_of(&issue));
    if (so_far == NULL || !LIST_GROW(schedule->list, schedule->count, schedule->room)) {
        launch_no_memory(run->launch);
        return 0;
    }
    issue.occurrence = ++*so_far;
    *prompt = !is_delayed(schedule, &issue);
    struct scheduled *one = &schedule->list[schedule->count++];
    *one = (struct scheduled){.issue = issue,
                              .kind = kind,
                              .warp = run->warp->index,
                              .lane = lane,
                              .delayed = !*prompt,
                              .last_warp = UINT32_MAX,
                              .last_pc = UINT32_MAX};
    memcpy(one->cta, run->cta->index, sizeof one->cta);
    return schedule->count;
}

void schedule_written(const struct cluster *cluster, uint32_t scheduled) {
    struct scheduled *one = &cluster->launch->schedule->list[scheduled - 1];
    const struct warp *last = cluster->last_ran;
    bool lives = false;
    if (atomic_load(&cluster->launch->stop)) {
        return; /* a finding ended the run before the write */
    }
    for (uint32_t i = 0; i < cluster->nctas; i++) {
        lives |= cluster->ctas[i].live_threads > 0;
    }
    one->written = !lives                                ? SCHEDULED_ENDED
                   : cluster->launch->mode == SIM_RANDOM ? SCHEDULED_BETWEEN
                                                         : SCHEDULED_IDLE;
    if (last != NULL) {
        one->last_warp = last->index;
        memcpy(one->last_cta, last->cta->index, sizeof one->last_cta);
        one->last_pc = last->nsplits > 0 ? last->splits[0]->pc : UINT32_MAX;
    }
}

void schedule_clear(struct schedule *schedule) {
    numbers_free(&schedule->delayed);
    numbers_free(&schedule->issued);
    schedule->count = 0;
    schedule->issues = 0;
    schedule->all = schedule->turns = false;
}

void schedule_free(struct schedule *schedule) {
    schedule_clear(schedule);
    free(schedule->list);
}
