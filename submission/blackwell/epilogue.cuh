/* The epilogue warps: sums in tensor memory to fp16 outputs in global memory. */
#ifndef BLACKWELL_EPILOGUE_CUH
#define BLACKWELL_EPILOGUE_CUH

#include "tile.cuh"

#define LOG2_E           1.442695041f
#define LOAD_COLUMNS     32 /* of sums at once */
#define HALVES_OF_VECTOR 8

/* Of SiLU: products of two do not overflow.  Gates below -43 are beyond it; their SiLU, at most 1e-17, counts
 * as zero, which is less than 1e-6 off for the largest up sum there is (5e10, at K = 7168). */
#define LARGEST_DENOMINATOR 4.6e18f /* 2^62 */

/* Two gates to their SiLU.  One reciprocal serves both: special functions are what this takes longest for. */
static __device__ __forceinline__ void silu(float *gate) {
    float below[2], shown[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        float denominator = 1.0f + ex2_approx(-LOG2_E * gate[i]);
        below[i] = fminf(denominator, LARGEST_DENOMINATOR);
        shown[i] = denominator > LARGEST_DENOMINATOR ? 0.0f : gate[i]; /* a NaN stays one */
    }
    float reciprocal = rcp_approx(below[0] * below[1]);
    gate[0] = shown[0] * (reciprocal * below[1]);
    gate[1] = shown[1] * (reciprocal * below[0]);
}

template <int columns>
static __device__ __forceinline__ void load_sums(float (&sums)[columns], struct tensor_address from) {
    if constexpr (columns == LOAD_COLUMNS) {
        tcgen05_ld_32x32b_x32(sums, from);
    } else {
        tcgen05_ld_32x32b_x16(sums, from);
    }
    tcgen05_wait_ld();
#pragma unroll
    for (int i = 0; i < columns; i++) {
        keep_after_wait(sums[i]);
    }
}

/* Eight outputs of a row; `left` of them and those after them exist.  16 bytes at once where rows allow it. */
static __device__ __forceinline__ void store_vector(uint16_t *to, const uint32_t *halves, int32_t left,
                                                    bool whole) {
    if (left <= 0) {
        return;
    }
    if (whole) {
        *(uint4 *)to = make_uint4(halves[0], halves[1], halves[2], halves[3]);
        return;
    }
#pragma unroll
    for (int i = 0; i < HALVES_OF_VECTOR; i++) {
        if (i < left) {
            to[i] = (uint16_t)(halves[i / 2] >> i % 2 * 16);
        }
    }
}

/* A lane's row: where its outputs go, how many of the tile's features exist, its columns of sums. */
struct row {
    uint16_t *to;
    int32_t left;
    bool whole; /* vectors of outputs are aligned */
    struct tensor_address sums;
};

static __device__ __forceinline__ struct row find_row(struct tensor_address sums, const struct place &place,
                                                      const struct dual_gemm_params &p) {
    uint32_t quarter = threadIdx.x / WARP_THREADS % EPILOGUE_WARPS, lane = threadIdx.x % WARP_THREADS;
    int32_t token = place.token + (int32_t)(quarter * WARP_THREADS + lane);
    return {p.c + ((int64_t)place.batch * p.m + token) * p.n + place.feature,
            token < p.m ? p.n - place.feature : 0,
            p.n % HALVES_OF_VECTOR == 0,
            {sums.value + (quarter * WARP_THREADS << 16)}};
}

template <int columns> static __device__ __forceinline__ void silu_of(float (&gate)[columns]) {
#pragma unroll
    for (int i = 0; i < columns; i += 2) {
        silu(&gate[i]);
    }
}

/* Outputs of the columns from `column` on: SiLU of the gates times the up sums. */
template <int columns>
static __device__ __forceinline__ void
store_products(const struct row &row, int column, const float (&gate)[columns], const float (&up)[columns]) {
    uint32_t halves[columns / 2];
#pragma unroll
    for (int i = 0; i < columns; i += 2) {
        halves[i / 2] = cvt_rn_f16x2_f32(gate[i] * up[i], gate[i + 1] * up[i + 1]);
    }
#pragma unroll
    for (int i = 0; i < columns; i += HALVES_OF_VECTOR) {
        store_vector(row.to + column + i, &halves[i / 2], row.left - column - i, row.whole);
    }
}

/* Epilogue warp: a lane is a token.  Waits for gate_full and takes the SiLU of the gates into registers, which
 * overlaps the end of the second product; waits for up_full, multiplies, rounds, stores. */
template <class T>
static __device__ __forceinline__ void finish(const struct shared_map &shared, const struct row &row) {
    float gate[T::features / LOAD_COLUMNS][LOAD_COLUMNS];
    wait(shared.gate_full<T>(), 0);
    tcgen05_fence_after_thread_sync();
#pragma unroll
    for (int i = 0; i < T::features / LOAD_COLUMNS; i++) {
        load_sums(gate[i], tensor_column(row.sums, i * LOAD_COLUMNS));
        silu_of(gate[i]);
    }
    wait(shared.up_full<T>(), 0);
    tcgen05_fence_after_thread_sync();
#pragma unroll
    for (int i = 0; i < T::features / LOAD_COLUMNS; i++) {
        float up[LOAD_COLUMNS];
        load_sums(up, tensor_column(row.sums, T::up_at + i * LOAD_COLUMNS));
        store_products(row, i * LOAD_COLUMNS, gate[i], up);
    }
}

#endif
