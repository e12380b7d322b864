/* The load warp: copies of codes and scale factors. */
#ifndef BLACKWELL_LOAD_CUH
#define BLACKWELL_LOAD_CUH

#include "tile.cuh"

/* Where a CTA's boxes are: rows of A and of B, rows of scale tiles, and the first stage along K. */
struct boxes {
    int32_t token, feature, batch;
    int32_t first_stage, tiles_k;
    int32_t sfa_tile, sfb_tile;
};

template <class T>
static __device__ __forceinline__ struct boxes find_boxes(const struct place &place, int32_t tiles_k) {
    return {place.token,
            place.feature + place.rank * T::cta_features,
            place.batch,
            place.first_stage,
            tiles_k,
            place.token / SCALE_TILE_ROWS * tiles_k,
            place.feature / SCALE_TILE_ROWS * tiles_k};
}

/* Weights of the first stages to L2, while the kernel in front still runs.  Whoever writes them before that
 * kernel ends writes through the same L2. */
template <class T>
static __device__ __forceinline__ void prefetch_weights(const struct boxes &boxes,
                                                        const struct dual_gemm_params &p, int32_t stages) {
    for (int32_t i = boxes.first_stage; i < boxes.first_stage + min(T::stages, stages); i++) {
        cp_async_bulk_prefetch_tensor_3d_l2(&p.b1, i * STAGE_CODE_BYTES, boxes.feature, boxes.batch);
        cp_async_bulk_prefetch_tensor_3d_l2(&p.b2, i * STAGE_CODE_BYTES, boxes.feature, boxes.batch);
        if (!p.scales_made_here) {
            for (int tile = 0; tile < T::b_scale_tiles; tile++) {
                int32_t y = boxes.sfb_tile + tile * boxes.tiles_k + i * STAGE_STEPS;
                cp_async_bulk_prefetch_tensor_3d_l2(&p.sfb1, 0, y, boxes.batch);
                cp_async_bulk_prefetch_tensor_3d_l2(&p.sfb2, 0, y, boxes.batch);
            }
        }
    }
}

/* Copies a box to this CTA, signalling `full`. */
template <class T>
static __device__ __forceinline__ void copy_box(uint32_t to, const CUtensorMap *map, int32_t x, int32_t y,
                                                int32_t z, struct mbarrier full) {
    if constexpr (T::ctas == 1) {
        cp_async_bulk_tensor_3d(to, map, x, y, z, full);
    } else {
        cp_async_bulk_tensor_3d_pair(to, map, x, y, z, full);
    }
}

/* Scale factors of B1 and B2.  Each CTA of a pair needs both, of all features: each copies one, to both. */
template <class T>
static __device__ __forceinline__ void copy_weight_scales(uint32_t to, const struct dual_gemm_params &p,
                                                          const struct place &place, int32_t y,
                                                          struct mbarrier full) {
    if constexpr (T::ctas == 1) {
        cp_async_bulk_tensor_3d(to + T::sfb1_at, &p.sfb1, 0, y, place.batch, full);
        cp_async_bulk_tensor_3d(to + T::sfb2_at, &p.sfb2, 0, y, place.batch, full);
    } else {
        cp_async_bulk_tensor_3d_pair_multicast(to + (place.rank == 0 ? T::sfb1_at : T::sfb2_at),
                                               place.rank == 0 ? &p.sfb1 : &p.sfb2, 0, y, place.batch, full,
                                               ctas_of<T>(place));
    }
}

/* Load warp, one thread.  Waits for empty[s], fills stage s, which signals full[s]: one arrival and the stage's
 * bytes, in a pair those of both CTAs at the first one's barrier.  Boxes past the end of a tensor are filled
 * with zeros, or with the next rows' scale factors, which no MMA reads. */
template <class T>
static __device__ __forceinline__ void load(const struct shared_map &shared, const struct place &place,
                                            const struct dual_gemm_params &p) {
    int32_t stages = (place.steps + STAGE_STEPS - 1) / STAGE_STEPS;
    struct boxes boxes = find_boxes<T>(place, p.steps_k);
    prefetch_weights<T>(boxes, p, stages);
    griddepcontrol_wait();
    struct ring ring = {0, 0};
#pragma unroll 1
    for (int32_t i = 0; i < stages; i++) {
        struct mbarrier full = shared.full<T>(ring.stage);
        uint32_t to = shared.base + ring.stage * T::stage_size;
        int32_t k = (boxes.first_stage + i) * STAGE_CODE_BYTES, step = (boxes.first_stage + i) * STAGE_STEPS;
        if (i >= T::stages) {
            wait(shared.empty<T>(ring.stage), ring.parity ^ 1); /* the lap before's */
        }
        if (place.rank == 0) {
            mbarrier_arrive_expect_tx(full, T::ctas * T::stage_size);
        }
        if (T::ctas > 1) {
            full.address = mapa_shared_cluster(full.address, leader_of<T>(place));
        }
        copy_box<T>(to + T::b1_at, &p.b1, k, boxes.feature, boxes.batch, full);
        copy_box<T>(to + T::b2_at, &p.b2, k, boxes.feature, boxes.batch, full);
        copy_box<T>(to, &p.a, k, boxes.token, boxes.batch, full);
#pragma unroll
        for (int tile = 0; tile < T::b_scale_tiles; tile++) {
            copy_weight_scales<T>(to + tile * STAGE_SCALE_BYTES, p, place,
                                  boxes.sfb_tile + tile * boxes.tiles_k + step, full);
        }
        copy_box<T>(to + T::sfa_at, &p.sfa, 0, boxes.sfa_tile + step, boxes.batch, full);
        advance<T::stages>(ring);
    }
}

#endif
