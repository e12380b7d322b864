/* What the quantizer's kernels (gpu_quantize.cuh) have in common: numbers of each type,
 * and a word of scale factors.
 *
 * A thread has a unit of consecutive numbers of a row: a group of 16, of which 16 bits each are 32 bytes; or
 * eight, where numbers of 32 bits or unaligned ones want more threads.  A team of threads has the word of four
 * scale factors that blocked layouts keep together.
 */
#ifndef GPU_QUANTIZE_TEAM_CUH
#define GPU_QUANTIZE_TEAM_CUH

#include "../gpu_extended.cuh"
#include "../gpu_limits.h"
#include "gpu_quantize.h"

/* ---- the types of x ---- */

/* A thread's numbers as they are in memory. */
template <int type, int numbers> struct unit {
    static constexpr int number_bytes = type == CUSTOM_KERNEL_FP32 ? 4 : 2;
    static constexpr int words = numbers * number_bytes / 4;
    uint32_t word[words];
};

/* Numbers `first` and on. */
template <int type, int numbers>
static __device__ __forceinline__ struct unit<type, numbers> load_unit(const void *from, int64_t first,
                                                                       bool aligned) {
    using U = struct unit<type, numbers>;
    U raw;
    const uint8_t *at = (const uint8_t *)from + first * U::number_bytes;
    if (aligned) {
#pragma unroll
        for (int i = 0; i < U::words; i += 4) {
            const uint4 four = *(const uint4 *)(at + i * sizeof(uint32_t));
            raw.word[i] = four.x;
            raw.word[i + 1] = four.y;
            raw.word[i + 2] = four.z;
            raw.word[i + 3] = four.w;
        }
    } else {
#pragma unroll
        for (int i = 0; i < U::words; i++) {
            if constexpr (type == CUSTOM_KERNEL_FP32) {
                raw.word[i] = ((const uint32_t *)at)[i];
            } else {
                raw.word[i] = ((const uint16_t *)at)[2 * i] | (uint32_t)((const uint16_t *)at)[2 * i + 1] << 16;
            }
        }
    }
    return raw;
}

template <int type, int numbers>
static __device__ __forceinline__ void store_unit(void *to, int64_t first, bool aligned,
                                                  const struct unit<type, numbers> &raw) {
    using U = struct unit<type, numbers>;
    uint8_t *at = (uint8_t *)to + first * U::number_bytes;
    if (aligned) {
#pragma unroll
        for (int i = 0; i < U::words; i += 4) {
            *(uint4 *)(at + i * sizeof(uint32_t)) =
                make_uint4(raw.word[i], raw.word[i + 1], raw.word[i + 2], raw.word[i + 3]);
        }
    } else {
#pragma unroll
        for (int i = 0; i < U::words; i++) {
            if constexpr (type == CUSTOM_KERNEL_FP32) {
                ((uint32_t *)at)[i] = raw.word[i];
            } else {
                ((uint16_t *)at)[2 * i] = (uint16_t)raw.word[i];
                ((uint16_t *)at)[2 * i + 1] = (uint16_t)(raw.word[i] >> 16);
            }
        }
    }
}

template <int type, int numbers>
static __device__ __forceinline__ void unpack(const struct unit<type, numbers> &raw, float (&values)[numbers]) {
#pragma unroll
    for (int i = 0; i < numbers; i++) {
        if constexpr (type == CUSTOM_KERNEL_FP32) {
            values[i] = __uint_as_float(raw.word[i]);
        } else if constexpr (type == CUSTOM_KERNEL_BF16) {
            const uint32_t pair = raw.word[i / 2];
            values[i] = __uint_as_float(i % 2 == 0 ? pair << 16 : pair & 0xffff0000u);
        } else {
            values[i] = cvt_f32_f16((uint16_t)(raw.word[i / 2] >> i % 2 * 16));
        }
    }
}

template <int type, int numbers>
static __device__ __forceinline__ struct unit<type, numbers> pack(const float (&values)[numbers]) {
    struct unit<type, numbers> raw;
#pragma unroll
    for (int i = 0; i < numbers; i++) {
        if constexpr (type == CUSTOM_KERNEL_FP32) {
            raw.word[i] = __float_as_uint(values[i]);
        } else if (i % 2 == 0) {
            raw.word[i / 2] = type == CUSTOM_KERNEL_BF16 ? cvt_rn_bf16x2_f32(values[i], values[i + 1])
                                                         : cvt_rn_f16x2_f32(values[i], values[i + 1]);
        }
    }
    return raw;
}

/* ---- a word of scale factors ---- */

/* Where a thread's numbers are. */
struct unit_place {
    int32_t row, word; /* word: of four scale factors of the row */
    int32_t column;
    bool exists;
};

/* The row of x that a row is of; negative for a row of zeros. */
static __device__ __forceinline__ int32_t source_row(const struct quantize_params &p, int32_t row) {
    if (p.source == nullptr) {
        return row;
    }
    const int32_t found = p.source[row];
    return found < p.x_rows ? found : -1;
}

template <int numbers>
static __device__ __forceinline__ struct unit_place place_of(const struct quantize_params &p, uint32_t word) {
    const int32_t row = (int32_t)((uint64_t)word * p.word_divider >> (31 + p.word_shift));
    const int32_t of_row = (int32_t)word - row * p.words_k;
    const int32_t column = of_row * SCALE_TILE_K + threadIdx.x % (SCALE_TILE_K / numbers) * numbers;
    return {row, of_row, column, row < p.m && column < p.k};
}

/* What a group's numbers are multiplied by, for each scale factor's byte: divisions, made once a CTA, in shared
 * memory. */
static __device__ __forceinline__ void fill_factors(float (&factors)[E4M3_MAGNITUDES], float scale) {
    for (int i = threadIdx.x; i < E4M3_MAGNITUDES; i += blockDim.x) {
        factors[i] = factor_of_scale((uint8_t)i, scale);
    }
}

/* Where a word of scale factors is.  Unsigned rows: the compiler joins quotients of signed ones into a division
 * by a variable. */
static __device__ __forceinline__ int64_t word_offset(const struct quantize_params &p, uint32_t row,
                                                      int32_t word) {
    if (p.scale_layout == CUSTOM_KERNEL_SCALES_ROWS) {
        return (int64_t)row * (p.k / NVFP4_GROUP_ELEMS) + word * SCALE_TILE_GROUPS;
    }
    if (p.scale_layout == CUSTOM_KERNEL_SCALES_BLOCKED_8) {
        return ((int64_t)(row / SMALL_TILE_ROWS) * p.words_k + word) * SMALL_TILE_BYTES +
               row % SMALL_TILE_ROWS * SCALE_WORD_BYTES;
    }
    return ((int64_t)(row / SCALE_TILE_ROWS) * p.words_k + word) * SCALE_TILE_BYTES +
           row % SCALE_ENTRIES * SCALE_ENTRY_BYTES + row % SCALE_TILE_ROWS / SCALE_ENTRIES * SCALE_WORD_BYTES;
}

/* Quantizes a team's numbers and stores them; all lanes of the warp execute it.  `factor_of`: what a group's
 * numbers are multiplied by, from its scale factor's byte.  Returns true in one lane of each group whose scale
 * factor 448 cut. */
template <int numbers, class F>
static __device__ __forceinline__ bool store_team(const struct quantize_params &p,
                                                  const struct unit_place &place, float scale, F factor_of,
                                                  const float (&values)[numbers]) {
    constexpr int of_group = NVFP4_GROUP_ELEMS / numbers; /* threads */
    float largest = fabsf(values[0]);
#pragma unroll
    for (int i = 1; i < numbers; i++) {
        largest = max_nan_f32(largest, fabsf(values[i]));
    }
    if constexpr (of_group == 2) {
        largest = max_nan_f32(largest, __shfl_xor_sync(~0u, largest, 1));
    }
    const float wanted = wanted_scale(largest, scale);
    const uint32_t found = scale_byte(wanted);
    uint32_t codes[numbers / 8];
    e2m1_words(values, factor_of(found), largest, codes);
    if (place.exists) {
        uint8_t *to = p.codes + (int64_t)place.row * (p.k / 2) + place.column / 2;
        if constexpr (numbers == NVFP4_GROUP_ELEMS) {
            *(uint2 *)to = make_uint2(codes[0], codes[1]);
        } else {
            *(uint32_t *)to = codes[0];
        }
    }
    const int lane = threadIdx.x % (SCALE_TILE_K / numbers), groups = p.k / NVFP4_GROUP_ELEMS;
    const uint32_t byte = place.exists ? found : 0;
    const bool first = place.exists && lane % of_group == 0;
    if (p.scale_layout == CUSTOM_KERNEL_SCALES_ROWS && groups % SCALE_TILE_GROUPS != 0) {
        if (first) {
            p.scales[(int64_t)place.row * groups + place.column / NVFP4_GROUP_ELEMS] = (uint8_t)byte;
        }
    } else {
        uint32_t word = byte << lane / of_group * 8;
        word |= __shfl_xor_sync(~0u, word, of_group);
        word |= __shfl_xor_sync(~0u, word, 2 * of_group);
        if (lane == 0 && place.row < p.rows) {
            *(uint32_t *)(p.scales + word_offset(p, place.row, place.word)) = word;
        }
    }
    return first && wanted > E4M3_MOST;
}

/* Adds the warp's number of cut groups. */
static __device__ __forceinline__ void count_saturated(const struct quantize_params &p, uint32_t count) {
    if (p.saturated != nullptr) {
        const uint32_t sum = __reduce_add_sync(~0u, count);
        if (sum != 0 && threadIdx.x % WARP_THREADS == 0) {
            atomicAdd(p.saturated, (unsigned long long)sum);
        }
    }
}

/* The number at `scale`; NaN unless it is positive and finite. */
static __device__ __forceinline__ float read_scale(const float *scale) {
    return quantization_scale(number_or_one(scale));
}

#endif
