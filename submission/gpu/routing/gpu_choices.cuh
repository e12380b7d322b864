/* The choices of a token by its logits, for the routing of experts (gpu_route.cuh). */
#ifndef GPU_CHOICES_CUH
#define GPU_CHOICES_CUH

#include "../device/silu.cuh"
#include "gpu_numbers.cuh"
#include "gpu_routing.h"

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
        value += __shfl_xor_sync(~0u, value, apart);
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
    const uint32_t largest = __reduce_max_sync(~0u, logits.key[0]);
    uint32_t number = 0;
    bool own = logits.key[0] == largest;
    if constexpr (!joint) {
        number = __reduce_min_sync(~0u, own ? logits.number[0] : UINT32_MAX);
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
    const uint32_t largest = __reduce_max_sync(~0u, own);
    uint32_t number = UINT32_MAX;
    if (own == largest) {
#pragma unroll
        for (int i = numbers - 1; i >= 0; i--) {
            number = logits.key[i] == largest ? i * WARP_THREADS + lane : number;
        }
    }
    number = __reduce_min_sync(~0u, number);
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
    const float most = value_of(__reduce_max_sync(~0u, own));
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

#endif
