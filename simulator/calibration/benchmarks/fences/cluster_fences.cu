/* The barrier of a cluster of two after copies that have arrived. Its arrival has release semantics, which
 * compiles to a fence. */
#include "harness.cuh"

#define PAIR        2
#define THREADS     256
#define ROUNDS      16
#define BLOCK_BYTES 8192
#define NEAR_BYTES  ((size_t)8 << 20) /* stays in L2 */

/* In each round one thread copies a block, all threads wait for it and synchronise; then the cluster's barrier
 * is timed. */
static __global__ void __cluster_dims__(PAIR, 1, 1) __launch_bounds__(THREADS, 1)
    fenced_kernel(uint64_t *span, const unsigned char *source, uint32_t copies) {
    extern __shared__ __align__(128) unsigned char memory[];
    __shared__ uint64_t word;
    struct mbarrier full = {cvta_to_shared(&word)};
    if (threadIdx.x == 0) {
        mbarrier_init(full, 1);
        fence_mbarrier_init();
    }
    __syncthreads();
    uint64_t cycles = 0;
#pragma unroll 1
    for (uint32_t round = 0; round < ROUNDS; round++) {
        if (copies > 0) {
            if (threadIdx.x == 0) {
                mbarrier_arrive_expect_tx(full, BLOCK_BYTES * copies);
                for (uint32_t i = 0; i < copies; i++) {
                    cp_async_bulk(cvta_to_shared(memory) + i * BLOCK_BYTES,
                                  source + ((round * copies + i) * gridDim.x + blockIdx.x) %
                                               (NEAR_BYTES / BLOCK_BYTES) * BLOCK_BYTES,
                                  BLOCK_BYTES, full);
                }
            }
            wait_parity(full, round & 1);
        }
        __syncthreads();
        uint64_t start = clock64_now();
        asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
        asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
        cycles += clock64_now() - start;
    }
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        span[0] = 0;
        span[1] = cycles;
    }
}

void cluster_fences(void) {
    uint64_t *span = results(2);
    unsigned char *bytes = zeroed(NEAR_BYTES);
    for (int ctas = PAIR; ctas <= 128; ctas *= 64) {
        for (uint32_t copies = 0; copies <= 8; copies = copies == 0 ? 1 : copies * 8) {
            void *arguments[] = {&span, &bytes, &copies};
            double cycles = measured_span((const void *)fenced_kernel, {ctas, THREADS, PAIR, 8 * BLOCK_BYTES},
                                          arguments, span);
            reportf("cluster_barrier_behind_copies_cycles", cycles / ROUNDS, "cycles",
                    "\"ctas\": %d, \"copies\": %u", ctas, copies);
        }
    }
    check("cudaFree", cudaFree(bytes));
}
