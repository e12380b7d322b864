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

#include "gpu_choices.cuh"

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
        const int32_t other = __shfl_up_sync(~0u, sum, apart);
        sum += lane >= apart ? other : 0;
    }
    if (lane == WARP_THREADS - 1) {
        shared.of_warp[warp] = sum;
    }
    __syncthreads();
    const int32_t of_warp = lane < warps ? shared.of_warp[lane] : 0;
    *all = __reduce_add_sync(~0u, of_warp);
    const int32_t before = __reduce_add_sync(~0u, lane < warp ? of_warp : 0);
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
        const uint32_t same = __match_any_sync(~0u, expert);
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
