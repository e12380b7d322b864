/* The quantizer's kernels (custom_kernel.h, custom_kernel_quantize()), the same for every GPU backend.
 *
 * Each kernel waits for the kernel before it and only then lets the one after it start: that one may read,
 * before its own wait, what it takes for weights, and these may be what this kernel or the one before writes.
 */
#ifndef GPU_QUANTIZE_CUH
#define GPU_QUANTIZE_CUH

#include "gpu_quantize_team.cuh"

/* ---- plain and gated ---- */

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
        const int32_t row = place[i].exists ? source_row(p, place[i].row) : -1;
        const int64_t at = row * p.x_row + place[i].column;
        raw[i] = {0};
        if (row >= 0) {
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
                values[j] = activate_gated(p.activation, values[j], others[j]);
            }
        }
        saturated += store_team(p, place[i], scale, [&](uint32_t byte) { return factors[byte]; }, values);
    }
    count_saturated(p, saturated);
}

/* ---- with RMSNorm ----
 *
 * A CTA takes rows in turn and keeps a row in registers from the sum of squares to the codes; the next row's
 * loads are under way meanwhile.  A row is taken in passes, if it has more numbers than the CTA's threads hold.
 */

#define PARTIAL_SUMS 512 /* of a row's squares: each eight numbers go to the next */
#define TREE_SUMS    32  /* of them that are added as a tree */

/* What the threads of a CTA share. */
struct norm_shared {
    float factors[E4M3_MAGNITUDES];
    float trees[2][PARTIAL_SUMS / TREE_SUMS]; /* of a row and the next */
    float upper[2][PARTIAL_SUMS];             /* of a pass and the next */
};

/* ---- with RMSNorm: x and residual ---- */

/* What a thread loads of a row in a pass: vectors of 16 bytes, one or two.  Where it has two, neighbours load
 * theirs in turn, so that a warp's loads and stores are of whole sectors. */
template <int type, int numbers> struct norm_input {
    static constexpr int vectors = unit<type, numbers>::words / 4, vector = numbers / vectors;
    struct unit<type, vector> x[vectors], residual[vectors];
};

/* The column of a thread's vector i in the pass that begins at column `first`. */
template <int type, int numbers> static __device__ __forceinline__ int32_t vector_column(int32_t first, int i) {
    using I = norm_input<type, numbers>;
    const int32_t thread = threadIdx.x;
    return first + (I::vectors == 1 ? thread : thread / 2 * 4 + i * 2 + thread % 2) * I::vector;
}

/* Past the row's end there are zeros: those at the start, if a row takes one pass. */
template <int type, int numbers>
static __device__ __forceinline__ void load_norm_input(const struct quantize_params &p, int32_t row,
                                                       int32_t first, bool aligned,
                                                       norm_input<type, numbers> &input) {
    using I = norm_input<type, numbers>;
#pragma unroll
    for (int i = 0; i < I::vectors; i++) {
        const int32_t column = vector_column<type, numbers>(first, i);
        if (column < p.k) {
            input.x[i] = load_unit<type, I::vector>(p.x, row * p.x_row + column, aligned);
            if (p.residual != nullptr) {
                input.residual[i] =
                    load_unit<type, I::vector>(p.residual, (int64_t)row * p.k + column, aligned);
            }
        } else if (p.passes > 1) {
            input.x[i] = input.residual[i] = {0};
        }
    }
}

/* Makes x the sum of x and residual, rounded to their type, and stores it.  A 16-bit sum has the bits of the
 * fp32 sum's rounding, since 24 bits are more than twice the type's and 2 (Figueroa, "When is double rounding
 * innocuous?"). */
template <int type, int numbers>
static __device__ __forceinline__ void add_residual(const struct quantize_params &p, int32_t row, int32_t first,
                                                    bool aligned, norm_input<type, numbers> &input) {
    using I = norm_input<type, numbers>;
#pragma unroll
    for (int i = 0; i < I::vectors; i++) {
#pragma unroll
        for (int j = 0; j < unit<type, I::vector>::words; j++) {
            const uint32_t x = input.x[i].word[j], y = input.residual[i].word[j];
            if constexpr (type == CUSTOM_KERNEL_FP32) {
                input.x[i].word[j] = __float_as_uint(__fadd_rn(__uint_as_float(x), __uint_as_float(y)));
            } else {
                input.x[i].word[j] = type == CUSTOM_KERNEL_BF16 ? add_bf16x2(x, y) : add_f16x2(x, y);
            }
        }
        const int32_t column = vector_column<type, numbers>(first, i);
        if (column < p.k) {
            store_unit(p.sum, (int64_t)row * p.k + column, aligned, input.x[i]);
        }
    }
}

/* The thread's consecutive numbers, from the vectors that it and its neighbour have. */
template <int type, int numbers>
static __device__ __forceinline__ struct unit<type, numbers>
own_numbers(const norm_input<type, numbers> &input) {
    struct unit<type, numbers> own;
    if constexpr (norm_input<type, numbers>::vectors == 1) {
        own = input.x[0];
    } else {
        const bool odd = threadIdx.x % 2 != 0;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const uint32_t first = input.x[0].word[i], second = input.x[1].word[i];
            const uint32_t other = shfl_sync_bfly(odd ? first : second, 1);
            own.word[i] = odd ? other : first;
            own.word[4 + i] = odd ? second : other;
        }
    }
    return own;
}

/* ---- with RMSNorm: weight ---- */

template <int type, int numbers>
static __device__ __forceinline__ struct unit<type, numbers> load_weight(const struct quantize_params &p,
                                                                         int32_t column, bool aligned) {
    if (p.weight != nullptr && column < p.k) {
        return load_unit<type, numbers>(p.weight, column, aligned);
    }
    float ones[numbers];
#pragma unroll
    for (int i = 0; i < numbers; i++) {
        ones[i] = 1.0f;
    }
    return pack<type>(ones);
}

/* ---- with RMSNorm: the sum of squares ---- */

/* The sum of each eight squares, in order. */
template <int numbers>
static __device__ __forceinline__ void sum_squares(const float (&values)[numbers],
                                                   float (&squares)[numbers / QUANTIZE_UNIT]) {
#pragma unroll
    for (int i = 0; i < numbers; i++) {
        const float square = __fmul_rn(values[i], values[i]);
        float &sum = squares[i / QUANTIZE_UNIT];
        sum = i % QUANTIZE_UNIT == 0 ? square : __fadd_rn(sum, square);
    }
}

/* Adds a pass's sums of squares to the partial sums of the threads, of which the first have `units` each: all
 * of the pass's, or its first PARTIAL_SUMS and then the others, which the threads after them have. */
template <int units>
static __device__ __forceinline__ void add_squares(struct norm_shared &shared, int32_t pass,
                                                   const float (&squares)[units], float (&part)[units]) {
    constexpr int owners = PARTIAL_SUMS / units;
    float *upper = shared.upper[pass % 2];
#pragma unroll
    for (int i = 0; i < units; i++) {
        part[i] = __fadd_rn(part[i], squares[i]);
    }
    if (blockDim.x > owners) {
        if (threadIdx.x >= owners) {
#pragma unroll
            for (int i = 0; i < units; i++) {
                upper[i * owners + threadIdx.x - owners] = squares[i];
            }
        }
        __syncthreads();
        if (threadIdx.x + owners < blockDim.x) {
#pragma unroll
            for (int i = 0; i < units; i++) {
                part[i] = __fadd_rn(part[i], upper[i * owners + threadIdx.x]);
            }
        }
    }
}

/* The sum of the partial sums, in every thread; `turn` is another than for the row before. */
template <int units>
static __device__ __forceinline__ float sum_of_row(struct norm_shared &shared, int32_t turn,
                                                   float (&part)[units]) {
    constexpr int threads = TREE_SUMS / units;
#pragma unroll
    for (int apart = threads / 2; apart > 0; apart /= 2) {
#pragma unroll
        for (int i = 0; i < units; i++) {
            part[i] = __fadd_rn(part[i], __shfl_xor_sync(~0u, part[i], apart));
        }
    }
    if (threadIdx.x % threads == 0 && threadIdx.x < PARTIAL_SUMS / units) {
        shared.trees[turn][threadIdx.x / threads] = units == 2 ? __fadd_rn(part[0], part[units - 1]) : part[0];
    }
    __syncthreads();
    float sum = 0;
#pragma unroll
    for (int i = 0; i < PARTIAL_SUMS / TREE_SUMS; i++) {
        sum = __fadd_rn(sum, shared.trees[turn][i]);
    }
    return sum;
}

/* Takes `row` and those after it that are the CTA's; returns its first past the last one. */
template <int type, int numbers>
static __device__ __forceinline__ int32_t normalize_rows(const struct quantize_params &p, int32_t row,
                                                         struct norm_shared &shared, bool aligned) {
    constexpr int units = numbers / QUANTIZE_UNIT;
    const int32_t pass_columns = blockDim.x * numbers, last = p.passes - 1;
    const int32_t thread_column = threadIdx.x * numbers;
    norm_input<type, numbers> input = {};
    load_norm_input(p, row, 0, aligned, input);
    const struct unit<type, numbers> last_weight =
        load_weight<type, numbers>(p, last * pass_columns + thread_column, aligned);
    const float scale = read_scale(p.scale);
    fill_factors(shared.factors, scale); /* sum_of_row() waits for all threads */
    uint32_t saturated = 0;
    for (int32_t turn = 0; row < p.m; row += gridDim.x, turn ^= 1) {
        struct unit<type, numbers> raw;
        float part[units] = {0};
        for (int32_t pass = 0; pass <= last; pass++) {
            if (p.residual != nullptr) {
                add_residual(p, row, pass * pass_columns, aligned, input);
            }
            raw = own_numbers(input);
            if (pass < last) {
                load_norm_input(p, row, (pass + 1) * pass_columns, aligned, input);
            } else if (row + gridDim.x < p.m) {
                load_norm_input(p, row + gridDim.x, 0, aligned, input);
            }
            float values[numbers], squares[units];
            unpack(raw, values);
            sum_squares(values, squares);
            add_squares(shared, pass, squares, part);
        }
        const float mean = __fdiv_rn(sum_of_row(shared, turn, part), (float)p.k);
        const float factor = __fdiv_rn(1.0f, __fsqrt_rn(__fadd_rn(mean, p.epsilon)));
        for (int32_t pass = last; pass >= 0; pass--) {
            const int32_t column = pass * pass_columns + thread_column, word = column / SCALE_TILE_K;
            struct unit<type, numbers> raw_weight = last_weight;
            if (pass != last) {
                raw_weight = load_weight<type, numbers>(p, column, aligned);
                raw = p.residual != nullptr
                          ? load_unit<type, numbers>(p.sum, (int64_t)row * p.k + column, aligned)
                          : load_unit<type, numbers>(p.x, row * p.x_row + column, aligned);
            }
            float values[numbers], weight[numbers];
            unpack(raw, values);
            unpack(raw_weight, weight);
#pragma unroll
            for (int i = 0; i < numbers; i++) {
                values[i] = __fmul_rn(__fmul_rn(values[i], factor), weight[i]);
            }
            /* A thread without a word must not store one. */
            const struct unit_place place = {word < p.words_k ? row : p.rows, word, column, column < p.k};
            saturated +=
                store_team(p, place, scale, [&](uint32_t byte) { return shared.factors[byte]; }, values);
        }
    }
    count_saturated(p, saturated);
    return row;
}

/* Zeroes the scale factors of `row` and those after it that are the CTA's, which a blocked layout adds. */
static __device__ __forceinline__ void zero_added_rows(const struct quantize_params &p, int32_t row) {
    for (; row < p.rows; row += gridDim.x) {
        for (int32_t word = threadIdx.x; word < p.words_k; word += blockDim.x) {
            *(uint32_t *)(p.scales + word_offset(p, row, word)) = 0;
        }
    }
}

template <int type>
static __global__ void __launch_bounds__(QUANTIZE_NORM_THREADS)
    quantize_norm_kernel(const __grid_constant__ quantize_params p) {
    __shared__ struct norm_shared shared;
    int32_t row = blockIdx.x;
    if (threadIdx.x < 2 * PARTIAL_SUMS / TREE_SUMS) {
        shared.trees[0][threadIdx.x] = 0;
    }
    __syncthreads();
    griddepcontrol_wait();
    griddepcontrol_launch_dependents();
    if (row < p.m && !p.aligned) {
        row = normalize_rows<type, QUANTIZE_UNIT>(p, row, shared, false);
    } else if (row < p.m && (type == CUSTOM_KERNEL_FP32 || p.thread_numbers == QUANTIZE_UNIT)) {
        row = normalize_rows<type, QUANTIZE_UNIT>(p, row, shared, true);
    } else if (row < p.m) {
        if constexpr (type != CUSTOM_KERNEL_FP32) {
            row = normalize_rows<type, NVFP4_GROUP_ELEMS>(p, row, shared, true);
        }
    }
    zero_added_rows(p, row);
}

/* ---- each row with a scale of its own ----
 *
 * A CTA takes rows in turn: it reads a row for its largest number, and again, if it takes more than one pass,
 * for the codes. */

#define LEAST_OF_ROW      0x1p-100f
#define CODES_AND_FACTORS (6 * E4M3_MOST) /* the largest code times the largest scale factor */

template <int type, int numbers>
static __device__ __forceinline__ struct unit<type, numbers> load_pass(const struct quantize_params &p,
                                                                       int32_t source, int32_t column) {
    struct unit<type, numbers> raw = {0};
    if (source >= 0 && column < p.k) {
        raw = load_unit<type, numbers>(p.x, source * p.x_row + column, p.aligned);
    }
    return raw;
}

/* The largest of all threads' magnitudes, whose bits are in their order, a NaN last; `shared` is another than
 * for the row before. */
static __device__ __forceinline__ float largest_of_row(float largest, uint32_t (&shared)[WARP_THREADS]) {
    const int32_t lane = threadIdx.x % WARP_THREADS, warp = threadIdx.x / WARP_THREADS;
    const uint32_t of_warp = __reduce_max_sync(~0u, __float_as_uint(largest));
    if (lane == 0) {
        shared[warp] = of_warp;
    }
    __syncthreads();
    return __uint_as_float(
        __reduce_max_sync(~0u, lane < (int32_t)blockDim.x / WARP_THREADS ? shared[lane] : 0));
}

template <int type>
static __global__ void __launch_bounds__(QUANTIZE_NORM_THREADS)
    quantize_tokens_kernel(const __grid_constant__ quantize_params p) {
    constexpr int numbers = type == CUSTOM_KERNEL_FP32 ? QUANTIZE_UNIT : NVFP4_GROUP_ELEMS;
    __shared__ uint32_t shared[2][WARP_THREADS];
    const int32_t pass_columns = blockDim.x * numbers, thread_column = threadIdx.x * numbers;
    int32_t row = blockIdx.x;
    griddepcontrol_wait();
    griddepcontrol_launch_dependents();
    for (int32_t turn = 0; row < p.m; row += gridDim.x, turn ^= 1) {
        const int32_t source = source_row(p, row);
        struct unit<type, numbers> raw;
        float values[numbers], largest = LEAST_OF_ROW;
        for (int32_t pass = p.passes - 1; pass >= 0; pass--) {
            raw = load_pass<type, numbers>(p, source, pass * pass_columns + thread_column);
            unpack(raw, values);
#pragma unroll
            for (int i = 0; i < numbers; i++) {
                largest = max_nan_f32(largest, fabsf(values[i]));
            }
        }
        largest = largest_of_row(largest, shared[turn]);
        const float scale = quantization_scale(__fdiv_rn(CODES_AND_FACTORS, largest));
        if (threadIdx.x == 0) {
            p.token_scale[row] = __fmul_rn(largest, 1.0f / CODES_AND_FACTORS);
        }
        for (int32_t pass = 0; pass < p.passes; pass++) {
            const int32_t column = pass * pass_columns + thread_column, word = column / SCALE_TILE_K;
            if (pass > 0) {
                raw = load_pass<type, numbers>(p, source, column);
            }
            unpack(raw, values);
            /* A thread without a word must not store one. */
            const struct unit_place place = {word < p.words_k ? row : p.rows, word, column, column < p.k};
            (void)store_team(
                p, place, scale, [&](uint32_t byte) { return factor_of_scale(byte, scale); }, values);
        }
    }
    zero_added_rows(p, row);
}

template <int type> static const void *quantize_kernel_of(int32_t form) {
    const void *const kernels[QUANTIZE_FORMS] = {
        (const void *)quantize_kernel<type, false>, (const void *)quantize_norm_kernel<type>,
        (const void *)quantize_kernel<type, true>, (const void *)quantize_tokens_kernel<type>};
    return kernels[form];
}

/* The kernel for a form and a type of x. */
static inline const void *quantize_kernel_of(int32_t form, int32_t type) {
    return type == CUSTOM_KERNEL_FP32   ? quantize_kernel_of<CUSTOM_KERNEL_FP32>(form)
           : type == CUSTOM_KERNEL_BF16 ? quantize_kernel_of<CUSTOM_KERNEL_BF16>(form)
                                        : quantize_kernel_of<CUSTOM_KERNEL_FP16>(form);
}

#endif
