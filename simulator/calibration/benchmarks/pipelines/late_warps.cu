/* A warpgroup whose last warp reaches its MMAs late: when the first warp goes on. */
#include "../../../submission/gpu/instructions/wgmma.cuh"
#include "harness.cuh"

#define TURNS   3     /* only the last turn is kept */
#define LEAD    1000  /* cycles from a turn's barrier until the first warps begin */
#define B_BYTES 16384 /* up to 128 rows of 128 bytes */

/* spans: cycles from the first warp's begin until it has left its first MMA, and until all are done. */
template <int n>
static __global__ void __launch_bounds__(WARPGROUP_LANES, 1)
    late_kernel(uint64_t *spans, uint32_t late, uint32_t zero) {
    extern __shared__ unsigned char memory[];
    __shared__ uint64_t begin;
    uint32_t base = swizzle_aligned(memory);
    for (uint32_t i = threadIdx.x * 4; i < B_BYTES; i += blockDim.x * 4) {
        asm volatile("st.shared.u32 [%0], %1;" ::"r"(base + i), "r"(0) : "memory");
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    uint64_t b = (uint64_t)((base & 0x3ffff) >> 4) | (uint64_t)1 << 16 | (uint64_t)(SWIZZLE_ATOM >> 4) << 32 |
                 (uint64_t)1 << 62;
    float sums[n / 2];
    uint32_t fragment[4] = {zero, zero * 2, zero * 3, zero * 4};
#pragma unroll
    for (int i = 0; i < n / 2; i++) {
        sums[i] = 0;
    }
    uint64_t first = 0, done = 0;
#pragma unroll 1
    for (int turn = 0; turn < TURNS; turn++) {
        if (threadIdx.x == 0) {
            begin = clock64_now() + LEAD;
        }
        __syncthreads();
        uint64_t own = begin + (threadIdx.x >= WARPGROUP_LANES - WARP_LANES ? late : 0);
        while (clock64_now() < own) {
        }
        asm volatile("" : "+r"(fragment[0]), "+r"(fragment[1]), "+r"(fragment[2]), "+r"(fragment[3]));
        wgmma_fence();
        wgmma_m64k16<n>::mma_async(sums, fragment, b, 1);
        first = clock64_now();
        wgmma_m64k16<n>::mma_async(sums, fragment, b, 1);
        wgmma_commit_group();
        wgmma_wait_group<0>();
        done = clock64_now();
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < n / 2; i++) {
        keep_after_wait(sums[i]);
    }
    if (threadIdx.x == 0) {
        spans[0] = first - begin;
        spans[1] = done - begin;
        spans[2] = __float_as_uint(sums[0]);
    }
}

template <int n> static void measure_late(uint32_t late) {
    uint64_t *spans = results(3);
    uint32_t zero = 0;
    double cycles[2];
    medians_of(1, 2, cycles, [&] {
        void *arguments[] = {&spans, &late, &zero};
        launch((const void *)late_kernel<n>, {1, WARPGROUP_LANES, 1, B_BYTES + SWIZZLE_ATOM}, arguments);
    });
    char parameters[64];
    snprintf(parameters, sizeof parameters, "\"n\": %d, \"late\": %u", n, late);
    report("wgmma_late_warp_first_cycles", parameters, cycles[0], "cycles");
    report("wgmma_late_warp_done_cycles", parameters, cycles[1], "cycles");
}

void late_warps(void) {
    for (uint32_t late = 0; late <= 400; late = late == 0 ? 100 : late * 2) {
        measure_late<64>(late);
        measure_late<128>(late);
    }
}
