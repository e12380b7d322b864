/* The kernel before a GEMM that copies scale factors in the blocked layout only, with K padded to whole stages,
 * where the caller has them otherwise. */
#ifndef GPU_PERMUTE_SCALES_CUH
#define GPU_PERMUTE_SCALES_CUH

#include "permute_scales.h"
#include "ptx.cuh"

/* A thread a word of a tile, the four scale factors of a row; zeros past the last row and the end of K.  Any
 * grid along x is right. */
static __global__ void __launch_bounds__(PERMUTE_SCALES_THREADS)
    permute_scales_kernel(const __grid_constant__ permute_scales_params p) {
    griddepcontrol_wait(); /* the scratch memory may still be in use, and the inputs in the making */
    griddepcontrol_launch_dependents();
    int64_t threads = (int64_t)gridDim.x * PERMUTE_SCALES_THREADS;
    int64_t first = (int64_t)blockIdx.x * PERMUTE_SCALES_THREADS + threadIdx.x;
    for (int tensor = 0; tensor < p.count; tensor++) {
        const uint8_t *from = p.tensors[tensor].from;
        uint32_t *to = (uint32_t *)p.tensors[tensor].to;
        int64_t rows = p.tensors[tensor].rows, tile_rows = scale_tile_rows(rows);
        int64_t batch_bytes = scale_batch_bytes(p.scale_layout, rows, p.groups);
        for (int64_t i = first; i < p.batches * tile_rows * p.tiles_k * SCALE_TILE_WORDS; i += threads) {
            int64_t tile = i / SCALE_TILE_WORDS, word = i % SCALE_TILE_WORDS;
            int64_t group = tile % p.tiles_k * SCALE_TILE_GROUPS, batch = tile / p.tiles_k / tile_rows;
            int64_t row = tile / p.tiles_k % tile_rows * SCALE_TILE_ROWS + scale_word_row(word);
            uint32_t value = 0;
            if (row < rows && group < p.groups) {
                value = *(const uint32_t *)(from + batch * batch_bytes +
                                            scale_offset(p.scale_layout, row, group, p.groups));
            }
            to[i] = value;
        }
    }
}

#endif
