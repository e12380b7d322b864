/* Fences after stores: fence.proxy.async after stores to shared memory, and a GPU-scope fence after stores that
 * write only a part of each sector of global memory. */
#include "harness.cuh"

#define LAPS         3 /* only the last lap is kept */
#define MOST_THREADS 512
#define MOST_CTAS    256
#define UNIT         16 /* bytes of a store */
#define STORES       16 /* stores of a thread to global memory */

/* ---- shared memory ---- */

enum fence { FENCE_NONE, FENCE_SHARED, FENCES };
static const char *const fence_names[] = {"none", "fence.proxy.async.shared::cta"};

/* Cycles of a CTA's stores, their fence and a barrier. */
static __global__ void __launch_bounds__(MOST_THREADS)
    fence_kernel(uint64_t *span, uint32_t stores, int fence) {
    extern __shared__ __align__(128) unsigned char memory[];
    uint32_t to = cvta_to_shared(memory) + threadIdx.x * UNIT;
    uint64_t start = 0, end = 0;
    for (int lap = 0; lap < LAPS; lap++) {
        __syncthreads();
        start = clock64_now();
        for (uint32_t i = 0; i < stores; i++) {
            asm volatile("st.shared.v4.u32 [%0], {%1, %1, %1, %1};" ::"r"(to + i * blockDim.x * UNIT), "r"(i)
                         : "memory");
        }
        if (fence == FENCE_SHARED) {
            asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        }
        __syncthreads();
        end = clock64_now();
    }
    if (threadIdx.x == 0) {
        span[0] = end - start;
    }
}

static void measure_fence(int threads, uint32_t stores, int fence) {
    uint64_t *span = results(1);
    double cycles;
    medians_of(1, 1, &cycles, [&] {
        void *arguments[] = {&span, &stores, &fence};
        launch((const void *)fence_kernel, {1, threads, 1, threads * (int)stores * UNIT}, arguments);
    });
    reportf("fence_behind_stores_cycles", cycles, "cycles",
            "\"fence\": \"%s\", \"stores\": %u, \"threads\": %d", fence_names[fence], stores, threads);
}

/* ---- global memory ---- */

/* A warp stores, `apart` bytes from lane to lane, until its whole part is written; then a GPU-scope fence. */
static __global__ void __launch_bounds__(MOST_THREADS)
    scattered_kernel(uint64_t *spans, unsigned char *to, uint32_t apart) {
    uint32_t turns = apart / UNIT, lane = threadIdx.x % WARP_LANES, warp = threadIdx.x / WARP_LANES;
    unsigned char *part =
        to + ((uint64_t)blockIdx.x * blockDim.x / WARP_LANES + warp) * STORES * WARP_LANES * UNIT;
    uint64_t start = 0, end = 0;
    for (int lap = 0; lap < LAPS; lap++) {
        __syncthreads();
        start = clock64_now();
        for (uint32_t i = 0; i < STORES; i++) {
            uint32_t at = i / turns * turns * WARP_LANES * UNIT + lane * apart + i % turns * UNIT;
            *(uint4 *)(part + at) = make_uint4(i, lap, 0, 0);
        }
        __threadfence();
        __syncthreads();
        end = clock64_now();
    }
    if (threadIdx.x == 0) {
        spans[blockIdx.x] = end - start;
    }
}

static void measure_scattered(unsigned char *to, int ctas, uint32_t apart) {
    uint64_t *spans = results(MOST_CTAS);
    double cycles;
    medians_of(ctas, 1, &cycles, [&] {
        void *arguments[] = {&spans, &to, &apart};
        launch((const void *)scattered_kernel, {ctas, MOST_THREADS, 1, 0}, arguments);
    });
    reportf("scattered_store_cycles", cycles, "cycles", "\"ctas\": %d, \"apart\": %u", ctas, apart);
}

void behind_stores(void) {
    for (int threads = 32; threads <= MOST_THREADS; threads *= 4) {
        for (uint32_t stores = 1; stores <= 16; stores *= 4) {
            for (int fence = 0; fence < FENCES; fence++) {
                measure_fence(threads, stores, fence);
            }
        }
    }
    unsigned char *to;
    check("cudaMalloc", cudaMalloc((void **)&to, (size_t)sm_count() * MOST_THREADS * STORES * UNIT));
    for (int ctas = 1; ctas <= sm_count(); ctas += sm_count() - 1) {
        for (uint32_t apart = UNIT; apart <= 4 * UNIT; apart *= 2) {
            measure_scattered(to, ctas, apart);
        }
    }
    check("cudaFree", cudaFree(to));
}
