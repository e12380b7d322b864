/* c = b a for one row a and the rows of a matrix b, in NVFP4, which the traffic of b bounds.
 *
 *   every thread                                   every warp, for its rows and its share of K
 *   ------------                                   -------------------------------------------
 *   a fp4, sfa --integers, fp32--> shared memory   b fp4, sfb --registers, a step ahead-->
 *                      '--------------------------------> dp4a --> sums of a group * sfa * sfb --> fp32 sums
 *                                                                     | shuffles, warps that share K
 *   c <--2-byte stores--------------------------------------------- fp16
 *
 * Twice an e2m1 magnitude is an integer up to 12, which prmt looks up: it picks bytes of a table by nibbles,
 * and gives 0 for a nibble whose highest bit, the sign, is set.  With all signs flipped it gives the magnitudes
 * of the negative ones alone.  The sums of a group of 16 are exact, at most 16 * 144 quarters. */
#ifndef GPU_GEMV_CUH
#define GPU_GEMV_CUH

#include "gemv.h"
#include "instructions/ptx.cuh"

#define GEMV_TABLE_LOW   0x03020100u /* 2 * {0, 0.5, 1, 1.5} */
#define GEMV_TABLE_HIGH  0x0c080604u /* 2 * {2, 3, 4, 6} */
#define GEMV_SIGNS       0x88888888u
#define GEMV_BYTE_SIGNS  0x80808080u
#define GEMV_FLOAT_SHIFT 0x4b400000 /* the bits of 1.5 * 2^23: adding a small integer adds it to the number */
#define GEMV_SHIFT_VALUE 12582912.0f

/* HW: cvt from e2m1x2 is of sm_100a, sm_120a and their families (PTX ISA).  With it, halves take the bytes'
 * place: a half's sum of eight products is a multiple of a quarter up to 288, so exact too. */
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 1000
#define GEMV_CONVERTS 1
#define GEMV_PLANES   4
#define GEMV_UNIT     1.0f
#else
#define GEMV_CONVERTS 0
#define GEMV_PLANES   2
#define GEMV_UNIT     0.25f /* of both factors 2 */
#endif

namespace gemv {

static __device__ __forceinline__ uint32_t word_of(const uint4 &vector, int i) {
    return i == 0 ? vector.x : i == 1 ? vector.y : i == 2 ? vector.z : vector.w;
}

static __device__ __forceinline__ uint32_t magnitudes(uint32_t selector) {
    return prmt_or_sign(GEMV_TABLE_LOW, GEMV_TABLE_HIGH, selector);
}

/* Twice the values of four codes, the low half of a word, as signed bytes. */
static __device__ __forceinline__ uint32_t signed_bytes(uint32_t codes) {
    const uint32_t positive = magnitudes(codes), negative = magnitudes(codes ^ GEMV_SIGNS);
    return ((positive | GEMV_BYTE_SIGNS) - negative) ^ GEMV_BYTE_SIGNS; /* no byte borrows from the next */
}

/* Magnitudes of two e4m3 scale factors, in the low half of `pair`. */
static __device__ __forceinline__ void scale_pair(uint32_t pair, float scales[2]) {
    const uint32_t halves = cvt_rn_f16x2_e4m3x2((uint16_t)(pair & 0x7f7f));
    scales[0] = cvt_f32_f16((uint16_t)halves);
    scales[1] = cvt_f32_f16((uint16_t)(halves >> 16));
}

/* ---- place ---- */

/* The share of this CTA and warp: entries of scale tiles, each of which has GEMV_ROWS rows of b. */
struct gemv_share {
    int lane, warp_k;
    int32_t begin, first, end; /* entries: the CTA's first; this warp's first; past the CTA's last */
    int32_t stride;            /* from one entry of the warp to the next */
};

static __device__ __forceinline__ int find_group(const gemv_params &p) {
    int group = 0;
    while (group + 1 < p.groups && (int32_t)blockIdx.x >= p.group[group + 1].first_cta) {
        group++;
    }
    return group;
}

static __device__ __forceinline__ gemv_share find_share(const gemv_params &p, const gemv_group &group) {
    const int warp = threadIdx.x / WARP_THREADS;
    const int64_t cta = (int32_t)blockIdx.x - group.first_cta;
    gemv_share share;
    share.lane = threadIdx.x % WARP_THREADS;
    share.warp_k = warp % p.warps_k;
    share.stride = GEMV_WARPS / p.warps_k;
    share.begin = (int32_t)(group.entries * cta / group.ctas);
    share.end = (int32_t)(group.entries * (cta + 1) / group.ctas);
    share.first = share.begin + warp / p.warps_k;
    return share;
}

static __device__ __forceinline__ int32_t first_row(int32_t entry) {
    return entry / SCALE_ENTRIES * SCALE_TILE_ROWS + entry % SCALE_ENTRIES;
}

/* ---- the row of A ---- */

static __device__ __forceinline__ void widen_row(uint32_t shared, const gemv_params &p,
                                                 const gemv_group &group) {
    const uint32_t plane = (uint32_t)group.parts * 16, scales = GEMV_PLANES * plane;
    const int64_t groups = (int64_t)group.parts * GEMV_LANE_GROUPS;
    for (int32_t i = threadIdx.x; i < 2 * group.parts;
         i += GEMV_THREADS) { /* half a lane's part: a group of 16 */
        const uint2 codes = *(const uint2 *)(group.a + (int64_t)i * 8);
        const uint8_t scale = group.sfa[scale_offset(p.scale_layout, 0, i, groups)];
        const uint32_t to = shared + i % 2 * (GEMV_PLANES / 2) * plane + i / 2 * 16;
#if GEMV_CONVERTS
        uint32_t halves[4];
        cvt_f16x2_e2m1x2(codes.x, halves);
        st_shared_v4(to, halves);
        cvt_f16x2_e2m1x2(codes.y, halves);
        st_shared_v4(to + plane, halves);
#else
        const uint32_t bytes[4] = {signed_bytes(codes.x), signed_bytes(codes.x >> 16), signed_bytes(codes.y),
                                   signed_bytes(codes.y >> 16)};
        st_shared_v4(to, bytes);
#endif
        float factors[2];
        scale_pair(scale, factors);
        st_shared_f32(shared + scales + i * (int)sizeof(float), factors[0] * GEMV_UNIT);
    }
}

/* ---- the rows of B ---- */

/* A lane's part of each row. */
struct gemv_part {
    uint4 codes[GEMV_ROWS];
    uint4 scales; /* a word of each row: the lane's two factors are in its low half, or an odd lane's in the
                     high */
};

/* What is loaded next: parts of an entry's rows from the beginning of K, then the next entry. */
struct gemv_cursor {
    const uint8_t *codes[GEMV_ROWS];
    const uint8_t *scales; /* the vector of all rows, or the first row's factors */
    int32_t entry, at;     /* `at`: number of the lane's part in its rows */
};

/* Puts the cursor at the beginning of its entry.  A row past the last one becomes the last one, whose sums then
 * have no place in c. */
static __device__ __forceinline__ void begin_entry(gemv_cursor &cursor, const gemv_params &p,
                                                   const gemv_group &group, const gemv_share &share) {
    const int32_t row = first_row(cursor.entry);
    cursor.at = share.warp_k * GEMV_STEP_LANES + share.lane;
#pragma unroll
    for (int i = 0; i < GEMV_ROWS; i++) {
        const int32_t at = min(row + i * SCALE_ENTRIES, group.n - 1);
        cursor.codes[i] = group.b + ((int64_t)at * group.parts + cursor.at) * GEMV_LANE_BYTES;
    }
    const bool blocked = p.scale_layout == CUSTOM_KERNEL_SCALES_BLOCKED;
    const int32_t factor = blocked ? cursor.at / 2 * SCALE_TILE_GROUPS : cursor.at * GEMV_LANE_GROUPS;
    cursor.scales =
        group.sfb + scale_offset(p.scale_layout, row, factor, (int64_t)group.parts * GEMV_LANE_GROUPS);
}

/* Leaves the part as it is past the end of K and past the last entry. */
static __device__ __forceinline__ void load_part(gemv_part &part, gemv_cursor &cursor, const gemv_params &p,
                                                 const gemv_group &group, const gemv_share &share) {
    const int32_t step = p.warps_k * GEMV_STEP_LANES;
    const bool blocked = p.scale_layout == CUSTOM_KERNEL_SCALES_BLOCKED;
    if (cursor.entry < share.end && cursor.at < group.parts) {
#pragma unroll
        for (int i = 0; i < GEMV_ROWS; i++) {
            part.codes[i] = ld_global_once_v4(cursor.codes[i]);
        }
        if (blocked) {
            part.scales = *(const uint4 *)cursor.scales;
        } else {
            const int32_t row = first_row(cursor.entry);
            uint32_t pairs[GEMV_ROWS];
#pragma unroll
            for (int i = 0; i < GEMV_ROWS; i++) {
                const int64_t rows = min(i * SCALE_ENTRIES, group.n - 1 - row);
                pairs[i] = *(const uint16_t *)(cursor.scales + rows * group.parts * GEMV_LANE_GROUPS);
                pairs[i] <<= share.lane % 2 * 16; /* where a vector of words has it */
            }
            part.scales = make_uint4(pairs[0], pairs[1], pairs[2], pairs[3]);
        }
    }
    cursor.at += step;
#pragma unroll
    for (int i = 0; i < GEMV_ROWS; i++) {
        cursor.codes[i] += step * GEMV_LANE_BYTES;
    }
    cursor.scales += step * (blocked ? SCALE_TILE_BYTES / 2 : GEMV_LANE_GROUPS);
    if (cursor.at - share.lane >= group.parts) {
        cursor.entry += share.stride;
        begin_entry(cursor, p, group, share);
    }
}

/* ---- products ---- */

/* A group of 16 of the row of A, as widen_row() stores it. */
struct gemv_operand {
    uint4 vectors[GEMV_PLANES / 2];
    float scale;
};

static __device__ __forceinline__ gemv_operand load_operand(uint32_t shared, int32_t parts, int32_t at, int j) {
    const uint32_t plane = (uint32_t)parts * 16;
    gemv_operand operand;
#pragma unroll
    for (int i = 0; i < GEMV_PLANES / 2; i++) {
        operand.vectors[i] = ld_shared_v4(shared + (j * (GEMV_PLANES / 2) + i) * plane + at * 16);
    }
    operand.scale = __uint_as_float(
        ld_shared_u32(shared + GEMV_PLANES * plane + (at * GEMV_LANE_GROUPS + j) * (int)sizeof(float)));
    return operand;
}

/* The exact sum of a group's products, in units of GEMV_UNIT. */
static __device__ __forceinline__ float group_sum(uint32_t first, uint32_t second,
                                                  const gemv_operand &operand) {
#if GEMV_CONVERTS
    uint32_t halves[8], sum = 0;
    cvt_f16x2_e2m1x2(first, halves);
    cvt_f16x2_e2m1x2(second, halves + 4);
#pragma unroll
    for (int i = 0; i < 8; i++) {
        sum = fma_f16x2(halves[i], word_of(operand.vectors[i / 4], i % 4), sum);
    }
    return cvt_f32_f16((uint16_t)sum) + cvt_f32_f16((uint16_t)(sum >> 16));
#else
    int32_t positive = GEMV_FLOAT_SHIFT, negative = 0;
#pragma unroll
    for (int word = 0; word < 2; word++) {
        const uint32_t codes = word == 0 ? first : second, flipped = codes ^ GEMV_SIGNS;
        const uint32_t low = word_of(operand.vectors[0], word * 2);
        const uint32_t high = word_of(operand.vectors[0], word * 2 + 1);
        positive = dp4a(magnitudes(codes), low, positive);
        positive = dp4a(magnitudes(codes >> 16), high, positive);
        negative = dp4a(magnitudes(flipped), low, negative);
        negative = dp4a(magnitudes(flipped >> 16), high, negative);
    }
    return __int_as_float(positive - negative) - GEMV_SHIFT_VALUE;
#endif
}

static __device__ __forceinline__ void multiply_part(float sums[GEMV_ROWS], const gemv_part &part,
                                                     uint32_t shared, int32_t parts, int32_t at) {
    if (at >= parts) {
        return;
    }
    float scales[GEMV_ROWS][GEMV_LANE_GROUPS];
#pragma unroll
    for (int i = 0; i < GEMV_ROWS; i++) {
        scale_pair(word_of(part.scales, i) >> at % 2 * 16, scales[i]);
    }
#pragma unroll
    for (int j = 0; j < GEMV_LANE_GROUPS; j++) {
        const gemv_operand operand = load_operand(shared, parts, at, j);
#pragma unroll
        for (int i = 0; i < GEMV_ROWS; i++) {
            const float sum =
                group_sum(word_of(part.codes[i], j * 2), word_of(part.codes[i], j * 2 + 1), operand);
            sums[i] = fmaf(sum, scales[i][j] * operand.scale, sums[i]);
        }
    }
}

/* ---- sums ---- */

/* Shared memory: sums of each entry of the CTA, of each warp that shares K, of each row. */
static __device__ __forceinline__ uint32_t sum_at(uint32_t sums, const gemv_params &p, int32_t entry,
                                                  int warp_k) {
    return sums + (entry * p.warps_k + warp_k) * GEMV_ROWS * (int)sizeof(float);
}

/* Keeps the sums of all lanes in shared memory and begins anew. */
static __device__ __forceinline__ void keep_sums(float sums[GEMV_ROWS], uint32_t to, int lane) {
#pragma unroll
    for (int distance = WARP_THREADS / 2; distance > 0; distance /= 2) {
#pragma unroll
        for (int i = 0; i < GEMV_ROWS; i++) {
            sums[i] += __shfl_xor_sync(~0u, sums[i], distance);
        }
    }
    if (lane == 0) {
        st_shared_v4_f32(to, sums);
    }
#pragma unroll
    for (int i = 0; i < GEMV_ROWS; i++) {
        sums[i] = 0;
    }
}

/* Adds the sums of the warps that share K, in the order of K, and stores c. */
static __device__ __forceinline__ void store_rows(uint32_t sums, const gemv_params &p, const gemv_group &group,
                                                  const gemv_share &share) {
    for (int32_t i = threadIdx.x; i < (share.end - share.begin) * GEMV_ROWS; i += GEMV_THREADS) {
        const int32_t entry = i / GEMV_ROWS;
        const int32_t row = first_row(share.begin + entry) + i % GEMV_ROWS * SCALE_ENTRIES;
        float sum = 0;
        for (int warp_k = 0; warp_k < p.warps_k; warp_k++) {
            sum += __uint_as_float(
                ld_shared_u32(sum_at(sums, p, entry, warp_k) + i % GEMV_ROWS * (int)sizeof(float)));
        }
        if (row < group.n) {
            group.c[row] = (uint16_t)cvt_rn_f16x2_f32(sum, 0);
        }
    }
}

static __global__ void __launch_bounds__(GEMV_THREADS, GEMV_CTAS_AT_ONCE)
    kernel(const __grid_constant__ gemv_params p) {
    extern __shared__ __align__(16) unsigned char memory[];
    const uint32_t shared = cvta_to_shared(memory);
    const gemv_group &group = p.group[find_group(p)];
    const gemv_share share = find_share(p, group);
    const uint32_t kept = shared + (uint32_t)GEMV_ROW_BYTES(group.parts);
    const int32_t step = p.warps_k * GEMV_STEP_LANES, first_at = share.warp_k * GEMV_STEP_LANES + share.lane;
    gemv_cursor cursor;
    gemv_part part[GEMV_AHEAD] = {};
    float sums[GEMV_ROWS] = {0};
    cursor.entry = share.first;
    begin_entry(cursor, p, group, share);
    griddepcontrol_launch_dependents();
    griddepcontrol_wait(); /* previous kernels may write the inputs, or read c */
#pragma unroll
    for (int i = 0; i < GEMV_AHEAD; i++) {
        load_part(part[i], cursor, p, group, share);
    }
    widen_row(shared, p, group);
    __syncthreads();
    int32_t entry = share.first, at = first_at;
    while (entry < share.end) {
#pragma unroll
        for (int i = 0; i < GEMV_AHEAD; i++) {
            multiply_part(sums, part[i], shared, group.parts, at);
            load_part(part[i], cursor, p, group, share);
            at += step;
            if (at - share.lane >= group.parts && entry < share.end) {
                keep_sums(sums, sum_at(kept, p, entry - share.begin, share.warp_k), share.lane);
                at = first_at;
                entry += share.stride;
            }
        }
    }
    __syncthreads();
    store_rows(kept, p, group, share);
}

} // namespace gemv

#endif
