/* A launch: checks, layout of the functions' registers and frames, worker threads. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "async/async.h"
#include "clock/timing.h"
#include "hazard/order.h"
#include "hazard/races.h"
#include "interp.h"

#define MAX_WORKERS       64
#define MAX_SHARED_WINDOW (1u << 21) /* enough to say that it is too much */
/* Of a warp, with all functions that its kernel may call. */
#define MAX_REGISTER_BYTES ((uint64_t)128 << 20)
#define MAX_LOCAL_BYTES    ((uint64_t)4 << 20) /* a thread */
#define MAX_THREADS        1024
#define MAX_NESTING        1000 /* of calls; more than MAX_CALL_DEPTH cannot be executed anyway */

static int refuse(struct sim *sim, int status, const char *kernel, const char *why) {
    if (status != SIM_RUN_ERROR) {
        sim_refuse(sim, kernel, why);
    }
    sim->status = status;
    (void)snprintf(sim->message, sizeof sim->message, "%s (kernel %s)", why, kernel);
    return status;
}

static uint32_t round_up(uint64_t value, uint64_t unit) {
    return (uint32_t)((value + unit - 1) / unit * unit);
}

/* Places a function and what it calls; recursion comes back to a function that is open.  NULL, or what is
 * wrong. */
static const char *place_function(struct launch *launch, const struct function *function, uint8_t *open,
                                  uint32_t depth) {
    static const char recursion[] = "it calls itself, or a function without a body";
    if (open[function->index]) {
        return recursion;
    }
    if (function->unreadable != NULL) {
        return function->unreadable; /* PTX text of another function may be sound */
    }
    if (launch->reg_base[function->index] != UINT32_MAX || !function->is_defined) {
        return function->is_defined || function->builtin != BUILTIN_NONE ? NULL : recursion;
    }
    if (depth > MAX_NESTING ||
        (uint64_t)launch->reg_bytes + launch->pred_bytes + function->reg_bytes + function->pred_bytes >
            MAX_REGISTER_BYTES ||
        (uint64_t)launch->local_bytes + function->local_bytes > MAX_LOCAL_BYTES) {
        return "its functions have more registers, local memory or nested calls than the simulator has room "
               "for";
    }
    launch->reg_base[function->index] = launch->reg_bytes;
    launch->pred_base[function->index] = launch->pred_bytes;
    launch->local_base[function->index] = launch->local_bytes;
    launch->reg_bytes += function->reg_bytes;
    launch->pred_bytes += round_up(function->pred_bytes, 16);
    launch->local_bytes += round_up(function->local_bytes, 16);
    for (uint32_t pc = function->first_pc; pc < function->end_pc; pc++) {
        launch->uses_wgmma |= launch->module->code[pc].reg_async;
    }
    open[function->index] = 1;
    for (uint32_t i = 0; i < function->ncalls; i++) {
        const char *wrong = place_function(launch, function->calls[i], open, depth + 1);
        if (wrong != NULL) {
            return wrong;
        }
    }
    open[function->index] = 0;
    return NULL;
}

/* The static shared variables that the placed functions name, in the order of their declarations. */
static void place_shared(struct launch *launch) {
    const struct module *module = launch->module;
    for (uint32_t i = 0; i < module->nfunctions; i++) {
        const struct function *function = module->functions[i];
        for (uint32_t j = 0; launch->reg_base[i] != UINT32_MAX && j < function->nspecials; j++) {
            if (function->specials[j].variable != NULL) {
                launch->shared_at[function->specials[j].variable->index] = 1;
            }
        }
    }
    uint32_t end = SHARED_RESERVED;
    for (uint32_t i = 0; i < module->nvariables; i++) {
        const struct variable *variable = module->variables[i];
        if (launch->shared_at[i] != 0 && end < MAX_SHARED_WINDOW) {
            launch->shared_at[i] = round_up(end, variable->align);
            end = launch->shared_at[i] + (uint32_t)variable->bytes;
        }
    }
    launch->static_shared = end - SHARED_RESERVED;
}

/* HW: CUDA programming guide, technical specifications per compute capability (9.0, 10.0). */
static const uint32_t most_ctas[] = {INT32_MAX, UINT16_MAX, UINT16_MAX}, most_block_z = 64;

static uint64_t at_most(uint64_t value, uint64_t limit) {
    return value < limit ? value : limit;
}

static int check_shape(struct sim *sim, struct launch *launch, const struct sim_launch_attributes *a) {
    const struct function *kernel = launch->kernel;
    uint64_t threads = 1, clusters = 1, ctas = 1;
    for (int i = 0; i < 3; i++) {
        launch->grid[i] = a->grid[i];
        launch->block[i] = a->block[i];
        launch->cluster[i] = a->cluster[i] != 0        ? a->cluster[i]
                             : kernel->cluster[i] != 0 ? kernel->cluster[i]
                                                       : 1;
        launch->clustered |= a->cluster[i] != 0 || kernel->cluster[i] != 0;
        if (launch->grid[i] == 0 || launch->block[i] == 0 || launch->grid[i] % launch->cluster[i] != 0) {
            return refuse(sim, SIM_BAD_ARGUMENT, launch->name,
                          "grid, block or cluster is zero or does not divide");
        }
        if (launch->grid[i] > most_ctas[i]) {
            return refuse(sim, SIM_BAD_ARGUMENT, launch->name, "a grid beyond 2147483647 x 65535 x 65535");
        }
        launch->clusters[i] = launch->grid[i] / launch->cluster[i];
        threads *= at_most(launch->block[i], 2 * MAX_THREADS); /* no product can wrap */
        clusters *= launch->clusters[i];
        ctas *= at_most(launch->cluster[i], 2 * MAX_CLUSTER);
    }
    uint64_t most = kernel->maxntid[0] != 0
                        ? (uint64_t)kernel->maxntid[0] * kernel->maxntid[1] * kernel->maxntid[2]
                        : MAX_THREADS;
    if (threads > most || threads > MAX_THREADS) {
        return refuse(sim, SIM_BAD_ARGUMENT, launch->name,
                      "more threads in a block than the kernel or chip allows");
    }
    if (launch->block[2] > most_block_z) {
        return refuse(sim, SIM_BAD_ARGUMENT, launch->name, "a block of more than 64 threads in z");
    }
    bool small = launch->module->sm >= 120; /* HW: Blackwell tuning guide: 8, 16 on a B200 */
    if (ctas > (small ? MAX_CLUSTER_SM_120 : MAX_CLUSTER)) {
        return refuse(sim, SIM_BAD_ARGUMENT, launch->name,
                      small ? "more than 8 CTAs in a cluster" : "more than 16 CTAs in a cluster");
    }
    launch->threads = (uint32_t)threads;
    launch->warps = (uint32_t)(threads + LANES - 1) / LANES;
    launch->ncluster = clusters;
    launch->dynamic_shared = a->dynamic_shared_bytes;
    return SIM_OK;
}

/* Says how many arguments the kernel takes and, of the first ones, how many bytes each. */
static int refuse_arguments(struct sim *sim, const struct launch *launch, size_t given) {
    enum { TOLD = 16 };
    const struct function *kernel = launch->kernel;
    char why[256];
    int length = snprintf(why, sizeof why, "the wrong number of arguments: %zu given; it takes %u", given,
                          kernel->nparams);
    for (uint32_t i = 0; i < kernel->nparams && i < TOLD; i++) {
        length += snprintf(why + length, sizeof why - (size_t)length, "%s%u", i == 0 ? ", of bytes " : ", ",
                           kernel->params[i].bytes);
    }
    if (kernel->nparams > TOLD) {
        (void)snprintf(why + length, sizeof why - (size_t)length, ", ...");
    }
    return refuse(sim, SIM_BAD_ARGUMENT, launch->name, why);
}

static int copy_parameters(struct sim *sim, struct launch *launch, const struct sim_launch_attributes *a) {
    const struct function *kernel = launch->kernel;
    if (a->argument_count != kernel->nparams || (a->arguments == NULL && kernel->nparams > 0)) {
        return refuse_arguments(sim, launch, a->argument_count);
    }
    launch->param_bytes = kernel->param_bytes;
    launch->params = aligned_alloc(128, round_up(kernel->param_bytes + 128, 128));
    if (launch->params == NULL) {
        return refuse(sim, SIM_NO_MEMORY, launch->name, "out of memory");
    }
    memset(launch->params, 0, round_up(kernel->param_bytes + 128, 128));
    for (uint32_t i = 0; i < kernel->nparams; i++) {
        memcpy(launch->params + kernel->params[i].offset, a->arguments[i], kernel->params[i].bytes);
    }
    return SIM_OK;
}

static int lay_out(struct sim *sim, struct launch *launch) {
    uint32_t n = launch->module->nfunctions;
    uint8_t *open = calloc(n + 1, 1);
    launch->reg_base = malloc((n + 1) * sizeof(uint32_t));
    launch->pred_base = calloc(n + 1, sizeof(uint32_t));
    launch->local_base = calloc(n + 1, sizeof(uint32_t));
    launch->shared_at = calloc(launch->module->nvariables + 1, sizeof(uint32_t));
    if (open == NULL || launch->reg_base == NULL || launch->pred_base == NULL || launch->local_base == NULL ||
        launch->shared_at == NULL) {
        free(open);
        return refuse(sim, SIM_NO_MEMORY, launch->name, "out of memory");
    }
    memset(launch->reg_base, 0xff, (n + 1) * sizeof(uint32_t));
    const char *wrong = place_function(launch, launch->kernel, open, 0);
    free(open);
    if (wrong != NULL) {
        return refuse(sim, SIM_NO_KERNEL, launch->name, wrong);
    }
    place_shared(launch);
    /* Dynamic shared memory starts aligned as its declaration asks. */
    uint32_t align = 16;
    if (launch->module->dynamic_shared >= 0) {
        align = launch->module->variables[launch->module->dynamic_shared]->align;
    }
    launch->static_shared = round_up(launch->static_shared, align < 16 ? 16 : align);
    launch->shared_bytes = launch->static_shared + launch->dynamic_shared;
    bool small = launch->module->sm >= 120; /* HW: compute capability 12.x (CUDA C++ Programming Guide) */
    if (launch->shared_bytes > (small ? MAX_SHARED_SM_120 : MAX_SHARED)) {
        return refuse(sim, SIM_BAD_ARGUMENT, launch->name,
                      small ? "more than 99 KB of shared memory in a CTA"
                            : "more than 227 KB of shared memory in a CTA");
    }
    return SIM_OK;
}

static void add_counters(struct sim_counters *to, const struct sim_counters *from) {
    /* All members up to the seconds are uint64_t. */
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

/* Starts the next cluster of the grid; false where there is none. */
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

/* Runs every resident cluster as far as it gets; whether one of them has ended. */
static bool run_residents(struct worker *worker) {
    bool ended = false;
    for (uint32_t i = 0; i < worker->active;) {
        struct cluster *cluster = worker->resident[i];
        if (run_cluster(cluster) == CLUSTER_IDLE) {
            i++;
            continue;
        }
        worker->counters.ctas += cluster->nctas;
        if (cluster->failed) {
            atomic_store(&worker->launch->stop, true);
        }
        worker->resident[i] = worker->resident[--worker->active];
        worker->resident[worker->active] = cluster;
        ended = true;
    }
    return ended;
}

/* One cluster at a time, and another beside it where all can only poll: as many as the chip holds. */
static void run_clusters(struct worker *worker) {
    struct launch *launch = worker->launch;
    bool more = true;
    while (!atomic_load(&launch->stop)) {
        if (more && worker->active < worker->room) {
            more = start_next(worker);
        }
        if (worker->active == 0) {
            break;
        }
        bool ended = run_residents(worker);
        if (!ended && (!more || worker->active == worker->room) && atomic_load(&launch->working) > 1) {
            (void)sched_yield(); /* what is polled may come from another worker */
        }
    }
    while (worker->active > 0) { /* stopped by another worker */
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
        async_clear(worker->resident[i]); /* of a run that was cut short */
        cluster_free(worker->resident[i]);
    }
    return NULL;
}

static uint32_t resident_room(const struct launch *launch, int workers) {
    uint32_t ctas = launch->cluster[0] * launch->cluster[1] * launch->cluster[2];
    uint32_t room = launch->sim->options.sms / ctas / (uint32_t)workers;
    return room == 0 ? 1 : room;
}

static int run_workers(struct sim *sim, struct launch *launch) {
    int count = sim->options.threads > 0 ? sim->options.threads : (int)sysconf(_SC_NPROCESSORS_ONLN);
    count = count > MAX_WORKERS ? MAX_WORKERS : count < 1 ? 1 : count;
    count = launch->timing != NULL ? 1 : count;
    count = (uint64_t)count > launch->ncluster ? (int)launch->ncluster : count;
    struct worker *workers = calloc((size_t)count, sizeof *workers);
    uint32_t room = launch->timing != NULL ? timed_room(launch) : resident_room(launch, count);
    struct cluster **residents = calloc((size_t)count * room, sizeof(struct cluster *));
    if (workers == NULL || residents == NULL) {
        free(workers);
        free(residents);
        return refuse(sim, SIM_NO_MEMORY, launch->name, "out of memory");
    }
    int started = 1;
    for (int i = 0; i < count; i++) {
        workers[i].launch = launch;
        workers[i].index = (uint32_t)i;
        workers[i].room = room;
        workers[i].resident = residents + (size_t)i * room;
    }
    while (started < count && pthread_create(&workers[started].thread, NULL, work, &workers[started]) == 0) {
        started++; /* fewer do as well */
    }
    (void)work(&workers[0]);
    add_counters(&sim->counters, &workers[0].counters);
    for (int i = 1; i < started; i++) {
        (void)pthread_join(workers[i].thread, NULL);
        add_counters(&sim->counters, &workers[i].counters);
    }
    free(workers);
    free(residents);
    if (atomic_load(&launch->no_memory)) {
        return refuse(sim, SIM_NO_MEMORY, launch->name, "out of memory");
    }
    return atomic_load(&launch->stop) ? refuse(sim, SIM_RUN_ERROR, launch->name, "the run ended with an error")
                                      : SIM_OK;
}

/* In these modes stores of a launch are as late as its successors have to allow. */
static bool delays_stores(const struct sim *sim) {
    return sim->options.mode != SIM_EAGER && (sim->options.mode != SIM_RANDOM || sim->options.seed % 2 != 0);
}

static int run_in_order(struct sim *sim, struct launch *launch) {
    if (!order_begin(sim->order, &launch->order, launch->kernel->name, launch->module, launch->dependent,
                     launch->checks && delays_stores(sim))) {
        return refuse(sim, SIM_NO_MEMORY, launch->name, "out of memory");
    }
    launch->races = launch->checks ? races_make() : NULL;
    int status = launch->checks && launch->races == NULL
                     ? refuse(sim, SIM_NO_MEMORY, launch->name, "out of memory")
                     : run_workers(sim, launch);
    races_free(launch->races);
    bool ended = order_end(sim->order, &launch->order);
    return ended || status == SIM_NO_MEMORY ? status
                                            : refuse(sim, SIM_NO_MEMORY, launch->name, "out of memory");
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
    struct timespec begin, end;
    (void)clock_gettime(CLOCK_MONOTONIC, &begin);
    launch.kernel = ptx_find_entry(module->ptx, kernel);
    if (launch.kernel == NULL || !launch.kernel->is_defined) {
        return refuse(sim, SIM_NO_KERNEL, kernel, "no such kernel in the module");
    }
    int status = check_shape(sim, &launch, attributes);
    status = status == SIM_OK ? lay_out(sim, &launch) : status;
    status = status == SIM_OK ? copy_parameters(sim, &launch, attributes) : status;
    if (status == SIM_OK) {
        bool classified = launch.timing == NULL || timing_classify(module->ptx);
        status = classified ? run_in_order(sim, &launch) : refuse(sim, SIM_NO_MEMORY, kernel, "out of memory");
    }
    free(launch.reg_base);
    free(launch.pred_base);
    free(launch.local_base);
    free(launch.shared_at);
    free(launch.params);
    (void)clock_gettime(CLOCK_MONOTONIC, &end);
    sim->counters.launches++;
    sim->counters.seconds += (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) * 1e-9;
    return status;
}
