/* The epilogue warps: sums in tensor memory to fp16 outputs in global memory. */
#ifndef BLACKWELL_EPILOGUE_CUH
#define BLACKWELL_EPILOGUE_CUH

#include "tile.cuh"

#define LOG2_E           1.442695041f
#define LOAD_COLUMNS     32
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

static __device__ __forceinline__ void load_sums(float (&sums)[LOAD_COLUMNS], struct tensor_address from) {
    tcgen05_ld_32x32b_x32(sums, from);
    tcgen05_wait_ld();
#pragma unroll
    for (int i = 0; i < LOAD_COLUMNS; i++) {
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

/* Epilogue warp: a lane is a token.  Waits for gate_full and takes the SiLU of the gates into registers, which
 * overlaps the end of the second product; waits for up_full, multiplies, rounds, stores. */
template <class T>
static __device__ __forceinline__ void finish(const struct shared_map &shared, struct tensor_address sums,
                                              const struct place &place, const struct dual_gemm_params &p) {
    int quarter = threadIdx.x / WARP_THREADS % EPILOGUE_WARPS, lane = threadIdx.x % WARP_THREADS;
    struct tensor_address rows = {sums.value + ((uint32_t)(quarter * WARP_THREADS) << 16)};
    float gate[T::features / LOAD_COLUMNS][LOAD_COLUMNS];
    wait(shared.gate_full<T>(), 0);
    tcgen05_fence_after_thread_sync();
#pragma unroll
    for (int i = 0; i < T::features / LOAD_COLUMNS; i++) {
        load_sums(gate[i], tensor_column(rows, i * LOAD_COLUMNS));
#pragma unroll
        for (int j = 0; j < LOAD_COLUMNS; j += 2) {
            silu(&gate[i][j]);
        }
    }
    int32_t token = place.token + quarter * WARP_THREADS + lane;
    uint16_t *row = p.c + ((int64_t)place.batch * p.m + token) * p.n + place.feature;
    int32_t left = token < p.m ? p.n - place.feature : 0;
    bool whole = p.n % HALVES_OF_VECTOR == 0;
    wait(shared.up_full<T>(), 0);
    tcgen05_fence_after_thread_sync();
#pragma unroll
    for (int i = 0; i < T::features / LOAD_COLUMNS; i++) {
        float up[LOAD_COLUMNS];
        load_sums(up, tensor_column(rows, T::up_at + i * LOAD_COLUMNS));
        uint32_t halves[LOAD_COLUMNS / 2];
#pragma unroll
        for (int j = 0; j < LOAD_COLUMNS; j += 2) {
            halves[j / 2] = cvt_rn_f16x2_f32(gate[i][j] * up[j], gate[i][j + 1] * up[j + 1]);
        }
#pragma unroll
        for (int j = 0; j < LOAD_COLUMNS; j += HALVES_OF_VECTOR) {
            int32_t column = i * LOAD_COLUMNS + j;
            store_vector(row + column, &halves[j / 2], left - column, whole);
        }
    }
    tcgen05_fence_before_thread_sync();
}

#endif
