/* The products of experts for sm_90a (custom_kernel.h, custom_kernel_experts()): the dual GEMM's main loop over
 * a list of tiles that each CTA makes from the counts on the device.  Here: tiles for few rows an expert.
 *
 * Read hopper_dual_gemm.cuh first.  The operands are those of the extended GEMM: gate and up, or both halves of
 * a tile's rows of the only B.  CTAs stay for tile after tile; tile i of the list goes to CTA i modulo their
 * number. The copying warps run ahead over the ends of tiles, so that B flows without a pause.
 *
 *   counts --one warp's scan--> table in shared memory: ends of rows, ends of tiles --binary search--> tile
 *
 *   copying warps (3)                              consumer warpgroups (2)
 *   -----------------                              -----------------------
 *   B1, B2 fp4   --TMA--> +
 *   sfb1, sfb2   --bulk-> | stage --> main loop of the dual GEMM --> acc --scales, activation--> shared --> C
 *     (or cp.async, by rows)
 *   A fp16       --TMA--> +
 *
 *   barrier   arrivals                               bytes      complete when
 *   full[s]   1 (the warp that copies B), and 32     a stage's  stage s holds its B, scale factors and A
 *             of scale factors by rows
 *   empty[s]  the consumers' threads                 0          nothing reads stage s any more
 *
 * A tile copies tile_m rows of A from its first one on, also those of the next expert: they only affect rows of
 * C that are not stored. */
#ifndef HOPPER_EXPERTS_GEMM_CUH
#define HOPPER_EXPERTS_GEMM_CUH

#include "../../gpu/gpu_extended.cuh"
#include "../hopper_epilogue.cuh"
#include "hopper_experts_load.cuh"

namespace hopper {

template <class T> struct experts_storage {
    struct shared_storage<T> ring;
    unsigned char output[EXPERTS_OUTPUT_BYTES(T::tile_m)]; /* [row of A][column of C] */
    struct expert_table table;
    static_assert(sizeof(struct shared_storage<T>) % sizeof(float4) == 0, "staged outputs are aligned");
    static_assert(sizeof(struct shared_storage<T>) + EXPERTS_OUTPUT_BYTES(T::tile_m) +
                          sizeof(struct expert_table) + SWIZZLE_ATOM_BYTES ==
                      EXPERTS_SHARED_BYTES(T::tile_m, 1, T::stages),
                  "shared memory has the bytes that the host asks for");
    static_assert(EXPERTS_SHARED_BYTES(T::tile_m, 1, T::stages) <= MAX_SHARED_BYTES &&
                      T::ctas_per_sm * (EXPERTS_SHARED_BYTES(T::tile_m, 1, T::stages) + CTA_RESERVED_BYTES) <=
                          SM_SHARED_BYTES,
                  "all CTAs of an SM have their shared memory");
};

/* ---- epilogue ---- */

/* Accumulators of up to 32 rows of A from `first` on -> outputs in shared memory. */
template <class T, bool plain, bool fp32>
static __device__ __forceinline__ void
stage_chunk(float (&acc)[T::m_blocks][T::accs], int first, uint32_t output, int warpgroup,
            const struct experts_coord &coord, const struct extended_params &p, float scale_gate,
            float scale_up) {
    constexpr int row_bytes = fp32 ? EXPERTS_WIDE_ROW_BYTES : EXPERTS_SHORT_ROW_BYTES;
    const int warp = threadIdx.x / WARP_THREADS % 4, lane = threadIdx.x % WARP_THREADS;
#pragma unroll
    for (int half = 0; half < (plain ? 2 : 1); half++) {
        const int column = half * T::tile_n + warpgroup * WGMMA_M_BLOCK_B_ROWS + warp * 8;
        uint32_t packed[4] = {0, 0, 0, 0};
#pragma unroll
        for (int i = 0; i < 4 && first + i * 8 < T::tile_m; i++) {
            const float *four =
                &acc[0][(first / 8 + i) * 4]; /* [gate, gate, up, up], or both halves' columns */
            float two[2];
#pragma unroll
            for (int j = 0; j < 2; j++) {
                const struct row_factors factors =
                    find_factors(p, scale_gate, scale_up, coord.m + first + i * 8 + lane % 4 * 2 + j);
                if constexpr (plain) {
                    two[j] = four[2 * half + j] * PRODUCT_CORRECTION * factors.gate;
                } else {
                    two[j] = activate(p, __fmul_rn(four[j] * PRODUCT_CORRECTION, factors.gate),
                                      __fmul_rn(four[2 + j] * PRODUCT_CORRECTION, factors.up));
                }
            }
            if constexpr (fp32) {
                const uint32_t to =
                    output + (i * 8 + lane % 4 * 2) * row_bytes + (column + lane / 4) * (int)sizeof(float);
                st_shared_f32(to, two[0]);
                st_shared_f32(to + row_bytes, two[1]);
            } else {
                packed[i] = two_halves(p, two[0], two[1]);
            }
        }
        if constexpr (!fp32) {
            stmatrix_x4_trans(output + lane * row_bytes + column * FP16_BYTES, packed);
        }
    }
}

/* VECTOR_HALVES outputs in 16 bits in shared memory -> a row of C, from `column` on. */
static __device__ __forceinline__ void store_vector(const unsigned char *from, int32_t row, int32_t column,
                                                    const struct extended_params &p) {
    uint16_t *to = (uint16_t *)p.c + (int64_t)row * p.n + column;
    if (p.n % VECTOR_HALVES == 0) {
        if (column < p.n) {
            *(uint4 *)to = *(const uint4 *)from;
        }
    } else {
        for (int half = 0; half < VECTOR_HALVES && column + half < p.n; half++) {
            to[half] = ((const uint16_t *)from)[half];
        }
    }
}

/* A group of outputs in fp32 in shared memory -> a row's codes and scale factor. */
static __device__ __forceinline__ void store_group_of(const unsigned char *from, int32_t row, int32_t column,
                                                      float scale_c, const struct extended_params &p) {
    float values[NVFP4_GROUP_ELEMS];
#pragma unroll
    for (int quarter = 0; quarter < NVFP4_GROUP_ELEMS / 4; quarter++) {
        const float4 four = ((const float4 *)from)[quarter];
        values[4 * quarter] = four.x;
        values[4 * quarter + 1] = four.y;
        values[4 * quarter + 2] = four.z;
        values[4 * quarter + 3] = four.w;
    }
    store_group(p, row, column, quantize_group(values, scale_c));
}

/* fp16 or bf16 outputs in shared memory -> C. */
template <int columns>
static __device__ __forceinline__ void store_chunk(const unsigned char *output, int32_t first_row, int32_t rows,
                                                   int32_t first_column, const struct extended_params &p) {
    constexpr int vectors = columns / VECTOR_HALVES;
    for (int i = threadIdx.x - WARPGROUP_THREADS; i < rows * vectors;
         i += EXPERTS_WARPGROUPS * WARPGROUP_THREADS) {
        const int row = i / vectors, column = i % vectors * VECTOR_HALVES;
        store_vector(output + row * EXPERTS_SHORT_ROW_BYTES + column * FP16_BYTES, first_row + row,
                     first_column + column, p);
    }
}

/* fp32 outputs in shared memory -> codes and scale factors, a thread a group. */
template <int columns>
static __device__ __forceinline__ void store_chunk_nvfp4(const unsigned char *output, int32_t first_row,
                                                         int32_t rows, int32_t first_column, float scale_c,
                                                         const struct extended_params &p) {
    constexpr int groups = columns / NVFP4_GROUP_ELEMS;
    for (int i = threadIdx.x - WARPGROUP_THREADS; i < rows * groups;
         i += EXPERTS_WARPGROUPS * WARPGROUP_THREADS) {
        const int row = i / groups, column = i % groups * NVFP4_GROUP_ELEMS;
        if (first_column + column >= p.n) {
            continue;
        }
        store_group_of(output + row * EXPERTS_WIDE_ROW_BYTES + column * (int)sizeof(float), first_row + row,
                       first_column + column, scale_c, p);
    }
}

/* A tile's outputs, 32 rows of A at a time. */
template <class T, bool plain, bool nvfp4>
static __device__ __forceinline__ void finish_tile(float (&acc)[T::m_blocks][T::accs], unsigned char *output,
                                                   int warpgroup, const struct experts_coord &coord,
                                                   const struct extended_params &p) {
    constexpr int columns = plain ? 2 * T::tile_n : T::tile_n;
    const float scale_gate = p.scale_gate != nullptr ? p.scale_gate[coord.expert] : 1.0f,
                scale_up = p.scale_up != nullptr ? p.scale_up[coord.expert] : 1.0f,
                scale_c = p.scale_c != nullptr ? p.scale_c[coord.expert] : 1.0f;
#pragma unroll
    for (int first = 0; first < T::tile_m; first += EXPERTS_CHUNK_ROWS) {
        const int32_t rows = min(min(EXPERTS_CHUNK_ROWS, T::tile_m - first), coord.row_end - coord.m - first);
        if (rows > 0) {                               /* the same in all consumers */
            bar_sync(CONSUMER_BARRIER, T::consumers); /* the chunk before has been read */
            stage_chunk<T, plain, nvfp4>(acc, first, cvta_to_shared(output), warpgroup, coord, p, scale_gate,
                                         scale_up);
            bar_sync(CONSUMER_BARRIER, T::consumers);
            if constexpr (nvfp4) {
                store_chunk_nvfp4<columns>(output, coord.m + first, rows, coord.column, scale_c, p);
            } else {
                store_chunk<columns>(output, coord.m + first, rows, coord.column, p);
            }
        }
    }
}

/* ---- kernel ---- */

/* Consumer warpgroup.  Gives a tile's last stage back before it makes the tile's outputs. */
template <class T>
static __device__ __forceinline__ void consume_experts(shared_t<T> shared, struct experts_storage<T> *storage,
                                                       const struct hopper_experts_params &p) {
    const int warpgroup = threadIdx.x / WARPGROUP_THREADS - 1;
    const int32_t tiles = expert_tiles(p.tokens, &storage->table) * p.tiles_n;
    struct consumed consumed = {{0, 0}, -1};
    for (int32_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const struct experts_coord coord = find_tile_of_experts<T>(p, &storage->table, tile);
        float acc[T::m_blocks][T::accs];
        multiply_stages<T>(acc, consumed, shared, coord, 0, coord.stages);
        wgmma_wait_group<0>();
        keep_all<T>(acc);
        mbarrier_arrive(empty_barrier(shared, consumed.previous));
        consumed.previous = -1;
        const bool nvfp4 = p.epilogue.output == CUSTOM_KERNEL_NVFP4;
        if (p.epilogue.plain) {
            nvfp4 ? finish_tile<T, true, true>(acc, storage->output, warpgroup, coord, p.epilogue)
                  : finish_tile<T, true, false>(acc, storage->output, warpgroup, coord, p.epilogue);
        } else {
            nvfp4 ? finish_tile<T, false, true>(acc, storage->output, warpgroup, coord, p.epilogue)
                  : finish_tile<T, false, false>(acc, storage->output, warpgroup, coord, p.epilogue);
        }
    }
}

/* The kernel before dequantizes A.  All its CTAs have waited for what was queued before them when they let this
 * kernel start, so the counts, the weights and all scales are there; only A has to be waited for. */
template <class T>
static __global__ void __launch_bounds__(T::threads, T::ctas_per_sm)
    experts_gemm_kernel(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b1,
                        const __grid_constant__ CUtensorMap b2,
                        const __grid_constant__ hopper_experts_params p) {
    extern __shared__ unsigned char memory[];
    uint32_t misaligned = cvta_to_shared(memory) % SWIZZLE_ATOM_BYTES;
    unsigned char *aligned = memory + (SWIZZLE_ATOM_BYTES - misaligned) % SWIZZLE_ATOM_BYTES;
    struct experts_storage<T> *storage = (struct experts_storage<T> *)aligned;
    const shared_t<T> shared = {cvta_to_shared(aligned)};
    const int warp = __shfl_sync(~0u, threadIdx.x / WARP_THREADS, 0);

    start_experts<T>(shared, &storage->table, a, b1, b2, p, warp);
    if (threadIdx.x < WARPGROUP_THREADS) {
        setmaxnreg_dec<T::copying_registers>();
        if (warp < EXPERTS_COPYING_WARPS) {
            load_experts<T>(shared, p, &storage->table, &a, &b1, &b2, warp);
        }
    } else {
        setmaxnreg_inc<T::multiplying_registers>();
        consume_experts<T>(shared, storage, p);
    }
}

} // namespace hopper

#endif
