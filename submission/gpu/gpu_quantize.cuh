/* The quantizer's kernels (custom_kernel.h, custom_kernel_quantize()), the same for every GPU backend.
 *
 * A thread has a unit of consecutive numbers of a row: a group of 16, of which 16 bits each are 32 bytes; or
 * eight, where numbers of 32 bits or RMSNorm's rows want more threads.  A team of threads has the word of four
 * scale factors that blocked layouts keep together.
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

/* Quantizes a team's numbers and stores them; all lanes of the warp execute it.  `factors`: the CTA's table,
 * if `tabled`.  Returns true in one lane of each group whose scale factor 448 cut. */
template <bool tabled, int numbers>
static __device__ __forceinline__ bool store_team(const struct quantize_params &p,
                                                  const struct unit_place &place, float scale,
                                                  const float *factors, const float (&values)[numbers]) {
    constexpr int of_group = NVFP4_GROUP_ELEMS / numbers; /* threads */
    float largest = fabsf(values[0]);
#pragma unroll
    for (int i = 1; i < numbers; i++) {
        largest = max_nan_f32(largest, fabsf(values[i]));
    }
    if constexpr (of_group == 2) {
        largest = max_nan_f32(largest, __shfl_xor_sync(ALL_LANES, largest, 1));
    }
    const float wanted = wanted_scale(largest, scale);
    const uint32_t found = scale_byte(wanted);
    uint32_t codes[numbers / 8];
    if constexpr (tabled) {
        e2m1_words(values, factors[found], largest, codes);
    } else {
        e2m1_scaled_words(values, factor_of_scale(found, scale), codes);
    }
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
        word |= __shfl_xor_sync(ALL_LANES, word, of_group);
        word |= __shfl_xor_sync(ALL_LANES, word, 2 * of_group);
        if (lane == 0 && place.row < p.rows) {
            const int64_t offset =
                p.scale_layout == CUSTOM_KERNEL_SCALES_ROWS
                    ? (int64_t)place.row * groups + place.word * SCALE_TILE_GROUPS
                    : quantized_word_offset(p.scale_layout, place.row, place.word, p.words_k);
            *(uint32_t *)(p.scales + offset) = word;
        }
    }
    return first && wanted > E4M3_MOST;
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
    constexpr int numbers = type == CUSTOM_KERNEL_FP32 ? QUANTIZE_UNIT : NVFP4_GROUP_ELEMS;
    constexpr int teams = QUANTIZE_THREADS / (SCALE_TILE_K / numbers), words = QUANTIZE_CTA_WORDS / teams;
    using U = struct unit<type, numbers>;
    __shared__ float factors[E4M3_MAGNITUDES];
    const uint32_t first = blockIdx.x * QUANTIZE_CTA_WORDS + threadIdx.x / (SCALE_TILE_K / numbers);
    const bool aligned = p.aligned;
    struct unit_place place[words];
    U raw[words], up[gated ? words : 1];
#pragma unroll
    for (int i = 0; i < words; i++) {
        place[i] = place_of<numbers>(p, first + i * teams);
    }
    griddepcontrol_wait();
    griddepcontrol_launch_dependents();
    const float scale = read_scale(p.scale);
#pragma unroll
    for (int i = 0; i < words; i++) {
        const int64_t at = place[i].row * p.x_row + place[i].column;
        raw[i] = {0};
        if (place[i].exists) {
            raw[i] = load_unit<type, numbers>(p.x, at, aligned);
        }
        if constexpr (gated) {
            up[i] = {0};
            if (place[i].exists) {
                up[i] = load_unit<type, numbers>(p.x, at + p.k, aligned);
            }
        }
    }
    fill_factors(factors, scale);
    __syncthreads();
    uint32_t saturated = 0;
#pragma unroll
    for (int i = 0; i < words; i++) {
        float values[numbers];
        unpack(raw[i], values);
        if constexpr (gated) {
            float others[numbers];
            unpack(up[i], others);
#pragma unroll
            for (int j = 0; j < numbers; j++) {
                values[j] = activate(p, values[j], others[j]);
            }
        }
        saturated += store_team<true>(p, place[i], scale, factors, values);
    }
    count_saturated(p, saturated);
}

/* The numbers that RMSNorm normalizes; `first` is true where the sums with the residual are still to be stored.
 */
template <int type>
static __device__ __forceinline__ void load_normed(const struct quantize_params &p,
                                                   const struct unit_place &place, bool first,
                                                   float (&values)[QUANTIZE_UNIT]) {
    struct unit<type, QUANTIZE_UNIT> raw = {0};
    if (place.exists) {
        raw = load_unit<type, QUANTIZE_UNIT>(p.x, place.row * p.x_row + place.column, p.aligned);
    }
    unpack(raw, values);
    if (p.residual != nullptr && place.exists) {
        const int64_t at = (int64_t)place.row * p.k + place.column;
        float residual[QUANTIZE_UNIT];
        unpack(load_unit<type, QUANTIZE_UNIT>(p.residual, at, p.aligned), residual);
#pragma unroll
        for (int i = 0; i < QUANTIZE_UNIT; i++) {
            values[i] = __fadd_rn(values[i], residual[i]);
        }
        raw = pack<type>(values);
        if (first) {
            store_unit(p.sum, at, p.aligned, raw);
        }
        unpack(raw, values);
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
            unpack(load_unit<type, QUANTIZE_UNIT>(p.weight, place.column, p.aligned), weight);
        }
#pragma unroll
        for (int i = 0; i < QUANTIZE_UNIT; i++) {
            values[i] = __fmul_rn(values[i], factor);
            values[i] = p.weight != nullptr && place.exists ? __fmul_rn(values[i], weight[i]) : values[i];
        }
        const bool padding = place.word >= p.words_k; /* a thread without a word must not store one */
        struct unit_place to = place;
        to.row = padding ? p.rows : place.row;
        /* No table: few groups of a thread would not pay for its start (measured:H200). */
        saturated += store_team<false>(p, to, scale, nullptr, values);
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
