/* The kernel that copies rows with zeros after them (core/pad_k.h). */
#ifndef GPU_PAD_ROWS_CUH
#define GPU_PAD_ROWS_CUH

#include "../instructions/ptx.cuh"
#include "gpu_pad.h"

/* Word `word` of a row, whose bytes may begin anywhere. */
static __device__ __forceinline__ uint32_t padded_word(const struct padded_rows &p, const uint8_t *from,
                                                       int64_t word) {
    const int64_t at = word * (int64_t)sizeof(uint32_t);
    if (p.last_groups != 0) {
        const bool last = word >= (p.to_bytes - SCALE_TILE_BYTES) / SCALE_WORD_BYTES;
        return *(const uint32_t *)(from + at) & (last ? (1u << p.last_groups * 8) - 1 : ~0u);
    }
    uint32_t value = 0;
#pragma unroll
    for (int i = 0; i < (int)sizeof(uint32_t); i++) {
        value |= at + i < p.from_bytes ? (uint32_t)from[at + i] << i * 8 : 0;
    }
    return value;
}

/* Grid: x covers a row's words; y, over the rows, may have any size.  The kernel after this one starts when
 * this one is complete, since it may read, before its wait, what it takes for weights. */
static __global__ void __launch_bounds__(PAD_THREADS) pad_rows_kernel(const __grid_constant__ padded_rows p) {
    const int64_t word = (int64_t)blockIdx.x * PAD_THREADS + threadIdx.x,
                  words = p.to_bytes / (int64_t)sizeof(uint32_t);
    griddepcontrol_wait();
    if (word >= words) {
        return;
    }
    for (int64_t row = blockIdx.y; row < p.rows; row += gridDim.y) {
        ((uint32_t *)p.to)[row * words + word] = padded_word(p, p.from + row * p.from_bytes, word);
    }
}

#endif
