/* The one simulator of the process: its options, its lock, its findings, and the error that stays after one. */
#include "chip_properties.h"
#include "interruption.h"
#include "outcome.h"
#include "registry.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct sim *the_sim;
static size_t reported; /* findings printed so far; held as the findings are */

static void read_options(struct sim_options *options) {
    const char *mode = runtime_setting("NVFP4_SIMULATE_MODE"),
               *checks = runtime_setting("NVFP4_SIMULATE_CHECKS");
    const char *values = runtime_setting("NVFP4_SIMULATE_VALUES");
    if (mode != NULL && !sim_read_mode(mode, options)) {
        refuse_setting("NVFP4_SIMULATE_MODE", mode, SIM_MODES);
    }
    options->no_checks = checks != NULL && strcmp(checks, "0") == 0;
    options->no_values = values != NULL && strcmp(values, "0") == 0;
    const char *ctas = runtime_setting("NVFP4_SIMULATE_CTAS");
    options->checked_ctas = ctas == NULL ? 0 : strtoull(ctas, NULL, 0);
    options->sms = (unsigned)runtime_sms();
    options->chip = runtime_setting("NVFP4_SIMULATE_TIME");
    options->machine_code = runtime_setting("NVFP4_SIMULATE_MACHINE_CODE");
    options->progress = outcome_progress();
    options->timeline = runtime_setting("NVFP4_SIMULATE_TIMELINE") != NULL;
}

/* Prints findings that are new. */
static void print_new(struct sim *sim, const char *title) {
    if (sim_finding_count(sim) > reported) {
        (void)fputs(title, stderr);
        sim_print_findings(sim, reported, stderr);
        reported = sim_finding_count(sim);
    }
    outcome_update(sim);
}

static void look(struct sim *sim) {
    sim_hold_findings(sim, true);
    print_new(sim, "simulator, while the launch runs:\n");
    sim_hold_findings(sim, false);
}

struct sim *runtime_lock(void) {
    process_lock();
    if (the_sim == NULL && !registry_lost()) {
        struct sim_options options = {.mode = SIM_EAGER};
        read_options(&options);
        the_sim = sim_create(&options);
        struct sim_time time;
        if (the_sim != NULL && options.chip != NULL && !sim_time(the_sim, &time)) {
            refuse_setting("NVFP4_SIMULATE_TIME", options.chip, sim_message(the_sim));
        }
        if (the_sim != NULL) {
            outcome_begin(the_sim, look);
        }
    }
    if (the_sim == NULL || registry_lost()) {
        runtime_unlock();
        return NULL;
    }
    return the_sim;
}

void runtime_unlock(void) {
    process_unlock();
}

static _Atomic cudaError_t sticky; /* error of the first launch that failed */

cudaError_t runtime_sticky(void) {
    const char *go_on = runtime_setting("NVFP4_SIMULATE_GO_ON");
    return go_on != NULL && strcmp(go_on, "1") == 0 ? cudaSuccess : atomic_load(&sticky);
}

/* The error that a card gives: a failed device assertion has its own. */
static cudaError_t error_of(const struct sim *sim) {
    for (size_t i = 0; i < sim_finding_count(sim); i++) {
        if (strcmp(sim_finding(sim, i)->kind, "assert") == 0) {
            return cudaErrorAssert;
        }
    }
    return cudaErrorLaunchFailure;
}

void runtime_report(struct sim *sim) {
    sim_hold_findings(sim, true);
    print_new(sim, "simulator:\n");
    sim_hold_findings(sim, false);
    if (sim_run_failed(sim) && atomic_load(&sticky) == cudaSuccess) {
        atomic_store(&sticky, error_of(sim));
    }
}
