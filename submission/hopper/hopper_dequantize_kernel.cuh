/* The kernel before the GEMM: A as permuted fp16, once for all CTAs.
 *
 * The kernel takes as long as it takes to launch its CTAs and to run its code once, cold: so a CTA takes a
 * whole row if that fits, and the host computes in advance what it can. */
#ifndef HOPPER_DEQUANTIZE_KERNEL_CUH
#define HOPPER_DEQUANTIZE_KERNEL_CUH

#include "../gpu/permute_scales.cuh"
#include "grouped/hopper_grouped_config.h"
#include "hopper_dequantize.cuh"
#include "hopper_kernels.h"

namespace hopper {

#define SECTOR_BYTES    32 /* HW: of L2; PG, device memory accesses */
#define UNITS_OF_SECTOR (DEQUANTIZE_UNITS * SECTOR_BYTES / (DEQUANTIZE_CHUNK_K / 2))

/* Writes unit `index` of row `row` of batch `batch` of A to `to`: 16 bytes a thread, one pair of each of the
 * four lanes' word `unit / 4 % 2` of group `unit / 8`.  A warp writes 512 bytes together, because half-written
 * sectors cost a read each.  All loads are issued before any is used, so they wait for L2 once; L2 fetches the
 * lines during the wait for the previous kernel. */
static __device__ __forceinline__ void dequantize_unit(const dequantize_params &p, uint4 *to, uint32_t index,
                                                       uint32_t row, uint32_t batch, int64_t batch_row) {
    uint32_t chunk = index / DEQUANTIZE_UNITS, unit = index % DEQUANTIZE_UNITS;
    const uint8_t *fp4 = p.a + batch_row * p.fp4_row_bytes + chunk * (DEQUANTIZE_CHUNK_K / 2) + unit / 4 * 4;
    const uint8_t *scales = scales_of_chunk(p, batch, row, chunk);
    bool full =
        chunk < p.full_chunks; /* else K ends in the middle of the chunk: lanes 2 and 3 get zero scales */

    bool exists = index < p.row_units && (unit < UNITS_OF_SECTOR || full);
    if (exists && unit % UNITS_OF_SECTOR == 0) { /* a prefetch reads nothing, so it cannot return old data */
        prefetch_global_l2(fp4 + unit / UNITS_OF_SECTOR * SECTOR_BYTES);
        prefetch_global_l2(scales);
    }
    griddepcontrol_wait();              /* previous kernels may write the inputs, or use the scratch memory */
    griddepcontrol_launch_dependents(); /* the GEMM may now copy B1 and B2, but not this kernel's output */
    if (index >= p.row_units) {
        return;
    }
    uint32_t words[4], factors[2]; /* [lane]; four scale factors each */
#pragma unroll
    for (int lane = 0; lane < 4; lane++) {
        words[lane] = *(const uint32_t *)(fp4 + (lane < 2 || full ? lane * 16 : 0));
    }
    factors[0] = *(const uint32_t *)scales;
    factors[1] = *(const uint32_t *)(scales + (full ? p.scale_half_step : 0)) & (full ? ~0u : 0);
    uint32_t pairs[4]; /* [lane] */
#pragma unroll
    for (int lane = 0; lane < 4; lane++) {
        uint32_t scale[2];
        widen_scales((uint16_t)(factors[lane / 2] >> (lane % 2 * 16 + unit / 8 * 8)), scale);
        pairs[lane] = dequantize_pair(words[lane], scale[0], (int)(unit % 4));
    }
    *to = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
}

/* CTA (x, y, z): part y of row x of batch z. */
static __global__ void __launch_bounds__(DEQUANTIZE_MAX_THREADS)
    dequantize_kernel(const __grid_constant__ dequantize_params p) {
    const int64_t row = (int64_t)blockIdx.z * gridDim.x + blockIdx.x;
    const uint32_t unit = blockIdx.y * blockDim.x + threadIdx.x;
    dequantize_unit(p, (uint4 *)p.a_fp16 + row * p.row_units + unit, unit, blockIdx.x, blockIdx.z, row);
}

/* The same before a GEMM that counts in memory: zeroes its words.  If the GEMM dequantizes the rest of A
 * itself, the grid has only a row's first units. */
static __global__ void __launch_bounds__(DEQUANTIZE_MAX_THREADS)
    dequantize_first_kernel(const __grid_constant__ dequantize_params p, uint32_t *counters, uint32_t count) {
    const int64_t row = (int64_t)blockIdx.z * gridDim.x + blockIdx.x;
    const uint32_t unit = blockIdx.y * blockDim.x + threadIdx.x;
    dequantize_unit(p, (uint4 *)p.a_fp16 + row * p.row_units + unit, unit, blockIdx.x, blockIdx.z, row);
    if (row == 0) {
        for (uint32_t i = unit; i < count; i += gridDim.y * blockDim.x) {
            counters[i] = 0;
        }
    }
}

/* The same, and B's scale factors are permuted, in one launch: CTAs of A first, then those of the scale
 * factors, whose first PERMUTE_SCALES_THREADS threads work. */
static __global__ void __launch_bounds__(DEQUANTIZE_MAX_THREADS)
    prepare_kernel(const __grid_constant__ hopper_prepare_params p) {
    if (blockIdx.x < p.a_ctas) {
        const uint32_t row = blockIdx.x / p.parts;
        const uint32_t unit = blockIdx.x % p.parts * blockDim.x + threadIdx.x;
        dequantize_unit(p.a, (uint4 *)p.a.a_fp16 + (int64_t)row * p.a.row_units + unit, unit, row % p.rows,
                        row / p.rows, row);
        if (row == 0) {
            for (uint32_t i = unit; i < p.count; i += p.parts * blockDim.x) {
                p.counters[i] = 0;
            }
        }
        return;
    }
    griddepcontrol_wait();
    griddepcontrol_launch_dependents();
    const uint32_t cta = blockIdx.x - p.a_ctas, tile = cta / p.scale_ctas_k,
                   tile_row = tile % p.scale_tile_rows, slice = tile / p.scale_tile_rows;
    const uint32_t batch = slice / p.scales.count, tensor = slice % p.scales.count;
    if (threadIdx.x < PERMUTE_SCALES_THREADS && tile_row < scale_tile_rows(p.scales.tensors[tensor].rows)) {
        permute_tile_row(p.scales, batch, tensor, permuted_batch(p.scales, batch, tensor), tile_row,
                         permuted_first_tile(cta % p.scale_ctas_k));
    }
}

/* ---- for the grouped GEMM ---- */

/* A thread's part of a row's chunk: every second unit of one box of A (dequantize_box_parity). */
struct grouped_part {
    uint32_t chunk, box, parity;
};

static __device__ __forceinline__ struct grouped_part grouped_part_of(uint32_t index) {
    return {index / CHUNK_PARTS, index % CHUNK_PARTS / 2, index % 2};
}

/* The address of the part's box of a row, in a group with `rows` rows, padded to whole eights
 * (hopper_grouped_config.h). */
static __device__ __forceinline__ uint8_t *
grouped_box(const dequantize_params &p, const struct grouped_part &part, uint32_t row, uint32_t rows) {
    const int64_t atom =
        ((int64_t)part.chunk * (rows / SWIZZLE_ATOM_ROWS) + row / SWIZZLE_ATOM_ROWS) * A_BOXES + part.box;
    return (uint8_t *)p.a_fp16 + atom * SWIZZLE_ATOM_BYTES + row % SWIZZLE_ATOM_ROWS * A_BOX_BYTES;
}

/* Writes part `index` of row `row`: dequantize_unit in a quarter of the threads.  Most of that function's
 * instructions compute the place, and the groups have so many rows that issuing instructions is what takes the
 * time (measured:H200, round 128). */
static __device__ __forceinline__ void dequantize_parity(const dequantize_params &p, uint32_t index,
                                                         uint32_t row, uint32_t rows) {
    const struct grouped_part part = grouped_part_of(index);
    const uint8_t *fp4 = p.a + row * p.fp4_row_bytes + part.chunk * (DEQUANTIZE_CHUNK_K / 2);
    const uint8_t *scales = scales_of_chunk(p, 0, row, part.chunk);
    const bool exists = index < p.row_units / (DEQUANTIZE_UNITS / CHUNK_PARTS),
               full = part.chunk < p.full_chunks; /* else lanes 2 and 3 get zero scales */
    if (exists) {                                 /* a prefetch reads nothing, so it cannot return old data */
        if (part.parity == 0) {
            prefetch_global_l2(fp4 + (full ? part.box * SECTOR_BYTES : 0));
        } else {
            prefetch_global_l2(scales + (full ? part.box * p.scale_half_step : 0));
        }
    }
    griddepcontrol_wait();              /* previous kernels may write the inputs, or use the scratch memory */
    griddepcontrol_launch_dependents(); /* the GEMM may now copy B, but not this kernel's output */
    if (!exists) {
        return;
    }
    dequantize_box_parity(fp4 + part.box * sizeof(uint2), scales, p.scale_half_step, part.box, part.parity,
                          full, grouped_box(p, part, row, rows),
                          (part.parity ^ row % SWIZZLE_ATOM_ROWS) * sizeof(uint4));
}

/* CTA (x, y): part y of row x of all groups' rows in order. */
template <class P, bool shares>
static __global__ void __launch_bounds__(GROUPED_DEQUANTIZE_MAX_THREADS)
    grouped_dequantize_kernel(const __grid_constant__ P p) {
    int32_t group = 0, row = blockIdx.x;
    while (row >= p.rows[group]) {
        row -= p.rows[group++];
    }
    const uint32_t index = blockIdx.y * blockDim.x + threadIdx.x;
    const uint32_t rows = (p.rows[group] + SWIZZLE_ATOM_ROWS - 1) / SWIZZLE_ATOM_ROWS * SWIZZLE_ATOM_ROWS;
    dequantize_parity(p.group[group], index, row, rows);
    if (shares && blockIdx.x == 0) {
        for (uint32_t i = index; i < (uint32_t)p.arrivals_count; i += gridDim.y * blockDim.x) {
            p.arrivals[i] = 0;
        }
    }
}

} // namespace hopper

#endif
