/* The kernel before a GEMM that brings the caller's scale factors into the blocked layout, with K padded to
 * whole stages. */
#ifndef GPU_PERMUTE_SCALES_CUH
#define GPU_PERMUTE_SCALES_CUH

#include "instructions/ptx.cuh"
#include "permute_scales.h"

/* A CTA takes PERMUTE_SCALES_CTA_TILES consecutive tiles along K, so that it reads as many consecutive words of
 * a row: single words would fetch every sector of 32 bytes eight times.  A thread copies a word, the four scale
 * factors of a row, of each of PERMUTE_SCALES_TILES tiles; zeros past the last row and the end of K. */

/* The first tile along K of a thread of CTA `cta` along K. */
static __device__ __forceinline__ int64_t permuted_first_tile(uint32_t cta) {
    return (int64_t)cta * PERMUTE_SCALES_CTA_TILES + threadIdx.x / SCALE_TILE_WORDS * PERMUTE_SCALES_TILES;
}

/* One row of tiles of a tensor, whose batch starts at `from`. */
static __device__ __forceinline__ void permute_tile_row(const permute_scales_params &p, uint32_t batch,
                                                        uint32_t tensor, const uint8_t *from, int64_t tile_row,
                                                        int64_t first_tile) {
    const int64_t word = threadIdx.x % SCALE_TILE_WORDS;
    int64_t rows = p.tensors[tensor].rows, tile_rows = scale_tile_rows(rows);
    int64_t row = tile_row * SCALE_TILE_ROWS + scale_word_row(word);
    uint32_t *to =
        (uint32_t *)p.tensors[tensor].to + (batch * tile_rows + tile_row) * p.tiles_k * SCALE_TILE_WORDS + word;
    uint32_t values[PERMUTE_SCALES_TILES];
#pragma unroll
    for (int i = 0; i < PERMUTE_SCALES_TILES; i++) {
        int64_t group = (first_tile + i) * SCALE_TILE_GROUPS;
        values[i] = row < rows && group < p.groups
                        ? *(const uint32_t *)(from + scale_offset(p.scale_layout, row, group, p.groups))
                        : 0;
    }
#pragma unroll
    for (int i = 0; i < PERMUTE_SCALES_TILES; i++) {
        if (first_tile + i < p.tiles_k) {
            to[(first_tile + i) * SCALE_TILE_WORDS] = values[i];
        }
    }
}

static __device__ __forceinline__ const uint8_t *permuted_batch(const permute_scales_params &p, uint32_t batch,
                                                                uint32_t tensor) {
    return p.tensors[tensor].from + batch * scale_batch_bytes(p.scale_layout, p.tensors[tensor].rows, p.groups);
}

/* Grid: x covers K; y, over the rows, and z, over batches and tensors, may have any size. */
static __global__ void __launch_bounds__(PERMUTE_SCALES_THREADS)
    permute_scales_kernel(const __grid_constant__ permute_scales_params p) {
    griddepcontrol_wait(); /* a previous kernel may still use the scratch memory, or make the inputs */
    griddepcontrol_launch_dependents();
    int64_t first_tile = permuted_first_tile(blockIdx.x);
    for (uint32_t slice = blockIdx.z; slice < p.batches * p.count; slice += gridDim.z) {
        uint32_t batch = slice / p.count, tensor = slice % p.count;
        int64_t tile_rows = scale_tile_rows(p.tensors[tensor].rows);
        const uint8_t *from = permuted_batch(p, batch, tensor);
        for (int64_t tile_row = blockIdx.y; tile_row < tile_rows; tile_row += gridDim.y) {
            permute_tile_row(p, batch, tensor, from, tile_row, first_tile);
        }
    }
}

#endif
