/* The producers: a warpgroup of which one thread copies, and all expand activations. */
#ifndef HOPPER_PRODUCE_CUH
#define HOPPER_PRODUCE_CUH

#include "expand.cuh"
#include "tile.cuh"

#define WORDS_OF_LANE 4 /* of codes: 32 elements, see PERMUTED_ELEMS */
#define LANES         4

/* Weights: signals full[stage] with this CTA's codes and scale factors. */
template <class T>
static __device__ __forceinline__ void load_weights(const struct shared_map &shared, const struct place &place,
                                                    const struct dual_gemm_params &p, const CUtensorMap *b1,
                                                    const CUtensorMap *b2, int stage, int32_t k_stage) {
    struct mbarrier full = shared.full<T>(stage);
    uint32_t to = shared.base + stage * T::stage_size;
    mbarrier_arrive_expect_tx(full, T::weight_bytes);
    cp_async_bulk_tensor_3d(to + T::codes_at, b1, k_stage * STAGE_CODE_BYTES, place.feature, place.batch, full);
    cp_async_bulk_tensor_3d(to + T::codes_at + T::code_bytes, b2, k_stage * STAGE_CODE_BYTES, place.feature,
                            place.batch, full);
    int32_t last_row = (p.n - 1) / SCALE_TILE_ROWS;
    for (int i = 0; i < T::scale_tile_rows; i++) {
        int64_t row = min(place.scale_row + i, last_row); /* features past the end use what is there */
        int64_t offset =
            place.batch * p.sfb_batch_bytes +
            (row * p.scale_tiles_k + k_stage * (STAGE_SCALE_BYTES / SCALE_TILE_BYTES)) * SCALE_TILE_BYTES;
        uint32_t at = to + T::scales_at + i * STAGE_SCALE_BYTES;
        cp_async_bulk(at, p.sfb1 + offset, STAGE_SCALE_BYTES, full);
        cp_async_bulk(at + T::scale_bytes, p.sfb2 + offset, STAGE_SCALE_BYTES, full);
    }
}

/* Activations as codes and their scale factors: signals codes_full[slot]. */
template <class T>
static __device__ __forceinline__ void load_codes(const struct shared_map &shared, const struct place &place,
                                                  const struct dual_gemm_params &p, const CUtensorMap *a,
                                                  int slot, int32_t k_stage) {
    struct mbarrier full = shared.codes_full<T>(slot);
    uint32_t to = shared.base + T::slots_at + slot * T::slot_size;
    mbarrier_arrive_expect_tx(full, T::slot_size);
    cp_async_bulk_tensor_3d(to, a, k_stage * STAGE_CODE_BYTES, place.token, place.batch, full);
    int64_t row = place.token / SCALE_TILE_ROWS;
    int64_t offset =
        place.batch * p.sfa_batch_bytes +
        (row * p.scale_tiles_k + k_stage * (STAGE_SCALE_BYTES / SCALE_TILE_BYTES)) * SCALE_TILE_BYTES;
    cp_async_bulk(to + T::slot_scales_at, p.sfa + offset, STAGE_SCALE_BYTES, full);
}

/* A producer thread's part of a stage's activations: `words` words of each of the four lanes of one row. */
template <class T> struct row_part {
    static constexpr int words = WORDS_OF_LANE * T::tokens / WARPGROUP_THREADS;

    int row, first_word; /* of the tile; of each lane */
    int scales;          /* where the row's scale factors are in a slot */
};

template <class T> static __device__ __forceinline__ struct row_part<T> find_part(const struct place &place) {
    struct row_part<T> part;
    part.row = threadIdx.x % T::tokens;
    part.first_word = threadIdx.x / T::tokens * row_part<T>::words;
    int scale_row = (place.token + part.row) % SCALE_TILE_ROWS;
    part.scales = T::slot_scales_at + scale_row % 32 * 16 + scale_row / 32 * 4;
    return part;
}

/* Codes of a slot: [lane][word]; 64-byte swizzled rows. */
template <class T>
static __device__ __forceinline__ void read_codes(uint32_t (&codes)[LANES][row_part<T>::words],
                                                  const struct row_part<T> &part, uint32_t slot) {
    uint32_t row = slot + part.row * STAGE_CODE_BYTES;
#pragma unroll
    for (int lane = 0; lane < LANES; lane++) {
        uint32_t at = row + ((lane ^ (part.row / 2 % 4)) * 16) + part.first_word * 4;
        if constexpr (row_part<T>::words == WORDS_OF_LANE) {
            uint4 four = ld_shared_v4(at);
            codes[lane][0] = four.x;
            codes[lane][1] = four.y;
            codes[lane][2] = four.z;
            codes[lane][3] = four.w;
        } else {
            uint2 two = ld_shared_v2(at);
            codes[lane][0] = two.x;
            codes[lane][1] = two.y;
        }
    }
}

/* Codes -> fp16 in the stage's activation boxes, 128-byte swizzled rows: 16 bytes hold one pair of each lane.
 */
template <class T>
static __device__ __forceinline__ void write_row(uint32_t stage, const struct row_part<T> &part,
                                                 const uint32_t (&codes)[LANES][row_part<T>::words],
                                                 uint2 factors) {
    uint32_t scales[LANES][2]; /* [lane][group] */
#pragma unroll
    for (int lane = 0; lane < LANES; lane++) {
        expand_scales((uint16_t)((lane < 2 ? factors.x : factors.y) >> lane % 2 * 16), scales[lane]);
    }
#pragma unroll
    for (int i = 0; i < row_part<T>::words; i++) {
        int word = part.first_word + i, group = word / 2;
        uint32_t pairs[LANES][4];
#pragma unroll
        for (int lane = 0; lane < LANES; lane++) {
            expand_word(codes[lane][i], group == 0 ? scales[lane][0] : scales[lane][1], pairs[lane]);
        }
        uint32_t row = stage + group * T::box_bytes + part.row * ACTIVATION_BOX_BYTES;
#pragma unroll
        for (int pair = 0; pair < 4; pair++) {
            uint32_t unit = word % 2 * 4 + pair;
            st_shared_v4(row + (unit ^ part.row % 8) * 16,
                         make_uint4(pairs[0][pair], pairs[1][pair], pairs[2][pair], pairs[3][pair]));
        }
    }
}

/* Producer warpgroup.  Waits for codes_full[c] and empty[s], fills stage s; every thread signals codes_empty[c]
 * and full[s] for its part, and the first one copies. */
template <class T>
static __device__ __forceinline__ void produce(const struct shared_map &shared, const struct place &place,
                                               const struct dual_gemm_params &p, const CUtensorMap *a,
                                               const CUtensorMap *b1, const CUtensorMap *b2) {
    bool copies = threadIdx.x == 0;
    griddepcontrol_wait();
    if (copies) {
        for (int i = 0; i < min(CODE_SLOTS, p.stages_k); i++) {
            load_codes<T>(shared, place, p, a, i, i);
        }
        for (int i = 0; i < min(T::stages, p.stages_k); i++) {
            load_weights<T>(shared, place, p, b1, b2, i, i);
        }
    }
    struct row_part<T> part = find_part<T>(place);
    struct ring slot = {0, 0}, stage = {0, 1}; /* a fresh barrier's phase before its first counts as complete */
    for (int32_t i = 0; i < p.stages_k; i++) {
        uint32_t codes[LANES][row_part<T>::words];
        uint32_t from = shared.base + T::slots_at + slot.stage * T::slot_size;
        wait(shared.codes_full<T>(slot.stage), slot.parity);
        read_codes<T>(codes, part, from);
        uint2 factors =
            make_uint2(ld_shared_u32(from + part.scales), ld_shared_u32(from + part.scales + SCALE_TILE_BYTES));
        mbarrier_arrive(shared.codes_empty<T>(slot.stage));
        wait(shared.empty<T>(stage.stage), stage.parity);
        if (copies && i >= T::stages) {
            load_weights<T>(shared, place, p, b1, b2, stage.stage, i);
        }
        write_row<T>(shared.base + stage.stage * T::stage_size, part, codes, factors);
        fence_proxy_async_shared();
        mbarrier_arrive(shared.full<T>(stage.stage));
        if (copies && i + CODE_SLOTS < p.stages_k) {
            wait(shared.codes_empty<T>(slot.stage), slot.parity);
            load_codes<T>(shared, place, p, a, slot.stage, i + CODE_SLOTS);
        }
        advance<CODE_SLOTS>(slot);
        advance<T::stages>(stage);
    }
}

#endif
