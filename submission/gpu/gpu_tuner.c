#include "gpu_tuner.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "../core/environment.h"

#define TUNE_VARIABLE "NVFP4_TUNE"
#ifndef NVFP4_TUNE_DEFAULT
#define NVFP4_TUNE_DEFAULT false
#endif

enum {
    MOST_ROWS_OF_SAME_BITS = 32, /* calls of 1 to 8, 9 to 16 and 17 to 32 rows give a row the same bits */
    ROUNDS = 10,                 /* the first one warms up */
    FEWEST_ROUNDS = 4,           /* of a call so long that all would take more than MOST_MS */
    MOST_MS = 20,
    MOST_KNOWN = 512,
    WORTH_TIMING_PERCENT = 130, /* of the least predicted time */
    /* Bytes written between calls, in sizes of L2, and how often: operands come from memory, as on the board,
     * and the host queues a call while the device writes. */
    FLUSHED_L2S = 2,
    FLUSHES = 2,
};
#define CLEARLY 0.97f /* of the preferred way's time */

bool gpu_tunes(int64_t m) {
    const char *wanted = environment(TUNE_VARIABLE);
    const bool on = wanted == NULL || wanted[0] == '\0' ? NVFP4_TUNE_DEFAULT : wanted[0] != '0';
    return on && m > MOST_ROWS_OF_SAME_BITS;
}

int gpu_rank_ways(const int64_t *predicted_ps, int count, int ranked[TUNER_MOST_WAYS]) {
    int found = 0;
    for (int way = 0; way < count; way++) {
        int place = found;
        while (place > 0 && predicted_ps[way] < predicted_ps[ranked[place - 1]]) {
            place--;
        }
        if (place < TUNER_MOST_WAYS && predicted_ps[way] < INT64_MAX) {
            found += found < TUNER_MOST_WAYS;
            for (int i = found - 1; i > place; i--) {
                ranked[i] = ranked[i - 1];
            }
            ranked[place] = way;
        }
    }
    while (found > 1 &&
           predicted_ps[ranked[found - 1]] > predicted_ps[ranked[0]] / 100 * WORTH_TIMING_PERCENT) {
        found--;
    }
    return found;
}

struct tuner {
    const struct problem *problem;
    tuner_run *run;
    const void *ways;
    int count;
    void *flushed;
    size_t flushed_bytes;
    cudaEvent_t begin[TUNER_MOST_WAYS], end[TUNER_MOST_WAYS];
    float ms[TUNER_MOST_WAYS][ROUNDS];
    bool runs[TUNER_MOST_WAYS];
};

static int32_t prepare(struct tuner *tuner) {
    int l2_bytes = 0;
    CHECK_CUDA(cudaDeviceGetAttribute(&l2_bytes, cudaDevAttrL2CacheSize, tuner->problem->device));
    tuner->flushed_bytes = FLUSHED_L2S * (size_t)l2_bytes;
    CHECK_CUDA(cudaMalloc(&tuner->flushed, tuner->flushed_bytes));
    for (int way = 0; way < tuner->count; way++) {
        CHECK_CUDA(cudaEventCreate(&tuner->begin[way]));
        CHECK_CUDA(cudaEventCreate(&tuner->end[way]));
        tuner->runs[way] = true;
    }
    return CUSTOM_KERNEL_OK;
}

static void clean_up(struct tuner *tuner) {
    for (int way = 0; way < tuner->count; way++) {
        cudaEvent_t events[] = {tuner->begin[way], tuner->end[way]};
        for (int i = 0; i < 2; i++) {
            (void)(events[i] != NULL ? cudaEventDestroy(events[i]) : cudaSuccess);
        }
    }
    (void)cudaFree(tuner->flushed);
    (void)cudaGetLastError();
}

/* Every way once; *all_ms grows by the time they took.  A way that fails, as its tiles are too many, is left
 * out. */
static int32_t play_round(struct tuner *tuner, int round, float *all_ms) {
    const struct problem *problem = tuner->problem;
    int last = 0;
    for (int way = 0; way < tuner->count; way++) {
        if (tuner->runs[way]) {
            for (int i = 0; i < FLUSHES; i++) {
                CHECK_CUDA(cudaMemsetAsync(tuner->flushed, 0, tuner->flushed_bytes, problem->queue));
            }
            CHECK_CUDA(cudaEventRecord(tuner->begin[way], problem->queue));
            const int32_t status = tuner->run(problem, tuner->ways, way);
            if (way == 0) {
                RETURN_IF_FAILED(status);
            }
            tuner->runs[way] = status == CUSTOM_KERNEL_OK;
            CHECK_CUDA(cudaEventRecord(tuner->end[way], problem->queue));
            last = way;
        }
    }
    CHECK_CUDA(cudaEventSynchronize(tuner->end[last]));
    for (int way = 0; way < tuner->count; way++) {
        float *ms = &tuner->ms[way][round];
        if (tuner->runs[way]) {
            CHECK_CUDA(cudaEventElapsedTime(ms, tuner->begin[way], tuner->end[way]));
            *all_ms += *ms;
        }
    }
    return CUSTOM_KERNEL_OK;
}

static int ascending(const void *x, const void *y) {
    const float a = *(const float *)x, b = *(const float *)y;
    return (a > b) - (a < b);
}

static float median_ms(struct tuner *tuner, int way, int rounds) {
    float *counted = &tuner->ms[way][1];
    qsort(counted, (size_t)(rounds - 1), sizeof *counted, ascending);
    return counted[(rounds - 1) / 2];
}

static int32_t play(struct tuner *tuner, int *fastest) {
    float all_ms = 0;
    int rounds = 0;
    RETURN_IF_FAILED(prepare(tuner));
    while (rounds < ROUNDS && (rounds < FEWEST_ROUNDS || all_ms < MOST_MS)) {
        RETURN_IF_FAILED(play_round(tuner, rounds++, &all_ms));
    }
    float limit_ms = CLEARLY * median_ms(tuner, 0, rounds);
    for (int way = 1; way < tuner->count; way++) {
        const float ms = tuner->runs[way] ? median_ms(tuner, way, rounds) : limit_ms;
        if (ms < limit_ms) {
            limit_ms = ms;
            *fastest = way;
        }
    }
    return CUSTOM_KERNEL_OK;
}

static int time_ways(const struct problem *problem, tuner_run *run, const void *ways, int count) {
    struct tuner tuner = {.problem = problem, .run = run, .ways = ways, .count = count};
    int fastest = 0;
    (void)play(&tuner, &fastest); /* a failure leaves the first way, whose own call reports what it meets */
    clean_up(&tuner);
    return fastest;
}

int gpu_fastest_way(const struct problem *problem, const struct cache_key *key, tuner_run *run,
                    const void *ways, int count) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct {
        struct cache_key key;
        int way;
    } known[MOST_KNOWN];
    static int used;
    int way = -1;
    if (problem->queue != NULL) {
        return way;
    }
    (void)pthread_mutex_lock(&lock); /* all threads take the same way, so that a call gives the same bits */
    for (int i = 0; i < used && way < 0; i++) {
        way = memcmp(&known[i].key, key, sizeof *key) == 0 ? known[i].way : -1;
    }
    if (way < 0 && used < MOST_KNOWN) {
        way = count > 1 ? time_ways(problem, run, ways, count) : 0;
        known[used].key = *key;
        known[used++].way = way;
    }
    (void)pthread_mutex_unlock(&lock);
    return way;
}
