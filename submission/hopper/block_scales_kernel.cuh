/* The kernel between the expansion and the GEMM where the GEMM cannot copy scale factors of B1 and B2 as they
 * are (plain rows, or K no multiple of a stage): it brings them into padded blocks. */
#ifndef HOPPER_BLOCK_SCALES_KERNEL_CUH
#define HOPPER_BLOCK_SCALES_KERNEL_CUH

#include "../gpu/ptx.cuh"
#include "config.h"

/* One word of a padded block: the four scale factors of a row and 64 elements of K; zeros past either end. */
static __device__ __forceinline__ void block_word(const struct block_scales_params &p, const uint8_t *from,
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

/* A thread a word of either.  Any grid is right. */
static __global__ void __launch_bounds__(BLOCK_SCALES_THREADS)
    block_scales_kernel(const __grid_constant__ block_scales_params p) {
    griddepcontrol_wait(); /* the scratch memory may still be in use, and the inputs in the making */
    griddepcontrol_launch_dependents();
    int64_t tiles_n = (p.n + SCALE_TILE_ROWS - 1) / SCALE_TILE_ROWS,
            tiles_k = (p.k + STAGE_K - 1) / STAGE_K * 2;
    int64_t threads = (int64_t)gridDim.x * BLOCK_SCALES_THREADS;
    for (int64_t i = (int64_t)blockIdx.x * BLOCK_SCALES_THREADS + threadIdx.x;
         i < p.l * tiles_n * tiles_k * SCALE_TILE_ROWS; i += threads) {
        block_word(p, p.sfb1, p.blocked_sfb1, i);
        block_word(p, p.sfb2, p.blocked_sfb2, i);
    }
}

#endif
