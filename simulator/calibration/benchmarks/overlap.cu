/* A small model of a consumer's main loop: warpgroups compute the next fragments of A while the tensor cores
 * work on the last ones, with shared loads and with copies into the same shared memory at the same time. */
#include "../../../submission/gpu/instructions/wgmma.cuh"
#include "harness.cuh"

#define STEPS      4 /* MMAs of a group */
#define FEW_LAPS   8
#define MANY_LAPS  24
#define RING_SLOTS 4
#define SLOT_BYTES 16384
#define B_BYTES    16384 /* up to 128 rows of 128 bytes */
#define BARRIERS   (RING_SLOTS * 8)

struct overlap_plan {
    const unsigned char *source;
    uint32_t laps, warpgroups, copies; /* copies: an extra warp keeps a ring of copies full */
    uint32_t zero;                     /* a zero that ptxas does not know */
};

static __device__ __forceinline__ void compute(uint32_t (&fragment)[STEPS][4], uint32_t y, int operations) {
#pragma unroll
    /* 16 chains: half of them prmt, half of them HMUL2 */
    for (int i = 0; i < operations; i++) {
        uint32_t &x = fragment[i / 4 % STEPS][i % 4];
        if (i / 16 % 2 == 0) {
            asm volatile("prmt.b32 %0, %0, %1, 0x7610;" : "+r"(x) : "r"(y));
        } else {
            asm volatile("mul.rn.f16x2 %0, %0, %1;" : "+r"(x) : "r"(y));
        }
    }
}

#define THREE_GROUPS (3 * WARPGROUP_LANES + WARP_LANES)
#define FOUR_GROUPS  (4 * WARPGROUP_LANES + WARP_LANES)

template <int n, int operations, int loads, int threads>
static __global__ void __launch_bounds__(threads, 1) loop_kernel(uint64_t *span, struct overlap_plan plan) {
    extern __shared__ unsigned char memory[];
    __shared__ uint64_t barriers[RING_SLOTS];
    uint32_t base = swizzle_aligned(memory);
    uint32_t ring = base + B_BYTES, full = cvta_to_shared(barriers);
    if (threadIdx.x == 0) {
        for (int i = 0; i < RING_SLOTS; i++) {
            mbarrier_init({full + i * 8}, 1);
        }
        fence_mbarrier_init();
    }
    for (uint32_t i = threadIdx.x * 4; i < B_BYTES; i += blockDim.x * 4) {
        asm volatile("st.shared.u32 [%0], %1;" ::"r"(base + i), "r"(0) : "memory");
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x / WARPGROUP_LANES >= plan.warpgroups) {
        if (threadIdx.x % WARP_LANES == 0) {
            for (uint32_t i = 0; i < plan.copies; i++) {
                struct mbarrier barrier = {full + i % RING_SLOTS * 8};
                if (i >= RING_SLOTS) {
                    wait_parity(barrier, i / RING_SLOTS + 1 & 1);
                }
                mbarrier_arrive_expect_tx(barrier, SLOT_BYTES);
                cp_async_bulk(ring + i % RING_SLOTS * SLOT_BYTES, plan.source + i % 64 * SLOT_BYTES, SLOT_BYTES,
                              barrier);
            }
            for (uint32_t i = plan.copies > RING_SLOTS ? plan.copies - RING_SLOTS : 0; i < plan.copies; i++) {
                wait_parity({full + i % RING_SLOTS * 8}, i / RING_SLOTS & 1);
            }
        }
        return;
    }
    uint64_t b = (uint64_t)((base & 0x3ffff) >> 4) | (uint64_t)1 << 16 | (uint64_t)(SWIZZLE_ATOM >> 4) << 32 |
                 (uint64_t)1 << 62;
    float sums[n / 2];
    uint32_t fragments[2][STEPS][4];
#pragma unroll
    for (int i = 0; i < n / 2; i++) {
        sums[i] = 0;
    }
#pragma unroll
    for (int i = 0; i < 2 * STEPS * 4; i++) {
        fragments[i / 16][i / 4 % STEPS][i % 4] = 0;
    }
    uint32_t y = plan.zero;
    uint64_t start = clock64_now();
#pragma unroll 1
    for (uint32_t lap = 0; lap < plan.laps; lap++) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
#pragma unroll
            for (int i = 0; i < loads; i++) {
                uint4 read = ld_shared_v4(base + (threadIdx.x % WARP_LANES + 32 * i) * 16);
                fragments[half][i % STEPS][i / STEPS % 4] |= read.x & y;
            }
            compute(fragments[half], y, operations);
            wgmma_fence();
#pragma unroll
            for (int step = 0; step < STEPS; step++) {
                wgmma_m64k16<n>::mma_async(sums, fragments[half][step], b, 1);
            }
            wgmma_commit_group();
            wgmma_wait_group<1>();
        }
    }
    wgmma_wait_group<0>();
    uint64_t end = clock64_now();
#pragma unroll
    for (int i = 0; i < n / 2; i++) {
        keep_after_wait(sums[i]);
    }
    span[2] = __float_as_uint(sums[0]);
    note_span(span, start, end);
}

static unsigned char *bulk_source(void) {
    static unsigned char *bytes;
    if (bytes == NULL) {
        check("cudaMalloc", cudaMalloc((void **)&bytes, 64 * SLOT_BYTES));
        check("cudaMemset", cudaMemset(bytes, 0, 64 * SLOT_BYTES));
    }
    return bytes;
}

/* Cycles of a lap (two groups of MMAs), from the difference between runs of two lengths. */
static double lap_cycles(const void *kernel, int warpgroups, uint32_t copies) {
    uint64_t *span = results(3);
    double cycles[2];
    for (int many = 0; many < 2; many++) {
        struct overlap_plan plan = {bulk_source(), (uint32_t)(many ? MANY_LAPS : FEW_LAPS),
                                    (uint32_t)warpgroups, many ? copies * MANY_LAPS : copies * FEW_LAPS, 0};
        void *arguments[] = {&span, &plan};
        struct shape shape = {1, warpgroups * WARPGROUP_LANES + WARP_LANES, 1,
                              B_BYTES + RING_SLOTS * SLOT_BYTES + SWIZZLE_ATOM};
        cycles[many] = measured_span(kernel, shape, arguments, span);
    }
    return (cycles[1] - cycles[0]) / (MANY_LAPS - FEW_LAPS);
}

template <int n, int operations, int loads, int threads> static void measure_up_to(int warpgroups, int most) {
    for (; warpgroups <= most; warpgroups++) {
        for (uint32_t copies = 0; copies <= (operations == 64 ? 1 : 0); copies++) {
            char parameters[160];
            snprintf(parameters, sizeof parameters,
                     "\"n\": %d, \"operations\": %d, \"loads\": %d, \"warpgroups\": %d, \"copies\": %u", n,
                     operations, loads, warpgroups, copies);
            double cycles =
                lap_cycles((const void *)loop_kernel<n, operations, loads, threads>, warpgroups, copies);
            report("consumer_lap_cycles", parameters, cycles, "cycles");
        }
    }
}

template <int n, int operations, int loads> static void measure(void) {
    measure_up_to<n, operations, loads, THREE_GROUPS>(1, 3);
    /* With N = 128 ptxas has too few registers for four fragments, and one product waits for the other. */
    if constexpr (n == 64) {
        measure_up_to<n, operations, loads, FOUR_GROUPS>(4, 4);
    }
}

template <int n> static void measure_all(void) {
    measure<n, 0, 0>();
    measure<n, 32, 0>();
    measure<n, 64, 0>();
    measure<n, 128, 0>();
    measure<n, 256, 0>();
    measure<n, 64, 4>();
    measure<n, 64, 16>();
}

/* ---- the SM's clock while its tensor cores work ---- */

#define POWER_LAPS 200

/* Every CTA multiplies noise or zeros for 100 us or more and writes down the cycles that its clock counted. */
template <int groups>
static __global__ void __launch_bounds__(256, 1) power_kernel(uint64_t *out, uint32_t noise, uint32_t laps) {
    extern __shared__ unsigned char memory[];
    uint32_t base = swizzle_aligned(memory);
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
        if (groups > 0) {
            wgmma_fence();
#pragma unroll
            for (int step = 0; step < STEPS; step++) {
                wgmma_m64k16<128>::mma_async(sums, fragments[step], b, 1);
            }
            wgmma_commit_group();
            wgmma_wait_group<0>();
        } else {
            compute(fragments, noise, 256);
        }
    }
    uint64_t cycles = clock64_now() - clock, ns = globaltimer_now() - timer;
#pragma unroll
    for (int i = 0; i < 64; i++) {
        keep_after_wait(sums[i]);
    }
    if (threadIdx.x == 0 && blockIdx.x == 0) {
        out[0] = cycles;
        out[1] = ns;
        out[2] = __float_as_uint(sums[0]) + fragments[0][0];
    }
}

template <int groups> static void measure_clock(int ctas, uint32_t noise, uint32_t laps) {
    uint64_t *out = results(3);
    void *arguments[] = {&out, &noise, &laps};
    double ghz[LAUNCHES];
    for (int i = -WARM_UP_LAUNCHES; i < LAUNCHES; i++) {
        launch((const void *)power_kernel<groups>, {ctas, 256, 1, B_BYTES + SWIZZLE_ATOM}, arguments);
        uint64_t measured[2];
        check("cudaMemcpy", cudaMemcpy(measured, out, sizeof measured, cudaMemcpyDeviceToHost));
        if (i >= 0) {
            ghz[i] = (double)measured[0] / (double)measured[1];
        }
    }
    reportf("working_clock_ghz", median(ghz, LAUNCHES), "GHz",
            "\"wgmma\": %d, \"ctas\": %d, \"noise\": %u, \"laps\": %u", groups, ctas, noise, laps);
}

void overlap(void) {
    int sms = sm_count();
    measure_clock<0>(sms, 1, 4 * POWER_LAPS);
    for (uint32_t noise = 0; noise < 2; noise++) {
        measure_clock<1>(1, noise, POWER_LAPS);
        measure_clock<1>(16, noise, POWER_LAPS);
        measure_clock<1>(sms, noise, POWER_LAPS / 4);
        measure_clock<1>(sms, noise, POWER_LAPS);
        measure_clock<1>(sms, noise, 20 * POWER_LAPS);
    }
    measure_all<64>();
    measure_all<128>();
}
