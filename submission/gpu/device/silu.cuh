/* SiLU as a fraction, and two divisions with one reciprocal: special functions take most of an epilogue's time.
 */
#ifndef GPU_SILU_CUH
#define GPU_SILU_CUH

#include "../instructions/ptx.cuh"

#define LOG2_E 1.442695041f
/* The product of two such denominators does not overflow.  Gates below -43 have larger ones; their SiLU, at
 * most 1e-17, becomes zero, which changes an output by less than 1e-6 even with the largest up accumulator
 * there is (5e10, at K = 7168). */
#define MAX_DENOMINATOR 4.6e18f /* 2^62 */

/* silu(gate) = gate / (1 + exp(-gate)) = numerator / denominator, fp32.  A NaN stays one. */
static __device__ __forceinline__ void silu_fraction(float gate, float &numerator, float &denominator) {
    float exact = 1.0f + ex2_approx(-LOG2_E * gate);
    denominator = fminf(exact, MAX_DENOMINATOR);
    numerator = exact > MAX_DENOMINATOR ? 0.0f : gate;
}

/* quotient[i] = numerator[i] / denominator[i], with silu_fraction's denominators. */
static __device__ __forceinline__ void divide_two(const float (&numerator)[2], const float (&denominator)[2],
                                                  float *quotient) {
    float reciprocal = rcp_approx(denominator[0] * denominator[1]);
    quotient[0] = numerator[0] * (reciprocal * denominator[1]);
    quotient[1] = numerator[1] * (reciprocal * denominator[0]);
}

#endif
