/* The quantizer's kernels (custom_kernel.h, custom_kernel_quantize()), the same for every GPU backend.
 *
 * A thread has eight consecutive numbers of a row, 16 bytes or 32, so that a warp's loads are of consecutive
 * lines; two threads have a group, and eight, a team, the word of four scale factors that blocked layouts keep
 * together.
 *
 * Each kernel waits for the kernel before it and only then lets the one after it start: that one may read,
 * before its own wait, what it takes for weights, and these may be what this kernel or the one before writes.
 */
#ifndef GPU_QUANTIZE_CUH
#define GPU_QUANTIZE_CUH

#include "gpu_extended.cuh"
#include "gpu_limits.h"
#include "gpu_quantize.h"

#define ALL_LANES 0xffffffffu

/* ---- the types of x ---- */

/* A thread's eight numbers as they are in memory. */
template <int type> struct unit {
    static constexpr int number_bytes = type == CUSTOM_KERNEL_FP32 ? 4 : 2;
    static constexpr int words = QUANTIZE_UNIT * number_bytes / 4;
    uint32_t word[words];
};

/* Numbers `first` and on. */
template <int type>
static __device__ __forceinline__ struct unit<type> load_unit(const void *from, int64_t first, bool aligned) {
    using U = struct unit<type>;
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

template <int type>
static __device__ __forceinline__ void store_unit(void *to, int64_t first, bool aligned,
                                                  const struct unit<type> &raw) {
    using U = struct unit<type>;
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

template <int type>
static __device__ __forceinline__ void unpack(const struct unit<type> &raw, float (&values)[QUANTIZE_UNIT]) {
#pragma unroll
    for (int i = 0; i < QUANTIZE_UNIT; i++) {
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

template <int type>
static __device__ __forceinline__ struct unit<type> pack(const float (&values)[QUANTIZE_UNIT]) {
    struct unit<type> raw;
#pragma unroll
    for (int i = 0; i < QUANTIZE_UNIT; i++) {
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

static __device__ __forceinline__ struct unit_place place_of(const struct quantize_params &p, uint32_t word) {
    const int32_t row = (int32_t)((uint64_t)word * p.word_divider >> (31 + p.word_shift));
    const int32_t of_row = (int32_t)word - row * p.words_k;
    const int32_t column = of_row * SCALE_TILE_K + threadIdx.x % QUANTIZE_TEAM * QUANTIZE_UNIT;
    return {row, of_row, column, row < p.m && column < p.k};
}

/* Quantizes a team's numbers and stores them; all lanes of the warp execute it.  Returns true in one lane of
 * each group whose scale factor 448 cut. */
static __device__ __forceinline__ bool store_team(const struct quantize_params &p,
                                                  const struct unit_place &place, float scale,
                                                  const float (&values)[QUANTIZE_UNIT]) {
    float largest = fabsf(values[0]);
#pragma unroll
    for (int i = 1; i < QUANTIZE_UNIT; i++) {
        largest = max_nan_f32(largest, fabsf(values[i]));
    }
    largest = max_nan_f32(largest, __shfl_xor_sync(ALL_LANES, largest, 1));
    const struct group_scale found = scale_of_group(largest, scale);
    float scaled[QUANTIZE_UNIT];
#pragma unroll
    for (int i = 0; i < QUANTIZE_UNIT; i++) {
        scaled[i] = __fmul_rn(values[i], found.factor);
    }
    if (place.exists) {
        *(uint32_t *)(p.codes + (int64_t)place.row * (p.k / 2) + place.column / 2) = e2m1_word(scaled);
    }
    const int lane = threadIdx.x % QUANTIZE_TEAM, groups = p.k / NVFP4_GROUP_ELEMS;
    const uint32_t byte = place.exists ? found.byte : 0;
    if (p.scale_layout == CUSTOM_KERNEL_SCALES_ROWS && groups % SCALE_TILE_GROUPS != 0) {
        if (place.exists && lane % 2 == 0) {
            p.scales[(int64_t)place.row * groups + place.column / NVFP4_GROUP_ELEMS] = (uint8_t)byte;
        }
    } else {
        uint32_t word = byte << lane / 2 * 8;
        word |= __shfl_xor_sync(ALL_LANES, word, 2);
        word |= __shfl_xor_sync(ALL_LANES, word, 4);
        if (lane == 0 && place.row < p.rows) {
            const int64_t offset =
                p.scale_layout == CUSTOM_KERNEL_SCALES_ROWS
                    ? (int64_t)place.row * groups + place.word * SCALE_TILE_GROUPS
                    : quantized_word_offset(p.scale_layout, place.row, place.word, p.words_k);
            *(uint32_t *)(p.scales + offset) = word;
        }
    }
    return place.exists && lane % 2 == 0 && found.saturated;
}

/* Adds the warp's number of cut groups. */
static __device__ __forceinline__ void count_saturated(const struct quantize_params &p, uint32_t count) {
    if (p.saturated != nullptr) {
        const uint32_t sum = __reduce_add_sync(ALL_LANES, count);
        if (sum != 0 && threadIdx.x % WARP_THREADS == 0) {
            atomicAdd(p.saturated, (unsigned long long)sum);
        }
    }
}

/* The number at `scale`; NaN unless it is positive and finite. */
static __device__ __forceinline__ float read_scale(const float *scale) {
    return quantization_scale(number_or_one(scale));
}

/* ---- the kernels ---- */

/* A CTA takes QUANTIZE_CTA_WORDS consecutive words of scale factors, row after row. */
template <int type, bool gated>
static __global__ void __launch_bounds__(QUANTIZE_THREADS)
    quantize_kernel(const __grid_constant__ quantize_params p) {
    const uint32_t first = blockIdx.x * QUANTIZE_CTA_WORDS + threadIdx.x / QUANTIZE_TEAM;
    const bool aligned = p.aligned;
    struct unit_place place[QUANTIZE_WORDS];
    struct unit<type> raw[QUANTIZE_WORDS], up[gated ? QUANTIZE_WORDS : 1];
#pragma unroll
    for (int i = 0; i < QUANTIZE_WORDS; i++) {
        place[i] = place_of(p, first + i * QUANTIZE_TEAMS);
    }
    griddepcontrol_wait();
    griddepcontrol_launch_dependents();
    const float scale = read_scale(p.scale);
#pragma unroll
    for (int i = 0; i < QUANTIZE_WORDS; i++) {
        const int64_t at = place[i].row * p.x_row + place[i].column;
        raw[i] = {0};
        if (place[i].exists) {
            raw[i] = load_unit<type>(p.x, at, aligned);
        }
        if constexpr (gated) {
            up[i] = {0};
            if (place[i].exists) {
                up[i] = load_unit<type>(p.x, at + p.k, aligned);
            }
        }
    }
    uint32_t saturated = 0;
#pragma unroll
    for (int i = 0; i < QUANTIZE_WORDS; i++) {
        float values[QUANTIZE_UNIT];
        unpack<type>(raw[i], values);
        if constexpr (gated) {
            float others[QUANTIZE_UNIT];
            unpack<type>(up[i], others);
#pragma unroll
            for (int j = 0; j < QUANTIZE_UNIT; j++) {
                values[j] = activate(p, values[j], others[j]);
            }
        }
        saturated += store_team(p, place[i], scale, values);
    }
    count_saturated(p, saturated);
}

/* The numbers that RMSNorm normalizes; `first` is true where the sums with the residual are still to be stored.
 */
template <int type>
static __device__ __forceinline__ void load_normed(const struct quantize_params &p,
                                                   const struct unit_place &place, bool first,
                                                   float (&values)[QUANTIZE_UNIT]) {
    struct unit<type> raw = {0};
    if (place.exists) {
        raw = load_unit<type>(p.x, place.row * p.x_row + place.column, p.aligned);
    }
    unpack<type>(raw, values);
    if (p.residual != nullptr && place.exists) {
        const int64_t at = (int64_t)place.row * p.k + place.column;
        float residual[QUANTIZE_UNIT];
        unpack<type>(load_unit<type>(p.residual, at, p.aligned), residual);
#pragma unroll
        for (int i = 0; i < QUANTIZE_UNIT; i++) {
            values[i] = __fadd_rn(values[i], residual[i]);
        }
        raw = pack<type>(values);
        if (first) {
            store_unit<type>(p.sum, at, p.aligned, raw);
        }
        unpack<type>(raw, values);
    }
}

/* The sum over the CTA of each thread's `part`, in every thread. */
static __device__ __forceinline__ float sum_of_row(float part) {
    __shared__ float warps[QUANTIZE_NORM_THREADS / WARP_THREADS];
#pragma unroll
    for (int apart = WARP_THREADS / 2; apart > 0; apart /= 2) {
        part = __fadd_rn(part, __shfl_xor_sync(ALL_LANES, part, apart));
    }
    if (threadIdx.x % WARP_THREADS == 0) {
        warps[threadIdx.x / WARP_THREADS] = part;
    }
    __syncthreads();
    float sum = 0;
    for (int i = 0; i < blockDim.x / WARP_THREADS; i++) {
        sum = __fadd_rn(sum, warps[i]);
    }
    return sum;
}

/* A CTA takes a row; a thread, every unit that is a multiple of the CTA's threads further on.  It reads all but
 * its last unit again after the sum. */
template <int type>
static __global__ void __launch_bounds__(QUANTIZE_NORM_THREADS)
    quantize_norm_kernel(const __grid_constant__ quantize_params p) {
    const int32_t words = blockDim.x / QUANTIZE_TEAM;
    struct unit_place place = {(int32_t)blockIdx.x, 0, 0, false};
    float values[QUANTIZE_UNIT], part = 0;
    griddepcontrol_wait();
    griddepcontrol_launch_dependents();
    const float scale = read_scale(p.scale);
    const int32_t first = threadIdx.x / QUANTIZE_TEAM, last = (p.words_k - 1) / words * words;
    for (int32_t base = 0; base <= last; base += words) {
        place.word = base + first;
        place.column = place.word * SCALE_TILE_K + threadIdx.x % QUANTIZE_TEAM * QUANTIZE_UNIT;
        place.exists = place.row < p.m && place.column < p.k;
        load_normed<type>(p, place, true, values);
        float squares = 0;
#pragma unroll
        for (int i = 0; i < QUANTIZE_UNIT; i++) {
            squares = __fadd_rn(squares, __fmul_rn(values[i], values[i]));
        }
        part = __fadd_rn(part, squares);
    }
    const float mean = __fdiv_rn(sum_of_row(part), (float)p.k);
    const float factor = __fdiv_rn(1.0f, __fsqrt_rn(__fadd_rn(mean, p.epsilon)));
    uint32_t saturated = 0;
    for (int32_t base = last; base >= 0; base -= words) {
        if (base != last) {
            place.word = base + first;
            place.column = place.word * SCALE_TILE_K + threadIdx.x % QUANTIZE_TEAM * QUANTIZE_UNIT;
            place.exists = place.row < p.m && place.column < p.k;
            load_normed<type>(p, place, false, values);
        }
        float weight[QUANTIZE_UNIT];
        if (p.weight != nullptr && place.exists) {
            unpack<type>(load_unit<type>(p.weight, place.column, p.aligned), weight);
        }
#pragma unroll
        for (int i = 0; i < QUANTIZE_UNIT; i++) {
            values[i] = __fmul_rn(values[i], factor);
            values[i] = p.weight != nullptr && place.exists ? __fmul_rn(values[i], weight[i]) : values[i];
        }
        const bool padding = place.word >= p.words_k; /* a thread without a word must not store one */
        struct unit_place to = place;
        to.row = padding ? p.rows : place.row;
        saturated += store_team(p, to, scale, values);
    }
    count_saturated(p, saturated);
}

template <int type> static const void *quantize_kernel_of(int32_t form) {
    const void *const kernels[QUANTIZE_FORMS] = {(const void *)quantize_kernel<type, false>,
                                                 (const void *)quantize_norm_kernel<type>,
                                                 (const void *)quantize_kernel<type, true>};
    return kernels[form];
}

/* The kernel for a form and a type of x. */
static inline const void *quantize_kernel_of(int32_t form, int32_t type) {
    return type == CUSTOM_KERNEL_FP32   ? quantize_kernel_of<CUSTOM_KERNEL_FP32>(form)
           : type == CUSTOM_KERNEL_BF16 ? quantize_kernel_of<CUSTOM_KERNEL_BF16>(form)
                                        : quantize_kernel_of<CUSTOM_KERNEL_FP16>(form);
}

#endif
