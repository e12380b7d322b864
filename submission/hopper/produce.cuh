/* The producer: copies of weights, scale factors and activations. */
#ifndef HOPPER_PRODUCE_CUH
#define HOPPER_PRODUCE_CUH

#include "share.cuh"

/* Weights: waits for nothing, signals full[stage] with this CTA's codes and scales. */
template <class T>
static __device__ __forceinline__ void load_weights(const struct shared_map &shared, const struct place &place,
                                                    const struct dual_gemm_params &p, const CUtensorMap *b1,
                                                    const CUtensorMap *b2, int stage, int32_t k_stage, int bytes) {
    struct mbarrier full = shared.full<T>(stage);
    uint32_t to = shared.base + stage * T::stage_size;
    mbarrier_arrive_expect_tx(full, bytes);
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

/* Warp of the weights.  Waits for empty[s], fills its part of stage s, announces all bytes to full[s].  The first stages
 * are on their way before the activations are there. */
template <class T>
static __device__ __forceinline__ void produce_weights(const struct shared_map &shared, const struct place &place,
                                                       const struct dual_gemm_params &p, const CUtensorMap *b1,
                                                       const CUtensorMap *b2) {
    if (p.scales_made_here) {
        griddepcontrol_wait();
    }
    int own = p.own ? T::own_stages : 0;
    struct ring ring = {0, 1}; /* a barrier's phase before its first counts as complete */
    for (int32_t i = 0; i < place.stages; i++) {
        wait(shared.empty<T>(ring.stage), ring.parity);
        if (elect_sync()) {
            load_weights<T>(shared, place, p, b1, b2, ring.stage, place.first_stage + i,
                            i < own ? T::stage_size - T::codes_at : T::stage_size);
        }
        advance<T::stages>(ring);
    }
}

/* Warp of the activations.  Waits for whoever makes them, and for empty[s]; signals full[s]. */
template <class T>
static __device__ __forceinline__ void produce_activations(const struct shared_map &shared,
                                                           const struct place &place,
                                                           const struct dual_gemm_params &p) {
    griddepcontrol_wait();
    int32_t own = p.own == 0 ? 0 : min(T::own_stages, place.stages);
    struct ring ring = {own % T::stages, own < T::stages};
    for (int32_t i = own; i < place.stages; i++) {
        wait(shared.empty<T>(ring.stage), ring.parity);
        if (elect_sync()) {
            cp_async_bulk(shared.base + ring.stage * T::stage_size,
                          image<T>(p, place.token_tile, place.first_stage + i), T::image_bytes,
                          shared.full<T>(ring.stage));
        }
        advance<T::stages>(ring);
    }
}

#endif
