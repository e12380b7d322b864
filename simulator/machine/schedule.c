/* Which asynchronous operations of a launch are delayed (schedule.h). */
#include "schedule.h"

#include <stdlib.h>

#define FIRST_ROOM 64

static bool same(const struct issue *a, const struct issue *b) {
    return a->cluster == b->cluster && a->warp == b->warp && a->pc == b->pc && a->occurrence == b->occurrence;
}

/* The index of an issue in the table, or of the free entry for it. */
static uint32_t place_of(const struct issue_table *table, const struct issue *issue) {
    uint64_t state =
        issue->cluster << 32 ^ (uint64_t)issue->warp << 52 ^ (uint64_t)issue->pc << 24 ^ issue->occurrence;
    uint32_t at = (uint32_t)next_random(&state) & (table->room - 1);
    while (table->entry[at].occurrence != 0 && !same(&table->entry[at], issue)) {
        at = (at + 1) & (table->room - 1);
    }
    return at;
}

static void table_free(struct issue_table *table) {
    free(table->entry);
    free(table->value);
    *table = (struct issue_table){.count = 0};
}

static bool grow(struct issue_table *table) {
    struct issue_table grown = {.room = table->room == 0 ? FIRST_ROOM : 2 * table->room, .count = table->count};
    grown.entry = calloc(grown.room, sizeof *grown.entry);
    grown.value = calloc(grown.room, sizeof *grown.value);
    if (grown.entry == NULL || grown.value == NULL) {
        table_free(&grown);
        return false;
    }
    for (uint32_t i = 0; i < table->room; i++) {
        if (table->entry[i].occurrence != 0) {
            uint32_t at = place_of(&grown, &table->entry[i]);
            grown.entry[at] = table->entry[i];
            grown.value[at] = table->value[i];
        }
    }
    table_free(table);
    *table = grown;
    return true;
}

/* The value stored for an issue, which is added with 0 if it is new; NULL: no memory. */
static uint32_t *value_of(struct issue_table *table, const struct issue *issue) {
    if (2 * (table->count + 1) > table->room && !grow(table)) {
        return NULL;
    }
    uint32_t at = place_of(table, issue);
    if (table->entry[at].occurrence == 0) {
        table->entry[at] = *issue;
        table->count++;
    }
    return &table->value[at];
}

bool schedule_delay(struct schedule *schedule, const struct issue *issue) {
    return value_of(&schedule->delayed, issue) != NULL;
}

static bool is_delayed(const struct schedule *schedule, const struct issue *issue) {
    return schedule->all || (schedule->delayed.room > 0 &&
                             schedule->delayed.entry[place_of(&schedule->delayed, issue)].occurrence != 0);
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
    uint32_t *so_far = value_of(&schedule->issued, &issue);
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
    table_free(&schedule->delayed);
    table_free(&schedule->issued);
    schedule->count = 0;
    schedule->issues = 0;
    schedule->all = schedule->turns = false;
}

void schedule_free(struct schedule *schedule) {
    schedule_clear(schedule);
    free(schedule->list);
}
