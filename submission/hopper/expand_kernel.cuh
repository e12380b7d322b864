/* The kernel in front of the GEMM: A as permuted fp16, once for all CTAs.
 *
 * Its time is that of launching its CTAs and of running its code once, cold: so a CTA is a whole row, or two
 * where one row a CTA would take a second wave, and the host works out what it can. */
#ifndef HOPPER_EXPAND_KERNEL_CUH
#define HOPPER_EXPAND_KERNEL_CUH

#include "config.h"
#include "expand.cuh"

/* Pair `pair` of expand_word alone. */
static __device__ __forceinline__ uint32_t expand_pair(uint32_t codes, uint32_t scale, int pair) {
    uint32_t bytes = pair % 2 == 0 ? codes << 4 : codes;
    bytes = (bytes & CODE_SIGNS) | ((bytes >> 3) & CODE_MAGNITUDES);
    return mul_f16x2(pair < 2 ? prmt(bytes, 0, BYTES_0_AND_2) : bytes & HIGH_BYTES, scale);
}

/* What a thread reads of a row: a word of each of the four lanes, and the row's scale factors of the chunk. */
struct raw_unit {
    uint32_t words[4], factors[2]; /* [lane]; four scale factors each */
};

/* All loads are issued before any is used: one latency of memory.  Where K ends in the middle of a chunk, lanes
 * 2 and 3 get zero scale factors. */
static __device__ __forceinline__ void load_unit(const struct expand_params &p, uint32_t row, uint32_t index,
                                                 struct raw_unit &raw) {
    uint32_t chunk = index / UNITS_OF_CHUNK, word = index % UNITS_OF_CHUNK / 4;
    const uint8_t *codes =
        p.a + ((int64_t)blockIdx.z * p.rows + row) * p.code_row_bytes + chunk * (PERMUTED_ELEMS / 2) + word * 4;
    const uint8_t *scales = p.sfa + blockIdx.z * p.scale_batch_bytes +
                            row / SCALE_TILE_ROWS * p.scale_tile_step +
                            row % SCALE_TILE_ROWS / 32 * p.scale_quarter_step + row % 32 * p.scale_row_step +
                            chunk * p.scale_chunk_step;
    bool whole = chunk < p.whole_chunks;
#pragma unroll
    for (int lane = 0; lane < 4; lane++) {
        raw.words[lane] = *(const uint32_t *)(codes + (lane < 2 || whole ? lane * 16 : 0));
    }
    raw.factors[0] = *(const uint32_t *)scales;
    raw.factors[1] = *(const uint32_t *)(scales + (whole ? p.scale_half_step : 0)) & (whole ? ~0u : 0);
}

/* 16 bytes of a row: one pair of each of the four lanes' word `unit / 4 % 2` of group `unit / 8`.  A warp
 * writes 512 bytes together: half-written sectors cost a read each. */
static __device__ __forceinline__ void store_unit(const struct expand_params &p, uint32_t row, uint32_t index,
                                                  const struct raw_unit &raw) {
    uint32_t unit = index % UNITS_OF_CHUNK;
    uint32_t pairs[4]; /* [lane] */
#pragma unroll
    for (int lane = 0; lane < 4; lane++) {
        uint32_t scale[2];
        expand_scales((uint16_t)(raw.factors[lane / 2] >> (lane % 2 * 16 + unit / 8 * 8)), scale);
        pairs[lane] = expand_pair(raw.words[lane], scale[0], (int)(unit % 4));
    }
    ((uint4 *)p.activations)[((int64_t)blockIdx.z * p.rows + row) * p.units + index] =
        make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
}

/* CTA (x, y, z): part y of row x, and of row x + gridDim.x if there is one, of batch z. */
static __global__ void __launch_bounds__(MAX_EXPAND_THREADS)
    expand_kernel(const __grid_constant__ expand_params p) {
    griddepcontrol_wait();              /* the inputs may be in the making, and the scratch memory in use */
    griddepcontrol_launch_dependents(); /* the GEMM may now copy weights, not the activations */
    uint32_t index = blockIdx.y * blockDim.x + threadIdx.x;
    uint32_t row = blockIdx.x, second_row = row + gridDim.x;
    if (index >= p.units) {
        return;
    }
    struct raw_unit first, second;
    load_unit(p, row, index, first);
    if (second_row < p.rows) {
        load_unit(p, second_row, index, second);
    }
    store_unit(p, row, index, first);
    if (second_row < p.rows) {
        store_unit(p, second_row, index, second);
    }
}

#endif
