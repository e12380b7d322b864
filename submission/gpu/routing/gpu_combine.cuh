/* The weighted sum of what a token's experts computed (custom_kernel.h, custom_kernel_combine()). */
#ifndef GPU_COMBINE_CUH
#define GPU_COMBINE_CUH

#include "gpu_numbers.cuh"
#include "gpu_routing.h"

/* Columns `first` and on of a row of 16-bit numbers; those past the last one are zeros. */
template <bool aligned>
static __device__ __forceinline__ uint4 load_columns(const struct combine_params &p, int64_t row,
                                                     int32_t first) {
    const uint16_t *from = (const uint16_t *)p.y + row * p.n + first;
    if constexpr (aligned) {
        return ld_global_once_v4(from);
    }
    uint32_t words[COMBINE_COLUMNS / 2] = {0};
#pragma unroll
    for (int i = 0; i < COMBINE_COLUMNS; i++) {
        words[i / 2] |= first + i < p.n ? (uint32_t)from[i] << i % 2 * 16 : 0;
    }
    return make_uint4(words[0], words[1], words[2], words[3]);
}

template <int type, bool aligned>
static __device__ __forceinline__ void store_columns(const struct combine_params &p, int64_t row, int32_t first,
                                                     const float (&sums)[COMBINE_COLUMNS]) {
    uint16_t *to = (uint16_t *)p.c + row * p.n + first;
    uint32_t words[COMBINE_COLUMNS / 2];
#pragma unroll
    for (int i = 0; i < COMBINE_COLUMNS / 2; i++) {
        words[i] = type == CUSTOM_KERNEL_BF16 ? cvt_rn_bf16x2_f32(sums[2 * i], sums[2 * i + 1])
                                              : cvt_rn_f16x2_f32(sums[2 * i], sums[2 * i + 1]);
    }
    if constexpr (aligned) {
        *(uint4 *)to = make_uint4(words[0], words[1], words[2], words[3]);
    } else {
#pragma unroll
        for (int i = 0; i < COMBINE_COLUMNS; i++) {
            if (first + i < p.n) {
                to[i] = (uint16_t)(words[i / 2] >> i % 2 * 16);
            }
        }
    }
}

/* CTA (x, y): part y of the columns of token x.  Lane i has the row and the weight of choice i, and several
 * rows are loaded before any is added. */
template <int type, bool aligned>
static __global__ void __launch_bounds__(COMBINE_THREADS)
    combine_kernel(const __grid_constant__ combine_params p) {
    constexpr int at_once = 8;
    const int32_t lane = threadIdx.x % WARP_THREADS,
                  first = (blockIdx.y * COMBINE_THREADS + threadIdx.x) * COMBINE_COLUMNS;
    const int64_t choice = (int64_t)blockIdx.x * p.choices + lane;
    griddepcontrol_wait();
    griddepcontrol_launch_dependents();
    int32_t own_row = lane < p.choices ? p.rows[choice] : -1;
    own_row = own_row < p.m * p.choices ? own_row : -1;
    const float own_weight =
        p.weights != nullptr && own_row >= 0 ? number_at(p.weights, choice, p.weights_type) : 1.0f;
    float sums[COMBINE_COLUMNS] = {0};
    for (int32_t some = 0; some < p.choices; some += at_once) {
        uint4 words[at_once];
        int32_t row[at_once];
#pragma unroll
        for (int i = 0; i < at_once; i++) {
            row[i] = __shfl_sync(~0u, own_row, some + i);
            words[i] =
                row[i] >= 0 && first < p.n ? load_columns<aligned>(p, row[i], first) : make_uint4(0, 0, 0, 0);
        }
#pragma unroll
        for (int i = 0; i < at_once; i++) {
            const float weight = __shfl_sync(~0u, own_weight, some + i);
            const uint32_t pairs[COMBINE_COLUMNS / 2] = {words[i].x, words[i].y, words[i].z, words[i].w};
#pragma unroll
            for (int j = 0; j < COMBINE_COLUMNS && row[i] >= 0; j++) {
                const float number = float_of_bits16((uint16_t)(pairs[j / 2] >> j % 2 * 16), type);
                sums[j] = __fadd_rn(sums[j], __fmul_rn(weight, number));
            }
        }
    }
    if (first < p.n) {
        store_columns<type, aligned>(p, blockIdx.x, first, sums);
    }
}

#endif
