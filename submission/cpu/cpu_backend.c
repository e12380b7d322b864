/* The CPU backend: cuts C into tasks and runs them on threads that live as long as the call.  The grouped GEMM
 * has one list of tasks over all groups.
 *
 * A task is a block of rows of C times a run of column panels.  Its thread packs the block's rows of A once,
 * then for each panel and each chunk of K packs the rows of B1 and B2 and multiplies all rows of A with them:
 *
 *     A rows -> a_group[tile][group]                          (L2 / L3)
 *     B1, B2 rows -> b_panel, one chunk of K at a time        (L1)
 *     multiply(tile, panel) -> accumulators[tile]             (L1 / L2)
 *     epilogue(accumulators) -> C
 *
 * No thread outlives the call, so the process may fork and may use other thread pools. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cpu_backend.h"
#include "cpu_machine.h"
#include "cpu_quantize.h"
#include "cpu_routing.h"
#include "extended_epilogue.h"
#include "kernel_set.h"

enum {
    CACHE_LINE_BYTES = 64,
    BLOCK_ROWS = 512,                     /* rows of A packed at a time; fewer for a long K, so that ... */
    MAX_PACKED_A_BYTES = 8 * 1024 * 1024, /* ... a packed block fits a last-level cache */
    NEAR_A_BYTES = 1024 * 1024,           /* packed A up to this size stays in a 2 MB L2 cache */
    TASKS_PER_THREAD = 4,                 /* evens out threads of unequal speed */
    MACS_PER_THREAD = 4 * 1000 * 1000,    /* a thread with fewer costs more than it saves */
};

/* The tasks of one problem: a whole dual GEMM, or one group of the grouped GEMM. */
struct share {
    const struct problem *problem;
    int64_t block_rows;  /* a multiple of the kernels' tile_rows */
    int64_t task_panels; /* panels in a task */
    int64_t row_blocks;  /* per batch */
    int64_t panel_runs;  /* per batch */
    int64_t first_task;  /* number of its first task in the list of all shares */
    double task_macs;    /* multiply-adds in a task of full size */
};

struct work {
    const struct kernels *kernels;
    const struct share *shares; /* longest tasks first */
    int64_t panel_cols;         /* columns of C in a panel (panel_cols_of) */
    int64_t tasks;              /* tasks of all shares */
    size_t tiles, a_groups;     /* most row tiles, and most packed groups of A, in a block */
    int64_t longest_k;
    atomic_llong next; /* the next task to take */
};

struct worker {
    struct work *work;
    char *panels; /* packed B: [kernels->panels] */
    char *sums;   /* accumulators: [kernels->panels][block_rows / tile_rows] */
    char *a;      /* packed A: [block_rows / tile_rows][K / 16] */
    void *memory; /* one allocation for the three above */
};

/* Such a problem has one batch. */
static bool has_16_bit_a(const struct problem *problem) {
    return problem->extension != NULL && problem->extension->a_type != CUSTOM_KERNEL_A_NVFP4;
}

static int64_t min(int64_t x, int64_t y) {
    return x < y ? x : y;
}

/* Multiply-adds of one product. */
static double macs_of(const struct problem *problem) {
    return (double)problem->l * (double)problem->m * (double)problem->n * (double)problem->k;
}

/* Cuts each batch into `runs` runs of panels, or fewer if it has fewer panels. */
static struct share cut_into_tasks(const struct problem *problem, const struct kernels *kernels,
                                   int64_t panel_cols, int64_t runs) {
    struct share share = {.problem = problem};
    int64_t tile_bytes = problem->k / NVFP4_GROUP_ELEMS * (int64_t)kernels->a_group_bytes;
    int64_t tiles = min(BLOCK_ROWS / kernels->tile_rows, MAX_PACKED_A_BYTES / tile_bytes);
    share.block_rows =
        min(tiles > 0 ? tiles : 1, ceil_div(problem->m, kernels->tile_rows)) * kernels->tile_rows;
    share.row_blocks = ceil_div(problem->m, share.block_rows);
    int64_t panels = ceil_div(problem->n, panel_cols);
    share.task_panels = ceil_div(panels, min(panels, runs));
    share.panel_runs = ceil_div(panels, share.task_panels);
    share.task_macs = (double)share.block_rows * (double)share.task_panels * (double)problem->k;
    return share;
}

/* A panel's two halves are the same PANEL_COLS columns of both products, or adjacent columns of one. */
static int64_t panel_cols_of(const struct problem *problem) {
    if (problem->extension != NULL) {
        return extended_panel_cols(problem->extension);
    }
    return problem->b2 != NULL ? PANEL_COLS : 2 * PANEL_COLS;
}

static int allocate(struct worker *worker, struct work *work) {
    const struct kernels *kernels = work->kernels;
    size_t panel_bytes = (size_t)kernels->panels * kernels->panel_bytes;
    size_t sums_bytes = (size_t)kernels->panels * work->tiles * kernels->sums_bytes;
    size_t a_bytes = work->a_groups * kernels->a_group_bytes;
    worker->work = work;
    if (posix_memalign(&worker->memory, CACHE_LINE_BYTES, panel_bytes + sums_bytes + a_bytes) != 0) {
        worker->memory = NULL;
        return 0;
    }
    worker->panels = worker->memory;
    worker->sums = worker->panels + panel_bytes;
    worker->a = worker->sums + sums_bytes;
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

static struct operand a_operand(const struct problem *problem, int64_t batch) {
    if (!has_16_bit_a(problem)) {
        return operand_of(problem, problem->a, problem->sfa, problem->m, batch);
    }
    return (struct operand){.fp4 = problem->a, .k = problem->k, .type = problem->extension->a_type};
}

/* The rows of C that a worker computes. */
struct row_block {
    int64_t batch, first, rows;
};

/* True if multiply_few() computes this panel: packing B does not pay off for so few rows of A. */
static bool is_unpacked(const struct work *work, const struct problem *problem, const struct row_block *block,
                        int64_t panel) {
    return work->kernels->multiply_few != NULL && block->rows <= work->kernels->few_rows &&
           (panel + 1) * work->panel_cols <= problem->n;
}

/* Computes the block's sums for `count` panels from first_panel on, one chunk of K at a time.  A panel's halves
 * hold the same rows of B1 and B2, or adjacent rows of the only B. */
static void multiply_panels(const struct worker *worker, const struct problem *problem,
                            const struct row_block *block, int64_t first_panel, int64_t count) {
    const struct work *work = worker->work;
    const struct kernels *kernels = work->kernels;
    const bool dual = problem->b2 != NULL;
    int64_t groups = problem->k / NVFP4_GROUP_ELEMS, tiles = ceil_div(block->rows, kernels->tile_rows);
    const bool joint = problem->extension != NULL && problem->extension->interleave != 0;
    struct operand b1 =
        operand_of(problem, problem->b1, problem->sfb1, (joint ? 2 : 1) * problem->n, block->batch);
    const struct operand b[2] = {
        b1, dual ? operand_of(problem, problem->b2, problem->sfb2, problem->n, block->batch) : b1};
    memset(worker->sums, 0, (size_t)(count * tiles) * kernels->sums_bytes);
    for (int64_t group = 0; group < groups; group += CHUNK_GROUPS) {
        int chunk = (int)min(CHUNK_GROUPS, groups - group);
        for (int64_t i = 0; i < count; i++) {
            char *panel = worker->panels + (size_t)i * kernels->panel_bytes;
            int64_t first_col = (first_panel + i) * work->panel_cols;
            int cols = (int)min(work->panel_cols, problem->n - first_col);
            int64_t first[2] = {first_col, dual ? first_col : first_col + PANEL_COLS};
            int present[2] = {(int)min(PANEL_COLS, cols), dual ? cols : cols - (int)min(PANEL_COLS, cols)};
            if (problem->extension != NULL) {
                extended_panel_rows(problem->extension, first_col, cols, first, present);
            }
            for (int which = 0; which < 2; which++) {
                if (is_unpacked(work, problem, block, first_panel + i)) {
                    kernels->multiply_few(worker->sums + (size_t)i * kernels->sums_bytes, which,
                                          worker->a + (size_t)group * kernels->a_group_bytes, &b[which],
                                          first[which], group, chunk);
                } else {
                    kernels->pack_b(panel, which, &b[which], first[which], present[which], group, chunk);
                }
            }
        }
        for (int64_t tile = 0; tile < tiles; tile++) {
            const char *a = worker->a + (size_t)(tile * groups + group) * kernels->a_group_bytes;
            int rows = (int)min(kernels->tile_rows, block->rows - tile * kernels->tile_rows);
            for (int64_t i = 0; i < count && !is_unpacked(work, problem, block, first_panel + i); i++) {
                kernels->multiply(worker->sums + (size_t)(i * tiles + tile) * kernels->sums_bytes, a,
                                  worker->panels + (size_t)i * kernels->panel_bytes, rows, chunk);
            }
        }
    }
}

/* Writes these panels' columns of C from the sums, TILE_ROWS rows at a time. */
static void finish_panels(const struct worker *worker, const struct problem *problem,
                          const struct row_block *block, int64_t first_panel, int64_t count) {
    const struct work *work = worker->work;
    const struct kernels *kernels = work->kernels;
    int64_t tiles = ceil_div(block->rows, kernels->tile_rows);
    for (int64_t i = 0; i < count; i++) {
        int64_t first_col = (first_panel + i) * work->panel_cols;
        int cols = (int)min(work->panel_cols, problem->n - first_col);
        uint16_t *c = problem->c + (block->batch * problem->m + block->first) * problem->n + first_col;
        for (int64_t row = 0; row < block->rows; row += TILE_ROWS) {
            const char *sums =
                worker->sums + (size_t)(i * tiles + row / kernels->tile_rows) * kernels->sums_bytes;
            const struct accumulators *accumulators = (const struct accumulators *)(const void *)sums;
            struct accumulators taken;
            if (kernels->take_sums != NULL) {
                kernels->take_sums(&taken, sums, (int)(row % kernels->tile_rows));
                accumulators = &taken;
            }
            int tile_rows = (int)min(TILE_ROWS, block->rows - row);
            if (problem->extension != NULL) {
                extended_epilogue(problem, accumulators, block->first + row, first_col, tile_rows, cols);
                continue;
            }
            (problem->b2 != NULL ? kernels->epilogue : kernels->epilogue_plain)(
                accumulators, c + row * problem->n, problem->n, tile_rows, cols);
        }
        if (problem->extension != NULL && block->first + block->rows == problem->m) {
            extended_pad(problem, first_col, cols);
        }
    }
}

static void *run_tasks(void *argument) {
    const struct worker *worker = argument;
    struct work *work = worker->work;
    const struct share *share = work->shares;
    const struct kernels *kernels = work->kernels;
    int64_t packed = -1; /* first task of the block of A that this worker has packed */
    if (kernels->begin != NULL) {
        kernels->begin();
    }
    for (int64_t task; (task = atomic_fetch_add(&work->next, 1)) < work->tasks;) {
        while (task >= share->first_task + share->problem->l * share->row_blocks * share->panel_runs) {
            share++; /* task numbers only grow */
        }
        const struct problem *problem = share->problem;
        int64_t groups = problem->k / NVFP4_GROUP_ELEMS, panels = ceil_div(problem->n, work->panel_cols);
        int64_t run = (task - share->first_task) % share->panel_runs;
        int64_t block = (task - share->first_task) / share->panel_runs;
        struct row_block rows = {.batch = block / share->row_blocks,
                                 .first = block % share->row_blocks * share->block_rows};
        rows.rows = min(share->block_rows, problem->m - rows.first);
        if (task - run != packed) {
            struct operand a = a_operand(problem, rows.batch);
            a.scale_layout = token_scale_layout(problem);
            for (int64_t row = 0; row < rows.rows; row += kernels->tile_rows) {
                kernels->pack_a(worker->a +
                                    (size_t)(row / kernels->tile_rows * groups) * kernels->a_group_bytes,
                                &a, rows.first + row, (int)min(kernels->tile_rows, rows.rows - row));
            }
            packed = task - run;
        }
        int64_t end = min(panels, (run + 1) * share->task_panels);
        int64_t a_bytes = share->block_rows / kernels->tile_rows * groups * (int64_t)kernels->a_group_bytes;
        int64_t at_once = a_bytes <= NEAR_A_BYTES ? 1 : kernels->panels;
        for (int64_t panel = run * share->task_panels; panel < end; panel += at_once) {
            multiply_panels(worker, problem, &rows, panel, min(at_once, end - panel));
            finish_panels(worker, problem, &rows, panel, min(at_once, end - panel));
        }
    }
    if (kernels->end != NULL) {
        kernels->end();
    }
    return NULL;
}

static int longest_first(const void *x, const void *y) {
    double a = ((const struct share *)x)->task_macs, b = ((const struct share *)y)->task_macs;
    return (a < b) - (a > b);
}

/* Puts all problems' tasks in one list, the longest first, so that no long task starts near the end. */
static void make_list(struct work *work, struct share *shares, const struct problem *problems, int64_t count,
                      double macs, int64_t threads) {
    for (int64_t i = 0; i < count; i++) {
        double of_batch = macs_of(&problems[i]) / (double)problems[i].l;
        int64_t runs = threads > 1 ? (int64_t)ceil((double)(threads * TASKS_PER_THREAD) * of_batch / macs) : 1;
        shares[i] = cut_into_tasks(&problems[i], work->kernels, work->panel_cols, runs);
    }
    qsort(shares, (size_t)count, sizeof *shares, longest_first);
    for (int64_t i = 0; i < count; i++) {
        size_t tiles = (size_t)(shares[i].block_rows / work->kernels->tile_rows);
        size_t a_groups = tiles * (size_t)(shares[i].problem->k / NVFP4_GROUP_ELEMS);
        work->tiles = tiles > work->tiles ? tiles : work->tiles;
        work->longest_k = shares[i].problem->k > work->longest_k ? shares[i].problem->k : work->longest_k;
        work->a_groups = a_groups > work->a_groups ? a_groups : work->a_groups;
        shares[i].first_task = work->tasks;
        work->tasks += shares[i].problem->l * shares[i].row_blocks * shares[i].panel_runs;
    }
    work->shares = shares;
    atomic_init(&work->next, 0);
}

static int64_t most_rows(const struct problem *problems, int64_t count) {
    int64_t rows = 0;
    for (int64_t i = 0; i < count; i++) {
        rows = problems[i].m > rows ? problems[i].m : rows;
    }
    return rows;
}

int32_t cpu_run_problems(const struct problem *problems, int64_t count, int64_t rows) {
    struct work work = {.panel_cols = panel_cols_of(problems)};
    RETURN_IF_FAILED(machine_kernels(rows, &work.kernels));
    work.kernels = has_16_bit_a(problems) ? &kernels_halves : work.kernels;
    struct share *shares = malloc((size_t)count * sizeof *shares);
    if (shares == NULL) {
        return set_message(CUSTOM_KERNEL_ERROR_OUT_OF_MEMORY, "no host memory to list %lld products",
                           (long long)count);
    }
    double macs = 0; /* multiply-adds of one product, all problems together */
    for (int64_t i = 0; i < count; i++) {
        macs += macs_of(&problems[i]);
    }
    double all_macs = macs * (double)(problems->b2 != NULL ? 2 : 1);
    int64_t threads = all_macs < 2.0 * MACS_PER_THREAD ? 1 : machine_threads();
    threads = all_macs < (double)threads * MACS_PER_THREAD ? (int64_t)(all_macs / MACS_PER_THREAD) : threads;
    make_list(&work, shares, problems, count, macs, threads);
    threads = min(threads, work.tasks);

    struct worker workers[MACHINE_MOST_THREADS];
    if (!allocate(&workers[0], &work)) {
        free(shares);
        return set_message(CUSTOM_KERNEL_ERROR_OUT_OF_MEMORY,
                           "no host memory to pack %zu rows of A with k = %lld",
                           work.tiles * (size_t)work.kernels->tile_rows, (long long)work.longest_k);
    }
    /* The calling thread works too, and computes the tasks of threads that cannot start or get no memory. */
    pthread_t handles[MACHINE_MOST_THREADS];
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
    free(shares);
    return CUSTOM_KERNEL_OK;
}

static int32_t run(const struct problem *problem) {
    return cpu_run_problems(problem, 1, problem->m);
}

static int32_t run_grouped(const struct problem *groups, int64_t count) {
    return cpu_run_problems(groups, count, most_rows(groups, count));
}

static int32_t acquire_memory(const struct problem *problem, int64_t bytes, uint8_t **memory) {
    void *found = NULL;
    if (posix_memalign(&found, CACHE_LINE_BYTES, (size_t)bytes) != 0) {
        return set_message(CUSTOM_KERNEL_ERROR_OUT_OF_MEMORY,
                           "no host memory to pad operands with k = %lld: %lld bytes", (long long)problem->k,
                           (long long)bytes);
    }
    *memory = found;
    return CUSTOM_KERNEL_OK;
}

static int32_t release_memory(const struct problem *problem, uint8_t *memory, int32_t status) {
    (void)problem;
    free(memory);
    return status;
}

static int32_t pad(const struct problem *problem, const struct padded_rows *rows) {
    const int64_t tail =
        rows->to_bytes - SCALE_TILE_BYTES; /* where a row's last block of scale factors begins */
    (void)problem;
    for (int64_t row = 0; row < rows->rows; row++) {
        uint8_t *to = rows->to + row * rows->to_bytes;
        memcpy(to, rows->from + row * rows->from_bytes, (size_t)rows->from_bytes);
        memset(to + rows->from_bytes, 0, (size_t)(rows->to_bytes - rows->from_bytes));
        for (int64_t word = 0; rows->last_groups != 0 && word < SCALE_TILE_WORDS; word++) {
            memset(to + tail + word * SCALE_WORD_BYTES + rows->last_groups, 0,
                   (size_t)(SCALE_TILE_GROUPS - rows->last_groups));
        }
    }
    return CUSTOM_KERNEL_OK;
}

static int available(int32_t device, char *detail, size_t detail_bytes) {
    (void)device;
    return detail == NULL || machine_describe(detail, detail_bytes);
}

const struct backend cpu_backend = {
    .id = CUSTOM_KERNEL_BACKEND_CPU,
    .name = "cpu",
    .available = available,
    .run = run,
    .run_grouped = run_grouped,
    .run_extended = run,
    .run_experts = cpu_run_experts,
    .run_quantize = cpu_run_quantize,
    .run_route = cpu_run_route,
    .run_combine = cpu_run_combine,
    .acquire_memory = acquire_memory,
    .release_memory = release_memory,
    .pad = pad,
};
