/* Reads each SM's cycle counter together with the card's timer: two readings give the mean clock between them.
 * And MMAs with pauses, which measure their own clock. */
#include <cuda_runtime.h>
#include <stdint.h>

#include "../../../submission/gpu/instructions/wgmma.cuh"
#include "harness.cuh"

#define SMS     132         /* HW: an H200 */
#define ALONE   (200 << 10) /* bytes of shared memory that leave room for one CTA an SM */
#define STEPS   4
#define B_BYTES 16384
#define NO_MMAS 0xffffffffu /* a value of `pause`: no MMAs at all */
#define SPIN    1000        /* cycles of a lap without MMAs */

/* Leaves cycles and ns of SM i in words 2 i and 2 i + 1 of `out`, at a step of the timer. */
static __global__ void probe_kernel(uint64_t *out) {
    uint32_t sm;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    uint64_t before = globaltimer_now(), now = before;
    while (now == before) {
        now = globaltimer_now();
    }
    out[2 * sm] = clock64_now();
    out[2 * sm + 1] = now;
}

extern "C" int probe(void *queue, uint64_t *out) {
    cudaFuncSetAttribute(probe_kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, ALONE);
    probe_kernel<<<SMS, 32, ALONE, (CUstream_st *)queue>>>(out);
    return (int)cudaGetLastError();
}

/* Laps of four MMAs of two warpgroups on noise or zeros, with `pause` cycles after each; `out` as above, by
 * CTA. */
static __global__ void __launch_bounds__(256, 1)
    laps_kernel(uint64_t *out, uint32_t noise, uint32_t laps, uint32_t pause) {
    extern __shared__ unsigned char memory[];
    uint32_t misaligned = (uint32_t)__cvta_generic_to_shared(memory) % SWIZZLE_ATOM;
    uint32_t base = (uint32_t)__cvta_generic_to_shared(memory) + (SWIZZLE_ATOM - misaligned) % SWIZZLE_ATOM;
    uint32_t state = (blockIdx.x * blockDim.x + threadIdx.x) * 2654435761u + 1;
    for (uint32_t i = threadIdx.x * 4; i < B_BYTES; i += blockDim.x * 4) {
        state = state * 1664525u + 1013904223u; /* halves between 1 and 4, either sign */
        uint32_t word = noise == 0 ? 0 : (state & 0x87ff87ffu) | 0x3c003c00u;
        asm volatile("st.shared.u32 [%0], %1;" ::"r"(base + i), "r"(word) : "memory");
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    uint64_t b = (uint64_t)((base & 0x3ffff) >> 4) | (uint64_t)1 << 16 | (uint64_t)(SWIZZLE_ATOM >> 4) << 32 |
                 (uint64_t)1 << 62;
    float sums[64];
    uint32_t fragments[STEPS][4];
#pragma unroll
    for (int i = 0; i < 64; i++) {
        sums[i] = 0;
    }
#pragma unroll
    for (int i = 0; i < STEPS * 4; i++) {
        state = state * 1664525u + 1013904223u;
        fragments[i / 4][i % 4] = noise == 0 ? 0 : (state & 0x87ff87ffu) | 0x3c003c00u;
    }
    uint64_t timer = globaltimer_now(), clock = clock64_now();
#pragma unroll 1
    for (uint32_t lap = 0; lap < laps; lap++) {
        if (pause != NO_MMAS) {
            wgmma_fence();
#pragma unroll
            for (int step = 0; step < STEPS; step++) {
                wgmma_m64k16<128>::mma_async(sums, fragments[step], b, 1);
            }
            wgmma_commit_group();
            wgmma_wait_group<0>();
        }
        uint64_t until = clock64_now() + (pause == NO_MMAS ? SPIN : pause);
        while (pause != 0 && clock64_now() < until) {
        }
    }
    uint64_t cycles = clock64_now() - clock, ns = globaltimer_now() - timer;
#pragma unroll
    for (int i = 0; i < 64; i++) {
        keep_after_wait(sums[i]);
    }
    if (threadIdx.x == 0) {
        out[2 * blockIdx.x] = cycles;
        out[2 * blockIdx.x + 1] = ns;
        out[2 * gridDim.x] = __float_as_uint(sums[0]) + fragments[0][0];
    }
}

extern "C" int laps(void *queue, uint64_t *out, int ctas, uint32_t noise, uint32_t count, uint32_t pause) {
    laps_kernel<<<ctas, 256, B_BYTES + SWIZZLE_ATOM, (CUstream_st *)queue>>>(out, noise, count, pause);
    return (int)cudaGetLastError();
}
