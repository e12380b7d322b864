/* Makes and frees the clock's state of a simulator and of its warps. */
#include <stdlib.h>
#include <string.h>

#include "timing.h"

struct timing *timing_make(const char *name, const char *machine_code, char *message, size_t room) {
    struct chip chip;
    if (!chip_load(&chip, name, machine_code != NULL, message, room)) {
        return NULL;
    }
    struct timing *timing = calloc(1, sizeof *timing);
    if (timing == NULL) {
        (void)snprintf(message, room, "out of memory for a clock");
        return NULL;
    }
    timing->chip = chip;
    timing->machine_code = machine_code == NULL ? NULL : strdup(machine_code);
    timing->l2_lines = chip.l2_bytes / LINE_BYTES / L2_WAYS * L2_WAYS;
    timing->sm = calloc(chip.sms, sizeof *timing->sm);
    timing->l2 = calloc(timing->l2_lines, sizeof *timing->l2);
    bool whole =
        (machine_code == NULL || timing->machine_code != NULL) && timing->sm != NULL && timing->l2 != NULL;
    for (uint64_t i = 0; whole && i < chip.sms; i++) {
        timing->sm[i].l1_lines = (uint32_t)(chip.l1_bytes / LINE_BYTES);
        timing->sm[i].l1 = calloc(timing->sm[i].l1_lines + 1, sizeof *timing->sm[i].l1);
        timing->sm[i].slices = calloc(SM_SLICES, sizeof *timing->sm[i].slices);
        whole = timing->sm[i].l1 != NULL && timing->sm[i].slices != NULL;
    }
    if (!whole) {
        (void)snprintf(message, room, "out of memory for the caches of this chip");
        timing_free(timing);
        return NULL;
    }
    return timing;
}

void timing_free(struct timing *timing) {
    if (timing == NULL) {
        return;
    }
    for (uint64_t i = 0; timing->sm != NULL && i < timing->chip.sms; i++) {
        free(timing->sm[i].l1);
        free(timing->sm[i].slices);
    }
    for (uint32_t i = 0; i < timing->nislands; i++) {
        free(timing->islands[i].agenda.events);
    }
    for (uint64_t i = 0; i < timing->launches && i < MAX_LAUNCHES; i++) {
        path_free_lines(timing->launch[i].lines);
    }
    free(timing->sm);
    free(timing->l2);
    free(timing->machine_code);
    free(timing->requests);
    free(timing->turns.events);
    free(timing->islands);
    timeline_free(timing->timeline);
    free(timing);
}

void warp_time_make(struct warp *warp, struct worker *worker) {
    const struct launch *launch = worker->launch;
    warp->time = run_take(worker, 1, sizeof *warp->time);
    warp->time->rows = launch->reg_bytes / ROW32 + 2;
    warp->time->nvalues = warp->time->rows + launch->pred_bytes / 4 + 2;
    warp->time->values = run_take(worker, warp->time->nvalues, sizeof *warp->time->values);
    warp->time->pred_values = warp->time->values + warp->time->rows;
}

void warp_time_start(struct warp *warp, ticks at) {
    struct warp_time *time = warp->time;
    memset(time->values, 0, time->nvalues * sizeof *time->values);
    memset(time->waited, 0, sizeof time->waited);
    memset(time->read, 0, sizeof time->read);
    time->began = time->next = time->last = time->started = at;
    time->copy_held = time->fenced = time->copies_fenced = 0;
    time->blocked = time->partly = time->early = false;
    time->prepared = 0;
}

void warp_time_free(struct warp *warp) {
    if (warp->time != NULL) {
        free(warp->time->values);
        free(warp->time);
    }
}
