/* The kernels before the products of experts: A as permuted fp16 or bf16, once for all CTAs. */
#ifndef HOPPER_EXPERTS_DEQUANTIZE_CUH
#define HOPPER_EXPERTS_DEQUANTIZE_CUH

#include "../../gpu/experts/gpu_experts.cuh"
#include "../extended/hopper_arrange_kernel.cuh"
#include "../hopper_dequantize.cuh"
#include "hopper_experts_kernels.h"

namespace hopper {

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

/* An A of 16 bits, of which an index may name the rows: zeros for those that A lacks. */
static __global__ void __launch_bounds__(ARRANGE_THREADS)
    experts_arrange_kernel(const __grid_constant__ hopper_experts_arrange_params p) {
    const struct arrange_place place = arrange_place_of(p.a);
    griddepcontrol_wait();
    griddepcontrol_launch_dependents();
    const int64_t row = p.a_index != nullptr ? p.a_index[blockIdx.x] : blockIdx.x;
    const bool filled = place.filled && row >= 0 && row < p.a_rows;
    store_arranged(p.a, place, filled ? *arrange_source(p.a, place, row) : make_uint4(0, 0, 0, 0));
}

} // namespace hopper

#endif
