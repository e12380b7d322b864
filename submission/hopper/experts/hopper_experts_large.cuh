/* The products of experts with many rows each: large tiles (hopper_experts_config.h).
 *
 * Read hopper_experts_gemm.cuh first: the list of tiles, the copying warps and the arithmetic are the same.  A
 * tile multiplies only its own rows of A, rounded up to LARGE_UNIT_ROWS: its main loop is chosen by that
 * number. Outputs pass through shared memory that belongs to one warpgroup, and only that warpgroup
 * synchronizes for them: one warpgroup multiplies while the other stores. */
#ifndef HOPPER_EXPERTS_LARGE_CUH
#define HOPPER_EXPERTS_LARGE_CUH

#include "hopper_experts_gemm.cuh"

namespace hopper {

#define LARGE_STORE_BARRIER 2 /* the first of one named barrier a warpgroup, after CONSUMER_BARRIER */

template <class T> struct large_storage {
    struct shared_storage<T> ring;
    unsigned char output[T::warpgroups][LARGE_OUTPUT_BYTES]; /* [row of A][the warpgroup's columns of C] */
    struct expert_table table;
    static_assert(sizeof(struct shared_storage<T>) % sizeof(float4) == 0, "staged outputs are aligned");
    static_assert(sizeof(struct shared_storage<T>) + T::warpgroups * LARGE_OUTPUT_BYTES +
                          sizeof(struct expert_table) + SWIZZLE_ATOM_BYTES ==
                      EXPERTS_SHARED_BYTES(T::tile_m, T::m_blocks, T::stages),
                  "shared memory has the bytes that the host asks for");
    static_assert(EXPERTS_SHARED_BYTES(T::tile_m, T::m_blocks, T::stages) <= MAX_SHARED_BYTES,
                  "a CTA has at most MAX_SHARED_BYTES of shared memory");
};

/* The tile's main loop for `rows` rows of A. */
template <class T, int rows> struct large_width : T {
    static constexpr int wgmma_rows = rows;
    /* HW: ptxas serializes wgmma with longer fragments beside more accumulators (C7512). */
    static constexpr int fragment_steps = T::tile_m > 96 ? GROUP_STEPS / 2 : GROUP_STEPS,
                         parts = A_BOXES * GROUP_STEPS / fragment_steps;
    static constexpr bool blocks_in_turn = true; /* registers hold the fp4 of one m block */
};

/* The tile's products: the main loop of as many rows as the tile has. */
template <class T, int rows = T::least_rows>
static __device__ __forceinline__ void multiply_large(float (&acc)[T::m_blocks][T::accs],
                                                      struct consumed &consumed, shared_t<T> shared,
                                                      const struct experts_coord &coord) {
    if (rows < T::tile_m && coord.width > rows) {
        if constexpr (rows < T::tile_m) {
            multiply_large<T, rows + LARGE_UNIT_ROWS>(acc, consumed, shared, coord);
        }
        return;
    }
    using W = large_width<T, rows>;
    multiply_stages<W>(acc, consumed, shared_t<W>{shared.value}, coord, 0, coord.stages);
    wgmma_wait_group<0>();
#pragma unroll
    for (int i = 0; i < T::m_blocks * rows / 2; i++) {
        keep_after_wait(acc[i / (rows / 2)][i % (rows / 2)]);
    }
}

/* ---- epilogue ---- */

/* Two outputs of neighbouring rows: from gate and up, or from one half of a plain product's columns. */
template <bool plain>
static __device__ __forceinline__ void two_outputs(float (&two)[2], const float *four, int half,
                                                   const struct row_factors (&factors)[2],
                                                   const struct extended_params &p) {
#pragma unroll
    for (int j = 0; j < 2; j++) {
        if constexpr (plain) {
            two[j] = four[2 * half + j] * PRODUCT_CORRECTION * factors[j].gate;
        } else {
            two[j] = activate(p, __fmul_rn(four[j] * PRODUCT_CORRECTION, factors[j].gate),
                              __fmul_rn(four[2 + j] * PRODUCT_CORRECTION, factors[j].up));
        }
    }
}

/* A warpgroup's accumulators of 32 rows of A from `first` on -> outputs in its shared memory. */
template <class T, bool plain, bool fp32>
static __device__ __forceinline__ void
stage_rows(const float (&acc)[T::m_blocks][T::accs], int first, int half, uint32_t output, int barrier,
           const struct row_factors (&factors)[4][2], const struct extended_params &p) {
    const int warp = threadIdx.x / WARP_THREADS % 4, lane = threadIdx.x % WARP_THREADS;
    float two[T::m_blocks][4][2] = {};
#pragma unroll
    for (int i = 0; i < T::m_blocks * 4; i++) {
        if (first + i % 4 * 8 < T::tile_m) {
            two_outputs<plain>(two[i / 4][i % 4], &acc[i / 4][(first / 8 + i % 4) * 4], half, factors[i % 4],
                               p);
        }
    }
    bar_sync(barrier, WARPGROUP_THREADS); /* the rows before have been read */
#pragma unroll
    for (int block = 0; block < T::m_blocks; block++) {
        const int column = block * WGMMA_M_BLOCK_B_ROWS + warp * 8;
        if constexpr (fp32) {
#pragma unroll
            for (int i = 0; i < 8; i++) {
                st_shared_f32(output + (i / 2 * 8 + lane % 4 * 2 + i % 2) * LARGE_WIDE_ROW_BYTES +
                                  (column + lane / 4) * (int)sizeof(float),
                              two[block][i / 2][i % 2]);
            }
        } else {
            uint32_t packed[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                packed[i] = two_halves(p, two[block][i][0], two[block][i][1]);
            }
            stmatrix_x4_trans(output + lane * LARGE_SHORT_ROW_BYTES + column * FP16_BYTES, packed);
        }
    }
    bar_sync(barrier, WARPGROUP_THREADS);
}

/* fp16 or bf16 outputs in shared memory -> C. */
static __device__ __forceinline__ void store_rows(const unsigned char *output, int32_t first_row, int32_t rows,
                                                  int32_t first_column, const struct extended_params &p) {
    constexpr int vectors = LARGE_COLUMNS / VECTOR_HALVES;
#pragma unroll
    for (int i = 0; i < EXPERTS_CHUNK_ROWS * vectors / WARPGROUP_THREADS; i++) {
        const int index = i * WARPGROUP_THREADS + threadIdx.x % WARPGROUP_THREADS, row = index / vectors,
                  column = first_column + index % vectors * VECTOR_HALVES;
        if (row >= rows) {
            continue;
        }
        store_vector(output + row * LARGE_SHORT_ROW_BYTES + index % vectors * (VECTOR_HALVES * FP16_BYTES),
                     first_row + row, column, p);
    }
}

/* fp32 outputs in shared memory -> codes and scale factors, a thread a group. */
static __device__ __forceinline__ void store_rows_nvfp4(const unsigned char *output, int32_t first_row,
                                                        int32_t rows, int32_t first_column, float scale_c,
                                                        const struct extended_params &p) {
    constexpr int groups = LARGE_COLUMNS / NVFP4_GROUP_ELEMS;
    static_assert(EXPERTS_CHUNK_ROWS * groups == WARPGROUP_THREADS, "a thread has one group");
    const int thread = threadIdx.x % WARPGROUP_THREADS, row = thread / groups,
              column = thread % groups * NVFP4_GROUP_ELEMS;
    if (row >= rows || first_column + column >= p.n) {
        return;
    }
    store_group_of(output + row * LARGE_WIDE_ROW_BYTES + column * (int)sizeof(float), first_row + row,
                   first_column + column, scale_c, p);
}

/* A warpgroup's outputs of a tile, 32 rows of A and 64 columns of C at a time. */
template <class T, bool plain, bool nvfp4>
static __device__ __forceinline__ void
finish_large_tile(const float (&acc)[T::m_blocks][T::accs], unsigned char *output, int warpgroup,
                  const struct experts_coord &coord, const struct extended_params &p) {
    const float scale_gate = p.scale_gate != nullptr ? p.scale_gate[coord.expert] : 1.0f,
                scale_up = p.scale_up != nullptr ? p.scale_up[coord.expert] : 1.0f,
                scale_c = p.scale_c != nullptr ? p.scale_c[coord.expert] : 1.0f;
    const int lane = threadIdx.x % WARP_THREADS, barrier = LARGE_STORE_BARRIER + warpgroup;
#pragma unroll
    for (int first = 0; first < T::tile_m; first += EXPERTS_CHUNK_ROWS) {
        const int32_t first_row = coord.m + first, rows = min(EXPERTS_CHUNK_ROWS, coord.row_end - first_row);
        if (rows <= 0) {
            break;
        }
        struct row_factors factors[4][2];
#pragma unroll
        for (int i = 0; i < 8; i++) {
            factors[i / 2][i % 2] =
                find_factors(p, scale_gate, scale_up, first_row + i / 2 * 8 + lane % 4 * 2 + i % 2);
        }
#pragma unroll
        for (int half = 0; half < (plain ? 2 : 1); half++) {
            const int32_t column = coord.column + half * T::tile_n + warpgroup * LARGE_COLUMNS;
            stage_rows<T, plain, nvfp4>(acc, first, half, cvta_to_shared(output), barrier, factors, p);
            if constexpr (nvfp4) {
                store_rows_nvfp4(output, first_row, rows, column, scale_c, p);
            } else {
                store_rows(output, first_row, rows, column, p);
            }
        }
    }
}

/* ---- kernel ---- */

/* Consumer warpgroup.  Gives a tile's last stage back before it makes the tile's outputs. */
template <class T>
static __device__ __forceinline__ void consume_large_tiles(shared_t<T> shared, struct large_storage<T> *storage,
                                                           const struct hopper_experts_params &p) {
    const int warpgroup = threadIdx.x / WARPGROUP_THREADS - 1;
    const int32_t tiles = expert_tiles(p.tokens, &storage->table) * p.tiles_n;
    struct consumed consumed = {{0, 0}, -1};
    for (int32_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const struct experts_coord coord = find_tile_of_experts<T>(p, &storage->table, tile);
        float acc[T::m_blocks][T::accs];
        multiply_large<T>(acc, consumed, shared, coord);
        mbarrier_arrive(empty_barrier(shared, consumed.previous));
        consumed.previous = -1;
        unsigned char *output = storage->output[warpgroup];
        const bool nvfp4 = p.epilogue.output == CUSTOM_KERNEL_NVFP4;
        if (p.epilogue.plain) {
            nvfp4 ? finish_large_tile<T, true, true>(acc, output, warpgroup, coord, p.epilogue)
                  : finish_large_tile<T, true, false>(acc, output, warpgroup, coord, p.epilogue);
        } else {
            nvfp4 ? finish_large_tile<T, false, true>(acc, output, warpgroup, coord, p.epilogue)
                  : finish_large_tile<T, false, false>(acc, output, warpgroup, coord, p.epilogue);
        }
    }
}

template <class T>
static __global__ void __launch_bounds__(T::threads, T::ctas_per_sm)
    large_experts_kernel(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b1,
                         const __grid_constant__ CUtensorMap b2,
                         const __grid_constant__ hopper_experts_params p) {
    extern __shared__ unsigned char memory[];
    const uint32_t misaligned = cvta_to_shared(memory) % SWIZZLE_ATOM_BYTES;
    unsigned char *aligned = memory + (SWIZZLE_ATOM_BYTES - misaligned) % SWIZZLE_ATOM_BYTES;
    struct large_storage<T> *storage = (struct large_storage<T> *)aligned;
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
        consume_large_tiles<T>(shared, storage, p);
    }
}

} // namespace hopper

#endif
