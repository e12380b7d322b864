/* The kernel in front of a GEMM that takes scale factors in the blocked layout only, where the caller has rows.
 */
#ifndef GPU_BLOCK_SCALES_KERNEL_CUH
#define GPU_BLOCK_SCALES_KERNEL_CUH

#include "block_scales.h"
#include "ptx.cuh"

/* One word of a tile is the four scale factors of a row; rows past the end are zeros.  Any grid is right. */
static __global__ void __launch_bounds__(BLOCK_SCALES_THREADS)
    block_scales_kernel(const __grid_constant__ block_scales_params p) {
    griddepcontrol_wait(); /* the scratch memory may still be in use, and the inputs in the making */
    griddepcontrol_launch_dependents();
    int64_t threads = (int64_t)gridDim.x * BLOCK_SCALES_THREADS;
    int64_t first = (int64_t)blockIdx.x * BLOCK_SCALES_THREADS + threadIdx.x;
    for (int tensor = 0; tensor < BLOCK_SCALES_TENSORS; tensor++) {
        const uint32_t *from = (const uint32_t *)p.tensors[tensor].from;
        uint32_t *to = (uint32_t *)p.tensors[tensor].to;
        int64_t rows = p.tensors[tensor].rows, tile_rows = ceil_div(rows, SCALE_TILE_ROWS);
        for (int64_t i = first; i < p.batches * tile_rows * p.tiles_k * SCALE_TILE_ROWS; i += threads) {
            int64_t tile = i / SCALE_TILE_ROWS, word = i % SCALE_TILE_ROWS;
            int64_t tile_k = tile % p.tiles_k, batch = tile / p.tiles_k / tile_rows;
            int64_t row = tile / p.tiles_k % tile_rows * SCALE_TILE_ROWS + word % 4 * 32 + word / 4;
            to[i] = row < rows ? from[(batch * rows + row) * p.tiles_k + tile_k] : 0;
        }
    }
}

#endif
