/* The producer: copies of weights, scale factors and activations. */
#ifndef HOPPER_PRODUCE_CUH
#define HOPPER_PRODUCE_CUH

#include "tile.cuh"

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

/* Producer, one thread.  Waits for empty[s], fills stage s, which signals full[s].  The weights of the first
 * stages are on their way before the kernel that makes the activations is complete. */
template <class T>
static __device__ __forceinline__ void fill_ahead(const struct shared_map &shared, const struct place &place,
                                               const struct dual_gemm_params &p, const CUtensorMap *activations,
                                               const CUtensorMap *b1, const CUtensorMap *b2) {
    if (p.scales_made_here) {
        griddepcontrol_wait();
    }
    int ahead = min(T::stages, place.stages);
    for (int i = 0; i < ahead; i++) {
        load_weights<T>(shared, place, p, b1, b2, i, place.first_stage + i);
    }
    griddepcontrol_wait();
    for (int i = 0; i < ahead; i++) {
        load_activations<T>(shared, place, activations, i, place.first_stage + i);
    }
}

#endif
