/* Kernels in a row, each of which stores at its end: how much later the next one goes on for it. */
#include "micro.cuh"

#define HOLD_CYCLES  4000000 /* 2 ms: longer than the host takes to enqueue the kernels */
#define PAIRS        50
#define SPIN_CYCLES  6000 /* of a kernel: longer than the host's launches are apart */
#define THREADS      256
#define SHARED_BYTES (210 * 1024) /* a CTA an SM */
#define MOST_VECTORS 16

static __global__ void hold_kernel(uint64_t cycles) {
    for (uint64_t until = clock64_now() + cycles; clock64_now() < until;) {
    }
}

/* After the wait for the kernel before and some work: 16 bytes by each of the first threads, so many times. */
static __global__ void __launch_bounds__(THREADS, 1)
    storing_kernel(uint4 *to, uint32_t cycles, uint32_t threads, uint32_t vectors) {
    griddepcontrol_launch_dependents();
    griddepcontrol_wait();
    for (uint64_t until = clock64_now() + cycles; clock64_now() < until;) {
    }
    if (threadIdx.x < threads) {
        for (uint32_t i = 0; i < vectors; i++) {
            to[(i * gridDim.x + blockIdx.x) * threads + threadIdx.x] = make_uint4(cycles, i, 0, 0);
        }
    }
}

static cudaStream_t queue(void) {
    static cudaStream_t made;
    if (made == NULL) {
        check("cudaStreamCreate", cudaStreamCreate(&made));
    }
    return made;
}

static void enqueue(const void *kernel, int ctas, int threads, int shared_bytes, bool pdl, void **arguments) {
    cudaLaunchAttribute attribute;
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config;
    memset(&config, 0, sizeof config);
    config.gridDim = dim3((unsigned)ctas, 1, 1);
    config.blockDim = dim3((unsigned)threads, 1, 1);
    config.dynamicSmemBytes = (size_t)shared_bytes;
    config.stream = queue();
    config.attrs = &attribute;
    config.numAttrs = (unsigned)pdl;
    check("launch", cudaLaunchKernelExC(&config, kernel, arguments));
}

static void measure(uint4 *to, bool pdl, uint32_t threads, uint32_t vectors) {
    cudaEvent_t start, end;
    check("event", cudaEventCreate(&start));
    check("event", cudaEventCreate(&end));
    uint64_t hold = HOLD_CYCLES;
    uint32_t cycles = SPIN_CYCLES;
    void *of_hold[] = {&hold}, *arguments[] = {&to, &cycles, &threads, &vectors};
    double us[LAUNCHES];
    for (int i = -WARM_UP_LAUNCHES; i < LAUNCHES; i++) {
        enqueue((const void *)hold_kernel, 1, 1, 0, false, of_hold);
        check("event", cudaEventRecord(start, queue()));
        for (int k = 0; k < PAIRS; k++) {
            enqueue((const void *)storing_kernel, sm_count(), THREADS, SHARED_BYTES, pdl, arguments);
        }
        check("event", cudaEventRecord(end, queue()));
        check("kernels", cudaStreamSynchronize(queue()));
        float ms;
        check("event", cudaEventElapsedTime(&ms, start, end));
        if (i >= 0) {
            us[i] = ms * 1e3 / PAIRS;
        }
    }
    check("event", cudaEventDestroy(start));
    check("event", cudaEventDestroy(end));
    char parameters[96];
    snprintf(parameters, sizeof parameters, "\"pdl\": %d, \"threads\": %u, \"vectors\": %u", pdl, threads,
             vectors);
    report("kernel_that_stores_us", parameters, median(us, LAUNCHES), "us");
}

void last_stores(void) {
    const size_t bytes = (size_t)MOST_VECTORS * (size_t)sm_count() * THREADS * sizeof(uint4);
    uint4 *to;
    check("cudaMalloc", cudaMalloc((void **)&to, bytes));
    check("cudaMemset", cudaMemset(to, 0, bytes));
    check("cudaFuncSetAttribute",
          cudaFuncSetAttribute((const void *)storing_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               SHARED_BYTES));
    for (int pdl = 0; pdl < 2; pdl++) {
        measure(to, pdl != 0, THREADS, 0);
        measure(to, pdl != 0, 32, 1);
        for (uint32_t vectors = 1; vectors <= MOST_VECTORS; vectors *= 4) {
            measure(to, pdl != 0, THREADS, vectors);
        }
    }
    check("cudaFree", cudaFree(to));
}
