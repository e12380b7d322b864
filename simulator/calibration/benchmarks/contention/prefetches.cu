/* Prefetches into L2: how much sooner a load comes after one, and what issuing the prefetch takes. */
#include "harness.cuh"

#define LINES      16
#define LINE_BYTES 4096 /* distance between lines: no load brings another one's line */
#define BULK_WAIT  1000 /* cycles after which a prefetch has completed */

/* One thread; for each line the cycles of its load, `wait` cycles after its prefetch. */
static __global__ void prefetch_kernel(uint64_t *spans, const unsigned char *bytes, uint32_t asked,
                                       uint32_t wait) {
    for (uint32_t i = 0; i < LINES; i++) {
        const unsigned char *line = bytes + i * LINE_BYTES;
        if (asked != 0) {
            prefetch_global_l2(line);
        }
        spin(wait);
        uint64_t start = clock64_now();
        uint32_t word;
        asm volatile("ld.global.u32 %0, [%1];" : "=r"(word) : "l"(line) : "memory");
        if (word != 0) { /* never true, but waits for the load */
            break;
        }
        spans[i] = clock64_now() - start;
    }
}

static void measure(const unsigned char *bytes, uint32_t asked, uint32_t wait) {
    uint64_t *spans = results(LINES);
    double cycles;
    medians_of(LINES, 1, &cycles, [&] {
        flush_l2();
        void *arguments[] = {&spans, &bytes, &asked, &wait};
        launch((const void *)prefetch_kernel, {1, 1, 1, 0}, arguments);
    });
    reportf("load_after_prefetch_cycles", cycles, "cycles", "\"asked\": %u, \"wait\": %u", asked, wait);
}

/* ---- bulk prefetches ---- */

/* A warp's lanes prefetch `bytes` each. spans: the cycles until the warp goes on, and those of a later load of
 * the first lane's bytes. */
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
    if (word == 0 && threadIdx.x == 0) { /* always true; waits for the load */
        spans[0] = end - start;
        spans[1] = clock64_now() - loaded;
    }
}

static void measure_bulk(const unsigned char *bytes, uint32_t lanes, uint32_t asked) {
    uint64_t *spans = results(2);
    double cycles[2];
    medians_of(1, 2, cycles, [&] {
        flush_l2();
        void *arguments[] = {&spans, &bytes, &lanes, &asked};
        launch((const void *)bulk_kernel, {1, WARP_LANES, 1, 0}, arguments);
    });
    char parameters[64];
    snprintf(parameters, sizeof parameters, "\"lanes\": %u, \"bytes\": %u", lanes, asked);
    report("bulk_prefetch_cycles", parameters, cycles[0], "cycles");
    report("load_after_bulk_prefetch_cycles", parameters, cycles[1], "cycles");
}

void prefetches(void) {
    unsigned char *bytes = zeroed(LINES * LINE_BYTES);
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
