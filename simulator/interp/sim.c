/* Creating and destroying a simulator, its status, mode and counters (sim.h). */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

#include "clock/timing.h"
#include "hazard/global/global_record.h"
#include "interp.h"
#include "machine/findings.h"
#include "machine/heap.h"
#include "shrink.h"

struct sim *sim_create(const struct sim_options *options) {
    struct sim *sim = calloc(1, sizeof *sim);
    if (sim == NULL) {
        return NULL;
    }
    if (options != NULL) {
        sim->options = *options;
    }
    if (sim->options.max_instructions == 0) {
        sim->options.max_instructions = (uint64_t)1 << 32;
    }
    if (sim->options.sms == 0) {
        sim->options.sms = 132;
    }
    sim->order = order_make();
    if (sim->order == NULL) {
        free(sim);
        return NULL;
    }
    (void)pthread_mutex_init(&sim->lock, NULL);
    sim->interrupted = &sim->interruption;
    if (sim->options.chip != NULL) {
        sim->timing =
            timing_make(sim->options.chip, sim->options.machine_code, sim->message, sizeof sim->message);
        if (sim->timing != NULL) {
            sim->timing->sim = sim;
        }
        if (sim->timing != NULL && sim->options.timeline != 0) {
            sim->timing->timeline = timeline_make();
            if (sim->timing->timeline == NULL) {
                timing_free(sim->timing);
                sim->timing = NULL;
                (void)snprintf(sim->message, sizeof sim->message, "out of memory for the timeline");
            }
        }
    }
    return sim;
}

void shrinking_free(struct shrinking *shrinking) {
    if (shrinking == NULL) {
        return;
    }
    for (size_t i = 0; i < shrinking->shown.count; i++) {
        free((void *)(uintptr_t)shrinking->delays[i].ptx);
        free((void *)(uintptr_t)shrinking->delays[i].source);
    }
    free(shrinking->delays);
    free(shrinking->until);
    sim_destroy(shrinking->last);
    free(shrinking);
}

void sim_destroy(struct sim *sim) {
    if (sim == NULL) {
        return;
    }
    for (struct sim_module *module = sim->modules, *next; module != NULL; module = next) {
        next = module->next;
        ptx_free(module->ptx);
        free(module);
    }
    for (size_t i = 0; i < sim->nallocations; i++) {
        if (sim->allocations[i].owned) {
            free((void *)(uintptr_t)sim->allocations[i].base);
        }
        free(sim->allocations[i].name);
        lines_free(sim->allocations[i].lines);
    }
    heap_free(sim->heap);
    free(sim->allocations);
    free(sim->placements);
    shrinking_free(sim->shrinking);
    timing_free(sim->timing);
    order_free(sim->order);
    sim_clear_findings(sim);
    free(sim->findings);
    suppressions_free(sim);
    (void)pthread_mutex_destroy(&sim->lock);
    free(sim);
}

void sim_interrupt(struct sim *sim, int signal) {
    atomic_store(&sim->interruption, signal);
}

int sim_interrupted(const struct sim *sim) {
    return atomic_load(sim->interrupted);
}

enum sim_status sim_status(const struct sim *sim) {
    return (enum sim_status)sim->status;
}

const char *sim_message(const struct sim *sim) {
    return sim->message;
}

bool sim_read_mode(const char *text, struct sim_options *options) {
    static const char *const names[] = {"eager", "late", "reverse", "random", "poison"};
    const int count = sizeof names / sizeof *names;
    size_t length = strcspn(text, ":");
    int mode = 0;
    while (mode < count && (strlen(names[mode]) != length || strncmp(text, names[mode], length) != 0)) {
        mode++;
    }
    uint64_t seed = 0;
    if (mode == count || (text[length] == ':' && mode != SIM_RANDOM)) {
        return false;
    }
    if (text[length] == ':') {
        char *end;
        seed = strtoull(text + length + 1, &end, 0);
        if (end == text + length + 1 || *end != '\0') {
            return false;
        }
    }
    options->mode = (enum sim_mode)mode;
    options->seed = seed;
    return true;
}

int sim_fail(struct sim *sim, int status, const char *what) {
    sim->status = status;
    (void)snprintf(sim->message, sizeof sim->message, "%s", what);
    return status;
}

int sim_no_memory(struct sim *sim) {
    return sim_fail(sim, SIM_NO_MEMORY, "out of memory");
}

const struct sim_counters *sim_counters(const struct sim *sim) {
    return &sim->counters;
}
