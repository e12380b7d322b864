/* The extended GEMM whose CTAs take tile after tile: copies, main loop and the dequantization of A ahead of its
 * tiles are hopper_persistent_gemm.cuh's, operands and arithmetic hopper_extended_gemm.cuh's.
 *
 * Outputs pass through 2 KB of shared memory of the warpgroup that has them: 32 rows of C by the warpgroup's 32
 * columns in 16 bits, or for NVFP4 output 16 rows in fp32.  A plain product's two halves follow each other. */
#ifndef HOPPER_EXTENDED_PERSISTENT_CUH
#define HOPPER_EXTENDED_PERSISTENT_CUH

#include "../hopper_persistent_gemm.cuh"
#include "hopper_extended_gemm.cuh"

namespace hopper {

#define FIRST_AHEAD_WARP (WARPGROUP_THREADS / WARP_THREADS - AHEAD_WARPS)

#define FP32_STRIP_ROWS      (OUTPUT_STRIP_ROWS * FP16_BYTES / (int)sizeof(float))
#define FP32_STRIP_ROW_BYTES (WGMMA_M_BLOCK_B_ROWS * (int)sizeof(float))
#define FP32_ROW_UNITS                                                                                         \
    (FP32_STRIP_ROW_BYTES / (int)sizeof(uint4)) /* 16 bytes, swizzled as the eight rows are */

/* The tiles of the extended GEMM. */
template <class T> struct extended_tiles {
    const struct hopper_extended_persistent_params &p;

    __device__ __forceinline__ const struct hopper_persistent_params &schedule(void) const {
        return p.schedule;
    }

    __device__ __forceinline__ const struct hopper_extended_params &operands(void) const {
        return p.extended;
    }

    __device__ __forceinline__ struct joint_coord place(int32_t tile) const {
        return place_extended_tile<T>(p.extended, tile % p.schedule.tiles_n, tile / p.schedule.tiles_n, 0);
    }

    __device__ __forceinline__ void ask_for_scales(void) const {
        if (threadIdx.x / WARP_THREADS == FIRST_AHEAD_WARP) {
            const struct joint_coord first = place(blockIdx.x);
            hopper::ask_for_scales<T>(p.extended.epilogue, first.m, first.column);
        }
    }
};

/* Of the column of C whose accumulators a lane has. */
static __device__ __forceinline__ struct column_bias bias_of_lane(const struct extended_params &p,
                                                                  const struct strip_place &place) {
    const int warp = threadIdx.x / WARP_THREADS % 4, lane = threadIdx.x % WARP_THREADS;
    return find_bias(p, place.column + warp * 8 + lane / 4);
}

/* OUTPUT_STRIP_ROWS rows of C from `first` on, in 16 bits. */
template <int kind>
static __device__ __forceinline__ void
finish_strip(const float *acc, int part, int32_t first, const struct row_factors (&factors)[4][2],
             const struct column_bias &bias, const struct strip_place &place,
             const struct hopper_extended_params &all) {
    const struct extended_params &p = all.epilogue;
    float outputs[8];
    uint32_t packed[4];
    finish_pairs<kind, 4>(outputs, acc, part, factors, bias, p, all.correction);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        packed[i] = two_halves(p, outputs[2 * i], outputs[2 * i + 1]);
    }
    store_strip(place, first, packed, (uint16_t *)p.c, 0, p.m, p.n);
}

/* The same in NVFP4: FP32_STRIP_ROWS rows, of which each of a warp's threads quantizes a group. */
template <int kind>
static __device__ __forceinline__ void
quantize_strip(const float *acc, int part, int32_t first, const struct row_factors (*factors)[2],
               const struct column_bias &bias, float scale_c, const struct strip_place &place,
               const struct hopper_extended_params &all) {
    const struct extended_params &p = all.epilogue;
    constexpr int groups = WGMMA_M_BLOCK_B_ROWS / NVFP4_GROUP_ELEMS;
    static_assert(FP32_STRIP_ROWS * groups == WARP_THREADS, "a warp quantizes a strip");
    const int warp = threadIdx.x / WARP_THREADS % 4, lane = threadIdx.x % WARP_THREADS;
    const uint32_t strip = cvta_to_shared(place.strip);
    float outputs[FP32_STRIP_ROWS / 4];
    finish_pairs<kind, FP32_STRIP_ROWS / 8>(outputs, acc, part, factors, bias, p, all.correction);
    bar_sync(place.barrier, WARPGROUP_THREADS);
    const int column = warp * 8 + lane / 4;
#pragma unroll
    for (int i = 0; i < FP32_STRIP_ROWS / 8 * 2; i++) {
        const int row = i / 2 * 8 + lane % 4 * 2 + i % 2;
        st_shared_f32(strip + row * FP32_STRIP_ROW_BYTES +
                          (column / 4 ^ row % FP32_ROW_UNITS) * (int)sizeof(uint4) +
                          column % 4 * (int)sizeof(float),
                      outputs[i]);
    }
    bar_sync(place.barrier, WARPGROUP_THREADS);
    const int row = lane / groups, group = lane % groups;
    const int32_t row_of_c = place.row + first + row, column_of_c = place.column + group * NVFP4_GROUP_ELEMS;
    if (warp != first / FP32_STRIP_ROWS % 4 || !has_row(place, row_of_c, p.m) || column_of_c >= p.n) {
        return;
    }
    quantize_outputs(p, row_of_c, column_of_c, scale_c, [&](int i) {
        const int unit = (group * NVFP4_GROUP_ELEMS / 4 + i) ^ row % FP32_ROW_UNITS;
        return ld_shared_floats(strip + row * FP32_STRIP_ROW_BYTES + unit * (int)sizeof(uint4));
    });
}

/* A warpgroup's accumulators -> C. */
template <class T, int kind, bool nvfp4>
static __device__ __forceinline__ void store_extended_strips(float (&acc)[T::m_blocks][T::accs],
                                                             const struct strip_place &place,
                                                             const struct hopper_extended_params &all) {
    const struct extended_params &p = all.epilogue;
    const float scale_gate = number_or_one(p.scale_gate), scale_up = number_or_one(p.scale_up),
                scale_c = number_or_one(p.scale_c);
    constexpr int parts = kind == PLAIN ? 2 : 1;
    struct strip_place places[parts];
    struct column_bias bias[parts];
#pragma unroll
    for (int part = 0; part < parts; part++) {
        places[part] = place;
        places[part].column += part * T::tile_n;
        bias[part] = bias_of_lane(p, places[part]);
    }
#pragma unroll
    for (int first = 0; first < T::tile_m; first += OUTPUT_STRIP_ROWS) {
        struct row_factors factors[4][2];
        find_lane_factors(factors, p, scale_gate, scale_up, place.row + first);
#pragma unroll
        for (int part = 0; part < parts; part++) {
            if constexpr (nvfp4) {
#pragma unroll
                for (int row = 0; row < OUTPUT_STRIP_ROWS; row += FP32_STRIP_ROWS) {
                    quantize_strip<kind>(&acc[0][(first + row) / 2], part, first + row, &factors[row / 8],
                                         bias[part], scale_c, places[part], all);
                }
            } else {
                finish_strip<kind>(&acc[0][first / 2], part, first, factors, bias[part], places[part], all);
            }
        }
    }
}

/* A tile's accumulators -> C, through a strip for each warpgroup from `strips` on. */
template <class T>
static __device__ __forceinline__ void
store_tile_in_strips(float (&acc)[T::m_blocks][T::accs], const struct joint_coord &coord,
                     const struct hopper_extended_params &all, unsigned char *strips) {
    const int warpgroup = threadIdx.x / WARPGROUP_THREADS - 1;
    const struct strip_place place = {strips + warpgroup * OUTPUT_STRIP_ROWS * OUTPUT_STRIP_BYTES,
                                      STORE_BARRIER + warpgroup, coord.m, coord.first_row,
                                      coord.column + warpgroup * WGMMA_M_BLOCK_B_ROWS};
    with_outputs<GATED_SILU>(all.epilogue, [&](auto kind, auto nvfp4) {
        store_extended_strips<T, kind.value, nvfp4.value>(acc, place, all);
    });
    if (all.epilogue.output == CUSTOM_KERNEL_NVFP4 && coord.first_row + T::tile_m >= all.epilogue.m) {
        pad_scales(all.epilogue, coord.column, all.epilogue.plain ? 2 * T::tile_n : T::tile_n,
                   threadIdx.x - WARPGROUP_THREADS, T::consumers);
    }
}

template <class T> struct persistent_extended_work : persistent_work<T, extended_tiles<T>> {
    using storage = struct persistent_storage<T>;

    __device__ __forceinline__ void multiply(storage *storage) const {
        griddepcontrol_wait(); /* a kernel before this call's may have made the scales */
        consume_tiles<T>(*this, storage, this->tiles.p.schedule.tiles);
    }

    __device__ __forceinline__ void store_tile(float (&acc)[T::m_blocks][T::accs],
                                               const struct joint_coord &coord, storage *storage) const {
        store_tile_in_strips<T>(acc, coord, this->tiles.p.extended, &storage->output[0][0][0]);
    }
};

template <class T>
static __global__ void __launch_bounds__(T::threads, 1)
    extended_persistent_kernel(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b1,
                               const __grid_constant__ CUtensorMap b2,
                               const __grid_constant__ hopper_extended_persistent_params p) {
    extern __shared__ __align__(SWIZZLE_ATOM_BYTES) unsigned char aligned_memory[];
    run_tiles(aligned_memory, persistent_extended_work<T>{{a, b1, b2, {p}}});
}

} // namespace hopper

#endif
