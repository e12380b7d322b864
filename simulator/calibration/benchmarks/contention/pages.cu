/* Measures the first access to a page whose translation is not cached: by one thread that reads page after
 * page, and by all SMs at once, after accesses to many other pages. */
#include "harness.cuh"

#define PAGE_BYTES ((size_t)2 << 20) /* the page size of cudaMalloc's memory */
#define PAGES      512
#define LAPS       3 /* laps over the pages; only the last one is kept */
/* bytes by which the place in each page moves on, so that the accesses fall into different sets of L2 */
#define LINE_SPREAD 4352
#define ACCESSES    2     /* loads of each CTA's page, one after the other */
#define NEXT_ACCESS 65536 /* bytes from the first load to the second, in the same page */
#define TARGETS     32    /* pages that are measured; all others are read before */
#define COPY_BYTES  128
#define MOST_CTAS   256

static __device__ __forceinline__ uint64_t load(uint64_t address) {
    uint64_t word;
    asm volatile("ld.global.cg.u64 %0, [%1];" : "=l"(word) : "l"(address) : "memory");
    return word;
}

/* The words are zeros, so that each address depends on the load before. */
static __global__ void round_kernel(uint64_t *span, uint64_t base, uint32_t pages) {
    uint64_t start = 0, end = 0, word = 0;
#pragma unroll 1
    for (int lap = 0; lap < LAPS; lap++) {
        start = clock64_now();
#pragma unroll 1
        for (uint32_t page = 0; page < pages; page++) {
            word = load(base + page * (PAGE_BYTES + LINE_SPREAD) % (PAGES * PAGE_BYTES) + word);
        }
        span[2] = word;
        end = clock64_now();
    }
    span[0] = start;
    span[1] = end;
}

/* Every CTA reads all pages but the targets. */
static __global__ void touch_kernel(uint64_t *span, uint64_t base) {
    uint64_t sum = 0;
#pragma unroll 1
    for (uint32_t page = TARGETS; page < PAGES; page++) {
        sum += load(base + page * PAGE_BYTES + blockIdx.x % 16 * LINE_SPREAD);
    }
    span[2 + blockIdx.x % 2] = sum;
}

static __global__ void first_kernel(uint64_t *spans, const unsigned char *base, uint32_t pages,
                                    uint32_t copies) {
    __shared__ __align__(128) unsigned char memory[COPY_BYTES];
    __shared__ uint64_t words[1];
    struct mbarrier barrier = {cvta_to_shared(words)};
    mbarrier_init(barrier, 1);
    fence_mbarrier_init();
    const unsigned char *from = base + blockIdx.x % pages * PAGE_BYTES + blockIdx.x / pages * LINE_SPREAD;
    uint64_t word = 0;
#pragma unroll 1
    for (uint32_t i = 0; i < ACCESSES; i++) {
        uint64_t start = clock64_now();
        if (copies != 0) {
            mbarrier_arrive_expect_tx(barrier, COPY_BYTES);
            cp_async_bulk(cvta_to_shared(memory), from + i * NEXT_ACCESS, COPY_BYTES, barrier);
            wait_parity(barrier, i & 1);
        } else {
            word += load((uint64_t)(from + i * NEXT_ACCESS) + word);
            spans[MOST_CTAS * ACCESSES] = word; /* makes what follows wait for the load */
        }
        spans[blockIdx.x * ACCESSES + i] = clock64_now() - start;
    }
}

static void measure_round(uint64_t base, uint32_t pages) {
    uint64_t *span = results(3);
    void *arguments[] = {&span, &base, &pages};
    double cycles = measured_span((const void *)round_kernel, {1, 1, 1, 0}, arguments, span);
    reportf("page_load_cycles", cycles / pages, "cycles", "\"pages\": %u", pages);
}

static void measure_first(unsigned char *bytes, uint32_t ctas, uint32_t pages, uint32_t copies) {
    uint64_t *spans = results(MOST_CTAS * ACCESSES + 1), base = (uint64_t)bytes;
    double cycles[ACCESSES];
    medians_of(ctas, ACCESSES, cycles, [&] {
        flush_l2();
        void *others[] = {&spans, &base}, *arguments[] = {&spans, &bytes, &pages, &copies};
        launch((const void *)touch_kernel, {sm_count(), 1, 1, 0}, others);
        launch((const void *)first_kernel, {(int)ctas, 1, 1, 0}, arguments);
    });
    for (int at = 0; at < ACCESSES; at++) {
        reportf("first_access_cycles", cycles[at], "cycles",
                "\"by\": \"%s\", \"ctas\": %u, \"pages\": %u, \"access\": %d", copies != 0 ? "copy" : "load",
                ctas, pages, at + 1);
    }
}

void pages(void) {
    unsigned char *bytes = zeroed(PAGES * PAGE_BYTES);
    for (uint32_t of = 1; of <= PAGES; of *= of == 1 ? 8 : 2) {
        measure_round((uint64_t)bytes, of);
    }
    for (uint32_t copies = 0; copies < 2; copies++) {
        measure_first(bytes, 1, 1, copies);
        for (uint32_t of = 1; of <= TARGETS; of *= of == 1 ? 8 : 4) {
            measure_first(bytes, (uint32_t)sm_count(), of, copies);
        }
    }
    check("cudaFree", cudaFree(bytes));
}
