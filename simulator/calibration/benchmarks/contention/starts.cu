/* Measures costs of a first use: fetching code, reading a tensor map, setmaxnreg; and alternating launches of a
 * small kernel and one that fills the chip. */
#include "harness.cuh"

#define BYTES_OF_INSTRUCTION 16 /* HW: sm_90's encoding (nvdisasm) */
#define EVICTING_KB          128
#define PAIRS                50
#define BOX_BYTES            4096
#define SMALL_CTAS           512
#define LARGE_SHARED         (210 * 1024)
#define LARGE_THREADS        512
#define SMALL_THREADS        128

/* ---- straight-line code of a given size, run twice ---- */

template <int kilobytes> static __global__ void code_kernel(uint64_t *span, float y) {
    float x[4] = {y, y + 1, y + 2, y + 3};
    uint64_t start = 0, laps[2];
#pragma unroll 1
    for (int lap = 0; lap < 2; lap++) {
        start = clock64_now();
#pragma unroll
        for (int i = 0; i < kilobytes * 1024 / BYTES_OF_INSTRUCTION; i++) {
            asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+f"(x[i % 4]) : "f"(y));
        }
        laps[lap] = clock64_now() - start;
    }
    if (threadIdx.x == 0) {
        span[0] = laps[0];
        span[1] = laps[1];
        span[2] = (uint64_t)(x[0] + x[1] + x[2] + x[3]);
    }
}

static void two_medians(const void *kernel, struct shape shape, void **arguments, uint64_t *words, bool evict,
                        double (&medians)[2]) {
    double values[2];
    float y = 1;
    void *other[] = {&words, &y};
    medians_of(1, 2, values, [&] {
        if (evict) {
            launch((const void *)code_kernel<EVICTING_KB>, {sm_count(), 32, 1, 0}, other);
        }
        launch(kernel, shape, arguments);
    });
    for (int k = 0; k < 2; k++) {
        medians[k] = values[k];
    }
}

/* Between two launches `kb` KB of another kernel's code run on all sub-partitions. */
template <int kilobytes, int other_kilobytes> static void measure_code_between(void) {
    uint64_t *span = results(3);
    float y = 1;
    void *arguments[] = {&span, &y};
    double first;
    medians_of(1, 1, &first, [&] {
        if (other_kilobytes > 0) {
            launch((const void *)code_kernel<other_kilobytes + 1>, {sm_count(), 128, 1, 0}, arguments);
        }
        launch((const void *)code_kernel<kilobytes>, {sm_count(), 128, 1, 0}, arguments);
    });
    reportf("code_between_cycles", first, "cycles", "\"kilobytes\": %d, \"other_kilobytes\": %d", kilobytes,
            other_kilobytes);
}

template <int kilobytes> static void measure_code(int threads) {
    uint64_t *span = results(3);
    float y = 1;
    void *arguments[] = {&span, &y};
    for (int evict = 0; evict < 2; evict++) {
        double laps[2];
        two_medians((const void *)code_kernel<kilobytes>, {1, threads, 1, 0}, arguments, span, evict != 0,
                    laps);
        for (int lap = 0; lap < 2; lap++) {
            reportf("code_cycles", laps[lap], "cycles",
                    "\"kilobytes\": %d, \"threads\": %d, \"after_other_code\": %d, \"lap\": %d", kilobytes,
                    threads, evict, lap);
        }
    }
}

/* ---- the first copy through a tensor map, and the second ---- */

static __global__ void first_copy_kernel(uint64_t *span, const __grid_constant__ CUtensorMap map,
                                         uint32_t prefetched) {
    extern __shared__ unsigned char memory[];
    __shared__ uint64_t word;
    struct mbarrier barrier = {cvta_to_shared(&word)};
    uint32_t to = swizzle_aligned(memory);
    mbarrier_init(barrier, 1);
    fence_mbarrier_init();
    if (prefetched != 0) {
        prefetch_tensormap(&map);
        spin(4000);
    }
    uint64_t laps[2];
#pragma unroll 1
    for (uint32_t lap = 0; lap < 2; lap++) {
        uint64_t start = clock64_now();
        mbarrier_arrive_expect_tx(barrier, BOX_BYTES);
        cp_async_bulk_tensor_3d(to, &map, 0, 0, 0, barrier);
        wait_parity(barrier, lap);
        laps[lap] = clock64_now() - start;
    }
    span[0] = laps[0];
    span[1] = laps[1];
}

static void measure_first_copies(void) {
    uint64_t *span = results(3);
    unsigned char *bytes = zeroed(1 << 20);
    CUtensorMap map = tensor_map(bytes, 1 << 20, SWIZZLE_ROW, BOX_BYTES / SWIZZLE_ROW);
    for (uint32_t prefetched = 0; prefetched < 2; prefetched++) {
        void *arguments[] = {&span, &map, &prefetched};
        double laps[2];
        two_medians((const void *)first_copy_kernel, {1, 1, 1, BOX_BYTES + SWIZZLE_ATOM}, arguments, span, true,
                    laps);
        for (int lap = 0; lap < 2; lap++) {
            reportf("tensor_map_copy_cycles", laps[lap], "cycles", "\"prefetched\": %u, \"copy\": %d",
                    prefetched, lap);
        }
    }
    check("cudaFree", cudaFree(bytes));
}

/* ---- setmaxnreg: registers from one warpgroup to the others ---- */

static __global__ void __launch_bounds__(384, 1) registers_kernel(uint64_t *span) {
    __syncthreads();
    uint64_t start = clock64_now();
    if (threadIdx.x < WARPGROUP_LANES) {
        setmaxnreg_dec<24>();
    } else {
        setmaxnreg_inc<240>();
    }
    uint64_t cycles = clock64_now() - start;
    if (threadIdx.x % WARPGROUP_LANES == 0) {
        span[threadIdx.x / WARPGROUP_LANES != 0] = cycles;
    }
}

/* ---- alternating small and large kernels ---- */

static __global__ void small_kernel(uint32_t cycles) {
    griddepcontrol_wait();
    griddepcontrol_launch_dependents();
    spin(cycles);
}

static __global__ void __launch_bounds__(LARGE_THREADS, 1) large_kernel(uint32_t before, uint32_t cycles) {
    __syncthreads();
    griddepcontrol_launch_dependents();
    spin(before);
    griddepcontrol_wait();
    spin(cycles);
}

static void measure_pairs(bool pdl, int cluster, uint32_t small, uint32_t before, uint32_t after) {
    check("cudaFuncSetAttribute",
          cudaFuncSetAttribute((const void *)large_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               LARGE_SHARED));
    void *of_small[] = {&small}, *of_large[] = {&before, &after};
    double us = queued_us(PAIRS, [&] {
        enqueue((const void *)small_kernel, {SMALL_CTAS, SMALL_THREADS, 1, 0}, pdl, of_small);
        enqueue((const void *)large_kernel, {128, LARGE_THREADS, cluster, LARGE_SHARED}, pdl, of_large);
    });
    reportf("kernel_pair_us", us, "us",
            "\"pdl\": %d, \"cluster\": %d, \"small\": %u, \"before_wait\": %u, \"after_wait\": %u", pdl,
            cluster, small, before, after);
}

/* Straight-line code again: how much of it a sub-partition still holds after another kernel's code has run. */
static void code_kept(void) {
    measure_code_between<12, 0>();
    measure_code_between<12, 3>();
    measure_code_between<12, 11>();
    measure_code_between<12, 23>();
    measure_code_between<12, 47>();
    measure_code_between<12, 127>();
    measure_code_between<20, 0>();
    measure_code_between<20, 11>();
    measure_code_between<24, 0>();
    measure_code_between<28, 0>();
    measure_code_between<32, 0>();
    measure_code_between<40, 0>();
    measure_code_between<48, 0>();
    measure_code_between<48, 127>();
}

void starts(void) {
    code_kept();
    measure_code<4>(32);
    measure_code<16>(32);
    measure_code<64>(32);
    measure_code<4>(384);
    measure_code<16>(384);
    measure_code<64>(384);
    measure_first_copies();
    uint64_t *span = results(3);
    void *arguments[] = {&span};
    double cycles[2];
    two_medians((const void *)registers_kernel, {1, 384, 1, 0}, arguments, span, false, cycles);
    report("setmaxnreg_cycles", "\"more\": 0", cycles[0], "cycles");
    report("setmaxnreg_cycles", "\"more\": 1", cycles[1], "cycles");
    for (int pdl = 0; pdl < 2; pdl++) {
        for (int cluster = 1; cluster <= 2; cluster++) {
            measure_pairs(pdl != 0, cluster, 0, 0, 0);
            measure_pairs(pdl != 0, cluster, 1000, 0, 2000);
            measure_pairs(pdl != 0, cluster, 1000, 0, 8000);
            measure_pairs(pdl != 0, cluster, 1000, 2000, 2000);
        }
    }
}
