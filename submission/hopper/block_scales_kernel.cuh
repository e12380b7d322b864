/* The kernel that goes first where the GEMM cannot copy scale factors as they are (plain rows, or K no multiple
 * of a stage): it brings them into padded blocks. */
#ifndef HOPPER_BLOCK_SCALES_KERNEL_CUH
#define HOPPER_BLOCK_SCALES_KERNEL_CUH

#include "../gpu/ptx.cuh"
#include "config.h"

/* One word of a padded block: the four scale factors of a row and 64 elements of K; zeros past either end. */
static __device__ __forceinline__ void block_word(const struct block_scales_params &p, int which,
                                                  int64_t index) {
    int64_t rows = p.rows[which], groups = p.k / NVFP4_GROUP_ELEMS;
    int64_t tiles_k = (p.k + STAGE_K - 1) / STAGE_K * 2,
            tile_rows = (rows + SCALE_TILE_ROWS - 1) / SCALE_TILE_ROWS;
    int64_t tile = index / SCALE_TILE_ROWS, word = index % SCALE_TILE_ROWS;
    int64_t tile_k = tile % tiles_k, tile_row = tile / tiles_k % tile_rows, batch = tile / tiles_k / tile_rows;
    int64_t row = tile_row * SCALE_TILE_ROWS + word % 4 * 32 + word / 4, group = tile_k * SCALE_TILE_GROUPS;
    uint32_t value = 0;
    if (row < rows && group < groups) {
        value = *(const uint32_t *)(p.from[which] + batch * scale_batch_bytes(p.scale_layout, rows, groups) +
                                    scale_offset(p.scale_layout, row, group, groups));
    }
    ((uint32_t *)p.to[which])[index] = value;
}

/* A thread a word; blockIdx.y names the tensor.  Any width of the grid is right. */
static __global__ void __launch_bounds__(BLOCKING_THREADS)
    block_scales_kernel(const __grid_constant__ block_scales_params p) {
    griddepcontrol_launch_dependents(); /* the next kernel reads nothing before this one is complete */
    griddepcontrol_wait(); /* the scratch memory may still be in use, and the inputs in the making */
    int which = blockIdx.y;
    int64_t tile_rows = (p.rows[which] + SCALE_TILE_ROWS - 1) / SCALE_TILE_ROWS;
    int64_t words = p.l * tile_rows * ((p.k + STAGE_K - 1) / STAGE_K * 2) * SCALE_TILE_ROWS;
    int64_t threads = (int64_t)gridDim.x * BLOCKING_THREADS;
    for (int64_t i = (int64_t)blockIdx.x * BLOCKING_THREADS + threadIdx.x; i < words; i += threads) {
        block_word(p, which, i);
    }
}

#endif
