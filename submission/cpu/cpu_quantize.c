/* The quantizer on the CPU backend: threads, which live as long as the call, take blocks of rows. */
#include "cpu_quantize.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "cpu_machine.h"
#include "kernel_set.h"

enum {
    BLOCK_NUMBERS = 64 * 1024,          /* numbers of x in a block of rows */
    THREAD_NUMBERS = 4 * BLOCK_NUMBERS, /* a thread with fewer costs more than it saves */
};

struct quantize_work {
    const struct quantization *quantization;
    const struct kernels *kernels;
    int64_t block_rows;
    atomic_llong next_row, saturated;
};

static void *quantize_blocks(void *argument) {
    struct quantize_work *work = argument;
    const int64_t m = work->quantization->problem.m;
    for (int64_t row; (row = atomic_fetch_add(&work->next_row, work->block_rows)) < m;) {
        const int64_t rows = m - row < work->block_rows ? m - row : work->block_rows;
        atomic_fetch_add(&work->saturated, work->kernels->quantize_rows(work->quantization, row, rows));
    }
    return NULL;
}

/* Zeroes the scale factors of the rows that a blocked layout adds. */
static void pad_rows(const struct quantization *quantization) {
    const struct problem *problem = &quantization->problem;
    const int64_t tiles = ceil_div(problem->k, SCALE_TILE_K),
                  end = round_up(problem->m, quantized_rows_unit(problem->scale_layout));
    for (int64_t row = problem->m; row < end; row++) {
        for (int64_t tile = 0; tile < tiles; tile++) {
            memset(quantization->scales + quantized_word_offset(problem->scale_layout, row, tile, tiles), 0,
                   SCALE_WORD_BYTES);
        }
    }
}

int32_t cpu_run_quantize(const struct quantization *quantization) {
    const int64_t m = quantization->problem.m, k = quantization->problem.k;
    struct quantize_work work = {
        .quantization = quantization,
        .block_rows = k < BLOCK_NUMBERS ? BLOCK_NUMBERS / k : 1,
    };
    RETURN_IF_FAILED(machine_kernels(m, &work.kernels));
    atomic_init(&work.next_row, 0);
    atomic_init(&work.saturated, 0);
    int64_t threads = machine_threads();
    const double most = (double)m * (double)k / THREAD_NUMBERS;
    threads = most < (double)threads ? (int64_t)most : threads;
    pthread_t handles[MACHINE_MOST_THREADS];
    int64_t started = 1; /* the calling thread works too, and does the work of threads that cannot start */
    while (started < threads && pthread_create(&handles[started], NULL, quantize_blocks, &work) == 0) {
        started++;
    }
    (void)quantize_blocks(&work);
    for (int64_t i = 1; i < started; i++) {
        (void)pthread_join(handles[i], NULL);
    }
    pad_rows(quantization);
    if (quantization->saturated != NULL) {
        *quantization->saturated += atomic_load(&work.saturated);
    }
    return CUSTOM_KERNEL_OK;
}
