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

#define FP32_CHUNK_ROWS      (OUTPUT_CHUNK_ROWS * FP16_BYTES / (int)sizeof(float))
#define FP32_CHUNK_ROW_BYTES (WGMMA_M_BLOCK_B_ROWS * (int)sizeof(float))
#define FP32_ROW_UNITS                                                                                         \
    (FP32_CHUNK_ROW_BYTES / (int)sizeof(uint4)) /* 16 bytes, swizzled as the eight rows are */

/* Where a warpgroup's outputs of one half of a tile go. */
struct chunk_place {
    unsigned char *chunk; /* shared memory */
    int barrier;
    int32_t row, first_row; /* of the tile; rows before first_row belong to another */
    int32_t column;         /* of the warpgroup */
};

static __device__ __forceinline__ bool has_row(const struct extended_params &p, const struct chunk_place &place,
                                               int32_t row) {
    return row >= place.first_row && row < p.m;
}

/* Rows of C from `first` on, in 16 bits: store_by_chunks' way. */
template <bool plain>
static __device__ __forceinline__ void
store_chunk(const float *acc, int half, int32_t first, const struct row_factors (&factors)[4][2],
            const struct chunk_place &place, const struct hopper_extended_params &all) {
    const struct extended_params &p = all.epilogue;
    constexpr int units = OUTPUT_CHUNK_BYTES / (int)sizeof(uint4);
    const int warp = threadIdx.x / WARP_THREADS % 4, lane = threadIdx.x % WARP_THREADS;
    const int thread = threadIdx.x % WARPGROUP_THREADS, row = thread / units, unit = thread % units;
    uint32_t halves[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float two[2];
        finish_two<plain>(p, all.correction, acc + i * 4, half, factors[i], two);
        halves[i] = two_halves(p, two[0], two[1]);
    }
    bar_sync(place.barrier, WARPGROUP_THREADS); /* the previous chunk has been read */
    stmatrix_x4_trans(cvta_to_shared(place.chunk) + lane * OUTPUT_CHUNK_BYTES +
                          (warp ^ lane / 2 % units) * (int)sizeof(uint4),
                      halves);
    bar_sync(place.barrier, WARPGROUP_THREADS);
    const unsigned char *from =
        place.chunk + row * OUTPUT_CHUNK_BYTES + (unit ^ row / 2 % units) * (int)sizeof(uint4);
    const int32_t row_of_c = place.row + first + row, column = place.column + unit * VECTOR_HALVES;
    if (!has_row(p, place, row_of_c) || column >= p.n) {
        return;
    }
    uint16_t *c = (uint16_t *)p.c + (int64_t)row_of_c * p.n + column;
    if (p.n % VECTOR_HALVES == 0) {
        *(uint4 *)c = *(const uint4 *)from;
    } else {
        for (int i = 0; i < VECTOR_HALVES && column + i < p.n; i++) {
            c[i] = ((const uint16_t *)from)[i];
        }
    }
}

/* The same in NVFP4: FP32_CHUNK_ROWS rows, of which each of a warp's threads quantizes a group. */
template <bool plain>
static __device__ __forceinline__ void
quantize_chunk(const float *acc, int half, int32_t first, const struct row_factors (*factors)[2], float scale_c,
               const struct chunk_place &place, const struct hopper_extended_params &all) {
    const struct extended_params &p = all.epilogue;
    constexpr int groups = WGMMA_M_BLOCK_B_ROWS / NVFP4_GROUP_ELEMS;
    static_assert(FP32_CHUNK_ROWS * groups == WARP_THREADS, "a warp quantizes a chunk");
    const int warp = threadIdx.x / WARP_THREADS % 4, lane = threadIdx.x % WARP_THREADS;
    const uint32_t chunk = cvta_to_shared(place.chunk);
    float outputs[FP32_CHUNK_ROWS / 8][2];
#pragma unroll
    for (int i = 0; i < FP32_CHUNK_ROWS / 8; i++) {
        finish_two<plain>(p, all.correction, acc + i * 4, half, factors[i], outputs[i]);
    }
    bar_sync(place.barrier, WARPGROUP_THREADS);
    const int column = warp * 8 + lane / 4;
#pragma unroll
    for (int i = 0; i < FP32_CHUNK_ROWS / 8 * 2; i++) {
        const int row = i / 2 * 8 + lane % 4 * 2 + i % 2;
        st_shared_f32(chunk + row * FP32_CHUNK_ROW_BYTES +
                          (column / 4 ^ row % FP32_ROW_UNITS) * (int)sizeof(uint4) +
                          column % 4 * (int)sizeof(float),
                      outputs[i / 2][i % 2]);
    }
    bar_sync(place.barrier, WARPGROUP_THREADS);
    const int row = lane / groups, group = lane % groups;
    const int32_t row_of_c = place.row + first + row, column_of_c = place.column + group * NVFP4_GROUP_ELEMS;
    if (warp != first / FP32_CHUNK_ROWS % 4 || !has_row(p, place, row_of_c) || column_of_c >= p.n) {
        return;
    }
    float values[NVFP4_GROUP_ELEMS];
#pragma unroll
    for (int i = 0; i < NVFP4_GROUP_ELEMS / 4; i++) {
        const int unit = (group * NVFP4_GROUP_ELEMS / 4 + i) ^ row % FP32_ROW_UNITS;
        const uint4 four = ld_shared_v4(chunk + row * FP32_CHUNK_ROW_BYTES + unit * (int)sizeof(uint4));
        values[4 * i] = __uint_as_float(four.x);
        values[4 * i + 1] = __uint_as_float(four.y);
        values[4 * i + 2] = __uint_as_float(four.z);
        values[4 * i + 3] = __uint_as_float(four.w);
    }
    store_group(p, row_of_c, column_of_c, quantize_group(values, scale_c));
}

/* A warpgroup's accumulators -> C. */
template <class T, bool plain, bool nvfp4>
static __device__ __forceinline__ void store_extended_chunks(float (&acc)[T::m_blocks][T::accs],
                                                             struct chunk_place place,
                                                             const struct hopper_extended_params &all) {
    const struct extended_params &p = all.epilogue;
    const int lane = threadIdx.x % WARP_THREADS;
    const float scale_gate = number_or_one(p.scale_gate), scale_up = number_or_one(p.scale_up),
                scale_c = number_or_one(p.scale_c);
#pragma unroll
    for (int first = 0; first < T::tile_m; first += OUTPUT_CHUNK_ROWS) {
        struct row_factors factors[4][2];
#pragma unroll
        for (int i = 0; i < 8; i++) {
            factors[i / 2][i % 2] =
                find_factors(p, scale_gate, scale_up, place.row + first + i / 2 * 8 + lane % 4 * 2 + i % 2);
        }
#pragma unroll
        for (int half = 0; half < (plain ? 2 : 1); half++) {
            struct chunk_place of_half = place;
            of_half.column += half * T::tile_n;
            if constexpr (nvfp4) {
#pragma unroll
                for (int row = 0; row < OUTPUT_CHUNK_ROWS; row += FP32_CHUNK_ROWS) {
                    quantize_chunk<plain>(&acc[0][(first + row) / 2], half, first + row, &factors[row / 8],
                                          scale_c, of_half, all);
                }
            } else {
                store_chunk<plain>(&acc[0][first / 2], half, first, factors, of_half, all);
            }
        }
    }
}

template <class T>
static __device__ __forceinline__ void
consume_extended_tiles(shared_t<T> shared, struct persistent_storage<T> *storage,
                       const struct hopper_extended_persistent_params &p) {
    const int warpgroup = threadIdx.x / WARPGROUP_THREADS - 1;
    const struct hopper_extended_params &all = p.extended;
    const bool plain = all.epilogue.plain, nvfp4 = all.epilogue.output == CUSTOM_KERNEL_NVFP4;
    struct consumed consumed = {{0, 0}, -1};
    griddepcontrol_wait(); /* a kernel before this call's may have made the scales */
    for (int32_t tile = blockIdx.x; tile < p.schedule.tiles; tile += gridDim.x) {
        const struct extended_coord coord = T::place_of_tile(p, tile);
        float acc[T::m_blocks][T::accs];
        multiply_stages<T>(acc, consumed, shared, coord, 0, coord.stages);
        wgmma_wait_group<0>();
        keep_all<T>(acc);
        mbarrier_arrive(empty_barrier(shared, consumed.previous));
        consumed.previous = -1;
        const struct chunk_place place = {&storage->output[warpgroup][0][0], STORE_BARRIER + warpgroup, coord.m,
                                          coord.first_row, coord.column + warpgroup * WGMMA_M_BLOCK_B_ROWS};
        if (plain) {
            nvfp4 ? store_extended_chunks<T, true, true>(acc, place, all)
                  : store_extended_chunks<T, true, false>(acc, place, all);
        } else {
            nvfp4 ? store_extended_chunks<T, false, true>(acc, place, all)
                  : store_extended_chunks<T, false, false>(acc, place, all);
        }
        if (nvfp4 && coord.first_row + T::tile_m >= all.epilogue.m) {
            pad_scales(all.epilogue, coord.column, plain ? 2 * T::tile_n : T::tile_n,
                       threadIdx.x - WARPGROUP_THREADS, T::consumers);
        }
    }
}

template <class T>
static __global__ void __launch_bounds__(T::threads, 1)
    extended_persistent_kernel(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b1,
                               const __grid_constant__ CUtensorMap b2,
                               const __grid_constant__ hopper_extended_persistent_params p) {
    extern __shared__ __align__(SWIZZLE_ATOM_BYTES) unsigned char aligned_memory[];
    struct persistent_storage<T> *storage = (struct persistent_storage<T> *)aligned_memory;
    shared_t<T> shared = {cvta_to_shared(aligned_memory)};
    static_assert(sizeof *storage == PERSISTENT_SHARED_BYTES(T::tile_n, T::tile_m, T::stages, T::warpgroups),
                  "shared memory has the bytes that the host asks for");

    if (threadIdx.x == 0) {
        start_pipeline<T>(shared, T::consumers, a, b1, b2);
        storage->wave = 0;
    }
    __syncthreads();
    griddepcontrol_launch_dependents();

    if (threadIdx.x < WARPGROUP_THREADS) {
        setmaxnreg_dec<AHEAD_REGISTERS>();
        const uint32_t wave = cvta_to_shared(&storage->wave);
        if (threadIdx.x == 0) {
            load_tiles<T>(shared, wave, p, &a, &b1, &b2);
        } else if (threadIdx.x >= WARPGROUP_THREADS - AHEAD_WARPS * WARP_THREADS) {
            if (threadIdx.x / WARP_THREADS == FIRST_AHEAD_WARP) {
                ask_for_scales(p.extended.epilogue, T::place_of_tile(p, blockIdx.x).m);
            }
            if (p.schedule.items > 0) {
                dequantize_ahead<T>(wave, p.schedule);
            }
        }
    } else {
        setmaxnreg_inc<REGISTERS_BESIDE_AHEAD>();
        consume_extended_tiles<T>(shared, storage, p);
    }
}

} // namespace hopper

#endif
