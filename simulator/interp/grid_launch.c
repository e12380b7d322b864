/* Runs a launch: worker threads, and the clusters that each of them executes. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "async/async.h"
#include "clock/timing.h"
#include "hazard/global/order.h"
#include "hazard/releases.h"
#include "interp.h"

#define MAX_WORKERS     64
#define MOST_BESIDE     4 /* most clusters at a time where older ones have given way */
#define WORKSPACE_BYTES 8 /* grid barrier of cooperative_groups: its size and the counter (driver_abi.h) */

static void add_counters(struct sim_counters *to, const struct sim_counters *from) {
    /* All members before `seconds` are uint64_t. */
    uint64_t sums[offsetof(struct sim_counters, seconds) / 8], more[offsetof(struct sim_counters, seconds) / 8];
    memcpy(sums, to, sizeof sums);
    memcpy(more, from, sizeof more);
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++) {
        sums[i] += more[i];
    }
    memcpy(to, sums, sizeof sums);
    for (int i = 0; i < MAX_WARPS; i++) {
        for (int j = 0; j < CL_CLASSES; j++) {
            to->by_class[j] += from->by_warp[i][j];
        }
    }
}

/* Starts the next cluster of the grid; false if none is left. */
static bool start_next(struct worker *worker) {
    struct launch *launch = worker->launch;
    uint64_t number;
    if (!claim_cluster(launch, false, &number)) {
        return false;
    }
    if (worker->active == worker->made) {
        cluster_make(worker);
    }
    cluster_start(worker->resident[worker->active], number);
    worker->active++;
    return true;
}

static void end_resident(struct worker *worker, uint32_t at) {
    struct cluster *cluster = worker->resident[at];
    worker_progress(worker, launch_interrupted(worker->launch) ? 0 : cluster->nctas);
    if (cluster->failed) {
        atomic_store(&worker->launch->stop, true);
    }
    worker->active--;
    memmove(&worker->resident[at], &worker->resident[at + 1], (worker->active - at) * sizeof cluster);
    worker->resident[worker->active] = cluster;
}

enum pass { PASS_IDLE, PASS_ENDED, PASS_GAVE_WAY };

/* Runs every resident cluster as far as it gets; in mode reverse the newest first, and stops at one that gives
 * way. */
static enum pass run_residents(struct worker *worker) {
    const bool newest_first = worker->launch->mode == SIM_REVERSE;
    enum pass pass = PASS_IDLE;
    uint32_t kept = 0;
    for (uint32_t left = worker->active; left-- > 0;) {
        uint32_t at = newest_first ? left : kept;
        enum cluster_state state = run_cluster(worker->resident[at]);
        if (state == CLUSTER_GIVES_WAY) {
            return PASS_GAVE_WAY;
        }
        if (state == CLUSTER_DONE) {
            end_resident(worker, at);
            pass = PASS_ENDED;
        } else {
            kept++;
        }
    }
    return pass;
}

/* Runs one cluster at a time. Adds the grid's next cluster, up to what the chip holds, when all resident ones
 * can only poll or one gives way. */
static void run_clusters(struct worker *worker) {
    struct launch *launch = worker->launch;
    const uint32_t given_way = worker->room < MOST_BESIDE ? worker->room : MOST_BESIDE;
    bool more = true;
    enum pass pass = PASS_IDLE;
    while (!atomic_load(&launch->stop) && !launch_interrupted(launch)) {
        if (more && worker->active < (pass == PASS_GAVE_WAY ? given_way : worker->room)) {
            more = start_next(worker);
        }
        if (worker->active == 0) {
            break;
        }
        pass = run_residents(worker);
        if (pass == PASS_IDLE && (!more || worker->active == worker->room) &&
            atomic_load(&launch->working) > 1) {
            (void)sched_yield(); /* another worker may write what they poll */
        }
    }
    while (worker->active > 0) { /* another worker stopped the launch */
        (void)run_residents(worker);
    }
}

static void *work(void *argument) {
    struct worker *worker = argument;
    atomic_fetch_add(&worker->launch->working, 1);
    if (setjmp(worker->unwind) == 0) {
        if (worker->launch->timing != NULL) {
            run_timed(worker);
        } else {
            run_clusters(worker);
        }
    }
    atomic_fetch_sub(&worker->launch->working, 1);
    for (uint32_t i = 0; i < worker->made; i++) {
        async_clear(worker->resident[i]); /* operations left over if the run was cut short */
        cluster_free(worker->resident[i]);
    }
    return NULL;
}

static uint32_t resident_room(const struct launch *launch, int workers) {
    uint32_t ctas = launch->cluster[0] * launch->cluster[1] * launch->cluster[2];
    uint32_t room = launch->workspace != 0
                        ? (uint32_t)launch->ncluster /* the grid barrier needs all clusters resident */
                        : launch->sim->options.sms / ctas / (uint32_t)workers;
    return room == 0 ? 1 : room;
}

/* True if clusters may give way to later ones: mode reverse, with atomics. Such a launch uses one worker, so
 * that the order is the same in every run. */
static bool gives_way(const struct launch *launch) {
    uint32_t pc = launch->kernel->first_pc;
    while (pc < launch->kernel->end_pc && launch->module->code[pc].cls != CL_ATOM) {
        pc++;
    }
    return launch->mode == SIM_REVERSE && pc < launch->kernel->end_pc;
}

/* Whatever else was found, the run has not seen all that the program does. */
static void note_interruption(struct launch *launch, uint64_t ended) {
    const uint64_t ctas = launch->ncluster * launch->cluster[0] * launch->cluster[1] * launch->cluster[2];
    sim_note(launch, SIM_INCOMPLETE, "interrupted", NULL, -1, -1, NULL, NULL,
             "signal %d ended the launch after %llu of %llu CTAs; what the others do was not seen",
             atomic_load(launch->sim->interrupted), (unsigned long long)ended, (unsigned long long)ctas);
}

static int run_workers(struct sim *sim, struct launch *launch) {
    int count = sim->options.threads > 0 ? sim->options.threads : (int)sysconf(_SC_NPROCESSORS_ONLN);
    count = count > MAX_WORKERS ? MAX_WORKERS : count < 1 ? 1 : count;
    count = launch->timing != NULL || gives_way(launch) ? 1 : count;
    count = (uint64_t)count > launch->ncluster ? (int)launch->ncluster : count;
    struct worker *workers = calloc((size_t)count, sizeof *workers);
    uint32_t room = launch->timing != NULL ? timed_room(launch) : resident_room(launch, count);
    struct cluster **residents = calloc((size_t)count * room, sizeof(struct cluster *));
    if (workers == NULL || residents == NULL) {
        free(workers);
        free(residents);
        return launch_refuse(sim, SIM_NO_MEMORY, launch->name, "out of memory");
    }
    int started = 1;
    for (int i = 0; i < count; i++) {
        workers[i].launch = launch;
        workers[i].index = (uint32_t)i;
        workers[i].room = room;
        workers[i].resident = residents + (size_t)i * room;
    }
    while (started < count && pthread_create(&workers[started].thread, NULL, work, &workers[started]) == 0) {
        started++; /* if a thread cannot be made, fewer workers do */
    }
    const uint64_t earlier = sim->counters.ctas;
    (void)work(&workers[0]);
    add_counters(&sim->counters, &workers[0].counters);
    for (int i = 1; i < started; i++) {
        (void)pthread_join(workers[i].thread, NULL);
        add_counters(&sim->counters, &workers[i].counters);
    }
    free(workers);
    free(residents);
    if (launch_interrupted(launch)) {
        note_interruption(launch, sim->counters.ctas - earlier);
        return launch_refuse(sim, SIM_RUN_ERROR, launch->name, "the run was interrupted");
    }
    if (atomic_load(&launch->no_memory)) {
        return launch_refuse(sim, SIM_NO_MEMORY, launch->name, "out of memory");
    }
    return atomic_load(&launch->stop)
               ? launch_refuse(sim, SIM_RUN_ERROR, launch->name, "the run ended with an error")
               : SIM_OK;
}

/* In these modes a later launch sees a launch's stores only if it is ordered after them. */
static bool delays_stores(const struct sim *sim) {
    return sim->options.mode != SIM_EAGER && (sim->options.mode != SIM_RANDOM || sim->options.seed % 2 != 0);
}

static int run_in_order(struct sim *sim, struct launch *launch) {
    if (!order_begin(sim->order, &launch->order, launch->kernel->name, launch->module, launch->dependent,
                     launch->checks && delays_stores(sim))) {
        return launch_refuse(sim, SIM_NO_MEMORY, launch->name, "out of memory");
    }
    launch->races = launch->checks ? races_make() : NULL;
    int status = launch->checks && launch->races == NULL
                     ? launch_refuse(sim, SIM_NO_MEMORY, launch->name, "out of memory")
                     : run_workers(sim, launch);
    races_free(launch->races);
    bool ended = order_end(sim->order, &launch->order);
    return ended || status == SIM_NO_MEMORY ? status
                                            : launch_refuse(sim, SIM_NO_MEMORY, launch->name, "out of memory");
}

/* Begins what a reader sees of the launch. */
static void tell_progress(struct launch *launch, const char *kernel, uint64_t ctas) {
    struct sim_progress *progress = launch->sim->options.progress;
    struct timespec now;
    if (progress == NULL) {
        return;
    }
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    const bool again =
        ctas == progress->size && strncmp(progress->kernel, kernel, sizeof progress->kernel - 1) == 0;
    progress->expected = again ? progress->instructions : 0;
    progress->size = ctas;
    (void)snprintf(progress->kernel, sizeof progress->kernel, "%s", kernel);
    progress->began_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    __atomic_store_n(&progress->ended, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&progress->instructions, 0, __ATOMIC_RELAXED);
    __atomic_store_n(&progress->ctas, ctas, __ATOMIC_RELEASE);
    launch->progress = progress;
}

static double seconds_between(const struct timespec *begin, const struct timespec *end) {
    return (double)(end->tv_sec - begin->tv_sec) + (double)(end->tv_nsec - begin->tv_nsec) * 1e-9;
}

int sim_launch(struct sim *sim, struct sim_module *module, const char *kernel,
               const struct sim_launch_attributes *attributes) {
    struct launch launch = {.sim = sim,
                            .module = module->ptx,
                            .name = kernel,
                            .mode = sim->options.mode,
                            .seed = sim->options.seed,
                            .checks = !sim->options.no_checks,
                            .dependent = attributes->programmatic_dependent,
                            .timing = sim->timing,
                            .schedule = sim->schedule,
                            .no_values = sim->options.no_values};
    struct timespec begin, end, cpu_begin, cpu_end;
    (void)clock_gettime(CLOCK_MONOTONIC, &begin);
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu_begin);
    launch.kernel = ptx_find_entry(module->ptx, kernel);
    if (launch.kernel == NULL || !launch.kernel->is_defined) {
        return launch_refuse(sim, SIM_NO_KERNEL, kernel, "no such kernel in the module");
    }
    int status = launch_lay_out(sim, &launch, attributes);
    void *workspace = NULL; /* per launch, so that it creates no order between launches */
    if (status == SIM_OK && attributes->cooperative) {
        workspace = sim_alloc(sim, WORKSPACE_BYTES, "the grid's barrier");
        launch.workspace = (uintptr_t)workspace;
        status = workspace != NULL ? status : launch_refuse(sim, SIM_NO_MEMORY, kernel, "out of memory");
    }
    if (workspace != NULL) {
        memset(workspace, 0, WORKSPACE_BYTES);
    }
    if (status == SIM_OK && launch_interrupted(&launch)) {
        status = launch_refuse(sim, SIM_RUN_ERROR, kernel, "the run was interrupted");
    }
    if (status == SIM_OK) {
        char why[MESSAGE_BYTES] = "";
        bool classified = launch.timing == NULL || timing_classify(module->ptx, launch.timing, why, sizeof why);
        launch.reordered = launch.timing != NULL && module->ptx->machine != NULL;
        launch.no_values |= launch.reordered; /* registers may be overwritten before an MMA reads them */
        tell_progress(&launch, kernel,
                      launch.ncluster * launch.cluster[0] * launch.cluster[1] * launch.cluster[2]);
        status = classified       ? run_in_order(sim, &launch)
                 : why[0] == '\0' ? launch_refuse(sim, SIM_NO_MEMORY, kernel, "out of memory")
                                  : launch_refuse(sim, SIM_BAD_ARGUMENT, kernel, why);
        if (launch.progress != NULL) {
            __atomic_store_n(&launch.progress->ctas, 0, __ATOMIC_RELEASE);
        }
    }
    launch_free(&launch);
    if (workspace != NULL) {
        (void)sim_free(sim, workspace);
    }
    (void)clock_gettime(CLOCK_MONOTONIC, &end);
    (void)clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu_end);
    sim->counters.launches++;
    sim->counters.seconds += seconds_between(&begin, &end);
    sim->counters.cpu_seconds += seconds_between(&cpu_begin, &cpu_end);
    return status;
}
