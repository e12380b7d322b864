/* Approximate functions: the two sides agree within the bounds that PTX documents, not to the bit. */
#include "features.cuh"

#define APPROXIMATED 2048
#define THREADS      128

/* The instruction `text` of magnitudes 2^-8 to 2^8, of one sign. */
#define APPROXIMATE(name, text)                                                                                \
    static __global__ void name##_kernel(struct buffers b, uint32_t sign) {                                    \
        for (uint32_t i = threadIdx.x; i < APPROXIMATED; i += THREADS) {                                       \
            float x = __uint_as_float(sign | ((119 + i % 16) << 23) | b.in[i] >> 9), d;                        \
            asm volatile(text : "=f"(d) : "f"(x));                                                             \
            b.out[i] = __float_as_uint(x);                                                                     \
            b.out[APPROXIMATED + i] = __float_as_uint(d);                                                      \
        }                                                                                                      \
    }

#define APPROXIMATE_FEATURES(X)                                                                                \
    X(ex2, "ex2.approx.ftz.f32 %0, %1;", true)                                                                 \
    X(rcp, "rcp.approx.ftz.f32 %0, %1;", true)                                                                 \
    X(rsqrt, "rsqrt.approx.ftz.f32 %0, %1;", false)                                                            \
    X(sqrt, "sqrt.approx.ftz.f32 %0, %1;", false)                                                              \
    X(lg2, "lg2.approx.ftz.f32 %0, %1;", false)                                                                \
    X(tanh, "tanh.approx.f32 %0, %1;", true)                                                                   \
    X(sin, "sin.approx.f32 %0, %1;", true)                                                                     \
    X(cos, "cos.approx.f32 %0, %1;", true)

#define DEFINE_APPROXIMATE(name, text, negative) APPROXIMATE(name, text)
APPROXIMATE_FEATURES(DEFINE_APPROXIMATE)

void approximations(void) {
#define RUN_APPROXIMATE(name, text, negative)                                                                  \
    feature("approximate." #name ".positive", name##_kernel, 1, THREADS, 1, 0u);                               \
    if (negative) {                                                                                            \
        feature("approximate." #name ".negative", name##_kernel, 1, THREADS, 1, 0x80000000u);                  \
    }
    APPROXIMATE_FEATURES(RUN_APPROXIMATE)
}
