/* Kernels in a row, each of which stores at its end: how much later the next one goes on for it. */
#include "harness.cuh"

#define PAIRS        50
#define SPIN_CYCLES  6000 /* of a kernel: longer than the host's launches are apart */
#define THREADS      256
#define SHARED_BYTES (210 * 1024) /* a CTA an SM */
#define MOST_VECTORS 16

/* After the wait for the kernel before and some work: 16 bytes by each of the first threads, so many times. */
static __global__ void __launch_bounds__(THREADS, 1)
    storing_kernel(uint4 *to, uint32_t cycles, uint32_t threads, uint32_t vectors) {
    griddepcontrol_launch_dependents();
    griddepcontrol_wait();
    spin(cycles);
    if (threadIdx.x < threads) {
        for (uint32_t i = 0; i < vectors; i++) {
            to[(i * gridDim.x + blockIdx.x) * threads + threadIdx.x] = make_uint4(cycles, i, 0, 0);
        }
    }
}

static void measure(uint4 *to, bool pdl, uint32_t threads, uint32_t vectors) {
    uint32_t cycles = SPIN_CYCLES;
    void *arguments[] = {&to, &cycles, &threads, &vectors};
    double us = queued_us(PAIRS, [&] {
        enqueue((const void *)storing_kernel, {sm_count(), THREADS, 1, SHARED_BYTES}, pdl, arguments);
    });
    reportf("kernel_that_stores_us", us, "us", "\"pdl\": %d, \"threads\": %u, \"vectors\": %u", pdl, threads,
            vectors);
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
