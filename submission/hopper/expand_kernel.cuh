/* The kernel in front of the GEMM: A as permuted fp16, once for all CTAs.
 *
 * Its time is that of launching its CTAs and of running its code once, cold: so a CTA is a whole row where that
 * fits, and the host works out what it can. */
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

/* CTA (x, y, z): part y of row x of batch z; a thread 16 bytes: one pair of each of the four lanes' word
 * `unit / 4 % 2` of group `unit / 8`.  A warp writes 512 bytes together: half-written sectors cost a read each.
 * All loads are issued before any is used: one latency of memory. */
static __global__ void __launch_bounds__(MAX_EXPAND_THREADS)
    expand_kernel(const __grid_constant__ expand_params p) {
    uint32_t index = blockIdx.y * blockDim.x + threadIdx.x;
    uint32_t row = blockIdx.x, chunk = index / UNITS_OF_CHUNK, unit = index % UNITS_OF_CHUNK;
    int64_t batch_row = (int64_t)blockIdx.z * gridDim.x + row;
    const uint8_t *codes = p.a + batch_row * p.code_row_bytes + chunk * (PERMUTED_ELEMS / 2) + unit / 4 * 4;
    const uint8_t *scales = p.sfa + blockIdx.z * p.scale_batch_bytes +
                            row / SCALE_TILE_ROWS * p.scale_tile_step +
                            row % SCALE_TILE_ROWS / 32 * p.scale_quarter_step + row % 32 * p.scale_row_step +
                            chunk * p.scale_chunk_step;
    uint32_t tile = row / p.tile_tokens + blockIdx.z * p.token_tiles, token = row % p.tile_tokens;
    uint32_t box = (tile * (p.units / UNITS_OF_CHUNK) + chunk) * 2 + unit / 8;
    uint4 *to = (uint4 *)p.images + ((int64_t)box * p.tile_tokens + token) * 8 + (unit % 8 ^ token % 8);
    bool whole = chunk < p.whole_chunks; /* else K ends in the middle: lanes 2 and 3 get zero scales */

    griddepcontrol_wait();              /* the inputs may be in the making, and the scratch memory in use */
    griddepcontrol_launch_dependents(); /* the GEMM may now copy weights, not the activations */
    if (index >= p.units) {
        return;
    }
    uint32_t words[4], factors[2]; /* [lane]; four scale factors each */
#pragma unroll
    for (int lane = 0; lane < 4; lane++) {
        words[lane] = *(const uint32_t *)(codes + (lane < 2 || whole ? lane * 16 : 0));
    }
    factors[0] = *(const uint32_t *)scales;
    factors[1] = *(const uint32_t *)(scales + (whole ? p.scale_half_step : 0)) & (whole ? ~0u : 0);
    uint32_t pairs[4]; /* [lane] */
#pragma unroll
    for (int lane = 0; lane < 4; lane++) {
        uint32_t scale[2];
        expand_scales((uint16_t)(factors[lane / 2] >> (lane % 2 * 16 + unit / 8 * 8)), scale);
        pairs[lane] = expand_pair(words[lane], scale[0], (int)(unit % 4));
    }
    *to = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
}

#endif
