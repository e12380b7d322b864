/* Shared by all microbenchmarks: clocks on the device; launches, medians and reports on the host.
 *
 * Each microbenchmark is a small kernel that measures one property of the chip. The same program runs on a card
 * and on the simulator, and prints a JSON object for each value:
 *   {"name": "wgmma_cycles", "parameters": {"n": 64, ...}, "value": 32.0, "unit": "cycles"}
 * A value is the median over launches of one process. Cycles are those of the SM's clock64. */
#ifndef HARNESS_CUH
#define HARNESS_CUH

#include <cuda.h>
#include <cuda_runtime.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../../submission/gpu/instructions/ptx.cuh"

#define WARP_LANES       32
#define WARPGROUP_LANES  128
#define MAX_CTA_SHARED   232448 /* HW: 227 KB a CTA on compute capability 9.0 (CUDA programming guide) */
#define SWIZZLE_ROW      128    /* HW: the widest swizzle row (CUDA driver API, tensor maps) */
#define SWIZZLE_ATOM     1024 /* HW: alignment of a 128-byte swizzle atom (PTX ISA, shared-memory descriptor) */
#define LAUNCHES         9    /* launches per median */
#define WARM_UP_LAUNCHES 2
#define HOLD_CYCLES      4000000 /* 2 ms: longer than the host takes to enqueue a row of kernels */

/* ---- device ---- */

static __device__ __forceinline__ uint64_t clock64_now(void) {
    uint64_t now;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(now)::"memory");
    return now;
}

static __device__ __forceinline__ uint64_t globaltimer_now(void) {
    uint64_t now;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now)::"memory");
    return now;
}

static __device__ __forceinline__ void wait_parity(struct mbarrier barrier, uint32_t parity) {
    while (!mbarrier_try_wait_parity(barrier, parity)) {
    }
}

static __device__ __forceinline__ void spin(uint64_t cycles) {
    uint64_t until = clock64_now() + cycles;
    while (clock64_now() < until) {
    }
}

/* The first shared address of `memory` that a swizzle atom can begin at. */
static __device__ __forceinline__ uint32_t swizzle_aligned(const unsigned char *memory) {
    uint32_t misaligned = cvta_to_shared(memory) % SWIZZLE_ATOM;
    return cvta_to_shared(memory) + (SWIZZLE_ATOM - misaligned) % SWIZZLE_ATOM;
}

/* Keeps the first and the last clock of a CTA's warps, which read the same SM's clock. */
static __device__ __forceinline__ void note_span(uint64_t *span, uint64_t start, uint64_t end) {
    atomicMin((unsigned long long *)&span[0], (unsigned long long)start);
    atomicMax((unsigned long long *)&span[1], (unsigned long long)end);
}

/* ---- host ---- */

struct shape {
    int ctas, threads, cluster, shared_bytes;
};

/* Ends the program with `what` failed, unless `error` is success. */
void check(const char *what, cudaError_t error);
/* Prints a value; `parameters` is the inside of a JSON object. */
void report(const char *name, const char *parameters, double value, const char *unit);
/* report with parameters that printf formats. */
void reportf(const char *name, double value, const char *unit, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
double median(double *values, int count);
/* A device buffer of 64-bit words that lives as long as the program. */
uint64_t *results(int words);
/* Device memory, all bytes 0. */
unsigned char *zeroed(size_t bytes);
/* Lets the kernel have that much dynamic shared memory. */
void allow_shared(const void *kernel, int bytes);
/* Launches `kernel` and waits for it. */
void launch(const void *kernel, struct shape shape, void **arguments);
/* A stream; enqueue puts a kernel on it. dependent: as a programmatic dependent launch. */
cudaStream_t queue(void);
void enqueue(const void *kernel, struct shape shape, bool dependent, void **arguments);
/* Enqueues a kernel that spins for HOLD_CYCLES, so that what follows is enqueued before it starts. */
void hold_queue(void);
/* The median over launches of words[1] - words[0], which the kernel leaves by note_span. */
double measured_span(const void *kernel, struct shape shape, void **arguments, uint64_t *words);
/* Replaces L2's contents. */
void flush_l2(void);
int sm_count(void);
/* A tensor map of `bytes` of memory as rows of halves, with boxes of `rows` of them; rows of SWIZZLE_ROW bytes
 * are swizzled. */
CUtensorMap tensor_map(unsigned char *memory, size_t bytes, uint32_t row_bytes, uint32_t rows);

#define MOST_RESULTS (1 << 16)

/* The median us of one of `count` runs of `enqueue_one` in a row, all enqueued before the first starts. */
template <class Enqueue> static double queued_us(int count, Enqueue enqueue_one) {
    cudaEvent_t start, end;
    check("event", cudaEventCreate(&start));
    check("event", cudaEventCreate(&end));
    double us[LAUNCHES];
    for (int i = -WARM_UP_LAUNCHES; i < LAUNCHES; i++) {
        hold_queue();
        check("event", cudaEventRecord(start, queue()));
        for (int k = 0; k < count; k++) {
            enqueue_one();
        }
        check("event", cudaEventRecord(end, queue()));
        check("row", cudaStreamSynchronize(queue()));
        float ms;
        check("event", cudaEventElapsedTime(&ms, start, end));
        if (i >= 0) {
            us[i] = ms * 1e3 / count;
        }
    }
    check("event", cudaEventDestroy(start));
    check("event", cudaEventDestroy(end));
    return median(us, LAUNCHES);
}

/* ---- the groups of benchmarks ---- */

void alu(void);
void shared_memory(void);
void tensor(void);
void copies(void);
void copy_rates(void);
void synchronisation(void);
void clusters(void);
void launches(void);
void overlap(void);
void traffic(void);

#endif
