/* What is done for the first time: code that is fetched, a tensor map that is read, registers that change
 * hands; and kernels of two kinds in turn, one of which fills the chip. */
#include "micro.cuh"

#define BYTES_OF_INSTRUCTION 16 /* HW: sm_90's encoding (nvdisasm) */
#define EVICTING_KB          128
#define PAIRS                50
#define HOLD_CYCLES          4000000 /* 2 ms: longer than the host takes to enqueue the pairs */
#define BOX_BYTES            4096
#define SMALL_CTAS           512
#define LARGE_SHARED         (210 * 1024)
#define LARGE_THREADS        512
#define SMALL_THREADS        128

/* ---- straight code of so many KB, in two laps ---- */

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
    double values[2][LAUNCHES];
    float y = 1;
    void *other[] = {&words, &y};
    for (int i = -WARM_UP_LAUNCHES; i < LAUNCHES; i++) {
        if (evict) {
            launch((const void *)code_kernel<EVICTING_KB>, {sm_count(), 32, 1, 0}, other);
        }
        launch(kernel, shape, arguments);
        uint64_t measured[2];
        check("cudaMemcpy", cudaMemcpy(measured, words, sizeof measured, cudaMemcpyDeviceToHost));
        for (int k = 0; k < 2 && i >= 0; k++) {
            values[k][i] = (double)measured[k];
        }
    }
    for (int k = 0; k < 2; k++) {
        medians[k] = median(values[k], LAUNCHES);
    }
}

/* Between two launches another kernel's code of so many KB has run on all sub-partitions. */
template <int kilobytes, int other_kilobytes> static void measure_code_between(void) {
    uint64_t *span = results(3);
    float y = 1;
    void *arguments[] = {&span, &y};
    double first[LAUNCHES];
    for (int i = -WARM_UP_LAUNCHES; i < LAUNCHES; i++) {
        if (other_kilobytes > 0) {
            launch((const void *)code_kernel<other_kilobytes + 1>, {sm_count(), 128, 1, 0}, arguments);
        }
        launch((const void *)code_kernel<kilobytes>, {sm_count(), 128, 1, 0}, arguments);
        uint64_t measured;
        check("cudaMemcpy", cudaMemcpy(&measured, span, sizeof measured, cudaMemcpyDeviceToHost));
        if (i >= 0) {
            first[i] = (double)measured;
        }
    }
    char parameters[96];
    snprintf(parameters, sizeof parameters, "\"kilobytes\": %d, \"other_kilobytes\": %d", kilobytes,
             other_kilobytes);
    report("code_between_cycles", parameters, median(first, LAUNCHES), "cycles");
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
            char parameters[128];
            snprintf(parameters, sizeof parameters,
                     "\"kilobytes\": %d, \"threads\": %d, \"after_other_code\": %d, \"lap\": %d", kilobytes,
                     threads, evict, lap);
            report("code_cycles", parameters, laps[lap], "cycles");
        }
    }
}

/* ---- the first copy through a tensor map, and the second ---- */

static __global__ void first_copy_kernel(uint64_t *span, const __grid_constant__ CUtensorMap map,
                                         uint32_t prefetched) {
    extern __shared__ unsigned char memory[];
    __shared__ uint64_t word;
    struct mbarrier barrier = {cvta_to_shared(&word)};
    uint32_t misaligned = cvta_to_shared(memory) % SWIZZLE_ATOM;
    uint32_t to = cvta_to_shared(memory) + (SWIZZLE_ATOM - misaligned) % SWIZZLE_ATOM;
    mbarrier_init(barrier, 1);
    fence_mbarrier_init();
    if (prefetched != 0) {
        prefetch_tensormap(&map);
        for (uint64_t until = clock64_now() + 4000; clock64_now() < until;) {
        }
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
    unsigned char *bytes;
    check("cudaMalloc", cudaMalloc((void **)&bytes, 1 << 20));
    check("cudaMemset", cudaMemset(bytes, 0, 1 << 20));
    CUtensorMap map = tensor_map(bytes, 1 << 20, SWIZZLE_ROW, BOX_BYTES / SWIZZLE_ROW);
    for (uint32_t prefetched = 0; prefetched < 2; prefetched++) {
        void *arguments[] = {&span, &map, &prefetched};
        double laps[2];
        two_medians((const void *)first_copy_kernel, {1, 1, 1, BOX_BYTES + SWIZZLE_ATOM}, arguments, span, true,
                    laps);
        for (int lap = 0; lap < 2; lap++) {
            char parameters[96];
            snprintf(parameters, sizeof parameters, "\"prefetched\": %u, \"copy\": %d", prefetched, lap);
            report("tensor_map_copy_cycles", parameters, laps[lap], "cycles");
        }
    }
    check("cudaFree", cudaFree(bytes));
}

/* ---- registers from one warpgroup to the others ---- */

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

/* ---- small and large kernels in turn ---- */

static __global__ void small_kernel(uint32_t cycles) {
    griddepcontrol_wait();
    griddepcontrol_launch_dependents();
    for (uint64_t until = clock64_now() + cycles; clock64_now() < until;) {
    }
}

static __global__ void __launch_bounds__(LARGE_THREADS, 1) large_kernel(uint32_t before, uint32_t cycles) {
    __syncthreads();
    griddepcontrol_launch_dependents();
    for (uint64_t until = clock64_now() + before; clock64_now() < until;) {
    }
    griddepcontrol_wait();
    for (uint64_t until = clock64_now() + cycles; clock64_now() < until;) {
    }
}

static __global__ void hold_kernel(uint64_t cycles) {
    for (uint64_t until = clock64_now() + cycles; clock64_now() < until;) {
    }
}

static cudaStream_t queue(void) {
    static cudaStream_t made;
    if (made == NULL) {
        check("cudaStreamCreate", cudaStreamCreate(&made));
    }
    return made;
}

static void enqueue(const void *kernel, struct shape shape, bool pdl, void **arguments) {
    cudaLaunchAttribute attributes[2];
    attributes[0].id = cudaLaunchAttributeClusterDimension;
    attributes[0].val.clusterDim.x = (unsigned)shape.cluster;
    attributes[0].val.clusterDim.y = attributes[0].val.clusterDim.z = 1;
    attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[1].val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config;
    memset(&config, 0, sizeof config);
    config.gridDim = dim3((unsigned)shape.ctas, 1, 1);
    config.blockDim = dim3((unsigned)shape.threads, 1, 1);
    config.dynamicSmemBytes = (size_t)shape.shared_bytes;
    config.stream = queue();
    config.attrs = shape.cluster > 1 ? attributes : attributes + 1;
    config.numAttrs = (unsigned)((shape.cluster > 1) + pdl);
    check("launch", cudaLaunchKernelExC(&config, kernel, arguments));
}

static void measure_pairs(bool pdl, int cluster, uint32_t small, uint32_t before, uint32_t after) {
    check("cudaFuncSetAttribute",
          cudaFuncSetAttribute((const void *)large_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               LARGE_SHARED));
    cudaEvent_t start, end;
    check("event", cudaEventCreate(&start));
    check("event", cudaEventCreate(&end));
    uint64_t hold = HOLD_CYCLES;
    void *of_hold[] = {&hold}, *of_small[] = {&small}, *of_large[] = {&before, &after};
    double us[LAUNCHES];
    for (int i = -WARM_UP_LAUNCHES; i < LAUNCHES; i++) {
        enqueue((const void *)hold_kernel, {1, 1, 1, 0}, false, of_hold);
        check("event", cudaEventRecord(start, queue()));
        for (int k = 0; k < PAIRS; k++) {
            enqueue((const void *)small_kernel, {SMALL_CTAS, SMALL_THREADS, 1, 0}, pdl, of_small);
            enqueue((const void *)large_kernel, {128, LARGE_THREADS, cluster, LARGE_SHARED}, pdl, of_large);
        }
        check("event", cudaEventRecord(end, queue()));
        check("pairs", cudaStreamSynchronize(queue()));
        float ms;
        check("event", cudaEventElapsedTime(&ms, start, end));
        if (i >= 0) {
            us[i] = ms * 1e3 / PAIRS;
        }
    }
    check("event", cudaEventDestroy(start));
    check("event", cudaEventDestroy(end));
    char parameters[160];
    snprintf(parameters, sizeof parameters,
             "\"pdl\": %d, \"cluster\": %d, \"small\": %u, \"before_wait\": %u, \"after_wait\": %u", pdl,
             cluster, small, before, after);
    report("kernel_pair_us", parameters, median(us, LAUNCHES), "us");
}

/* Straight code once more: how much of it a sub-partition keeps beside another kernel's. */
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
