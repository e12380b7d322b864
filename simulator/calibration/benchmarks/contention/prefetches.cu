/* A load of a line that L2 was asked for before: how much sooner it comes; and what it takes to ask. */
#include "micro.cuh"

#define LINES      16
#define LINE_BYTES 4096 /* apart: no load brings another's line */
#define BULK_WAIT  1000 /* cycles: then what was asked for has come */

/* One thread; of each line the cycles of its load, so long after L2 was asked for it. */
static __global__ void prefetch_kernel(uint64_t *spans, const unsigned char *bytes, uint32_t asked,
                                       uint32_t wait) {
    for (uint32_t i = 0; i < LINES; i++) {
        const unsigned char *line = bytes + i * LINE_BYTES;
        if (asked != 0) {
            prefetch_global_l2(line);
        }
        for (uint64_t until = clock64_now() + wait; clock64_now() < until;) {
        }
        uint64_t start = clock64_now();
        uint32_t word;
        asm volatile("ld.global.u32 %0, [%1];" : "=r"(word) : "l"(line) : "memory");
        if (word != 0) { /* waits for the load; the memory is zero */
            break;
        }
        spans[i] = clock64_now() - start;
    }
}

static void measure(const unsigned char *bytes, uint32_t asked, uint32_t wait) {
    uint64_t *spans = results(LINES);
    double cycles[LAUNCHES];
    for (int i = -WARM_UP_LAUNCHES; i < LAUNCHES; i++) {
        flush_l2();
        void *arguments[] = {&spans, &bytes, &asked, &wait};
        launch((const void *)prefetch_kernel, {1, 1, 1, 0}, arguments);
        uint64_t measured[LINES];
        check("cudaMemcpy", cudaMemcpy(measured, spans, sizeof measured, cudaMemcpyDeviceToHost));
        double of[LINES];
        for (int k = 0; k < LINES; k++) {
            of[k] = (double)measured[k];
        }
        if (i >= 0) {
            cycles[i] = median(of, LINES);
        }
    }
    char parameters[64];
    snprintf(parameters, sizeof parameters, "\"asked\": %u, \"wait\": %u", asked, wait);
    report("load_after_prefetch_cycles", parameters, median(cycles, LAUNCHES), "cycles");
}

/* ---- bulk prefetches ---- */

/* A warp's lanes ask for so many bytes each; spans: cycles until the warp goes on, and of a load of the first
 * lane's bytes afterwards. */
static __global__ void bulk_kernel(uint64_t *spans, const unsigned char *bytes, uint32_t lanes,
                                   uint32_t asked) {
    const unsigned char *from = bytes + threadIdx.x * LINE_BYTES;
    __syncwarp();
    uint64_t start = clock64_now();
    if (threadIdx.x < lanes) {
        asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(asked) : "memory");
    }
    __syncwarp();
    uint64_t end = clock64_now(), loaded = end + BULK_WAIT;
    while (clock64_now() < loaded) {
    }
    loaded = clock64_now();
    uint32_t word;
    asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(word) : "l"(bytes) : "memory");
    if (word == 0 && threadIdx.x == 0) { /* it is: waits for the load */
        spans[0] = end - start;
        spans[1] = clock64_now() - loaded;
    }
}

static void measure_bulk(const unsigned char *bytes, uint32_t lanes, uint32_t asked) {
    uint64_t *spans = results(2);
    double cycles[2][LAUNCHES];
    for (int i = -WARM_UP_LAUNCHES; i < LAUNCHES; i++) {
        flush_l2();
        void *arguments[] = {&spans, &bytes, &lanes, &asked};
        launch((const void *)bulk_kernel, {1, WARP_LANES, 1, 0}, arguments);
        uint64_t measured[2];
        check("cudaMemcpy", cudaMemcpy(measured, spans, sizeof measured, cudaMemcpyDeviceToHost));
        for (int k = 0; i >= 0 && k < 2; k++) {
            cycles[k][i] = (double)measured[k];
        }
    }
    char parameters[64];
    snprintf(parameters, sizeof parameters, "\"lanes\": %u, \"bytes\": %u", lanes, asked);
    report("bulk_prefetch_cycles", parameters, median(cycles[0], LAUNCHES), "cycles");
    report("load_after_bulk_prefetch_cycles", parameters, median(cycles[1], LAUNCHES), "cycles");
}

void prefetches(void) {
    unsigned char *bytes;
    check("cudaMalloc", cudaMalloc((void **)&bytes, LINES * LINE_BYTES));
    check("cudaMemset", cudaMemset(bytes, 0, LINES * LINE_BYTES));
    measure(bytes, 0, 2000);
    for (uint32_t wait = 0; wait <= 2000; wait += wait == 0 ? 250 : wait) {
        measure(bytes, 1, wait);
    }
    check("cudaFree", cudaFree(bytes));
    check("cudaMalloc", cudaMalloc((void **)&bytes, WARP_LANES * LINE_BYTES));
    check("cudaMemset", cudaMemset(bytes, 0, WARP_LANES * LINE_BYTES));
    for (uint32_t lanes = 0; lanes <= WARP_LANES; lanes = lanes == 0 ? 1 : lanes * 2) {
        measure_bulk(bytes, lanes, 256);
    }
    measure_bulk(bytes, WARP_LANES, 1024);
    check("cudaFree", cudaFree(bytes));
}
