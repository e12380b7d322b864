/* mma.sync m16n8k16: the latency of dependent ones, and the rate of a sub-partition, by independent
 * accumulators and by warps; and both with other operations of the same warps in between. */
#include "harness.cuh"

#define STEPS      16 /* MMAs of each chain a lap */
#define FEW_LAPS   8
#define MANY_LAPS  24
#define MOST_WARPS 16

/* operations: alternating prmt and HMUL2 after each MMA. */
template <int chains, int operations>
static __global__ void __launch_bounds__(MOST_WARPS *WARP_LANES)
    mma_kernel(uint64_t *span, uint32_t laps, uint32_t zero) {
    float acc[chains][4];
    uint32_t a[4], x[8];
#pragma unroll
    for (int i = 0; i < chains * 4; i++) {
        acc[i / 4][i % 4] = 0;
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        a[i] = zero * (i + 1);
    }
#pragma unroll
    for (int i = 0; i < 8; i++) {
        x[i] = zero + i * threadIdx.x;
    }
    __syncthreads();
    uint64_t start = clock64_now();
#pragma unroll 1
    for (uint32_t lap = 0; lap < laps; lap++) {
#pragma unroll
        for (int i = 0; i < STEPS * chains; i++) {
            mma_m16n8k16(acc[i % chains], a, zero, zero);
#pragma unroll
            for (int j = 0; j < operations; j++) {
                uint32_t &word = x[(i * operations + j) % 8];
                if (j % 2 == 0) {
                    asm volatile("prmt.b32 %0, %0, %1, 0x7610;" : "+r"(word) : "r"(zero));
                } else {
                    asm volatile("mul.rn.f16x2 %0, %0, %1;" : "+r"(word) : "r"(zero));
                }
            }
        }
    }
    float sum = 0;
    uint32_t kept = 0;
#pragma unroll
    for (int i = 0; i < chains * 4; i++) {
        sum += acc[i / 4][i % 4];
    }
#pragma unroll
    for (int i = 0; i < 8; i++) {
        kept ^= x[i];
    }
    span[2 + threadIdx.x] = kept ^ __float_as_uint(sum);
    note_span(span, start, clock64_now());
}

/* Cycles of a sub-partition for each MMA. */
template <int chains, int operations> static void measure(int warps) {
    const void *kernel = (const void *)mma_kernel<chains, operations>;
    uint64_t *span = results(2 + MOST_WARPS * WARP_LANES);
    double cycles[2];
    for (int many = 0; many < 2; many++) {
        uint32_t laps = many ? MANY_LAPS : FEW_LAPS, zero = 0;
        void *arguments[] = {&span, &laps, &zero};
        cycles[many] = measured_span(kernel, {1, warps * WARP_LANES, 1, 0}, arguments, span);
    }
    const double mmas = (MANY_LAPS - FEW_LAPS) * STEPS * chains * (warps < 4 ? 1 : warps / 4);
    reportf("warp_mma_cycles", (cycles[1] - cycles[0]) / mmas, "cycles",
            "\"chains\": %d, \"operations\": %d, \"warps\": %d", chains, operations, warps);
}

void warp_mma(void) {
    for (int warps = 1; warps <= MOST_WARPS; warps *= 4) {
        measure<1, 0>(warps);
        measure<2, 0>(warps);
        measure<4, 0>(warps);
        measure<8, 0>(warps);
        measure<4, 4>(warps);
        measure<4, 8>(warps);
        measure<4, 16>(warps);
    }
}
