/* Reports of a process (outcome.h). */
#include "outcome.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "interruption.h"
#include "run_status.h"
#include "shim.h"

#define MAX_RULES_BYTES (1 << 20)

__attribute__((used)) static const char mark[] = RUN_MARK;

static struct sim *the_sim;
static struct run_status *shared; /* status that `ptxsim run` shares with its program; NULL without it */
/* The counts that are already added to `shared`. */
static uint64_t sent_launches, sent_unlisted, sent_times[SIM_INCOMPLETE + 1], sent_hidden[RUN_RULES];

static void refuse(const char *path, const char *why) {
    (void)fprintf(stderr, "simulator: %s: %s\n", path, why);
    exit(EXIT_FAILURE);
}

static void read_suppressions(struct sim *sim, const char *path) {
    static char text[MAX_RULES_BYTES];
    char message[300];
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        refuse(path, strerror(errno));
        return;
    }
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    (void)fclose(file);
    if (sim_suppress(sim, text, message, sizeof message) != 0) {
        refuse(path, message);
    }
}

static void map_status(const char *path) {
    int file = open(path, O_RDWR | O_CLOEXEC);
    void *memory =
        file < 0 ? MAP_FAILED : mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (file >= 0) {
        (void)close(file);
    }
    if (memory == MAP_FAILED) {
        refuse(path, strerror(errno));
    }
    shared = memory;
}

static void add(atomic_uint_fast64_t *total, uint64_t *sent, uint64_t now) {
    atomic_fetch_add(total, now - *sent);
    *sent = now;
}

void outcome_update(const struct sim *sim) {
    if (shared == NULL) {
        return;
    }
    add(&shared->launches, &sent_launches, sim_counters(sim)->launches);
    add(&shared->unlisted, &sent_unlisted, sim_findings_unlisted(sim));
    for (int i = SIM_CLEAN; i <= SIM_INCOMPLETE; i++) {
        add(&shared->times[i], &sent_times[i], sim_finding_times(sim, (enum sim_verdict)i));
    }
    for (int i = 0; i < SIM_UNCHECKED; i++) {
        if (sim_unchecked(sim, i)) {
            atomic_store(&shared->unchecked[i], true);
        }
    }
    for (size_t i = 0; i < RUN_RULES && i < sim_suppression_count(sim); i++) {
        add(&shared->hidden[i], &sent_hidden[i], sim_suppression(sim, i)->times);
    }
}

/* The kind of finding to shrink; "1": any kind; NULL: none. */
static const char *shrink_kind(void) {
    const char *kind = runtime_setting("NVFP4_SIMULATE_SHRINK");
    return kind == NULL || strcmp(kind, "0") == 0 ? NULL : kind;
}

static uint64_t tried; /* launches searched for a finding to shrink */
static bool reported;  /* a finding was reported, even one that needs no delay */
static bool shrunk;    /* a finding that needs delays was reported */

bool outcome_shrink(struct sim *sim, struct sim_module *module, const char *kernel,
                    const struct sim_launch_attributes *attributes) {
    const char *kind = shrink_kind();
    if (kind == NULL || shrunk) {
        return false;
    }
    struct sim_shrink_options options = {.kind = strcmp(kind, "1") == 0 ? NULL : kind};
    (void)fflush(stdout);
    const struct sim_shrunk *result = sim_shrink(sim, module, kernel, attributes, &options);
    tried++;
    shrunk = result != NULL && result->found && !result->always;
    bool first = result == NULL || (result->found && !reported) || shrunk;
    reported |= result != NULL && result->found;
    if (result == NULL) {
        (void)fprintf(stderr, "shrunk: not %s: %s\n", kernel, sim_message(sim));
    }
    return first && result != NULL;
}

/* The first process writes to the path itself, every other to PATH.PID. */
static void write_report(const char *path, uint64_t before, void (*print)(const struct sim *, FILE *)) {
    char own[4096];
    if (path == NULL) {
        return;
    }
    (void)snprintf(own, sizeof own, before == 0 ? "%s" : "%s.%ld", path, (long)getpid());
    FILE *file = fopen(own, "w");
    if (file != NULL) {
        print(the_sim, file);
    }
    if (file == NULL || fflush(file) != 0 || fclose(file) != 0) {
        (void)fprintf(stderr, "simulator: %s: %s\n", own, strerror(errno));
    }
}

static void at_end(void) {
    static atomic_flag written = ATOMIC_FLAG_INIT;
    static _Thread_local bool by_this_thread; /* for an earlier simulator of the process */
    while (!by_this_thread && atomic_flag_test_and_set(&written)) {
        (void)pause(); /* a signal ends the process once another thread has written the reports */
    }
    if (by_this_thread) {
        return;
    }
    by_this_thread = true;
    const char *path = runtime_setting("NVFP4_SIMULATE_JSON");
    const char *counters = runtime_setting("NVFP4_SIMULATE_COUNTERS");
    sim_hold_findings(the_sim, true);
    outcome_update(the_sim);
    sim_hold_findings(the_sim, false);
    if (tried > 0 && !reported) {
        (void)fprintf(stderr, "shrunk: the mode shows no finding to shrink in %llu launch%s\n",
                      (unsigned long long)tried, tried == 1 ? "" : "es");
    }
    const char *timeline = runtime_setting("NVFP4_SIMULATE_TIMELINE");
    bool writes = path != NULL || timeline != NULL;
    uint64_t before = shared == NULL || !writes ? 0 : atomic_fetch_add(&shared->reports, 1);
    write_report(path, before, sim_print_json);
    write_report(timeline, before, sim_print_timeline);
    if (runtime_setting("NVFP4_SIMULATE_PRINT_TIME") != NULL) {
        sim_print_times(the_sim, stderr);
    }
    if (counters != NULL && strcmp(counters, "1") == 0) {
        sim_print_counters(the_sim, stderr);
    }
}

struct sim_progress *outcome_progress(void) {
    const char *status = runtime_setting("NVFP4_SIMULATE_STATUS");
    if (status != NULL && shared == NULL) {
        map_status(status);
    }
    return shared == NULL ? NULL : &shared->progress;
}

void outcome_begin(struct sim *sim, void (*look)(struct sim *)) {
    const char *rules = runtime_setting("NVFP4_SIMULATE_SUPPRESSIONS");
    the_sim = sim;
    if (rules != NULL) {
        read_suppressions(sim, rules);
    }
    (void)atexit(at_end);
    if (shared != NULL) {
        interruption_begin(sim, &shared->signal, look, at_end);
    }
}
