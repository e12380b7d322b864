/* The fused dual GEMM for sm_90a.
 *
 *   producer warp                      consumer warpgroups (2 or 3)
 *   -------------                      ----------------------------
 *   B1, B2 codes   --TMA--------> +
 *   sfb1, sfb2     --bulk-------> | stage --LDS--> codes, scales --expand--> A fragments (registers)
 *   activations    --TMA--------> +                                              |
 *     (fp16, permuted K)          '-----------------(B operand, shared)------> wgmma --> gate and up sums
 *                                                                                |
 *   C <---16-byte stores--- shared, transposed <---stmatrix--- fp16(silu(gate) * up)
 *
 *   barrier   arrivals             bytes        complete when
 *   full[s]   1 (the producer)     stage_size   stage s holds its weights, scale factors and activations
 *   empty[s]  all consumer threads 0            nothing reads stage s any more
 */
#ifndef HOPPER_DUAL_GEMM_KERNEL_CUH
#define HOPPER_DUAL_GEMM_KERNEL_CUH

#include "../gpu/wgmma.cuh"
#include "config.h"
#include "expand.cuh"

#define WARP_THREADS     32
#define FRAGMENT_STEPS   4 /* k16 steps that one expansion feeds: a group of 16 elements a lane */
#define CONSUMER_BARRIER 1
#define LOG2_E           1.442695041f
#define HALVES_OF_VECTOR 8
/* Registers a thread: one warpgroup copies, the others hold sums and fragments (65,536 a CTA in all). */
#define PRODUCER_REGISTERS                24
#define CONSUMER_REGISTERS_OF(warpgroups) ((warpgroups) == 2 ? 240 : 160)

/* A position in the ring of stages, and the parity of the barrier phase to wait for there; it changes every
 * lap.  The producer fills the first lap without waiting, so it too starts with the parity of the barriers'
 * first phase. */
struct ring {
    int stage;
    uint32_t parity;
};

template <int stages> static __device__ __forceinline__ void advance(struct ring &ring) {
    if (++ring.stage == stages) {
        ring.stage = 0;
        ring.parity ^= 1;
    }
}

static __device__ __forceinline__ void wait(struct mbarrier barrier, uint32_t parity) {
    while (!mbarrier_try_wait_parity(barrier, parity)) {
    }
}

template <int warpgroups_, int slabs_, int tokens_, int stages_> struct tile {
    static constexpr int warpgroups = warpgroups_, slabs = slabs_, tokens = tokens_, stages = stages_;
    static constexpr int threads = (warpgroups + 1) * WARPGROUP_THREADS;
    static constexpr int consumers = warpgroups * WARPGROUP_THREADS; /* threads */
    static constexpr int features = warpgroups * slabs * SLAB_FEATURES;
    static constexpr int scale_tile_rows = SCALE_TILE_ROWS_OF(features);

    /* A stage: activations first, for their swizzle atoms' alignment. */
    static constexpr int box_bytes = tokens * ACTIVATION_BOX_BYTES;
    static constexpr int code_bytes = features * STAGE_CODE_BYTES;          /* of one B */
    static constexpr int scale_bytes = scale_tile_rows * STAGE_SCALE_BYTES; /* of one B */
    static constexpr int codes_at = ACTIVATION_BOXES * box_bytes;
    static constexpr int scales_at = codes_at + 2 * code_bytes;
    static constexpr int stage_size = scales_at + 2 * scale_bytes;
    static constexpr int barriers_at = stages * stage_size;
    static constexpr int output_pitch = features * 2 + OUTPUT_PAD_BYTES;
    static constexpr int sums = tokens / 2;                               /* registers of a slab's sums */
    static constexpr int unit_vectors = slabs * sums / 4 / PARTIAL_UNITS; /* of four sums, of a thread */
    static constexpr int partial_unit_bytes = unit_vectors * 16 * consumers;

    static_assert(stage_size % SHARED_ALIGNMENT == 0, "every stage starts a swizzle atom");
    static_assert(tokens % 32 == 0, "whole stmatrix instructions");
    static_assert(barriers_at + stages * 16 + SHARED_ALIGNMENT <= MAX_SHARED_BYTES, "fits in shared memory");
    static_assert(tokens * output_pitch <= barriers_at, "the staged output fits over the stages");
    static_assert(partial_unit_bytes <= stage_size, "a unit of partial sums fits in a stage");
    static_assert(features % SLAB_FEATURES == 0 && features <= 256, "a TMA box has at most 256 rows");
};

struct shared_map {
    uint32_t base; /* of stage 0 */

    template <class T> __device__ __forceinline__ struct mbarrier full(int stage) const {
        return {base + T::barriers_at + stage * 8};
    }
    template <class T> __device__ __forceinline__ struct mbarrier empty(int stage) const {
        return {base + T::barriers_at + (T::stages + stage) * 8};
    }
};

/* A tile of C. */
struct place {
    int32_t feature, token, batch; /* first ones */
    int32_t scale_row;             /* first row of scale tiles */
};

template <class T>
static __device__ __forceinline__ struct place find_place(const struct dual_gemm_params &p, int32_t tile) {
    struct place place;
    place.feature = tile % p.tiles_n * T::features;
    place.token = tile / p.tiles_n % p.tiles_m * T::tokens;
    place.batch = tile / p.tiles_n / p.tiles_m;
    place.scale_row = place.feature / SCALE_TILE_ROWS;
    return place;
}

/* What this CTA multiplies: the same stages of K of one tile or, as a helper, of several. */
struct work {
    int32_t tile, tiles; /* first one; how many */
    int32_t first_stage, stages;
    bool helps;  /* leaves partial sums instead of outputs */
    bool helped; /* has partial sums to add */
};

static __device__ __forceinline__ struct work find_work(const struct dual_gemm_params &p) {
    int32_t block = blockIdx.x, own_stages = p.stages_k - p.helping.stages;
    struct work work;
    work.helps = block < p.helping.helpers;
    work.helped = !work.helps && p.helping.helpers > 0;
    work.tile = work.helps ? block * p.helping.tiles : block - p.helping.helpers;
    work.tiles = work.helps ? min(p.helping.tiles, p.tiles_n * p.tiles_m * p.batches - work.tile) : 1;
    work.first_stage = work.helps ? own_stages : 0;
    work.stages = work.helps ? p.helping.stages : own_stages;
    return work;
}

/* Weights: waits for nothing, signals full[stage] with this CTA's codes and scales. */
template <class T>
static __device__ __forceinline__ void load_weights(const struct shared_map &shared, const struct place &place,
                                                    const struct dual_gemm_params &p, const CUtensorMap *b1,
                                                    const CUtensorMap *b2, int stage, int32_t k_stage) {
    struct mbarrier full = shared.full<T>(stage);
    uint32_t to = shared.base + stage * T::stage_size;
    mbarrier_arrive_expect_tx(full, T::stage_size);
    cp_async_bulk_tensor_3d(to + T::codes_at, b1, k_stage * STAGE_CODE_BYTES, place.feature, place.batch, full);
    cp_async_bulk_tensor_3d(to + T::codes_at + T::code_bytes, b2, k_stage * STAGE_CODE_BYTES, place.feature,
                            place.batch, full);
    int32_t last_row = (p.n - 1) / SCALE_TILE_ROWS;
    for (int i = 0; i < T::scale_tile_rows; i++) {
        int64_t row = min(place.scale_row + i, last_row); /* features past the end use what is there */
        int64_t offset =
            place.batch * p.scale_batch_bytes +
            (row * p.scale_tiles_k + k_stage * (STAGE_SCALE_BYTES / SCALE_TILE_BYTES)) * SCALE_TILE_BYTES;
        uint32_t at = to + T::scales_at + i * STAGE_SCALE_BYTES;
        cp_async_bulk(at, p.sfb1 + offset, STAGE_SCALE_BYTES, full);
        cp_async_bulk(at + T::scale_bytes, p.sfb2 + offset, STAGE_SCALE_BYTES, full);
    }
}

/* Activations: signals full[stage], which load_weights has told of their bytes. */
template <class T>
static __device__ __forceinline__ void
load_activations(const struct shared_map &shared, const struct place &place, const CUtensorMap *activations,
                 int stage, int32_t k_stage) {
    for (int box = 0; box < ACTIVATION_BOXES; box++) {
        cp_async_bulk_tensor_3d(shared.base + stage * T::stage_size + box * T::box_bytes, activations,
                                k_stage * STAGE_K + box * ACTIVATION_BOX_K, place.token, place.batch,
                                shared.full<T>(stage));
    }
}

/* Partial sums of a tile, when its helper has left them: signals full[stage] with unit `unit` of them. */
template <class T>
static __device__ __forceinline__ void load_partials(const struct shared_map &shared,
                                                     const struct dual_gemm_params &p, int32_t tile, int unit,
                                                     int stage) {
    while (ld_acquire_gpu(p.helped + tile) == 0) {
    }
    fence_proxy_async(); /* a helper's ordinary stores, read by a copy */
    struct mbarrier full = shared.full<T>(stage);
    mbarrier_arrive_expect_tx(full, T::partial_unit_bytes);
    cp_async_bulk(shared.base + stage * T::stage_size,
                  (const uint8_t *)p.partials + ((int64_t)tile * PARTIAL_UNITS + unit) * T::partial_unit_bytes,
                  T::partial_unit_bytes, full);
}

/* The next stage of this CTA's work: a tile, and one of its stages of K. */
struct cursor {
    int32_t tile, k_stage;
    struct place place; /* of the tile: three divisions, too slow for every stage */
};

template <class T>
static __device__ __forceinline__ void advance(struct cursor &cursor, const struct work &work,
                                               const struct dual_gemm_params &p) {
    if (++cursor.k_stage == work.first_stage + work.stages && cursor.tile + 1 < work.tile + work.tiles) {
        cursor.k_stage = work.first_stage;
        cursor.place = find_place<T>(p, ++cursor.tile);
    }
}

/* Producer, one thread.  Waits for empty[s], fills stage s, which signals full[s].  The weights of the first
 * stages are on their way before the kernel that makes the activations is complete. */
template <class T>
static __device__ __forceinline__ void produce(const struct shared_map &shared, const struct work &work,
                                               const struct dual_gemm_params &p, const CUtensorMap *activations,
                                               const CUtensorMap *b1, const CUtensorMap *b2) {
    if (p.scales_made_here) {
        griddepcontrol_wait();
    }
    int32_t all = work.tiles * work.stages, ahead = min(T::stages, all);
    struct cursor first = {work.tile, work.first_stage, find_place<T>(p, work.tile)}, next = first;
    for (int i = 0; i < ahead; i++, advance<T>(next, work, p)) {
        load_weights<T>(shared, next.place, p, b1, b2, i, next.k_stage);
    }
    griddepcontrol_wait();
    next = first;
    for (int i = 0; i < ahead; i++, advance<T>(next, work, p)) {
        load_activations<T>(shared, next.place, activations, i, next.k_stage);
    }
    struct ring ring = {ahead % T::stages, ahead < T::stages}; /* a lap that nothing was in counts as read */
    for (int32_t i = ahead; i < all; i++, advance<T>(next, work, p)) {
        wait(shared.empty<T>(ring.stage), ring.parity);
        load_weights<T>(shared, next.place, p, b1, b2, ring.stage, next.k_stage);
        load_activations<T>(shared, next.place, activations, ring.stage, next.k_stage);
        advance<T::stages>(ring);
    }
    for (int unit = 0; work.helped && unit < PARTIAL_UNITS; unit++) {
        wait(shared.empty<T>(ring.stage), ring.parity);
        load_partials<T>(shared, p, work.tile, unit, ring.stage);
        advance<T::stages>(ring);
    }
}

/* What a thread reads of a slab in a stage: 32 elements of a feature's row of B1 and of B2, and their scales.
 */
struct raw_slab {
    uint4 codes[2];        /* [B1, B2]: two groups of two words each */
    uint32_t scales[2][2]; /* [B1, B2][group] */
};

template <class T>
static __device__ __forceinline__ void read_slab(struct raw_slab &raw, uint32_t stage, int slab_feature,
                                                 int scale_feature, int lane) {
    int row = lane / 4, quad_lane = lane % 4;
    /* Consecutive lanes read consecutive 16 bytes: no bank conflict. */
    uint32_t codes = stage + T::codes_at + (slab_feature + row) * STAGE_CODE_BYTES + quad_lane * 16;
    int feature = scale_feature + row;
    uint32_t scales = stage + T::scales_at + feature / SCALE_TILE_ROWS * STAGE_SCALE_BYTES +
                      quad_lane / 2 * SCALE_TILE_BYTES + feature % 32 * 16 +
                      feature % SCALE_TILE_ROWS / 32 * 4 + quad_lane % 2 * 2;
    for (int which = 0; which < 2; which++) {
        raw.codes[which] = ld_shared_v4(codes + which * T::code_bytes);
        expand_scales(ld_shared_u16(scales + which * T::scale_bytes), raw.scales[which]);
    }
}

/* The A fragments of FRAGMENT_STEPS steps, from one group of each of the thread's two rows. */
static __device__ __forceinline__ void expand_group(uint32_t (&fragment)[FRAGMENT_STEPS][4],
                                                    const struct raw_slab &raw, int group) {
#pragma unroll
    for (int which = 0; which < 2; which++) {
#pragma unroll
        for (int word = 0; word < 2; word++) {
            uint4 codes = raw.codes[which];
            uint32_t bits = group == 0 ? (word == 0 ? codes.x : codes.y) : (word == 0 ? codes.z : codes.w);
            uint32_t pairs[4];
            expand_word(bits, raw.scales[which][group], pairs);
            fragment[2 * word][which] = pairs[0];
            fragment[2 * word][2 + which] = pairs[1];
            fragment[2 * word + 1][which] = pairs[2];
            fragment[2 * word + 1][2 + which] = pairs[3];
        }
    }
}

/* Consumer warpgroup, one tile.  Waits for full[s]; expands a group of weights into one of two fragment buffers
 * while the tensor cores work on the other; signals empty[s] once nothing reads stage s any more. */
template <class T>
static __device__ __forceinline__ void multiply(float (&sums)[T::slabs][T::sums],
                                                const struct shared_map &shared, const struct place &place,
                                                int32_t stages, int warpgroup, struct ring &ring) {
    int warp = threadIdx.x / WARP_THREADS % 4, lane = threadIdx.x % WARP_THREADS;
    uint32_t fragments[2][FRAGMENT_STEPS][4];
    int previous = -1;
    for (int32_t k = 0; k < stages; k++) {
        wait(shared.full<T>(ring.stage), ring.parity);
        uint32_t stage = shared.base + ring.stage * T::stage_size;
        struct raw_slab raw[T::slabs];
#pragma unroll
        for (int slab = 0; slab < T::slabs; slab++) {
            int feature = (warpgroup * T::slabs + slab) * SLAB_FEATURES + warp * 8;
            read_slab<T>(raw[slab], stage, feature, place.feature - place.scale_row * SCALE_TILE_ROWS + feature,
                         lane);
        }
#pragma unroll
        for (int i = 0; i < 2 * T::slabs; i++) {
            int group = i / T::slabs, slab = i % T::slabs;
            uint32_t (&fragment)[FRAGMENT_STEPS][4] = fragments[i % 2];
            if (i == 1 &&
                previous >=
                    0) { /* only this stage's first group is still pending; each lane answers for its reads */
                mbarrier_arrive(shared.empty<T>(previous));
            }
            expand_group(fragment, raw[slab], group);
            wgmma_fence();
#pragma unroll
            for (int step = 0; step < FRAGMENT_STEPS; step++) {
                uint64_t tokens = matrix_descriptor_128b_swizzle(stage + group * T::box_bytes + step * 32);
                wgmma_m64k16<T::tokens>::mma_async(sums[slab], fragment[step], tokens,
                                                   k > 0 || group > 0 || step > 0);
            }
            wgmma_commit_group();
            wgmma_wait_group<1>(); /* all but the last: the other buffer is free */
        }
        previous = ring.stage;
        advance<T::stages>(ring);
    }
    wgmma_wait_group<0>();
    mbarrier_arrive(shared.empty<T>(previous));
#pragma unroll
    for (int slab = 0; slab < T::slabs; slab++) {
#pragma unroll
        for (int i = 0; i < T::sums; i++) {
            keep_after(sums[slab][i]);
        }
    }
}

/* The sums of a helper: thread by thread, as the tile's own CTA will read them; then signals helped[tile]. */
template <class T>
static __device__ __forceinline__ void leave_partials(const float (&sums)[T::slabs][T::sums],
                                                      const struct dual_gemm_params &p, int32_t tile) {
    int thread = threadIdx.x - WARPGROUP_THREADS;
    float4 *to = (float4 *)p.partials + (int64_t)tile * PARTIAL_UNITS * T::unit_vectors * T::consumers + thread;
#pragma unroll
    for (int i = 0; i < PARTIAL_UNITS * T::unit_vectors; i++) {
        const float *sum = &sums[i * 4 / T::sums][i * 4 % T::sums];
        to[i * T::consumers] = make_float4(sum[0], sum[1], sum[2], sum[3]);
    }
    __threadfence();
    bar_sync(CONSUMER_BARRIER, T::consumers);
    if (thread == 0) {
        st_release_gpu(p.helped + tile, 1);
    }
}

/* Waits for full[s] of the partial sums and adds them. */
template <class T>
static __device__ __forceinline__ void add_partials(float (&sums)[T::slabs][T::sums],
                                                    const struct shared_map &shared, struct ring &ring) {
    int thread = threadIdx.x - WARPGROUP_THREADS;
#pragma unroll
    for (int unit = 0; unit < PARTIAL_UNITS; unit++) {
        wait(shared.full<T>(ring.stage), ring.parity);
        uint32_t from = shared.base + ring.stage * T::stage_size + thread * 16;
#pragma unroll
        for (int i = 0; i < T::unit_vectors; i++) {
            uint4 vector = ld_shared_v4(from + i * T::consumers * 16);
            int at = (unit * T::unit_vectors + i) * 4;
            float *sum = &sums[at / T::sums][at % T::sums];
            sum[0] += __uint_as_float(vector.x);
            sum[1] += __uint_as_float(vector.y);
            sum[2] += __uint_as_float(vector.z);
            sum[3] += __uint_as_float(vector.w);
        }
        advance<T::stages>(ring);
    }
}

/* fp32 silu(gate) * up of sums that still carry 2^-14. */
static __device__ __forceinline__ float silu_times(float gate, float up) {
    gate *= PRODUCT_CORRECTION;
    return gate * rcp_approx(1.0f + ex2_approx(-LOG2_E * gate)) * (up * PRODUCT_CORRECTION);
}

/* Sums -> fp16 outputs in shared memory, [token][feature], over the stages nobody uses any more. */
template <class T>
static __device__ __forceinline__ void stage_output(float (&sums)[T::slabs][T::sums], uint32_t output,
                                                    int warpgroup) {
    int warp = threadIdx.x / WARP_THREADS % 4, lane = threadIdx.x % WARP_THREADS;
#pragma unroll
    for (int slab = 0; slab < T::slabs; slab++) {
        int feature = (warpgroup * T::slabs + slab) * SLAB_FEATURES + warp * 8;
#pragma unroll
        for (int token = 0; token < T::tokens; token += 32) {
            uint32_t halves[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float *sum = &sums[slab][(token / 8 + i) * 4]; /* gate, gate, up, up of two tokens */
                halves[i] = cvt_rn_f16x2_f32(silu_times(sum[0], sum[2]), silu_times(sum[1], sum[3]));
            }
            stmatrix_x4_trans(output + (token + lane) * T::output_pitch + feature * 2, halves);
        }
    }
}

/* Shared memory -> C, by all consumers; 16 bytes at a time where rows of C allow it. */
template <class T>
static __device__ __forceinline__ void store_output(const unsigned char *output, const struct place &place,
                                                    const struct dual_gemm_params &p) {
    constexpr int vectors = T::features / HALVES_OF_VECTOR, threads = T::consumers;
    int thread = threadIdx.x - WARPGROUP_THREADS;
    for (int i = thread; i < T::tokens * vectors; i += threads) {
        int token = i / vectors, feature = i % vectors * HALVES_OF_VECTOR;
        if (place.token + token >= p.m || place.feature + feature >= p.n) {
            continue;
        }
        const unsigned char *from = output + token * T::output_pitch + feature * 2;
        int64_t row = (int64_t)place.batch * p.m + place.token + token;
        uint16_t *to = p.c + row * p.n + place.feature + feature;
        if (p.n % HALVES_OF_VECTOR == 0) {
            *(uint4 *)to = *(const uint4 *)from;
        } else {
            for (int half = 0; half < HALVES_OF_VECTOR && place.feature + feature + half < p.n; half++) {
                to[half] = ((const uint16_t *)from)[half];
            }
        }
    }
}

template <class T>
static __device__ __forceinline__ void consume(const struct shared_map &shared, unsigned char *output,
                                               const struct work &work, const struct dual_gemm_params &p) {
    int warpgroup = threadIdx.x / WARPGROUP_THREADS - 1;
    float sums[T::slabs][T::sums]; /* the first step of each slab overwrites them */
    struct ring ring = {0, 0};
    for (int32_t tile = work.tile; tile < work.tile + work.tiles; tile++) {
        struct place place = find_place<T>(p, tile);
        multiply<T>(sums, shared, place, work.stages, warpgroup, ring);
        if (work.helps) {
            leave_partials<T>(sums, p, tile);
            continue;
        }
        if (work.helped) {
            add_partials<T>(sums, shared, ring);
        }
        bar_sync(CONSUMER_BARRIER, T::consumers); /* the stages are free */
        stage_output<T>(sums, cvta_to_shared(output), warpgroup);
        bar_sync(CONSUMER_BARRIER, T::consumers);
        store_output<T>(output, place, p);
    }
}

template <class T>
static __global__ void __launch_bounds__(T::threads, 1)
    dual_gemm_kernel(const __grid_constant__ CUtensorMap activations, const __grid_constant__ CUtensorMap b1,
                     const __grid_constant__ CUtensorMap b2, const __grid_constant__ dual_gemm_params p) {
    extern __shared__ unsigned char memory[];
    uint32_t misaligned = cvta_to_shared(memory) % SHARED_ALIGNMENT;
    unsigned char *aligned = memory + (SHARED_ALIGNMENT - misaligned) % SHARED_ALIGNMENT;
    struct shared_map shared = {cvta_to_shared(aligned)};
    struct work work = find_work(p);

    if (threadIdx.x == 0) {
        prefetch_tensormap(&activations);
        prefetch_tensormap(&b1);
        prefetch_tensormap(&b2);
        for (int stage = 0; stage < T::stages; stage++) {
            mbarrier_init(shared.full<T>(stage), 1);
            mbarrier_init(shared.empty<T>(stage), T::consumers);
        }
        fence_mbarrier_init();
    }
    __syncthreads();
    griddepcontrol_launch_dependents();

    if (threadIdx.x < WARPGROUP_THREADS) {
        setmaxnreg_dec<PRODUCER_REGISTERS>();
        if (threadIdx.x == 0) {
            produce<T>(shared, work, p, &activations, &b1, &b2);
        }
    } else {
        setmaxnreg_inc<CONSUMER_REGISTERS_OF(T::warpgroups)>();
        consume<T>(shared, aligned, work, p);
    }
}

#endif
