/* The kernel that runs before the GEMM: expands A once for all CTAs, and brings scale factors that the GEMM
 * cannot copy as they are (plain rows, or K no multiple of a stage) into padded blocks. */
#ifndef HOPPER_PREPARE_KERNEL_CUH
#define HOPPER_PREPARE_KERNEL_CUH

#include "config.h"
#include "expand.cuh"

#define CHUNK_GROUPS (PERMUTED_ELEMS / NVFP4_GROUP_ELEMS)

/* Pair `pair` of expand_word alone. */
static __device__ __forceinline__ uint32_t expand_pair(uint32_t codes, uint32_t scale, int pair) {
    uint32_t bytes = pair % 2 == 0 ? codes << 4 : codes;
    bytes = (bytes & CODE_SIGNS) | ((bytes >> 3) & CODE_MAGNITUDES);
    return mul_f16x2(pair < 2 ? prmt(bytes, 0, BYTES_0_AND_2) : bytes & HIGH_BYTES, scale);
}

/* 16 bytes of the expanded row: one pair of each of the four lanes' word `unit / 4 % 2` of group `unit / 8`.
 * The threads of a warp write 512 bytes together: half-written sectors cost a read each.  All six loads are
 * issued before any is used, whatever the layout and the end of K: one latency of memory instead of four. */
static __device__ __forceinline__ void expand_unit(const struct prepare_params &p, uint32_t index) {
    uint32_t groups = (uint32_t)(p.k / NVFP4_GROUP_ELEMS), chunks = (groups + CHUNK_GROUPS - 1) / CHUNK_GROUPS;
    uint32_t chunk_index = index / UNITS_OF_CHUNK, unit = index % UNITS_OF_CHUNK;
    uint32_t row = chunk_index / chunks, chunk = chunk_index % chunks;
    uint32_t batch = p.l == 1 ? 0 : row / (uint32_t)p.m;
    const uint8_t *codes = p.a + row * (p.k / 2) + chunk * (PERMUTED_ELEMS / 2) + unit / 4 * 4;
    const uint8_t *scales = p.sfa + batch * scale_batch_bytes(p.scale_layout, p.m, groups) +
                            scale_offset(p.scale_layout, row - batch * p.m, chunk * CHUNK_GROUPS, groups);
    bool whole =
        (chunk + 1) * CHUNK_GROUPS <= groups; /* else K ends in the middle: lanes 2 and 3 have nothing */
    uint32_t second_half =
        p.scale_layout == CUSTOM_KERNEL_SCALES_BLOCKED ? SCALE_TILE_BYTES : SCALE_TILE_GROUPS;
    uint32_t words[4], factors[2]; /* [lane]; four scale factors each */
#pragma unroll
    for (int lane = 0; lane < 4; lane++) {
        words[lane] = *(const uint32_t *)(codes + (lane < 2 || whole ? lane * 16 : 0));
    }
    factors[0] = *(const uint32_t *)scales;
    factors[1] = *(const uint32_t *)(scales + (whole ? second_half : 0));
    uint32_t pairs[4]; /* [lane] */
#pragma unroll
    for (int lane = 0; lane < 4; lane++) {
        uint32_t scale[2];
        expand_scales((uint16_t)(factors[lane / 2] >> (lane % 2 * 16 + unit / 8 * 8)), scale);
        pairs[lane] = lane < 2 || whole ? expand_pair(words[lane], scale[0], (int)(unit % 4)) : 0;
    }
    ((uint4 *)p.activations)[index] = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
}

/* One word of a padded block: the four scale factors of a row and 64 elements of K; zeros past either end. */
static __device__ __forceinline__ void block_scales(const struct prepare_params &p, const uint8_t *from,
                                                    uint8_t *to, int64_t index) {
    int64_t groups = p.k / NVFP4_GROUP_ELEMS, tiles_k = (p.k + STAGE_K - 1) / STAGE_K * 2;
    int64_t tile = index / SCALE_TILE_ROWS, word = index % SCALE_TILE_ROWS;
    int64_t tiles_n = (p.n + SCALE_TILE_ROWS - 1) / SCALE_TILE_ROWS;
    int64_t tile_k = tile % tiles_k, tile_n = tile / tiles_k % tiles_n, batch = tile / tiles_k / tiles_n;
    int64_t row = tile_n * SCALE_TILE_ROWS + word % 4 * 32 + word / 4, group = tile_k * SCALE_TILE_GROUPS;
    uint32_t value = 0;
    if (row < p.n && group < groups) {
        value = *(const uint32_t *)(from + batch * scale_batch_bytes(p.scale_layout, p.n, groups) +
                                    scale_offset(p.scale_layout, row, group, groups));
    }
    ((uint32_t *)to)[index] = value;
}

/* A thread a unit of A, then words of scale tiles.  Any grid is right. */
static __global__ void __launch_bounds__(PREPARE_THREADS)
    prepare_kernel(const __grid_constant__ prepare_params p) {
    griddepcontrol_launch_dependents(); /* the next kernel reads nothing before this one is complete */
    griddepcontrol_wait(); /* the scratch memory may still be in use, and the inputs in the making */
    uint32_t thread = blockIdx.x * PREPARE_THREADS + threadIdx.x, threads = gridDim.x * PREPARE_THREADS;
    int64_t chunks = (p.k + PERMUTED_ELEMS - 1) / PERMUTED_ELEMS;
    for (int64_t i = thread; i < p.l * p.m * chunks * UNITS_OF_CHUNK; i += threads) {
        expand_unit(p, (uint32_t)i);
    }
    if (p.blocked_sfb1 != NULL) {
        int64_t words = p.l * ((p.n + SCALE_TILE_ROWS - 1) / SCALE_TILE_ROWS) * chunks * 2 * SCALE_TILE_ROWS;
        for (int64_t i = thread; i < words; i += threads) {
            block_scales(p, p.sfb1, p.blocked_sfb1, i);
            block_scales(p, p.sfb2, p.blocked_sfb2, i);
        }
    }
}

#endif
