/* The place of a thread in a narrow tile's kernel, and A's way to shared memory (hopper_narrow_dual_gemm.cuh).
 *
 * A is NVFP4, which a thread dequantizes, or has 16 bits an element, which it only puts in the order of K that
 * the dequantization gives B: either way the rest of the kernel sees the same fragments or core matrices. */
#ifndef HOPPER_NARROW_A_CUH
#define HOPPER_NARROW_A_CUH

#include "hopper_narrow_products.cuh"

namespace hopper {

/* ---- place ---- */

/* The place of this thread in its CTA, and of the CTA in the grid. */
struct narrow_coord {
    int lane, quad, quad_lane; /* lane = 4 quad + quad_lane */
    int warp, warp_n, warp_k, warps;
    int32_t m, tile_n, batch, rank; /* m: first row of A; tile_n: tile along the rows of B; rank: of this CTA
                                       among those of its tile */
    int32_t first_step, steps;      /* this CTA's share of K; steps may be 0 */
};

template <class T>
static __device__ __forceinline__ struct narrow_coord find_narrow_tile(const struct hopper_narrow_params &p) {
    struct narrow_coord coord;
    coord.lane = threadIdx.x % WARP_THREADS;
    coord.quad = coord.lane / 4;
    coord.quad_lane = coord.lane % 4;
    coord.warp = threadIdx.x / WARP_THREADS;
    if (T::by_warpgroup) { /* tells the compiler that it is uniform, or ptxas serializes wgmma (C7520) */
        coord.warp = __shfl_sync(~0u, coord.warp, 0);
    }
    coord.warp_n = coord.warp % p.layout.warps_n;
    coord.warp_k = coord.warp / p.layout.warps_n;
    coord.warps = p.layout.warps_n * p.layout.warps_k;
    coord.m = blockIdx.y * T::a_blocks * NARROW_A_ROWS;
    const uint32_t split_k = (uint32_t)T::split_of(p.layout);
    coord.tile_n = (int32_t)(blockIdx.x / split_k);
    coord.rank = (int32_t)(blockIdx.x % split_k);
    coord.batch = blockIdx.z;
    int32_t all = (p.scale_words + 1) / 2; /* two scale words a step */
    coord.first_step = all * coord.rank / (int32_t)split_k;
    coord.steps = all * (coord.rank + 1) / (int32_t)split_k - coord.first_step;
    return coord;
}

/* The row of B1 and B2 that quad `quad` of block `block` holds, for warp number `unit` along N.  A warp's rows
 * follow each other in each quarter of a scale tile, two for each block, so that a block's scale factors fill
 * whole sectors. */
template <class T> static __device__ __forceinline__ int32_t b_row(int32_t unit, int block, int quad) {
    constexpr int units = SCALE_TILE_ROWS / T::warp_rows, rows_of_quarter = T::warp_rows / SCALE_ENTRY_WORDS;
    return unit / units * SCALE_TILE_ROWS + unit % units * rows_of_quarter + block * 2 + quad % 2 +
           quad / 2 * SCALE_ENTRIES;
}

/* The offset of a row's first scale factor in its batch. */
static __device__ __forceinline__ int64_t scale_row_offset(const struct hopper_narrow_params &p, int32_t row) {
    return row / SCALE_TILE_ROWS * p.scale_tile_step +
           row % SCALE_TILE_ROWS / SCALE_ENTRIES * p.scale_quarter_step +
           row % SCALE_ENTRIES * p.scale_row_step;
}

/* A lane takes 32 elements of a row and a step, which is half of a scale word: where its 16 bytes of fp4 and
 * its scale word are; `word` is the scale word's number in the row. */
#define LANE_FP4_OFFSET(word, quad_lane) ((uint64_t)(word) * (NARROW_STEP_BYTES / 2) + (quad_lane) % 2 * 16)
#define LANE_SCALE_WORD(step, quad_lane) (2 * (step) + (quad_lane) / 2)

/* ---- A ---- */

#define FP4_IN_16_BITS 4      /* fp4 elements in the space of one of 16 bits */
#define LOW_HALVES     0x5410 /* prmt: the low halves of two words */
#define HIGH_HALVES    0x7632

/* Units of A that a thread brings to shared memory: each is a lane's 32 elements of a block, zeros past the end
 * of A. */
template <class T, int a_type = T::a_type> struct packed_a {
    uint4 halves[T::a_units][4]; /* 8 elements each */
};

template <class T> struct packed_a<T, CUSTOM_KERNEL_A_NVFP4> {
    uint4 fp4[T::a_units];
    uint16_t scales[T::a_units];
};

/* Loads all of a thread's units before any is used, so that they wait for memory once. */
template <class T>
static __device__ __forceinline__ void load_a(struct packed_a<T> &packed, const struct hopper_narrow_params &p,
                                              const struct narrow_coord &coord, int32_t first_step,
                                              int32_t steps) {
#pragma unroll
    for (int i = 0; i < T::a_units; i++) {
        int block = coord.warp + i * coord.warps, step = block / T::a_blocks;
        int32_t row = coord.m + block % T::a_blocks * NARROW_A_ROWS + coord.quad;
        int32_t word = LANE_SCALE_WORD(first_step + step, coord.quad_lane);
        const bool exists = step < steps && row < p.m && word < p.scale_words;
        if constexpr (T::a_type == CUSTOM_KERNEL_A_NVFP4) {
            packed.fp4[i] = make_uint4(0, 0, 0, 0);
            packed.scales[i] = 0;
            if (exists) {
                packed.fp4[i] = *(const uint4 *)(p.a + ((int64_t)coord.batch * p.m + row) * p.fp4_row_bytes +
                                                 LANE_FP4_OFFSET(word, coord.quad_lane));
                packed.scales[i] = *(
                    const uint16_t *)(p.sfa + coord.batch * p.sfa_batch_bytes + scale_row_offset(p, row) +
                                      (uint64_t)word * p.scale_word_step + LANE_SCALE_OFFSET(coord.quad_lane));
            }
        } else {
            const uint4 *from =
                (const uint4 *)(p.a + (row * p.fp4_row_bytes + LANE_FP4_OFFSET(word, coord.quad_lane)) *
                                          FP4_IN_16_BITS);
#pragma unroll
            for (int part = 0; part < 4; part++) {
                packed.halves[i][part] = exists ? from[part] : make_uint4(0, 0, 0, 0);
            }
        }
    }
}

/* Pairs (0, 4), (1, 5), (2, 6), (3, 7) of eight elements: the order of dequantize_word. */
static __device__ __forceinline__ void arrange_halves(const uint4 &eight, uint32_t (&pairs)[4]) {
    pairs[0] = prmt(eight.x, eight.z, LOW_HALVES);
    pairs[1] = prmt(eight.x, eight.z, HIGH_HALVES);
    pairs[2] = prmt(eight.y, eight.w, LOW_HALVES);
    pairs[3] = prmt(eight.y, eight.w, HIGH_HALVES);
}

/* Stores units as the tensor cores' B operand (hopper_narrow_products.cuh): four vectors a lane and block, each
 * for two K steps of 16. */
template <class T>
static __device__ __forceinline__ void store_a(uint32_t to, const struct packed_a<T> &packed,
                                               const struct narrow_coord &coord, int32_t steps) {
#pragma unroll
    for (int i = 0; i < T::a_units; i++) {
        int block = coord.warp + i * coord.warps;
        if (block >= steps * T::a_blocks) {
            break;
        }
        uint32_t scales[2];
        if constexpr (T::a_type == CUSTOM_KERNEL_A_NVFP4) {
            widen_scales(packed.scales[i], scales);
        }
#pragma unroll
        for (int word = 0; word < 4; word++) {
            uint32_t pairs[4];
            if constexpr (T::a_type == CUSTOM_KERNEL_A_NVFP4) {
                dequantize_word(word_of(packed.fp4[i], word), scales[word / 2], pairs);
            } else {
                arrange_halves(packed.halves[i][word], pairs);
            }
            if constexpr (T::by_warpgroup) {
                store_core_matrices(to + block * NARROW_A_BLOCK_BYTES, word, coord.lane, pairs);
            } else {
                st_shared_v4(to + block * NARROW_A_BLOCK_BYTES + word * NARROW_VECTOR_BYTES + coord.lane * 16,
                             pairs);
            }
        }
    }
    if constexpr (T::by_warpgroup) {
        fence_proxy_async_shared(); /* wgmma reads A after the next barrier */
    }
}

/* Before the wait for the previous kernel: prefetches A and its scale factors to L2, some lines by each CTA.  A
 * prefetch reads nothing, so it cannot return data from before that kernel's writes. */
template <class T>
static __device__ __forceinline__ void ask_for_a(const struct hopper_narrow_params &p,
                                                 const struct narrow_coord &coord) {
    if constexpr (T::a_type != CUSTOM_KERNEL_A_NVFP4) {
        const int64_t line = (threadIdx.x * (int64_t)gridDim.x + blockIdx.x) * L2_LINE_BYTES;
        if (line < p.m * p.fp4_row_bytes * FP4_IN_16_BITS) {
            prefetch_global_l2(p.a + line);
        }
        return;
    }
    const int half = (int)blockDim.x / 2;
    const bool scales = (int)threadIdx.x >= half;
    const int64_t bytes = scales ? p.sfa_batch_bytes : p.m * p.fp4_row_bytes;
    const int64_t line =
        ((threadIdx.x - (scales ? half : 0)) * (int64_t)gridDim.x + blockIdx.x) * L2_LINE_BYTES;
    if (line < bytes) {
        prefetch_global_l2((scales ? p.sfa : p.a) + coord.batch * bytes + line);
    }
}

} // namespace hopper

#endif
