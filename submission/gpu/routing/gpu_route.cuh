/* The experts of each token, and the order of rows (custom_kernel.h, custom_kernel_route()): one cluster, whose
 * warps have consecutive tokens each.
 *
 *   logits --warp: choices of a token--> rows (for now numbers of experts), weights; the warp's counts
 *   ids -----------map-----------------> rows (likewise); the warp's counts
 *   the warps' counts --sums before each warp, each CTA, each expert--> each warp's next row of each expert
 *   rows (numbers of experts) --warp, in order--> rows, tokens
 *
 * Counts before a warp are those of the warps before it in its CTA, of the CTAs before its own, and of all
 * choices of experts before. */
#ifndef GPU_ROUTE_CUH
#define GPU_ROUTE_CUH

#include "../device/silu.cuh"
#include "gpu_numbers.cuh"
#include "gpu_routing.h"

#define EVERY_LANE 0xffffffffu

/* ---- choices ---- */

/* A number's place in the order of choice, above 0: zeros are equal, NaN is the largest.  Adding zero makes -0
 * a 0, and any NaN the largest one (PTX ISA, Floating Point Instructions). */
static __device__ __forceinline__ uint32_t order_of(float number) {
    const uint32_t bits = __float_as_uint(number + 0.0f);
    return bits >> 31 != 0 ? ~bits : bits | 0x80000000u;
}

static __device__ __forceinline__ float number_of(uint32_t order) {
    return __uint_as_float(order >> 31 != 0 ? order & 0x7fffffffu : ~order);
}

/* The same for bits of fp16 or bf16, in the upper 16 bits; the lower ones are anything.  Adding zero makes -0 a
 * 0, and any NaN the largest one (PTX ISA, Floating Point Instructions). */
static __device__ __forceinline__ uint32_t order_of_16(uint32_t bits, int32_t type) {
    const uint32_t sum = type == CUSTOM_KERNEL_BF16 ? add_bf16x2(bits, 0) : add_f16x2(bits, 0),
                   upper = sum << 16;
    return upper ^ ((uint32_t)((int32_t)upper >> 31) | 0x80000000u);
}

static __device__ __forceinline__ float number_of_16(uint32_t order, int32_t type) {
    const uint32_t bits = order >> 16;
    return float_of_bits16((uint16_t)(bits & 0x8000u ? bits & 0x7fffu : ~bits), type);
}

static __device__ __forceinline__ float exponential(float number, float largest) {
    return ex2_approx(LOG2_E * (number - largest));
}

/* The sum over the lanes, the same in every lane. */
static __device__ __forceinline__ float sum_of_lanes(float value) {
#pragma unroll
    for (int apart = WARP_THREADS / 2; apart > 0; apart /= 2) {
        value += __shfl_xor_sync(EVERY_LANE, value, apart);
    }
    return value;
}

/* A lane's logits of a token, of which it has numbers lane, lane + 32, ... at first; absent ones are 0.
 *
 * Of 16 bits (joint): `key` has the order in its upper half and 0xffff less the logit's number in its lower
 * one, so that no two are equal and the largest key is the next choice.  Else `key` is the order, and `number`
 * beside it.  A few are sorted, so that the lane's next choice is always its first; many (ROUTE_SORTED_LOGITS)
 * are searched. */
template <int numbers, bool joint> struct lane_logits {
    static constexpr bool sorted = numbers <= ROUTE_SORTED_LOGITS;
    uint32_t key[numbers];
    uint32_t number[joint ? 1 : numbers];
};

template <int numbers, bool joint>
static __device__ __forceinline__ lane_logits<numbers, joint> load_logits(const struct route_params &p,
                                                                          int32_t token) {
    lane_logits<numbers, joint> found;
    const int32_t lane = threadIdx.x % WARP_THREADS, some = p.routed - lane;
    const int64_t first = (int64_t)token * p.routed + lane;
    const bool wide = !joint && p.logits_type == CUSTOM_KERNEL_FP32;
#pragma unroll
    for (int i = 0; i < numbers; i++) { /* no load waits for another */
        const int64_t at = first + i * WARP_THREADS;
        found.key[i] = i * WARP_THREADS >= some ? 0
                       : wide                   ? ((const uint32_t *)p.logits)[at]
                                                : ((const uint16_t *)p.logits)[at];
    }
    return found;
}

/* Puts loaded logits in order. */
template <int numbers, bool joint>
static __device__ __forceinline__ void order_logits(const struct route_params &p,
                                                    lane_logits<numbers, joint> &logits) {
    const int32_t lane = threadIdx.x % WARP_THREADS;
    const bool wide = !joint && p.logits_type == CUSTOM_KERNEL_FP32;
#pragma unroll
    for (int i = 0; i < numbers; i++) {
        const uint32_t number = i * WARP_THREADS + lane, bits = logits.key[i];
        if constexpr (joint) {
            logits.key[i] = (order_of_16(bits, p.logits_type) & 0xffff0000u) | (0xffffu - number);
        } else {
            logits.key[i] =
                order_of(wide ? __uint_as_float(bits) : float_of_bits16((uint16_t)bits, p.logits_type));
            logits.number[i] = number;
        }
        logits.key[i] = (int32_t)number < p.routed ? logits.key[i] : 0;
    }
    if constexpr (lane_logits<numbers, joint>::sorted) {
#pragma unroll
        for (int last = 1; last < numbers; last++) {
#pragma unroll
            for (int i = last; i > 0; i--) { /* equal ones keep their order */
                const uint32_t x = logits.key[i - 1], y = logits.key[i];
                logits.key[i - 1] = max(x, y);
                logits.key[i] = min(x, y);
                if constexpr (!joint) {
                    const uint32_t number = logits.number[i - 1];
                    logits.number[i - 1] = y > x ? logits.number[i] : number;
                    logits.number[i] = y > x ? number : logits.number[i];
                }
            }
        }
    }
}

/* A choice, in every lane; of joint keys, the key has the number. */
struct route_choice {
    uint32_t key;
    int32_t number;
};

static __device__ __forceinline__ int32_t joint_number(uint32_t key) {
    return (int32_t)(0xffffu - (key & 0xffffu));
}

/* Takes the next choice out of sorted logits. */
template <int numbers, bool joint>
static __device__ __forceinline__ struct route_choice take_sorted(lane_logits<numbers, joint> &logits) {
    const uint32_t largest = __reduce_max_sync(EVERY_LANE, logits.key[0]);
    uint32_t number = 0;
    bool own = logits.key[0] == largest;
    if constexpr (!joint) {
        number = __reduce_min_sync(EVERY_LANE, own ? logits.number[0] : EVERY_LANE);
        own = own && number == logits.number[0];
    }
#pragma unroll
    for (int i = 0; i < numbers; i++) {
        logits.key[i] = !own ? logits.key[i] : i + 1 < numbers ? logits.key[i + 1] : 0;
        if constexpr (!joint) {
            logits.number[i] = own && i + 1 < numbers ? logits.number[i + 1] : logits.number[i];
        }
    }
    return {largest, (int32_t)number};
}

/* The same out of logits that are not sorted; `own` is the lane's largest, which a lane whose logit is taken
 * finds again. */
template <int numbers>
static __device__ __forceinline__ struct route_choice take_searched(lane_logits<numbers, false> &logits,
                                                                    uint32_t &own) {
    const int32_t lane = threadIdx.x % WARP_THREADS;
    const uint32_t largest = __reduce_max_sync(EVERY_LANE, own);
    uint32_t number = EVERY_LANE;
    if (own == largest) {
#pragma unroll
        for (int i = numbers - 1; i >= 0; i--) {
            number = logits.key[i] == largest ? i * WARP_THREADS + lane : number;
        }
    }
    number = __reduce_min_sync(EVERY_LANE, number);
    if (number % WARP_THREADS == (uint32_t)lane) {
        own = 0;
#pragma unroll
        for (int i = 0; i < numbers; i++) {
            logits.key[i] = number / WARP_THREADS == (uint32_t)i ? 0 : logits.key[i];
            own = max(own, logits.key[i]);
        }
    }
    return {largest, (int32_t)number};
}

/* The choices of a token, whose logits are ordered: lane i gets the number of choice i, -1 past the last one,
 * and stores its weight. */
template <int numbers, bool joint>
static __device__ __forceinline__ int32_t choose(const struct route_params &p, int32_t token,
                                                 lane_logits<numbers, joint> logits) {
    using L = lane_logits<numbers, joint>;
    const int32_t lane = threadIdx.x % WARP_THREADS;
    const auto value_of = [&](uint32_t key) {
        return joint ? number_of_16(key, p.logits_type) : number_of(key);
    };
    uint32_t own = logits.key[0];
#pragma unroll
    for (int i = 1; i < numbers && !L::sorted; i++) {
        own = max(own, logits.key[i]);
    }
    const float most = value_of(__reduce_max_sync(EVERY_LANE, own));
    float part = 0;
#pragma unroll
    for (int i = 0; i < numbers && !p.normalize; i++) {
        part += logits.key[i] != 0 ? exponential(value_of(logits.key[i]), most) : 0.0f;
    }
    struct route_choice mine = {0, -1};
    for (int32_t choice = 0; choice < p.choices; choice++) {
        struct route_choice next;
        if constexpr (L::sorted) {
            next = take_sorted(logits);
        } else {
            next = take_searched(logits, own);
        }
        mine.key = lane == choice ? next.key : mine.key;
        if constexpr (!joint) {
            mine.number = lane == choice ? next.number : mine.number;
        }
    }
    const bool chose = lane < p.choices;
    if constexpr (joint) {
        mine.number = chose ? joint_number(mine.key) : -1;
    }
    const float weight = chose ? exponential(value_of(mine.key), most) : 0.0f;
    const float sum = sum_of_lanes(p.normalize ? weight : part);
    if (chose) {
        p.weights[(int64_t)token * p.choices + lane] = weight * rcp_approx(sum);
    }
    return mine.number;
}

/* ---- counts ---- */

/* The expert of this call of an id; -1 for none. */
static __device__ __forceinline__ int32_t expert_of(const struct route_params &p, int64_t id) {
    const bool known = id >= 0 && id < p.routed;
    const int32_t expert = known ? p.map != nullptr ? p.map[id] : (int32_t)id : -1;
    return expert >= 0 && expert < p.experts ? expert : -1;
}

/* Stores the expert of choice number `at`, and counts it. */
static __device__ __forceinline__ void count_choice(const struct route_params &p, int32_t at, int32_t expert,
                                                    int32_t *counts) {
    p.rows[at] = expert;
    if (expert >= 0) {
        atomicAdd(&counts[expert], 1);
    }
}

/* What the threads of a CTA share beside the warps' counts. */
struct route_shared {
    int32_t total[CUSTOM_KERNEL_MAX_EXPERTS]; /* of the CTA, which other CTAs read */
    int32_t first[CUSTOM_KERNEL_MAX_EXPERTS]; /* row of the CTA for each expert */
    int32_t of_warp[WARP_THREADS];
};

/* Makes the counts of the CTA's warps those before each warp. */
static __device__ __forceinline__ void sum_over_warps(const struct route_params &p, struct route_shared &shared,
                                                      int32_t *counts) {
    const int32_t warps = blockDim.x / WARP_THREADS;
    for (int32_t expert = threadIdx.x; expert < p.experts; expert += blockDim.x) {
        int32_t sum = 0;
#pragma unroll 4
        for (int32_t warp = 0; warp < warps; warp++) {
            const int32_t count = counts[warp * p.experts + expert];
            counts[warp * p.experts + expert] = sum;
            sum += count;
        }
        shared.total[expert] = sum;
    }
}

/* The sum of `value` over all threads before this one; *all gets that over all threads. */
static __device__ __forceinline__ int32_t sum_before(int32_t value, struct route_shared &shared, int32_t *all) {
    const int32_t lane = threadIdx.x % WARP_THREADS, warp = threadIdx.x / WARP_THREADS,
                  warps = blockDim.x / WARP_THREADS;
    int32_t sum = value;
#pragma unroll
    for (int apart = 1; apart < WARP_THREADS; apart *= 2) {
        const int32_t other = __shfl_up_sync(EVERY_LANE, sum, apart);
        sum += lane >= apart ? other : 0;
    }
    if (lane == WARP_THREADS - 1) {
        shared.of_warp[warp] = sum;
    }
    __syncthreads();
    const int32_t of_warp = lane < warps ? shared.of_warp[lane] : 0;
    *all = __reduce_add_sync(EVERY_LANE, of_warp);
    const int32_t before = __reduce_add_sync(EVERY_LANE, lane < warp ? of_warp : 0);
    __syncthreads();
    return before + sum - value;
}

/* The first rows of the CTA; CTA 0 stores the counts.  Returns the number of rows. */
static __device__ __forceinline__ int32_t find_first_rows(const struct route_params &p,
                                                          struct route_shared &shared) {
    int32_t end = 0;
    for (int32_t some = 0; some < p.experts; some += blockDim.x) {
        const int32_t expert = some + threadIdx.x;
        int32_t before = 0, total = 0, all;
        for (int32_t cta = 0; cta < p.ctas && expert < p.experts; cta++) {
            const uint32_t there = mapa_shared_cluster(cvta_to_shared(&shared.total[expert]), cta);
            const int32_t count = (int32_t)ld_shared_cluster_u32(there);
            before += cta < (int32_t)blockIdx.x ? count : 0;
            total += count;
        }
        const int32_t first = end + sum_before(total, shared, &all);
        end += all;
        if (expert < p.experts) {
            shared.first[expert] = first + before;
            if (blockIdx.x == 0) {
                p.counts[expert] = total;
            }
        }
    }
    return end;
}

/* ---- rows ---- */

/* Gives the warp's choices, from number `begin` to `end`, their rows.  Choices of one expert among 32 get rows
 * in the order of the lanes. */
static __device__ __forceinline__ void give_rows(const struct route_params &p, int32_t begin, int32_t end,
                                                 const struct route_shared &shared, int32_t *counts) {
    const int32_t lane = threadIdx.x % WARP_THREADS;
    const uint32_t before_lane = (1u << lane) - 1;
    for (int32_t some = begin; some < end; some += WARP_THREADS) {
        const int32_t at = some + lane, expert = at < end ? p.rows[at] : -1;
        const uint32_t same = __match_any_sync(EVERY_LANE, expert);
        const int32_t before = __popc(same & before_lane);
        int32_t next = 0;
        if (expert >= 0) {
            next = counts[expert];
            const int32_t row = shared.first[expert] + next + before;
            p.rows[at] = row;
            p.tokens[row] = at / p.choices;
        }
        __syncwarp();
        if (expert >= 0 && before == 0) {
            counts[expert] = next + __popc(same);
        }
        __syncwarp();
    }
}

template <int numbers, bool joint>
static __global__ void __launch_bounds__(ROUTE_MOST_THREADS(numbers), 1)
    route_kernel(const __grid_constant__ route_params p) {
    extern __shared__ int32_t all_counts[]; /* [warp][expert] */
    __shared__ struct route_shared shared;
    const int32_t lane = threadIdx.x % WARP_THREADS, warp = threadIdx.x / WARP_THREADS,
                  warps = blockDim.x / WARP_THREADS, number = blockIdx.x * warps + warp,
                  first = (int32_t)min((int64_t)number * p.warp_tokens, (int64_t)p.m),
                  last = min(first + p.warp_tokens, p.m), begin = first * p.choices, end = last * p.choices;
    int32_t *counts = all_counts + warp * p.experts;
    for (int32_t i = lane; i < p.experts; i += WARP_THREADS) {
        counts[i] = 0;
    }
    __syncwarp();
    griddepcontrol_wait();
    griddepcontrol_launch_dependents();
    if (p.logits != nullptr && first < last) {
        lane_logits<numbers, joint> next = load_logits<numbers, joint>(p, first);
        for (int32_t token = first; token < last; token++) {
            lane_logits<numbers, joint> logits = next;
            order_logits(p, logits);
            if (logits.sorted && token + 1 < last) { /* else registers do not suffice */
                next = load_logits<numbers, joint>(p, token + 1);
            }
            const int32_t choice = choose(p, token, logits);
            if (choice >= 0) {
                count_choice(p, token * p.choices + lane, expert_of(p, choice), counts);
            }
            if (!logits.sorted && token + 1 < last) {
                next = load_logits<numbers, joint>(p, token + 1);
            }
        }
    } else if (p.logits == nullptr) {
        for (int32_t at = begin + lane; at < end; at += WARP_THREADS) {
            const int64_t id =
                p.id_bytes == sizeof(int64_t) ? ((const int64_t *)p.ids)[at] : ((const int32_t *)p.ids)[at];
            count_choice(p, at, expert_of(p, id), counts);
        }
    }
    __syncthreads();
    sum_over_warps(p, shared, all_counts);
    barrier_cluster_arrive_release();
    barrier_cluster_wait_acquire();
    const int32_t rows = find_first_rows(p, shared);
    barrier_cluster_arrive_release(); /* other CTAs' totals have been read */
    for (int32_t row = rows + blockIdx.x * blockDim.x + threadIdx.x; row < p.m * p.choices;
         row += gridDim.x * blockDim.x) {
        p.tokens[row] = -1;
    }
    __syncthreads();
    give_rows(p, begin, end, shared, counts);
    barrier_cluster_wait_acquire();
}

#endif
