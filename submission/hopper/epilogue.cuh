/* The epilogue: sums to fp16 outputs in global memory. */
#ifndef HOPPER_EPILOGUE_CUH
#define HOPPER_EPILOGUE_CUH

#include "expand.cuh"
#include "tile.cuh"

#define LOG2_E           1.442695041f
#define HALVES_OF_VECTOR 8

/* Of SiLU: products of two do not overflow.  Gates below -43 are beyond it; their SiLU, at most 1e-17, counts
 * as zero, which is less than 1e-6 off for the largest up sum there is (5e10, at K = 7168). */
#define LARGEST_DENOMINATOR 4.6e18f /* 2^62 */

/* fp32 silu(gate) * up of two outputs, [gate, gate, up, up], of sums that still carry 2^-14; as halves.  One
 * reciprocal serves both: special functions are what the epilogue takes longest for. */
static __device__ __forceinline__ uint32_t silu_times(const float *sum) {
    float gate[2], below[2], shown[2];
#pragma unroll
    for (int i = 0; i < 2; i++) {
        gate[i] = sum[i] * PRODUCT_CORRECTION;
        float denominator = 1.0f + ex2_approx(-LOG2_E * gate[i]);
        below[i] = fminf(denominator, LARGEST_DENOMINATOR);
        shown[i] = (denominator > LARGEST_DENOMINATOR ? 0.0f : gate[i]) * (sum[2 + i] * PRODUCT_CORRECTION);
    }
    float reciprocal = rcp_approx(below[0] * below[1]);
    return cvt_rn_f16x2_f32(shown[0] * (reciprocal * below[1]), shown[1] * (reciprocal * below[0]));
}

/* Of sums over a part of K: sends those of the other CTA's tokens to it, adds what it has for ours.  Behind it
 * sums[][0 .. output_sums - 1] are those of this CTA's tokens. */
template <class T>
static __device__ __forceinline__ void exchange(float (&sums)[T::slabs][T::sums], const struct shared_map &shared,
                                                const struct place &place, int32_t stages_k) {
    int rank = place.rank;
    int32_t other_share = share_of<T>(stages_k, rank ^ 1);
    uint32_t mine = shared.base + (threadIdx.x - WARPGROUP_THREADS) * 16,
             theirs = mapa_shared_cluster(mine, rank ^ 1);
    struct mbarrier their_received = {mapa_shared_cluster(shared.received<T>().address, rank ^ 1)};
    barrier_cluster_wait_acquire(); /* the stages we write to are free */
#pragma unroll
    for (int slab = 0; slab < T::slabs; slab++) {
#pragma unroll
        for (int i = 0; i < T::output_sums; i++) {
            float low = sums[slab][i], high = sums[slab][T::output_sums + i];
            sums[slab][i] = rank == 0 ? low : high;
            sums[slab][T::output_sums + i] = rank == 0 ? high : low;
        }
#pragma unroll
        for (int i = 0; i < T::output_sums; i += 4) {
            st_async_v4(theirs + T::exchange_at(other_share, (slab * T::output_sums + i) / 4),
                        &sums[slab][T::output_sums + i], their_received);
        }
    }
    wait(shared.received<T>(), 0);
#pragma unroll
    for (int slab = 0; slab < T::slabs; slab++) {
#pragma unroll
        for (int i = 0; i < T::output_sums; i += 4) {
            uint4 other = ld_shared_v4(mine + T::exchange_at(place.stages, (slab * T::output_sums + i) / 4));
            sums[slab][i] += __uint_as_float(other.x);
            sums[slab][i + 1] += __uint_as_float(other.y);
            sums[slab][i + 2] += __uint_as_float(other.z);
            sums[slab][i + 3] += __uint_as_float(other.w);
        }
    }
}

/* Sums -> fp16 outputs in shared memory, [token][feature], over the stages nobody uses any more. */
template <class T>
static __device__ __forceinline__ void stage_output(float (&sums)[T::slabs][T::sums], uint32_t output,
                                                    int warpgroup) {
    int warp = threadIdx.x / WARP_THREADS % 4, lane = threadIdx.x % WARP_THREADS;
#pragma unroll
    for (int slab = 0; slab < T::slabs; slab++) {
        int feature = (warpgroup * T::slabs + slab) * SLAB_FEATURES + warp * 8;
#pragma unroll
        for (int token = 0; token < T::output_tokens; token += 32) {
            uint32_t halves[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                halves[i] = silu_times(&sums[slab][(token / 8 + i) * 4]);
            }
            stmatrix_x4_trans(output + (token + lane) * T::output_pitch + feature * 2, halves);
        }
    }
}

/* Shared memory -> C, by all consumers; 16 bytes at a time where rows of C allow it. */
template <class T>
static __device__ __forceinline__ void store_output(const unsigned char *output, const struct place &place,
                                                    const struct dual_gemm_params &p) {
    int32_t first_token = place.token + place.rank * T::output_tokens;
    constexpr int vectors = T::features / HALVES_OF_VECTOR, threads = T::consumers;
    int thread = threadIdx.x - WARPGROUP_THREADS;
    for (int i = thread; i < T::output_tokens * vectors; i += threads) {
        int token = i / vectors, feature = i % vectors * HALVES_OF_VECTOR;
        if (first_token + token >= p.m || place.feature + feature >= p.n) {
            continue;
        }
        const unsigned char *from = output + token * T::output_pitch + feature * 2;
        int64_t row = (int64_t)place.batch * p.m + first_token + token;
        uint16_t *to = p.c + row * p.n + place.feature + feature;
        if (p.n % HALVES_OF_VECTOR == 0) {
            *(uint4 *)to = *(const uint4 *)from;
        } else {
            for (int half = 0; half < HALVES_OF_VECTOR && place.feature + feature + half < p.n; half++) {
                to[half] = ((const uint16_t *)from)[half];
            }
        }
    }
}

#endif
