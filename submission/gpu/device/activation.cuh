/* The activations of custom_kernel.h on a GPU: the only place that knows their functions. */
#ifndef GPU_ACTIVATION_CUH
#define GPU_ACTIVATION_CUH

#include "../../core/backend.h"
#include "silu.cuh"

/* Most of x^2 below: an infinite one would make a NaN with a cubic of 0. */
#define MAX_SQUARE 0x1p100f

/* The activation of x; NaN stays NaN.  Without branches, so that a loop's exponentials overlap. */
static __device__ __forceinline__ float activated(const struct activation &a, float x) {
    const float slope = __fmaf_rn(a.cubic, fminf(__fmul_rn(x, x), MAX_SQUARE), a.alpha);
    const float sigmoid = rcp_approx(1.0f + ex2_approx(-LOG2_E * (slope * x)));
    const float positive = max_nan_f32(x, 0.0f);
    return a.function == CUSTOM_KERNEL_ACTIVATION_RELU2 ? __fmul_rn(positive, positive) : x * sigmoid;
}

/* True if activated(a, x) is x * sigmoid(alpha * x), as nearly always. */
static __device__ __forceinline__ bool is_silu(const struct activation &a) {
    return a.cubic == 0.0f && a.function != CUSTOM_KERNEL_ACTIVATION_RELU2;
}

/* c of gate and up.  silu: is_silu(a), whose fewer operations give the same bits. */
template <bool silu = false>
static __device__ __forceinline__ float activate_gated(const struct activation &a, float gate, float up) {
    gate = min_nan_f32(gate, a.limit);
    up = max_nan_f32(min_nan_f32(up, a.limit), -a.limit);
    const float of_gate =
        silu ? gate * rcp_approx(1.0f + ex2_approx(-LOG2_E * (a.alpha * gate))) : activated(a, gate);
    return of_gate * __fadd_rn(up, a.beta);
}

/* c of a plain product's numbers.  A branch for all: most plain products have no activation. */
template <int count>
static __device__ __forceinline__ void activate_plain(const struct activation &a, float (&values)[count]) {
    if (a.function != CUSTOM_KERNEL_ACTIVATION_DEFAULT) {
#pragma unroll
        for (int i = 0; i < count; i++) {
            values[i] = activated(a, values[i]);
        }
    }
}

#endif
