/* The kernel that runs before the GEMM: expands A once for all CTAs, and brings scale factors that the GEMM
 * cannot copy as they are (plain rows, or K no multiple of a stage) into padded blocks. */
#ifndef HOPPER_PREPARE_KERNEL_CUH
#define HOPPER_PREPARE_KERNEL_CUH

#include "config.h"
#include "expand.cuh"

#define PREFETCH_BYTES       128 /* HW: a cache line */
#define WORDS_OF_CODES       4   /* a thread's: the same word of the four lanes' groups, 32 elements */
#define THREADS_PER_PERMUTED (PERMUTED_ELEMS / (WORDS_OF_CODES * 8))

/* 32 elements of one row: word `part % 2` of group `part / 2` of each of the four lanes -> 64 contiguous bytes.
 */
static __device__ __forceinline__ void expand_part(const uint8_t *codes, const uint8_t *scales,
                                                   uint16_t *expanded, int scale_layout, int row, int groups,
                                                   int chunk, int part) {
    const int chunk_groups = PERMUTED_ELEMS / NVFP4_GROUP_ELEMS;
    uint32_t pairs[4][4] = {}; /* [pair][lane] */
#pragma unroll
    for (int lane = 0; lane < 4; lane++) {
        int group = chunk * chunk_groups + 2 * lane + part / 2;
        if (group < groups) {
            uint32_t word = *(const uint32_t *)(codes + chunk * (PERMUTED_ELEMS / 2) + lane * 16 + part * 4);
            uint32_t scale[2], halves[4];
            expand_scales(scales[scale_offset(scale_layout, row, group, groups)], scale);
            expand_word(word, scale[0], halves);
            for (int pair = 0; pair < 4; pair++) {
                pairs[pair][lane] = halves[pair];
            }
        }
    }
    uint4 *to = (uint4 *)(expanded + chunk * PERMUTED_ELEMS) + part * 4;
    for (int pair = 0; pair < 4; pair++) {
        to[pair] = make_uint4(pairs[pair][0], pairs[pair][1], pairs[pair][2], pairs[pair][3]);
    }
}

/* One word of a padded block: the four scale factors of a row and 64 elements of K; zeros past either end. */
static __device__ __forceinline__ void block_scales(const struct prepare_params &p, const uint8_t *from,
                                                    uint8_t *to, int64_t index) {
    int64_t groups = p.k / NVFP4_GROUP_ELEMS, tiles_k = (p.k + STAGE_K - 1) / STAGE_K * 2;
    int64_t tile = index / SCALE_TILE_ROWS, word = index % SCALE_TILE_ROWS;
    int64_t tiles_n = (p.n + SCALE_TILE_ROWS - 1) / SCALE_TILE_ROWS;
    int64_t tile_k = tile % tiles_k, tile_n = tile / tiles_k % tiles_n, batch = tile / tiles_k / tiles_n;
    int64_t row = tile_n * SCALE_TILE_ROWS + word % 4 * 32 + word / 4, group = tile_k * SCALE_TILE_GROUPS;
    uint32_t value = 0;
    if (row < p.n && group < groups) {
        value = *(const uint32_t *)(from + batch * scale_batch_bytes(p.scale_layout, p.n, groups) +
                                    scale_offset(p.scale_layout, row, group, groups));
    }
    ((uint32_t *)to)[index] = value;
}

/* A block takes rows of A, one at a time, its threads the parts of a row; then words of scale tiles.  Any grid
 * is right. */
static __global__ void __launch_bounds__(PREPARE_THREADS)
    prepare_kernel(const __grid_constant__ prepare_params p) {
    /* Bring this block's first row into L2 while the kernel before is still running; its contents may yet
     * change. */
    int64_t ahead = (int64_t)threadIdx.x * PREFETCH_BYTES;
    if (ahead < p.k / 2) {
        prefetch_global_l2(p.a + blockIdx.x * (p.k / 2) + ahead);
    }
    griddepcontrol_wait(); /* the scratch memory may still be in use, and the inputs in the making */
    /* Only now: the GEMM copies weights before it waits for this grid, so all earlier ones must be complete. */
    griddepcontrol_launch_dependents();
    int groups = (int)(p.k / NVFP4_GROUP_ELEMS), chunks = (int)((p.k + PERMUTED_ELEMS - 1) / PERMUTED_ELEMS);
    for (int64_t row = blockIdx.x; row < p.l * p.m; row += gridDim.x) {
        int64_t batch = p.l == 1 ? 0 : row / p.m;
        const uint8_t *codes = p.a + row * (p.k / 2);
        const uint8_t *scales = p.sfa + batch * scale_batch_bytes(p.scale_layout, p.m, groups);
        uint16_t *expanded = p.activations + row * chunks * PERMUTED_ELEMS;
        for (int i = threadIdx.x; i < chunks * THREADS_PER_PERMUTED; i += PREPARE_THREADS) {
            expand_part(codes, scales, expanded, p.scale_layout, (int)(row - batch * p.m), groups,
                        i / THREADS_PER_PERMUTED, i % THREADS_PER_PERMUTED);
        }
    }
    if (p.blocked_sfb1 != NULL) {
        int64_t words = p.l * ((p.n + SCALE_TILE_ROWS - 1) / SCALE_TILE_ROWS) * chunks * 2 * SCALE_TILE_ROWS;
        int64_t step = (int64_t)gridDim.x * PREPARE_THREADS;
        for (int64_t i = (int64_t)blockIdx.x * PREPARE_THREADS + threadIdx.x; i < words; i += step) {
            block_scales(p, p.sfb1, p.blocked_sfb1, i);
            block_scales(p, p.sfb2, p.blocked_sfb2, i);
        }
    }
}

#endif
