/* Vector types in GCC's extensions: as many 32-bit lanes as a register of the file's instruction set has, and
 * pairs of registers for 64-bit lanes. Only static functions use these types, so no calling convention depends
 * on them. */
#ifndef TENSOR_MMA_VECTOR_H
#define TENSOR_MMA_VECTOR_H

#include <stdint.h>
#include <string.h>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#if defined(__AVX512VNNI__)
enum { LANES = 16 };
#define FIRST_HALF  0, 1, 2, 3, 4, 5, 6, 7
#define SECOND_HALF 8, 9, 10, 11, 12, 13, 14, 15
#elif defined(__AVX2__)
enum { LANES = 8 };
#define FIRST_HALF  0, 1, 2, 3
#define SECOND_HALF 4, 5, 6, 7
#else
enum { LANES = 4 };
#define FIRST_HALF  0, 1
#define SECOND_HALF 2, 3
#endif
enum { HALF = LANES / 2 };

typedef int16_t i16v __attribute__((vector_size(2 * LANES)));
typedef int32_t i32v __attribute__((vector_size(4 * LANES)));
typedef float f32v __attribute__((vector_size(4 * LANES)));
/* Half the lanes. */
typedef int32_t i32h __attribute__((vector_size(4 * HALF)));
typedef float f32h __attribute__((vector_size(4 * HALF)));
typedef int64_t i64h __attribute__((vector_size(8 * HALF)));
typedef uint64_t u64h __attribute__((vector_size(8 * HALF))); /* its shifts need no sign, which AVX2 lacks */
typedef double f64h __attribute__((vector_size(8 * HALF)));

#define LOAD(type, from)                                                                                       \
    __extension__({                                                                                            \
        type loaded_;                                                                                          \
        memcpy(&loaded_, (from), sizeof loaded_);                                                              \
        loaded_;                                                                                               \
    })
#define STORE(to, value)                                                                                       \
    do {                                                                                                       \
        __typeof__(value) stored_ = (value);                                                                   \
        memcpy((to), &stored_, sizeof stored_);                                                                \
    } while (0)
#define HALF_OF(x, h)                                                                                          \
    ((h) ? __builtin_shufflevector((x), (x), SECOND_HALF) : __builtin_shufflevector((x), (x), FIRST_HALF))

/* GCC does not turn vector comparisons into maximum instructions by itself. */
#if defined(__AVX512VNNI__)
static inline i16v max_i16(i16v x, i16v y) {
    return (i16v)_mm256_max_epi16((__m256i)x, (__m256i)y);
}
static inline i32v max_i32(i32v x, i32v y) {
    return (i32v)_mm512_max_epi32((__m512i)x, (__m512i)y);
}
static inline i32v min_i32(i32v x, i32v y) {
    return (i32v)_mm512_min_epi32((__m512i)x, (__m512i)y);
}
#elif defined(__AVX2__)
static inline i16v max_i16(i16v x, i16v y) {
    return (i16v)_mm_max_epi16((__m128i)x, (__m128i)y);
}
static inline i32v max_i32(i32v x, i32v y) {
    return (i32v)_mm256_max_epi32((__m256i)x, (__m256i)y);
}
static inline i32v min_i32(i32v x, i32v y) {
    return (i32v)_mm256_min_epi32((__m256i)x, (__m256i)y);
}
#else
static inline i16v max_i16(i16v x, i16v y) {
    i16v greater = x > y;
    return (x & greater) | (y & ~greater);
}
static inline i32v max_i32(i32v x, i32v y) {
    i32v greater = x > y;
    return (x & greater) | (y & ~greater);
}
static inline i32v min_i32(i32v x, i32v y) {
    i32v less = x < y;
    return (x & less) | (y & ~less);
}
#endif
/* GCC splits conversions of half-register vectors into quarters, so use the instructions directly. */
#if defined(__AVX512VNNI__)
static inline f64h f64_of_i32(i32h x) {
    return (f64h)_mm512_cvtepi32_pd((__m256i)x);
}
static inline i64h i64_of_i32(i32h x) {
    return (i64h)_mm512_cvtepi32_epi64((__m256i)x);
}
static inline f32h f32_of_f64(f64h x) {
    return (f32h)_mm512_cvtpd_ps((__m512d)x);
}
static inline f64h f64_of_i64(i64h x) {
    return (f64h)_mm512_cvtepi64_pd((__m512i)x);
}
#else
static inline f64h f64_of_i32(i32h x) {
    return __builtin_convertvector(x, f64h);
}
static inline i64h i64_of_i32(i32h x) {
    return __builtin_convertvector(x, i64h);
}
static inline f32h f32_of_f64(f64h x) {
    return __builtin_convertvector(x, f32h);
}
/* Below 2^51: a sum with 1.5 * 2^52 has the integer in its low bits. */
static inline f64h f64_of_i64(i64h x) {
    const int64_t bits = 0x4338ll << 48;
    return (f64h)(x + bits) - 0x1.8p52;
}
#endif
/* 2^exponent for exponents of normal doubles. */
static inline f64h power_of_two(i64h exponent) {
    i64h bits = (exponent + 1023) << 52;
    return (f64h)bits;
}
static inline int any_i64(i64h mask) {
#if defined(__AVX512VNNI__)
    return _mm512_test_epi64_mask((__m512i)mask, (__m512i)mask) != 0;
#elif defined(__AVX2__)
    return !_mm256_testz_si256((__m256i)mask, (__m256i)mask);
#else
    int64_t any = 0;
    for (int i = 0; i < HALF; i++) {
        any |= mask[i];
    }
    return any != 0;
#endif
}
static inline int any_i32(i32v mask) {
    return any_i64((i64h)mask);
}

#endif
