/* Small kernels, one for each feature, whose outputs on an H200 and on the simulator must agree to the bit.
 *
 * The same program is linked twice: with the CUDA runtime for the card, and with the simulator's shim of
 * it. It prints a line for each feature, "name hash words"; test_features.py compares the simulator's lines
 * with the card's, which record_calls.py keeps in recorded.csv.xz. */
#ifndef FEATURES_CUH
#define FEATURES_CUH

#include <cuda.h>
#include <cuda_runtime.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../../../../submission/gpu/instructions/ptx.cuh"

#define OUT_WORDS    16384
#define IN_WORDS     65536
#define SHARED_BYTES 65536

/* Arguments of every kernel: zeroed output, random input, and what the feature needs. */
struct buffers {
    uint32_t *out;
    const uint32_t *in;
};

/* Dynamic shared memory from a 1024-byte boundary on, filled with a pattern that no input repeats. */
static __device__ __forceinline__ uint32_t fresh_shared(unsigned char **generic) {
    extern __shared__ unsigned char memory[];
    uint32_t misaligned = cvta_to_shared(memory) % 1024;
    *generic = memory + (1024 - misaligned) % 1024;
    for (uint32_t i = threadIdx.x; i < SHARED_BYTES / 2 / 4; i += blockDim.x) {
        ((uint32_t *)*generic)[i] = 0xa5a5a5a5u ^ i;
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    return cvta_to_shared(*generic);
}

static __device__ __forceinline__ void wait_for(struct mbarrier barrier, uint32_t parity) {
    while (!mbarrier_try_wait_parity(barrier, parity)) {
    }
}

static __device__ __forceinline__ void dump_shared(uint32_t *out, const unsigned char *generic,
                                                   uint32_t words) {
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < words; i += blockDim.x) {
        out[i] = ((const uint32_t *)generic)[i];
    }
}

/* Launches `kernel` on fresh buffers and prints the hash of what it left in them. */
void run(const char *name, const void *kernel, int ctas, int threads, int cluster, void **arguments);
struct buffers fresh_buffers(void);
bool named(const char *name); /* only `name` was asked for: features that a card refuses run only then */
void check(const char *what, cudaError_t error); /* ends the program with a message, except on success */

void copies(void);
void barriers(void);
void matrices(void);
void scalars(void);
void approximations(void);

/* run() for a kernel of (struct buffers, further arguments...). */
template <class... Further>
void feature(const char *name, void (*kernel)(struct buffers, Further...), int ctas, int threads, int cluster,
             Further... further) {
    struct buffers buffers = fresh_buffers();
    void *arguments[] = {&buffers, (void *)&further...};
    run(name, (const void *)kernel, ctas, threads, cluster, arguments);
}

#endif
