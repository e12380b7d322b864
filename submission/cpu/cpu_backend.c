/* The CPU backend: cuts C into tasks, and runs them on a few threads that live as long as the call.
 *
 * A task is a block of rows by a run of column panels.  Its thread packs the rows of A once, then for each
 * panel and chunk of K packs the rows of B1 and B2 and sweeps the rows of A over them:
 *
 *     A rows -> a_group[tile][group]                          (L2 / L3)
 *     B1, B2 rows -> b_panel, one chunk of K at a time        (L1)
 *     multiply(tile, panel) -> accumulators[tile]             (L1 / L2)
 *     epilogue(accumulators) -> C
 *
 * No thread outlives the call, so forking and other thread pools in the process are no concern.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __x86_64__
#include <cpuid.h>
#endif

#include "kernels.h"

#define ISA_VARIABLE     "NVFP4_CPU_ISA"
#define THREADS_VARIABLE "OMP_NUM_THREADS"

enum {
    CACHE_LINE_BYTES = 64,
    MAX_THREADS = 256,
    ISA_LIST_BYTES = 64,
    CPU_NAME_BYTES = 64,
    BLOCK_ROWS = 512,                     /* A rows packed at a time; fewer when K is so long that they ... */
    MAX_PACKED_A_BYTES = 8 * 1024 * 1024, /* ... would leave a last-level cache */
    TASKS_PER_THREAD = 4,                 /* enough to even out threads of unequal speed */
    MACS_PER_THREAD = 4 * 1000 * 1000,    /* below this, a thread costs more than it saves */
};

/* The kernels by falling speed. */
static const struct kernels *const instruction_sets[] = {
#ifdef NVFP4_HAVE_AVX512
    &kernels_avx512,
#endif
#ifdef NVFP4_HAVE_AVX2
    &kernels_avx2,
#endif
    &kernels_portable,
};
enum { INSTRUCTION_SETS = sizeof instruction_sets / sizeof *instruction_sets };

struct work {
    const struct problem *problem;
    const struct kernels *kernels;
    int64_t block_rows;  /* a multiple of TILE_ROWS */
    int64_t task_panels; /* panels of a task */
    int64_t row_blocks;  /* in one batch */
    int64_t panel_runs;  /* in one batch */
    int64_t tasks;       /* in all batches */
    atomic_llong next;   /* the first task that no thread has taken */
};

struct worker {
    struct work *work;
    struct a_group *a;                 /* [block_rows / TILE_ROWS][K / 16] */
    struct accumulators *accumulators; /* [block_rows / TILE_ROWS] */
    struct b_panel *panel;
    void *memory;
};

static int64_t min(int64_t x, int64_t y) {
    return x < y ? x : y;
}

static int32_t choose_kernels(const struct kernels **chosen) {
    const char *wanted = getenv(ISA_VARIABLE);
    if (wanted != NULL && wanted[0] == '\0') {
        wanted = NULL;
    }
    for (int i = 0; i < INSTRUCTION_SETS; i++) {
        if (wanted == NULL ? instruction_sets[i]->supported()
                           : strcmp(wanted, instruction_sets[i]->name) == 0) {
            *chosen = instruction_sets[i];
            if (!instruction_sets[i]->supported()) {
                return set_message(CUSTOM_KERNEL_ERROR_UNAVAILABLE,
                                   ISA_VARIABLE " is '%s', which this machine cannot run", wanted);
            }
            return CUSTOM_KERNEL_OK;
        }
    }
    char built[ISA_LIST_BYTES] = "";
    for (int i = 0; i < INSTRUCTION_SETS; i++) {
        size_t used = strlen(built);
        (void)snprintf(built + used, sizeof built - used, "%s%s", i == 0 ? "" : ", ",
                       instruction_sets[i]->name);
    }
    return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT,
                       ISA_VARIABLE " is '%.64s'; expected one of the instruction sets built in: %s", wanted,
                       built);
}

/* The first number of OMP_NUM_THREADS if that is at least 1, else the number of processors that this process
 * may run on. */
static int64_t wanted_threads(void) {
    const char *variable = getenv(THREADS_VARIABLE);
    long threads = variable != NULL ? strtol(variable, NULL, 10) : 0;
    if (threads < 1) {
        cpu_set_t processors;
        threads = sched_getaffinity(0, sizeof processors, &processors) == 0 ? CPU_COUNT(&processors) : 1;
    }
    return min(threads, MAX_THREADS);
}

static void cut_into_tasks(struct work *work, int64_t threads) {
    const struct problem *problem = work->problem;
    int64_t tile_bytes = problem->k / NVFP4_GROUP_ELEMS * (int64_t)sizeof(struct a_group);
    int64_t tiles = min(BLOCK_ROWS / TILE_ROWS, MAX_PACKED_A_BYTES / tile_bytes);
    work->block_rows = min(tiles > 0 ? tiles : 1, ceil_div(problem->m, TILE_ROWS)) * TILE_ROWS;
    work->row_blocks = ceil_div(problem->m, work->block_rows);
    int64_t panels = ceil_div(problem->n, PANEL_COLS);
    int64_t runs = threads > 1 ? ceil_div(threads * TASKS_PER_THREAD, problem->l) : 1;
    work->task_panels = ceil_div(panels, min(panels, runs));
    work->panel_runs = ceil_div(panels, work->task_panels);
    work->tasks = problem->l * work->row_blocks * work->panel_runs;
    atomic_init(&work->next, 0);
}

static int allocate(struct worker *worker, struct work *work) {
    int64_t tiles = work->block_rows / TILE_ROWS;
    size_t panel_bytes = sizeof(struct b_panel);
    size_t accumulator_bytes = (size_t)tiles * sizeof(struct accumulators);
    size_t a_bytes = (size_t)(tiles * (work->problem->k / NVFP4_GROUP_ELEMS)) * sizeof(struct a_group);
    worker->work = work;
    if (posix_memalign(&worker->memory, CACHE_LINE_BYTES, panel_bytes + accumulator_bytes + a_bytes) != 0) {
        worker->memory = NULL;
        return 0;
    }
    worker->panel = worker->memory;
    worker->accumulators = (struct accumulators *)((char *)worker->memory + panel_bytes);
    worker->a = (struct a_group *)((char *)worker->memory + panel_bytes + accumulator_bytes);
    return 1;
}

static struct operand operand_of(const struct problem *problem, const uint8_t *fp4, const uint8_t *scales,
                                 int64_t rows, int64_t batch) {
    int64_t scale_bytes = scale_batch_bytes(problem->scale_layout, rows, problem->k / NVFP4_GROUP_ELEMS);
    return (struct operand){
        .fp4 = fp4 + batch * rows * (problem->k / 2),
        .scales = scales + batch * scale_bytes,
        .k = problem->k,
        .scale_layout = problem->scale_layout,
    };
}

static void run_panel(const struct worker *worker, const struct operand b[2], int64_t batch, int64_t first_row,
                      int64_t rows, int64_t first_col) {
    const struct problem *problem = worker->work->problem;
    const struct kernels *kernels = worker->work->kernels;
    int64_t groups = problem->k / NVFP4_GROUP_ELEMS, tiles = ceil_div(rows, TILE_ROWS);
    int cols = (int)min(PANEL_COLS, problem->n - first_col);
    memset(worker->accumulators, 0, (size_t)tiles * sizeof *worker->accumulators);
    for (int64_t group = 0; group < groups; group += CHUNK_GROUPS) {
        int chunk = (int)min(CHUNK_GROUPS, groups - group);
        for (int which = 0; which < 2; which++) {
            kernels->pack_b(worker->panel, which, &b[which], first_col, cols, group, chunk);
        }
        for (int64_t tile = 0; tile < tiles; tile++) {
            kernels->multiply(&worker->accumulators[tile], worker->a + tile * groups + group, worker->panel,
                              chunk);
        }
    }
    uint16_t *c = problem->c + (batch * problem->m + first_row) * problem->n + first_col;
    for (int64_t tile = 0; tile < tiles; tile++) {
        int tile_rows = (int)min(TILE_ROWS, rows - tile * TILE_ROWS);
        kernels->epilogue(&worker->accumulators[tile], c + tile * TILE_ROWS * problem->n, problem->n, tile_rows,
                          cols);
    }
}

static void *run_tasks(void *argument) {
    const struct worker *worker = argument;
    struct work *work = worker->work;
    const struct problem *problem = work->problem;
    int64_t groups = problem->k / NVFP4_GROUP_ELEMS, panels = ceil_div(problem->n, PANEL_COLS);
    int64_t packed = -1; /* which block of A this worker holds */
    for (int64_t task; (task = atomic_fetch_add(&work->next, 1)) < work->tasks;) {
        int64_t run = task % work->panel_runs, block = task / work->panel_runs;
        int64_t batch = block / work->row_blocks, first_row = block % work->row_blocks * work->block_rows;
        int64_t rows = min(work->block_rows, problem->m - first_row);
        if (block != packed) {
            struct operand a = operand_of(problem, problem->a, problem->sfa, problem->m, batch);
            for (int64_t row = 0; row < rows; row += TILE_ROWS) {
                pack_a(worker->a + row / TILE_ROWS * groups, &a, first_row + row,
                       (int)min(TILE_ROWS, rows - row));
            }
            packed = block;
        }
        struct operand b[2] = {
            operand_of(problem, problem->b1, problem->sfb1, problem->n, batch),
            operand_of(problem, problem->b2, problem->sfb2, problem->n, batch),
        };
        int64_t end = min(panels, (run + 1) * work->task_panels);
        for (int64_t panel = run * work->task_panels; panel < end; panel++) {
            run_panel(worker, b, batch, first_row, rows, panel * PANEL_COLS);
        }
    }
    return NULL;
}

static int32_t run(const struct problem *problem) {
    struct work work = {.problem = problem};
    int32_t status = choose_kernels(&work.kernels);
    if (status != CUSTOM_KERNEL_OK) {
        return status;
    }
    double macs = 2.0 * (double)problem->l * (double)problem->m * (double)problem->n * (double)problem->k;
    int64_t threads = macs < 2.0 * MACS_PER_THREAD ? 1 : wanted_threads();
    threads = macs < (double)threads * MACS_PER_THREAD ? (int64_t)(macs / MACS_PER_THREAD) : threads;
    cut_into_tasks(&work, threads);
    threads = min(threads, work.tasks);

    struct worker workers[MAX_THREADS];
    if (!allocate(&workers[0], &work)) {
        return set_message(CUSTOM_KERNEL_ERROR_OUT_OF_MEMORY,
                           "no host memory to pack %lld rows of A with k = %lld", (long long)work.block_rows,
                           (long long)problem->k);
    }
    /* The calling thread works too; if the others get no memory or cannot start, it does their share. */
    pthread_t handles[MAX_THREADS];
    int64_t started = 1;
    while (started < threads && allocate(&workers[started], &work)) {
        if (pthread_create(&handles[started], NULL, run_tasks, &workers[started]) != 0) {
            free(workers[started].memory);
            break;
        }
        started++;
    }
    (void)run_tasks(&workers[0]);
    for (int64_t i = 1; i < started; i++) {
        (void)pthread_join(handles[i], NULL);
        free(workers[i].memory);
    }
    free(workers[0].memory);
    return CUSTOM_KERNEL_OK;
}

/* The processor's name after a comma; "" where it tells none.
 * HW: CPUID leaves 0x80000002 to 0x80000004 hold it, padded with blanks or zeros (AMD64 manual, volume 3). */
static void read_cpu_name(char name[static CPU_NAME_BYTES]) {
    name[0] = '\0';
#ifdef __x86_64__
    uint32_t words[3][4];
    char text[sizeof words + 1];
    for (uint32_t i = 0; i < 3; i++) {
        if (!__get_cpuid(0x80000002u + i, &words[i][0], &words[i][1], &words[i][2], &words[i][3])) {
            return;
        }
    }
    memcpy(text, words, sizeof words);
    text[sizeof words] = '\0';
    size_t start = strspn(text, " "), end = strlen(text);
    while (end > start && text[end - 1] == ' ') {
        end--;
    }
    if (end > start) {
        (void)snprintf(name, CPU_NAME_BYTES, ", %.*s", (int)(end - start), text + start);
    }
#endif
}

static int available(int32_t device, char *detail, size_t detail_bytes) {
    (void)device;
    if (detail != NULL) {
        const struct kernels *kernels;
        char cpu_name[CPU_NAME_BYTES];
        if (choose_kernels(&kernels) != CUSTOM_KERNEL_OK) {
            (void)snprintf(detail, detail_bytes, "%s", custom_kernel_message());
            return 0;
        }
        long long threads = wanted_threads();
        read_cpu_name(cpu_name);
        (void)snprintf(detail, detail_bytes, "%s, %lld thread%s%s", kernels->detail, threads,
                       threads == 1 ? "" : "s", cpu_name);
    }
    return 1;
}

const struct backend cpu_backend = {
    .id = CUSTOM_KERNEL_BACKEND_CPU,
    .name = "cpu",
    .available = available,
    .run = run,
};
