/* Operations that warps issue among their warpgroup's MMAs with A in registers: between the first and the
 * second MMA of a group, or after the last one. They do not depend on the MMAs, so ptxas decides where they
 * lie. */
#include "../../../submission/gpu/instructions/wgmma.cuh"
#include "harness.cuh"

#define STEPS      4 /* MMAs of a group */
#define CHAINS     16
#define FEW_LAPS   10
#define MANY_LAPS  40
#define B_BYTES    16384 /* up to 128 rows of 128 bytes */
#define TWO_GROUPS (2 * WARPGROUP_LANES)

enum family { PRMT, MUL_F16X2, FMA_F32, PRMT_AND_MUL, LOP3_AND_MAD, FAMILIES };
static const char *const family_names[] = {"prmt", "mul_f16x2", "fma_f32", "prmt_mul_f16x2", "lop3_mad_u32"};

template <int family>
static __device__ __forceinline__ void operate(uint32_t &x, uint32_t y, uint32_t z, bool odd) {
    if (family == PRMT || (family == PRMT_AND_MUL && !odd)) {
        asm volatile("prmt.b32 %0, %0, %1, 0x7610;" : "+r"(x) : "r"(y));
    } else if (family == MUL_F16X2 || family == PRMT_AND_MUL) {
        asm volatile("mul.rn.f16x2 %0, %0, %1;" : "+r"(x) : "r"(y));
    } else if (family == FMA_F32) {
        asm volatile("fma.rn.f32 %0, %0, %1, %1;" : "+r"(x) : "r"(y));
    } else if (!odd) {
        asm volatile("lop3.b32 %0, %0, %1, %2, 0xca;" : "+r"(x) : "r"(y), "r"(z));
    } else {
        asm volatile("mad.lo.u32 %0, %0, %1, %1;" : "+r"(x) : "r"(y));
    }
}

template <int family, int operations>
static __device__ __forceinline__ void compute(uint32_t (&x)[CHAINS], uint32_t y) {
#pragma unroll
    for (int i = 0; i < operations; i++) {
        operate<family>(x[i % CHAINS], y, x[(i + 5) % CHAINS], i / CHAINS % 2 != 0);
    }
}

template <int n, int family, int operations, bool behind_last>
static __global__ void __launch_bounds__(TWO_GROUPS, 1)
    beside_kernel(uint64_t *span, uint32_t laps, uint32_t zero) {
    extern __shared__ unsigned char memory[];
    uint32_t base = swizzle_aligned(memory);
    for (uint32_t i = threadIdx.x * 4; i < B_BYTES; i += blockDim.x * 4) {
        asm volatile("st.shared.u32 [%0], %1;" ::"r"(base + i), "r"(0) : "memory");
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    uint64_t b = (uint64_t)((base & 0x3ffff) >> 4) | (uint64_t)1 << 16 | (uint64_t)(SWIZZLE_ATOM >> 4) << 32 |
                 (uint64_t)1 << 62;
    float sums[n / 2];
    uint32_t x[CHAINS], fragments[STEPS][4];
#pragma unroll
    for (int i = 0; i < n / 2; i++) {
        sums[i] = 0;
    }
#pragma unroll
    for (int i = 0; i < CHAINS; i++) {
        x[i] = zero + i * threadIdx.x;
        fragments[i / 4][i % 4] = zero * (i + 1);
    }
    uint64_t start = clock64_now();
#pragma unroll 1
    for (uint32_t turn = 0; turn < laps; turn++) {
        wgmma_fence();
#pragma unroll
        for (int step = 0; step < STEPS; step++) {
            wgmma_m64k16<n>::mma_async(sums, fragments[step], b, 1);
            if (!behind_last && step == 0) {
                compute<family, operations>(x, zero);
            }
        }
        wgmma_commit_group();
        if (behind_last) {
            compute<family, operations>(x, zero);
        }
        wgmma_wait_group<0>();
    }
    uint64_t end = clock64_now();
#pragma unroll
    for (int i = 0; i < n / 2; i++) {
        keep_after_wait(sums[i]);
    }
    uint32_t kept = __float_as_uint(sums[0]);
#pragma unroll
    for (int i = 0; i < CHAINS; i++) {
        kept ^= x[i];
    }
    span[2 + threadIdx.x] = kept;
    note_span(span, start, end);
}

template <int n, int family, int operations, bool behind_last> static void measure(void) {
    const void *kernel = (const void *)beside_kernel<n, family, operations, behind_last>;
    for (int warpgroups = 1; warpgroups <= 2; warpgroups++) {
        uint64_t *span = results(2 + TWO_GROUPS);
        double cycles[2];
        for (int many = 0; many < 2; many++) {
            uint32_t laps = many ? MANY_LAPS : FEW_LAPS, zero = 0;
            void *arguments[] = {&span, &laps, &zero};
            struct shape shape = {1, warpgroups * WARPGROUP_LANES, 1, B_BYTES + SWIZZLE_ATOM};
            cycles[many] = measured_span(kernel, shape, arguments, span);
        }
        reportf("beside_mma_cycles", (cycles[1] - cycles[0]) / (MANY_LAPS - FEW_LAPS), "cycles",
                "\"n\": %d, \"family\": \"%s\", \"operations\": %d, \"behind\": \"%s\", \"warpgroups\": %d", n,
                family_names[family], operations, behind_last ? "the last" : "the first", warpgroups);
    }
}

template <int n, int family> static void measure_family(void) {
    measure<n, family, 32, false>();
    measure<n, family, 48, false>();
    measure<n, family, 96, false>();
    measure<n, family, 64, true>();
    measure<n, family, 128, true>();
    measure<n, family, 256, true>();
}

template <int n> static void measure_all(void) {
    measure<n, PRMT, 0, false>();
    measure_family<n, PRMT>();
    measure_family<n, MUL_F16X2>();
    measure_family<n, FMA_F32>();
    measure_family<n, PRMT_AND_MUL>();
    measure_family<n, LOP3_AND_MAD>();
}

void beside_mma(void) {
    measure_all<64>();
    measure_all<128>();
}
