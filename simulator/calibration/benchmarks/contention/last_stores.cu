/* A row of dependent kernels that store just before they end: how much the stores delay the next kernel. */
#include "harness.cuh"

#define PAIRS 50
/* cycles of a kernel: longer than the host needs for the next launch */
#define SPIN_CYCLES  6000
#define THREADS      256
#define SHARED_BYTES (210 * 1024) /* room for one CTA an SM */
#define MOST_VECTORS 16

/* Waits for the previous kernel and spins; then each of the first `threads` threads stores 16 bytes `vectors`
 * times. */
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
