#include "trial.h"

#include <stdlib.h>

/* A trial has its own list of suppressions, whose texts belong to the original simulator. */
static void drop_suppressions(struct sim *trial) {
    free(trial->suppressions);
    trial->suppressions = NULL;
    trial->nsuppressions = 0;
}

/* A new simulator that shares the original's memory and suppressions. */
static struct sim *trial_make(const struct trials *trials) {
    const struct sim *sim = trials->sim;
    struct sim_options options = sim->options;
    options.threads = 1;
    options.max_instructions =
        options.max_instructions < trials->run_limit ? options.max_instructions : trials->run_limit;
    struct sim *trial = sim_create(&options);
    bool done = trial != NULL;
    if (done) {
        trial->interrupted = sim->interrupted;
    }
    for (size_t i = 0; done && i < sim->nallocations; i++) {
        const struct allocation *own = &sim->allocations[i];
        done = own->bytes == 0 ||
               sim_register(trial, (void *)(uintptr_t)own->base, own->bytes, own->name) == SIM_OK;
    }
    if (done && sim->nsuppressions > 0) {
        trial->suppressions = malloc(sim->nsuppressions * sizeof *trial->suppressions);
        done = trial->suppressions != NULL;
        if (done) {
            memcpy(trial->suppressions, sim->suppressions, sim->nsuppressions * sizeof *trial->suppressions);
            trial->nsuppressions = sim->nsuppressions;
        }
    }
    if (!done) {
        sim_destroy(trial);
        return NULL;
    }
    return trial;
}

static void put_back(const struct trials *trials) {
    const struct sim *sim = trials->sim;
    for (size_t i = 0; trials->saved != NULL && i < sim->nallocations; i++) {
        if (trials->saved[i] != NULL) {
            memcpy((void *)(uintptr_t)sim->allocations[i].base, trials->saved[i], sim->allocations[i].bytes);
        }
    }
}

bool trials_begin(struct trials *trials) {
    const struct sim *sim = trials->sim;
    trials->saved = calloc(sim->nallocations + 1, sizeof *trials->saved);
    for (size_t i = 0; trials->saved != NULL && i < sim->nallocations; i++) {
        const struct allocation *own = &sim->allocations[i];
        if (own->bytes == 0) {
            continue; /* freed in a queue: no live contents */
        }
        trials->saved[i] = malloc(own->bytes);
        if (trials->saved[i] == NULL) {
            return false;
        }
        memcpy(trials->saved[i], (const void *)(uintptr_t)own->base, own->bytes);
    }
    return trials->saved != NULL;
}

int trials_run(struct trials *trials) {
    sim_destroy(trials->last);
    put_back(trials);
    trials->last = trial_make(trials);
    if (trials->last == NULL) {
        return SIM_NO_MEMORY;
    }
    trials->last->schedule = &trials->schedule;
    trials->module.sim = trials->last;
    int status = sim_launch(trials->last, &trials->module, trials->kernel, trials->attributes);
    trials->last->schedule = NULL;
    drop_suppressions(trials->last);
    return status;
}

void trials_end(struct trials *trials) {
    put_back(trials);
    for (size_t i = 0; trials->saved != NULL && i < trials->sim->nallocations; i++) {
        free(trials->saved[i]);
    }
    free(trials->saved);
    schedule_free(&trials->schedule);
}
