/* Stores to shared memory, fence.proxy.async and a barrier by warpgroups while another one's MMAs run, as when
 * dequantized values are handed to the next MMAs. The MMAs have A in registers or in shared memory; the latter
 * read both operands from there. */
#include "harness.cuh"

#define TURNS         24
#define COUNTED       16   /* the last turns, which are timed */
#define OPERAND_BYTES 8192 /* A: 64 rows of 128 bytes */
#define B_BYTES       16384
#define STORES        16  /* stores of a turn, 16 bytes a lane */
#define PLACES        4   /* places that the stores go to, in turn */
#define MOST_GROUPS   3   /* the most warpgroups that store */
#define TURN_BARS     1   /* named barrier of the warps that store */
#define MMAS          8   /* MMAs of a group */
#define GROUPS        120 /* groups of MMAs: enough to outlast the slowest turns */

/* The accumulators live inside the asm block, as in tensor.cu. */
#define R8(b)       "d" #b "0,d" #b "1,d" #b "2,d" #b "3,d" #b "4,d" #b "5,d" #b "6,d" #b "7"
#define ACC_64      R8(0) "," R8(1) "," R8(2) "," R8(3)
#define ACC_128     ACC_64 "," R8(4) "," R8(5) "," R8(6) "," R8(7)
#define MMA(n, a)   "wgmma.mma_async.sync.aligned.m64n" #n "k16.f32.f16.f16 {" ACC_##n "}, " a ";\n\t"
#define SHARED      "%1, %2, 1, 1, 1, 0, 0"
#define REGISTERS   "{%3, %3, %3, %3}, %2, 1, 1, 1, 0"
#define TWICE(text) text text
#define GROUP(n, a)                                                                                            \
    asm volatile("{.reg .f32 " ACC_##n ";\n\twgmma.fence.sync.aligned;\n\t" TWICE(TWICE(                       \
        TWICE(MMA(n, a)))) "wgmma.commit_group.sync.aligned;\n\twgmma.wait_group.sync.aligned 0;\n\t"          \
                           "mov.b32 %0, d00;\n\t}"                                                             \
                 : "=r"(kept)                                                                                  \
                 : "l"(a_rows), "l"(b_rows), "r"(fragment)                                                     \
                 : "memory")

enum form { NONE, REGISTERS_64, SHARED_64, REGISTERS_128, SHARED_128, FORMS };
static const char *const form_names[] = {"none", "m64n64k16, A in registers", "m64n64k16, A in shared memory",
                                         "m64n128k16, A in registers", "m64n128k16, A in shared memory"};

template <int form>
static __device__ __forceinline__ uint32_t mma_group(uint64_t a_rows, uint64_t b_rows, uint32_t fragment) {
    uint32_t kept = 0;
    if (form == REGISTERS_64) {
        GROUP(64, REGISTERS);
    } else if (form == SHARED_64) {
        GROUP(64, SHARED);
    } else if (form == REGISTERS_128) {
        GROUP(128, REGISTERS);
    } else if (form == SHARED_128) {
        GROUP(128, SHARED);
    }
    return kept;
}

static __device__ __forceinline__ uint64_t rows_at(uint32_t address) {
    return (uint64_t)((address & 0x3ffff) >> 4) | (uint64_t)1 << 16 | (uint64_t)(SWIZZLE_ATOM >> 4) << 32 |
           (uint64_t)1 << 62;
}

/* spans: the cycles of the timed turns, those of their stores alone, the number of MMAs, and the cycles of
 * these. */
template <int form, bool computed>
static __global__ void __launch_bounds__((1 + MOST_GROUPS) * WARPGROUP_LANES, 1)
    stores_kernel(uint64_t *spans, uint32_t fragment) {
    extern __shared__ unsigned char memory[];
    __shared__ uint32_t over;
    uint32_t threads = blockDim.x - WARPGROUP_LANES;
    uint32_t base = swizzle_aligned(memory);
    for (uint32_t i = threadIdx.x * 4; i < OPERAND_BYTES + B_BYTES; i += blockDim.x * 4) {
        asm volatile("st.shared.u32 [%0], %1;" ::"r"(base + i), "r"(0) : "memory");
    }
    if (threadIdx.x == 0) {
        over = 0;
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x < WARPGROUP_LANES) {
        uint64_t mmas = 0, start = clock64_now(), end = 0;
        uint32_t kept = 0;
#pragma unroll 1
        /* the same number for each warp */
        for (uint32_t i = 0; i < GROUPS && form != NONE; i++) {
            kept ^= mma_group<form>(rows_at(base), rows_at(base + OPERAND_BYTES), fragment);
            if (end == 0) {
                mmas += MMAS;
                end = *(volatile uint32_t *)&over != 0 ? clock64_now() : 0;
            }
        }
        if (threadIdx.x == 0) {
            spans[2] = mmas;
            spans[3] = end - start;
            spans[4] = kept;
        }
        return;
    }
    uint32_t thread = threadIdx.x - WARPGROUP_LANES;
    uint32_t to = base + OPERAND_BYTES + B_BYTES + thread * sizeof(uint4);
    uint64_t turns = 0, stores = 0;
    uint4 values[2] = {make_uint4(fragment, thread, 1, 2), make_uint4(thread, fragment, 3, 4)};
#pragma unroll 1
    for (uint32_t turn = 0; turn < TURNS; turn++) {
        bar_sync(TURN_BARS, threads);
        uint64_t start = clock64_now();
#pragma unroll
        for (uint32_t i = 0; i < STORES; i++) {
            uint4 &value = values[i % 2];
            asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to + i % PLACES * threads * 16),
                         "r"(value.x), "r"(value.y), "r"(value.z), "r"(value.w)
                         : "memory");
            if (computed) {
                asm volatile("lop3.b32 %0, %0, %4, %5, 0xca;\n\tlop3.b32 %1, %1, %4, %5, 0xca;\n\t"
                             "lop3.b32 %2, %2, %4, %5, 0xca;\n\tlop3.b32 %3, %3, %4, %5, 0xca;"
                             : "+r"(value.x), "+r"(value.y), "+r"(value.z), "+r"(value.w)
                             : "r"(turn), "r"(fragment));
            }
        }
        uint64_t stored = clock64_now();
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        bar_sync(TURN_BARS, threads);
        if (turn >= TURNS - COUNTED) {
            turns += clock64_now() - start;
            stores += stored - start;
        }
    }
    spans[5 + thread] = values[0].x + values[1].y;
    if (thread == 0) {
        spans[0] = turns;
        spans[1] = stores;
        *(volatile uint32_t *)&over = 1;
    }
}

template <int form, bool computed> static void measure_stores(int groups) {
    uint64_t *spans = results(5 + MOST_GROUPS * WARPGROUP_LANES);
    uint32_t fragment = 0;
    double turn[LAUNCHES], stores[LAUNCHES], mma[LAUNCHES];
    for (int i = -WARM_UP_LAUNCHES; i < LAUNCHES; i++) {
        uint64_t measured[4];
        void *arguments[] = {&spans, &fragment};
        int threads = (1 + groups) * WARPGROUP_LANES;
        launch((const void *)stores_kernel<form, computed>,
               {1, threads, 1, OPERAND_BYTES + B_BYTES + PLACES * threads * 16 + SWIZZLE_ATOM}, arguments);
        check("cudaMemcpy", cudaMemcpy(measured, spans, sizeof measured, cudaMemcpyDeviceToHost));
        if (i >= 0) {
            turn[i] = (double)measured[0] / COUNTED;
            stores[i] = (double)measured[1] / COUNTED;
            mma[i] = (double)measured[3] / (double)measured[2];
        }
    }
    char parameters[160];
    snprintf(parameters, sizeof parameters, "\"mma\": \"%s\", \"computed\": %s, \"warpgroups\": %d",
             form_names[form], computed ? "true" : "false", groups);
    report("shared_stores_turn_cycles", parameters, median(turn, LAUNCHES), "cycles");
    report("shared_stores_cycles", parameters, median(stores, LAUNCHES), "cycles");
    if (form != NONE) {
        report("mma_beside_stores_cycles", parameters, median(mma, LAUNCHES), "cycles");
    }
}

template <int form> static void measure_form(void) {
    for (int groups = 1; groups <= MOST_GROUPS; groups++) {
        measure_stores<form, false>(groups);
        measure_stores<form, true>(groups);
    }
}

void stores_beside_mma(void) {
    measure_form<NONE>();
    measure_form<REGISTERS_64>();
    measure_form<SHARED_64>();
    measure_form<REGISTERS_128>();
    measure_form<SHARED_128>();
}
