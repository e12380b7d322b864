/* The extended GEMM of few rows of A: transposed tiles (blackwell_transposed_gemm.cuh) whose outputs have all
 * options.  A lane has a column of C; of a gated product it gets the sums of gate from the first CTAs of the
 * pairs and those of up from the second ones, as pairs that share K exchange their sums. */
#ifndef BLACKWELL_FEW_ROWS_GEMM_CUH
#define BLACKWELL_FEW_ROWS_GEMM_CUH

#include "blackwell_column_outputs.cuh"
#include "blackwell_extended_kernels.h"

namespace blackwell {

template <int tile_n, int stages, int ctas, int tail, int k_shares, bool gate_and_up>
struct few_rows_tile : transposed_tile<tile_n, stages, ctas, tail, k_shares, gate_and_up> {
    /* Rows of gate or up are the MMA's A: b2 and sfb2 are those of the second CTA. */
    template <class P> static __device__ __forceinline__ const CUtensorMap *own_a(const P &p, int32_t rank) {
        return gate_and_up && rank != 0 ? &p.b2 : &p.a;
    }

    template <class P> static __device__ __forceinline__ const CUtensorMap *own_sfa(const P &p, int32_t rank) {
        return gate_and_up && rank != 0 ? &p.sfb2 : &p.sfa;
    }
};

/* A lane's sums of its CTA's operand, which is gate or up, and of the other one, of TRANSPOSED_COLUMNS rows of
 * C from `row` on, to outputs.  silu: the activation is (activate_gated). */
template <bool silu>
static __device__ __forceinline__ void
finish_both(const struct extended_params &p, const struct lane_column &at, const struct column_outputs &outputs,
            int32_t row, bool own_is_gate, const float (&own)[TRANSPOSED_COLUMNS],
            const float (&other)[TRANSPOSED_COLUMNS]) {
#pragma unroll
    for (int half = 0; half < TRANSPOSED_COLUMNS; half += OUTPUT_ROWS) {
        float values[OUTPUT_ROWS], tokens[OUTPUT_ROWS];
        token_scales(p, row + half, tokens);
#pragma unroll
        for (int i = 0; i < OUTPUT_ROWS; i++) {
            const float gate = own_is_gate ? own[half + i] : other[half + i],
                        up = own_is_gate ? other[half + i] : own[half + i];
            const struct row_factors factors = {outputs.scale_gate * tokens[i], outputs.scale_up * tokens[i]};
            values[i] = finish_gated<silu>(p, gate, up, factors, outputs.bias);
        }
        store_outputs(p, at, outputs, row + half, values);
    }
}

/* Epilogue warp.  Waits for the kernels before, which may have made the scales. */
struct few_rows_epilogue {
    template <class T>
    static __device__ __forceinline__ void run(shared_t<T> shared, struct tmem_addr acc,
                                               const struct tile_coord &coord,
                                               const struct blackwell_extended_params &p) {
        const struct extended_params &e = p.epilogue;
        const struct lane_column at = {coord.m + (int32_t)threadIdx.x % TILE_M, 0, NVFP4_GROUP_ELEMS / 2};
        griddepcontrol_wait();
        const struct column_outputs outputs = {number_or_one(e.scale_gate), number_or_one(e.scale_up),
                                               quantization_scale(number_or_one(e.scale_c)),
                                               find_bias(e, at.column), e.m};
        const bool silu = is_silu(e.activation);
        epilogue_shared_k<T>(shared, find_warp(acc), coord,
                             [&](int32_t row, const float (&sums)[TRANSPOSED_COLUMNS],
                                 const float (&others)[TRANSPOSED_COLUMNS]) {
                                 row += coord.n;
                                 if constexpr (!T::gate_and_up) {
                                     finish_plain_rows(e, at, outputs, row, sums);
                                 } else if (silu) {
                                     finish_both<true>(e, at, outputs, row, coord.rank == 0, sums, others);
                                 } else {
                                     finish_both<false>(e, at, outputs, row, coord.rank == 0, sums, others);
                                 }
                             });
        if (e.output == CUSTOM_KERNEL_NVFP4 && sharer_of<T>(coord) == 0 && coord.n + T::columns >= e.m) {
            pad_scales(e, coord.m, TILE_M, (int)threadIdx.x - OTHER_WARPS * WARP_THREADS,
                       EPILOGUE_WARPS * WARP_THREADS);
        }
    }
};

template <class T>
static __global__ void __launch_bounds__(CTA_THREADS, 1)
    few_rows_gemm_kernel(const __grid_constant__ blackwell_extended_params p) {
    run_tile<T, few_rows_epilogue>(find_transposed_tile<T>(p, blockIdx.x / T::cluster), p);
}

} // namespace blackwell

#endif
