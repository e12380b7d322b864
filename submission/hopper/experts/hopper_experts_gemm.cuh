/* The products of experts for sm_90a (custom_kernel.h, custom_kernel_experts()): the dual GEMM's main loop over
 * a list of tiles that each CTA makes from the counts on the device.
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

#include "../../gpu/experts/gpu_experts.cuh"
#include "../../gpu/gpu_extended.cuh"
#include "../hopper_epilogue.cuh"
#include "../hopper_pipeline.cuh"
#include "hopper_experts_kernels.h"

namespace hopper {

/* ---- tiles ---- */

/* A tile, the first of its columns of C, its expert, and where its scale factors are in a stage. */
struct experts_coord : tile_coord {
    int32_t column, expert, row_end;
    int32_t piece_mask;    /* the bits of a row in the tile that count pieces of interleaved rows */
    int32_t second_scales; /* bytes from a row's scale factors of the first operand to those of the second */
};

/* One chain of accumulators, whatever registers allow, so that all tiles sum alike. */
template <int tile_m, int stages, int ctas_per_sm_>
struct experts_tile : tile<EXPERTS_WARPGROUPS, 1, tile_m, stages, 1, 1> {
    using coord = struct experts_coord;
    static constexpr bool interleaves = true;
    static constexpr int second_scales = 0; /* experts_coord has it */
    static constexpr int chains = 1, ctas_per_sm = ctas_per_sm_;
    static constexpr int copying_registers = ctas_per_sm == 1 ? 40 : 32,
                         multiplying_registers = ctas_per_sm == 1 ? 232 : 104;
    static_assert(WARPGROUP_THREADS * (copying_registers + EXPERTS_WARPGROUPS * multiplying_registers) <=
                      CTA_THREADS(EXPERTS_WARPGROUPS) *
                          LAUNCH_REGISTERS(ctas_per_sm * CTA_THREADS(EXPERTS_WARPGROUPS)),
                  "the launch's registers suffice for what all warpgroups ask for");
};

template <class T> struct experts_storage {
    struct shared_storage<T> ring;
    unsigned char output[EXPERTS_OUTPUT_BYTES(T::tile_m)]; /* [row of A][column of C] */
    struct expert_table table;
    static_assert(sizeof(struct shared_storage<T>) % sizeof(float4) == 0, "staged outputs are aligned");
    static_assert(sizeof(struct shared_storage<T>) + EXPERTS_OUTPUT_BYTES(T::tile_m) +
                          sizeof(struct expert_table) + SWIZZLE_ATOM_BYTES ==
                      EXPERTS_SHARED_BYTES(T::tile_m, T::stages),
                  "shared memory has the bytes that the host asks for");
    static_assert(EXPERTS_SHARED_BYTES(T::tile_m, T::stages) <= MAX_SHARED_BYTES &&
                      T::ctas_per_sm * (EXPERTS_SHARED_BYTES(T::tile_m, T::stages) + CTA_RESERVED_BYTES) <=
                          SM_SHARED_BYTES,
                  "all CTAs of an SM have their shared memory");
};

static __device__ __forceinline__ struct experts_coord
find_tile_of_experts(const struct hopper_experts_params &p, const struct expert_table *table, int32_t number) {
    const int32_t in_row = number % p.tiles_n;
    const struct expert_tile tile = find_expert_tile(p.tokens, table, number / p.tiles_n);
    const bool plain = p.epilogue.plain, joint = plain || p.interleave != 0;
    struct experts_coord coord;
    coord.expert = tile.expert;
    coord.row_end = tile.row_end;
    coord.m = coord.first_row = tile.first_row;
    coord.column = in_row * (plain ? 2 * EXPERTS_TILE_N : EXPERTS_TILE_N);
    coord.n = joint ? in_row * (2 * EXPERTS_TILE_N) : coord.column;
    coord.scale_tile = coord.n / SCALE_TILE_ROWS;
    coord.batch = coord.rank = coord.first_stage = 0;
    coord.stages = p.stages_k;
    const int32_t piece = plain || p.interleave == 0 ? EXPERTS_TILE_N : p.interleave;
    coord.piece_mask = p.interleave != 0 ? -p.interleave : 0;
    coord.second_scales =
        piece >= SCALE_ENTRIES ? piece / SCALE_ENTRIES * SCALE_WORD_BYTES : piece * SCALE_ENTRY_BYTES;
    if (p.scales_by_rows) { /* copied to the places of the first operand's rows, then of the second one's */
        coord.n = coord.scale_tile = coord.piece_mask = 0;
        coord.second_scales = EXPERTS_TILE_N / SCALE_ENTRIES * SCALE_WORD_BYTES;
    } else if (!joint) {
        coord.second_scales = STAGE_SCALE_BYTES;
    }
    return coord;
}

/* ---- load ---- */

/* Warps of the producer's warpgroup, by what they copy to each stage. */
enum { EXPERTS_COPY_B, EXPERTS_COPY_SCALES, EXPERTS_COPY_A, EXPERTS_COPYING_WARPS };

template <class T>
static __device__ __forceinline__ void copy_b(stage_t<T> stage, const struct experts_coord &coord,
                                              const struct hopper_experts_params &p, const CUtensorMap *b1,
                                              const CUtensorMap *b2, int32_t k_stage, struct mbarrier full) {
    const bool interleaved = p.interleave != 0;
    const int32_t row = interleaved ? 0 : coord.column,
                  batch =
                      interleaved ? (coord.expert * p.epilogue.n + coord.column) / p.interleave : coord.expert;
    const int scale_tensors = p.epilogue.plain || interleaved ? 1 : 2;
    mbarrier_arrive_expect_tx(full, T::tile_m * A_BOX_BYTES * A_BOXES + 2 * EXPERTS_TILE_N * STAGE_FP4_BYTES +
                                        (p.scales_by_rows ? 0 : scale_tensors * STAGE_SCALE_BYTES));
    cp_async_bulk_tensor_3d(SHARED_MEMBER(stage, fp4[0]), b1, k_stage * STAGE_FP4_BYTES, row, batch, full);
    cp_async_bulk_tensor_3d(SHARED_MEMBER(stage, fp4[1]), b2, k_stage * STAGE_FP4_BYTES,
                            p.epilogue.plain ? row + EXPERTS_TILE_N : row, batch, full);
}

/* One thread: blocked scale factors.  If K ends in the middle of the stage, those of the first half come twice:
 * A is zero in the second half, but a stage's old bytes may be NaN. */
template <class T>
static __device__ __forceinline__ void copy_blocked_scales(stage_t<T> stage, const struct experts_coord &coord,
                                                           const struct hopper_experts_params &p,
                                                           int32_t k_stage, struct mbarrier full) {
    const int64_t tile = min(coord.scale_tile, (p.b_rows - 1) / SCALE_TILE_ROWS);
    const int64_t offset = coord.expert * p.sfb_expert_bytes +
                           (tile * p.scale_words + k_stage * STAGE_SCALE_TILES) * SCALE_TILE_BYTES;
    const bool whole = (k_stage + 1) * STAGE_SCALE_TILES <= p.scale_words;
    for (int which = 0; which < (p.epilogue.plain || p.interleave != 0 ? 1 : 2); which++) {
        const uint8_t *from = (which == 0 ? p.sfb1 : p.sfb2) + offset;
        const uint32_t to = SHARED_MEMBER(stage, scales) + which * STAGE_SCALE_BYTES;
        if (whole) {
            cp_async_bulk(to, from, STAGE_SCALE_BYTES, full);
        } else {
            cp_async_bulk(to, from, SCALE_TILE_BYTES, full);
            cp_async_bulk(to + SCALE_TILE_BYTES, from, SCALE_TILE_BYTES, full);
        }
    }
}

/* One warp: scale factors by rows, a word of four at a time, to their places in one scale tile of blocked ones.
 * Rows past the end take the last row's. */
template <class T>
static __device__ __forceinline__ void copy_scales_of_rows(stage_t<T> stage, const struct experts_coord &coord,
                                                           const struct hopper_experts_params &p,
                                                           int32_t k_stage, struct mbarrier full) {
    const int lane = threadIdx.x % WARP_THREADS;
#pragma unroll
    for (int i = 0; i < 2 * EXPERTS_TILE_N * STAGE_SCALE_TILES / WARP_THREADS; i++) {
        const int half = i % STAGE_SCALE_TILES, in_tile = i / STAGE_SCALE_TILES * WARP_THREADS + lane,
                  which = in_tile / EXPERTS_TILE_N;
        int32_t row = coord.column + in_tile % EXPERTS_TILE_N;
        if (p.epilogue.plain) {
            row = coord.column + in_tile;
        } else if (p.interleave != 0) {
            row += row / p.interleave * p.interleave + which * p.interleave;
        }
        const uint8_t *scales = p.epilogue.plain || p.interleave != 0 || which == 0 ? p.sfb1 : p.sfb2;
        const int32_t last = p.scale_words - 1;
        const int64_t word =
            (int64_t)min(row, p.b_rows - 1) * p.scale_words + min(k_stage * STAGE_SCALE_TILES + half, last);
        cp_async_ca_4(scale_word_at(SHARED_MEMBER(stage, scales) + half * SCALE_TILE_BYTES, in_tile),
                      scales + coord.expert * p.sfb_expert_bytes + word * SCALE_WORD_BYTES);
    }
    cp_async_mbarrier_arrive_noinc(full);
}

/* A copying warp, for one tile after another.  Waits for empty[s]; fills its part of stage s; signals full[s].
 * A is what the kernel before makes. */
template <class T>
static __device__ __forceinline__ void load_experts(shared_t<T> shared, const struct hopper_experts_params &p,
                                                    const struct expert_table *table, const CUtensorMap *a,
                                                    const CUtensorMap *b1, const CUtensorMap *b2, int warp) {
    const int32_t tiles = expert_tiles(p.tokens, table) * p.tiles_n;
    struct ring ring = {0, 1};
    if (warp == EXPERTS_COPY_A) {
        griddepcontrol_wait();
    }
    for (int32_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const struct experts_coord coord = find_tile_of_experts(p, table, tile);
        for (int32_t k = 0; k < coord.stages; k++) {
            wait(empty_barrier(shared, ring.stage), ring.parity);
            const stage_t<T> stage = stage_of(shared, ring.stage);
            const struct mbarrier full = full_barrier(shared, ring.stage);
            if (warp == EXPERTS_COPY_SCALES && p.scales_by_rows) {
                copy_scales_of_rows<T>(stage, coord, p, k, full);
            } else if (elect_sync()) {
                if (warp == EXPERTS_COPY_B) {
                    copy_b<T>(stage, coord, p, b1, b2, k, full);
                } else if (warp == EXPERTS_COPY_SCALES) {
                    copy_blocked_scales<T>(stage, coord, p, k, full);
                } else {
                    load_a<T>(shared, coord, a, ring.stage, k);
                }
            }
            advance<T::stages>(ring);
        }
    }
}

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
        const int column = half * EXPERTS_TILE_N + warpgroup * WGMMA_M_BLOCK_B_ROWS + warp * 8;
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

/* fp16 or bf16 outputs in shared memory -> C. */
template <int columns>
static __device__ __forceinline__ void store_chunk(const unsigned char *output, int32_t first_row, int32_t rows,
                                                   int32_t first_column, const struct extended_params &p) {
    constexpr int vectors = columns / VECTOR_HALVES;
    for (int i = threadIdx.x - WARPGROUP_THREADS; i < rows * vectors;
         i += EXPERTS_WARPGROUPS * WARPGROUP_THREADS) {
        const int row = i / vectors, column = i % vectors * VECTOR_HALVES;
        const unsigned char *from = output + row * EXPERTS_SHORT_ROW_BYTES + column * FP16_BYTES;
        uint16_t *to = (uint16_t *)p.c + (int64_t)(first_row + row) * p.n + first_column + column;
        if (p.n % VECTOR_HALVES == 0) {
            if (first_column + column < p.n) {
                *(uint4 *)to = *(const uint4 *)from;
            }
        } else {
            for (int half = 0; half < VECTOR_HALVES && first_column + column + half < p.n; half++) {
                to[half] = ((const uint16_t *)from)[half];
            }
        }
    }
}

/* fp32 outputs in shared memory -> codes and scale factors, a thread a group. */
template <int columns>
static __device__ __forceinline__ void store_chunk_nvfp4(const unsigned char *output, int32_t first_row,
                                                         int32_t rows, int32_t first_column, float scale_c,
                                                         const struct extended_params &p) {
    constexpr int groups = columns / NVFP4_GROUP_ELEMS, quarters = NVFP4_GROUP_ELEMS / 4;
    for (int i = threadIdx.x - WARPGROUP_THREADS; i < rows * groups;
         i += EXPERTS_WARPGROUPS * WARPGROUP_THREADS) {
        const int row = i / groups, column = i % groups * NVFP4_GROUP_ELEMS;
        if (first_column + column >= p.n) {
            continue;
        }
        const float4 *from =
            (const float4 *)(output + row * EXPERTS_WIDE_ROW_BYTES + column * (int)sizeof(float));
        float values[NVFP4_GROUP_ELEMS];
#pragma unroll
        for (int quarter = 0; quarter < quarters; quarter++) {
            const float4 four = from[quarter];
            values[4 * quarter] = four.x;
            values[4 * quarter + 1] = four.y;
            values[4 * quarter + 2] = four.z;
            values[4 * quarter + 3] = four.w;
        }
        store_group(p, first_row + row, first_column + column, quantize_group(values, scale_c));
    }
}

/* A tile's outputs, 32 rows of A at a time. */
template <class T, bool plain, bool nvfp4>
static __device__ __forceinline__ void finish_tile(float (&acc)[T::m_blocks][T::accs], unsigned char *output,
                                                   int warpgroup, const struct experts_coord &coord,
                                                   const struct extended_params &p) {
    constexpr int columns = plain ? 2 * EXPERTS_TILE_N : EXPERTS_TILE_N;
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
        const struct experts_coord coord = find_tile_of_experts(p, &storage->table, tile);
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

    if (threadIdx.x == 0) {
        prefetch_tensormap(&a);
        prefetch_tensormap(&b1);
        prefetch_tensormap(&b2);
        for (int stage = 0; stage < T::stages; stage++) {
            mbarrier_init(full_barrier(shared, stage), p.scales_by_rows ? 1 + WARP_THREADS : 1);
            mbarrier_init(empty_barrier(shared, stage), T::consumers);
        }
        fence_mbarrier_init();
    }
    if (warp == EXPERTS_COPYING_WARPS) {
        make_expert_table(p.tokens, &storage->table);
    }
    __syncthreads();
    griddepcontrol_launch_dependents();

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

/* ---- the kernel before: A as permuted fp16 ---- */

/* True for a padded row past its expert's count that a tile copies beside rows that count: of this expert or of
 * the one before.  Places shorter than a tile are all copied. */
static __device__ __forceinline__ bool is_copied(const struct expert_tokens &tokens, int32_t expert,
                                                 int32_t row) {
    const int32_t own = clamped_count(tokens.counts[expert], tokens.rows),
                  before = expert == 0 ? 0 : clamped_count(tokens.counts[expert - 1], tokens.rows);
    return tokens.rows < tokens.tile_m || row < tiles_of_rows(own, tokens.tile_m) * tokens.tile_m ||
           row < tiles_of_rows(before, tokens.tile_m) * tokens.tile_m - tokens.rows;
}

/* A thread for each quarter of a row's chunk (dequantize_box_parity).  CTA (x, y): part y of rows_of_cta rows.
 * Padded rows past an expert's count are zeroed if a tile copies them, else left out. */
static __global__ void __launch_bounds__(EXPERTS_DEQUANTIZE_THREADS)
    experts_dequantize_kernel(const __grid_constant__ hopper_experts_dequantize_params p) {
    const uint32_t row_parts = p.a.row_units / (DEQUANTIZE_UNITS / CHUNK_PARTS);
    const uint32_t in_cta = p.rows_of_cta > 1 ? threadIdx.x / row_parts : 0,
                   row = blockIdx.x * p.rows_of_cta + in_cta,
                   part = blockIdx.y * EXPERTS_DEQUANTIZE_THREADS + threadIdx.x - in_cta * row_parts;
    const bool padded = p.tokens.kind == CUSTOM_KERNEL_TOKENS_PADDED;
    const uint32_t batch = padded ? row / p.tokens.rows : 0, row_of_batch = padded ? row % p.tokens.rows : row;
    const uint32_t chunk = part / CHUNK_PARTS, box = part % CHUNK_PARTS / 2, parity = part % 2;
    griddepcontrol_wait();              /* previous kernels may write the inputs, or use the scratch memory */
    griddepcontrol_launch_dependents(); /* the GEMM may now copy B, but not this kernel's output */
    if (in_cta >= p.rows_of_cta || part >= row_parts || row >= p.rows) {
        return;
    }
    uint8_t *to = (uint8_t *)p.a.a_fp16 +
                  ((int64_t)row * p.a.row_units + chunk * DEQUANTIZE_UNITS) * sizeof(uint4) + box * A_BOX_BYTES;
    if (padded && (int32_t)row_of_batch >= clamped_count(p.tokens.counts[batch], p.tokens.rows)) {
        for (uint32_t unit = parity;
             unit < DEQUANTIZE_UNITS / A_BOXES && is_copied(p.tokens, batch, row_of_batch); unit += 2) {
            ((uint4 *)to)[unit] = make_uint4(0, 0, 0, 0);
        }
        return;
    }
    const bool full = chunk < p.a.full_chunks; /* else lanes 2 and 3 get zero scales */
    const uint8_t *fp4 =
        p.a.a + row * p.a.fp4_row_bytes + chunk * (DEQUANTIZE_CHUNK_K / 2) + box * sizeof(uint2);
    dequantize_box_parity(fp4, scales_of_chunk(p.a, batch, row_of_batch, chunk), p.a.scale_half_step, box,
                          parity, full, to, parity * sizeof(uint4));
}

} // namespace hopper

#endif
