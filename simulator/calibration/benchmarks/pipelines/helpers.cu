/* Warps that dequantize while warpgroups multiply: each helper loads some bytes a lane, waits for them,
 * computes, and stores to shared or global memory, while copies arrive. */
#include "../../../submission/gpu/instructions/wgmma.cuh"
#include "../../../submission/gpu/instructions/wgmma_descriptors.h"
#include "harness.cuh"

#define FEW_ITEMS   8
#define MANY_ITEMS  24
#define HELPERS     4 /* helper warps; a run uses some or all of them */
#define GROUPS      2 /* warpgroups that multiply; after them comes one warp that copies */
#define THREADS     (WARPGROUP_LANES * (1 + GROUPS) + WARP_LANES)
#define N           128
#define STEPS       4 /* MMAs of a group */
#define B_BYTES     16384
#define RING_SLOTS  4
#define SLOT_BYTES  16384
#define STORE_UNITS 4
#define STORE_BYTES (STORE_UNITS * WARP_LANES * 16) /* bytes that a warp stores for an item */
#define ITEM_BYTES  512                             /* bytes of packed values that they are made from */
#define ITEM_APART  2048                            /* bytes from one row of packed values to the next */
#define SCALE_TILE  512                             /* bytes of a tile of scales: 16 for each of 32 rows */
#define ITEM_TILES  16                              /* tiles of scales */
/* number of CTAs' sources: later CTAs read the same ones, so that L2 holds them */
#define SOURCES       16
#define HELPER_SHARED (B_BYTES + RING_SLOTS * SLOT_BYTES + HELPERS * STORE_BYTES + SWIZZLE_ATOM)
#define SIGNS         0x80808080
#define HALVES        0x8e008e00

enum beside { ALONE, BESIDE_MMAS, BESIDE_MMAS_AND_COPIES };
static const char *const beside_names[] = {"none", "wgmma", "wgmma and copies"};

struct helper_plan {
    const unsigned char *bytes, *scales, *copied;
    unsigned char *stored;
    uint32_t warps, items;
    enum beside beside;
};

/* Four of eight packed values as halves times a scale. */
static __device__ __forceinline__ void dequantize(uint32_t word, uint32_t scale, uint32_t (&made)[2]) {
    uint32_t bytes = (word & SIGNS) | ((word >> 3) & ~SIGNS);
    uint32_t halves[2] = {(bytes * 256) & HALVES, bytes & HALVES};
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(made[0]) : "r"(halves[0]), "r"(scale));
    asm("mul.rn.f16x2 %0, %1, %2;" : "=r"(made[1]) : "r"(halves[1]), "r"(scale));
}

/* A lane's eight words of an item: four loads of eight bytes, where two lanes load the same, or two of 16. */
template <int bytes>
static __device__ __forceinline__ void load_words(uint32_t (&words)[8], const unsigned char *from,
                                                  uint32_t lane) {
    if constexpr (bytes == 8) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            uint2 two = *(const uint2 *)(from + lane / 4 * 64 + i * 16 + lane % 4 / 2 * 8);
            words[2 * i] = two.x;
            words[2 * i + 1] = two.y;
        }
    } else {
#pragma unroll
        for (int i = 0; i < 2; i++) {
            uint4 four = *(const uint4 *)(from + i * ITEM_BYTES + lane * 16);
            words[4 * i] = four.x;
            words[4 * i + 1] = four.y;
            words[4 * i + 2] = four.z;
            words[4 * i + 3] = four.w;
        }
    }
}

/* One after another, as the loads complete. */
template <int bytes, bool to_shared>
static __device__ __forceinline__ void make_items(const struct helper_plan &plan, uint32_t shared,
                                                  uint32_t warp) {
    const uint32_t lane = threadIdx.x % WARP_LANES;
    const uint32_t first = (blockIdx.x % SOURCES * HELPERS + warp) * MANY_ITEMS;
    unsigned char *stored = plan.stored + (size_t)(blockIdx.x * HELPERS + warp) * MANY_ITEMS * STORE_BYTES;
#pragma unroll 1
    for (uint32_t row = first; row < first + plan.items; row++) {
        const unsigned char *scales =
            plan.scales + (row / 32 * ITEM_TILES + lane / 4 * 2) * SCALE_TILE + row % 32 * 16;
        uint32_t words[8], scale[2] = {*(const uint32_t *)scales, *(const uint32_t *)(scales + SCALE_TILE)};
        load_words<bytes>(words, plan.bytes + (size_t)row * ITEM_APART, lane);
#pragma unroll
        for (int i = 0; i < STORE_UNITS; i++) {
            uint32_t made[2][2];
            dequantize(words[2 * i], scale[i % 2], made[0]);
            dequantize(words[2 * i + 1], scale[i % 2], made[1]);
            const uint32_t four[4] = {made[0][0], made[0][1], made[1][0], made[1][1]};
            if (to_shared) {
                st_shared_v4(shared + (i * WARP_LANES + lane) * 16, four);
            } else { /* two lanes write a sector, each pair in a line of its own */
                *(uint4 *)(stored + lane / 2 * 128 + i * 32 + lane % 2 * 16) =
                    make_uint4(four[0], four[1], four[2], four[3]);
            }
        }
        stored += STORE_BYTES;
    }
}

/* A warpgroup: groups of MMAs with A in registers until the helpers have ended. One word tells all of its warps
 * whether to go on. */
static __device__ __forceinline__ void multiply(uint32_t base, volatile uint32_t *ended,
                                                volatile uint32_t *stops, uint32_t helpers, uint64_t *kept) {
    uint64_t b = wgmma_swizzled_tile_descriptor(base);
    float sums[N / 2];
    uint32_t fragments[2][STEPS][4], lap = 0;
#pragma unroll
    for (int i = 0; i < N / 2; i++) {
        sums[i] = 0;
    }
#pragma unroll
    for (int i = 0; i < 2 * STEPS * 4; i++) {
        fragments[i / 16][i / 4 % STEPS][i % 4] = threadIdx.x;
    }
    for (bool going = true; going; lap++) {
#pragma unroll
        for (int half = 0; half < 2; half++) {
#pragma unroll
            for (int i = 0; i < 4 * STEPS; i++) {
                uint32_t made[2];
                dequantize(fragments[half][i / 4][i % 4], SIGNS, made);
                fragments[half][i / 4][i % 4] = made[0] ^ made[1];
            }
            wgmma_fence();
#pragma unroll
            for (int step = 0; step < STEPS; step++) {
                wgmma_m64k16<N>::mma_async(sums, fragments[half][step], b, 1);
            }
            wgmma_commit_group();
            wgmma_wait_group<1>();
        }
        if (threadIdx.x % WARPGROUP_LANES == 0) {
            stops[lap % 2] = *ended == helpers;
        }
        bar_sync(1 + threadIdx.x / WARPGROUP_LANES, WARPGROUP_LANES);
        going = stops[lap % 2] == 0;
    }
    wgmma_wait_group<0>();
#pragma unroll
    for (int i = 0; i < N / 2; i++) {
        keep_after_wait(sums[i]);
    }
    *kept = __float_as_uint(sums[0]);
}

/* One thread copies until the helpers have ended. */
static __device__ __forceinline__ void copy(const unsigned char *from, uint32_t ring, uint32_t full,
                                            volatile uint32_t *ended, uint32_t helpers) {
    uint32_t asked = 0;
    for (; *ended < helpers; asked++) {
        struct mbarrier barrier = {full + asked % RING_SLOTS * 8};
        if (asked >= RING_SLOTS) {
            wait_parity(barrier, asked / RING_SLOTS + 1 & 1);
        }
        mbarrier_arrive_expect_tx(barrier, SLOT_BYTES);
        cp_async_bulk(ring + asked % RING_SLOTS * SLOT_BYTES,
                      from + (blockIdx.x + asked * gridDim.x) % 1024 * SLOT_BYTES, SLOT_BYTES, barrier);
    }
    for (uint32_t i = asked > RING_SLOTS ? asked - RING_SLOTS : 0; i < asked; i++) {
        wait_parity({full + i % RING_SLOTS * 8}, i / RING_SLOTS & 1);
    }
}

/* Warps: the helpers', those that multiply, one that copies. */
template <int bytes, bool to_shared>
static __global__ void __launch_bounds__(THREADS, 1) helper_kernel(uint64_t *span, struct helper_plan plan) {
    extern __shared__ unsigned char memory[];
    __shared__ uint64_t barriers[RING_SLOTS];
    __shared__ uint32_t ended, stops[GROUPS][2];
    const uint32_t full = cvta_to_shared(barriers);
    const uint32_t base = swizzle_aligned(memory);
    const uint32_t warp = __shfl_sync(~0u, threadIdx.x / WARP_LANES, 0), ring = base + B_BYTES;
    if (threadIdx.x == 0) {
        ended = 0;
        for (int i = 0; i < RING_SLOTS; i++) {
            mbarrier_init({full + i * 8}, 1);
        }
        fence_mbarrier_init();
    }
    for (uint32_t i = threadIdx.x * 4; i < B_BYTES; i += blockDim.x * 4) {
        st_shared_u32(base + i, 0);
    }
    fence_proxy_async_shared();
    __syncthreads();
    if (warp < plan.warps) {
        uint64_t start = clock64_now();
        make_items<bytes, to_shared>(plan, ring + RING_SLOTS * SLOT_BYTES + warp * STORE_BYTES, warp);
        uint64_t end = clock64_now();
        __syncwarp();
        if (threadIdx.x % WARP_LANES == 0) {
            atomicAdd(&ended, 1u);
            if (blockIdx.x == 0) {
                note_span(span, start, end);
            }
        }
    } else if (warp == HELPERS * (1 + GROUPS) && plan.beside == BESIDE_MMAS_AND_COPIES) {
        if (threadIdx.x % WARP_LANES == 0) {
            copy(plan.copied, ring, full, &ended, plan.warps);
        }
    } else if (warp >= HELPERS && warp < HELPERS * (1 + GROUPS) && plan.beside != ALONE) {
        multiply(base, &ended, stops[warp / 4 - 1], plan.warps, &span[2 + warp / 4]);
    }
}

static double span_cycles(const void *kernel, const struct helper_plan &plan, int ctas, bool far) {
    uint64_t *words = results(8);
    void *arguments[] = {&words, (void *)&plan};
    double cycles[LAUNCHES];
    for (int i = -WARM_UP_LAUNCHES; i < LAUNCHES; i++) {
        uint64_t span[2] = {UINT64_MAX, 0};
        if (far) {
            replace_l2();
        }
        check("cudaMemcpy", cudaMemcpy(words, span, sizeof span, cudaMemcpyHostToDevice));
        launch(kernel, {ctas, THREADS, 1, HELPER_SHARED}, arguments);
        check("cudaMemcpy", cudaMemcpy(span, words, sizeof span, cudaMemcpyDeviceToHost));
        if (i >= 0) {
            cycles[i] = (double)(span[1] - span[0]);
        }
    }
    return median(cycles, LAUNCHES);
}

/* Cycles for an item of every helper, from the difference between runs with two numbers of items. */
template <int bytes, bool to_shared>
static void measure(const struct helper_plan &memory, uint32_t warps, enum beside beside, int ctas = 1,
                    bool far = false) {
    struct helper_plan plan = memory;
    double cycles[2];
    plan.warps = warps;
    plan.beside = beside;
    for (int many = 0; many < 2; many++) {
        plan.items = many ? MANY_ITEMS : FEW_ITEMS;
        cycles[many] = span_cycles((const void *)helper_kernel<bytes, to_shared>, plan, ctas, far);
    }
    reportf("helper_item_cycles", (cycles[1] - cycles[0]) / (MANY_ITEMS - FEW_ITEMS), "cycles",
            "\"load_bytes\": %d, \"stores\": \"%s\", \"warps\": %u, \"beside\": \"%s\", \"ctas\": %d, "
            "\"memory\": \"%s\"",
            bytes, to_shared ? "shared" : "global", warps, beside_names[beside], ctas, far ? "HBM" : "L2");
}

void helpers(void) {
    struct helper_plan memory;
    const size_t rows = SOURCES * HELPERS * MANY_ITEMS, copied = (size_t)1024 * SLOT_BYTES;
    unsigned char *all;
    memset(&memory, 0, sizeof memory);
    check("cudaMalloc", cudaMalloc((void **)&all, rows * (ITEM_APART + ITEM_TILES * SCALE_TILE / 32) + copied));
    check("cudaMemset", cudaMemset(all, 0, rows * (ITEM_APART + ITEM_TILES * SCALE_TILE / 32) + copied));
    check("cudaMalloc",
          cudaMalloc((void **)&memory.stored, (size_t)sm_count() * HELPERS * MANY_ITEMS * STORE_BYTES));
    memory.copied = all;
    memory.bytes = all + copied;
    memory.scales = memory.bytes + rows * ITEM_APART;
    for (uint32_t warps = 1; warps <= 3; warps += 2) {
        for (int beside = 0; beside <= BESIDE_MMAS_AND_COPIES; beside++) {
            measure<8, true>(memory, warps, (enum beside)beside);
            measure<8, false>(memory, warps, (enum beside)beside);
        }
    }
    measure<16, true>(memory, 1, ALONE);
    measure<16, true>(memory, 4, ALONE);
    measure<16, true>(memory, 4, BESIDE_MMAS_AND_COPIES);
    measure<8, false>(memory, 3, ALONE, sm_count());
    measure<8, false>(memory, 3, BESIDE_MMAS_AND_COPIES, sm_count());
    measure<8, false>(memory, 3, BESIDE_MMAS_AND_COPIES, sm_count(), true);
    check("cudaFree", cudaFree(all));
    check("cudaFree", cudaFree(memory.stored));
}
