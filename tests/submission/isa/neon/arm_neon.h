/* The intrinsics that submission/cpu/kernels/kernels_neon.c uses, lane by lane as Arm's Neon Intrinsics
 * Reference defines them: with this folder in the way of the compiler's own header the file runs on any
 * processor. */
#ifndef ARM_NEON_WRITTEN_OUT_H
#define ARM_NEON_WRITTEN_OUT_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#define LANES(TYPE, NAME, COUNT)                                                                               \
    typedef struct {                                                                                           \
        TYPE lane[COUNT];                                                                                      \
    } NAME

LANES(uint8_t, uint8x8_t, 8);
LANES(uint8_t, uint8x16_t, 16);
LANES(int8_t, int8x8_t, 8);
LANES(int8_t, int8x16_t, 16);
LANES(int16_t, int16x8_t, 8);
LANES(int32_t, int32x2_t, 2);
LANES(int32_t, int32x4_t, 4);
LANES(float, float32x4_t, 4);

typedef struct {
    uint8x8_t val[2];
} uint8x8x2_t;

/* One lane after another; i is the lane. */
#define FUNCTION(TO, COUNT, NAME, PARAMETERS, LANE)                                                            \
    static inline TO NAME PARAMETERS {                                                                         \
        TO to;                                                                                                 \
        for (int i = 0; i < (COUNT); i++) {                                                                    \
            to.lane[i] = (LANE);                                                                               \
        }                                                                                                      \
        return to;                                                                                             \
    }

FUNCTION(uint8x8_t, 8, vld1_u8, (const uint8_t *at), at[i])
FUNCTION(uint8x16_t, 16, vld1q_u8, (const uint8_t *at), at[i])
FUNCTION(int8x16_t, 16, vld1q_s8, (const int8_t *at), at[i])
FUNCTION(float32x4_t, 4, vld1q_f32, (const float *at), at[i])
FUNCTION(uint8x8_t, 8, vdup_n_u8, (uint8_t value), value)
FUNCTION(int32x4_t, 4, vdupq_n_s32, (int32_t value), value)
FUNCTION(float32x4_t, 4, vdupq_n_f32, (float value), value)
FUNCTION(int32x2_t, 2, vdup_laneq_s32, (int32x4_t of, int from), of.lane[from])
FUNCTION(uint8x8_t, 8, vand_u8, (uint8x8_t a, uint8x8_t b), (uint8_t)(a.lane[i] & b.lane[i]))
FUNCTION(uint8x8_t, 8, vshr_n_u8, (uint8x8_t a, int by), (uint8_t)(a.lane[i] >> by))
FUNCTION(uint8x16_t, 16, vcombine_u8, (uint8x8_t low, uint8x8_t high), i < 8 ? low.lane[i] : high.lane[i - 8])
FUNCTION(uint8x16_t, 16, vqtbl1q_u8, (uint8x16_t table, uint8x16_t at),
         at.lane[i] < 16 ? table.lane[at.lane[i]] : 0)
FUNCTION(int8x8_t, 8, vget_low_s8, (int8x16_t of), of.lane[i])
FUNCTION(int8x8_t, 8, vget_high_s8, (int8x16_t of), of.lane[i + 8])
FUNCTION(int16x8_t, 8, vmull_s8, (int8x8_t a, int8x8_t b), (int16_t)(a.lane[i] * b.lane[i]))
FUNCTION(int16x8_t, 8, vmlal_s8, (int16x8_t sum, int8x8_t a, int8x8_t b),
         (int16_t)(sum.lane[i] + a.lane[i] * b.lane[i]))
FUNCTION(int32x4_t, 4, vpaddlq_s16, (int16x8_t of), of.lane[2 * i] + of.lane[2 * i + 1])
FUNCTION(int32x4_t, 4, vpaddq_s32, (int32x4_t a, int32x4_t b),
         i < 2 ? a.lane[2 * i] + a.lane[2 * i + 1] : b.lane[2 * i - 4] + b.lane[2 * i - 3])
FUNCTION(int32x4_t, 4, vaddq_s32, (int32x4_t a, int32x4_t b), a.lane[i] + b.lane[i])
FUNCTION(float32x4_t, 4, vaddq_f32, (float32x4_t a, float32x4_t b), a.lane[i] + b.lane[i])
FUNCTION(float32x4_t, 4, vmulq_n_f32, (float32x4_t a, float b), a.lane[i] * b)
FUNCTION(float32x4_t, 4, vcvtq_f32_s32, (int32x4_t a), (float)a.lane[i])
FUNCTION(float32x4_t, 4, vfmaq_f32, (float32x4_t sum, float32x4_t a, float32x4_t b),
         fmaf(a.lane[i], b.lane[i], sum.lane[i]))

static inline uint8x8x2_t vzip_u8(uint8x8_t a, uint8x8_t b) {
    uint8x8x2_t zipped;
    for (int i = 0; i < 16; i++) {
        zipped.val[i / 8].lane[i % 8] = i % 2 == 0 ? a.lane[i / 2] : b.lane[i / 2];
    }
    return zipped;
}

static inline void vst1q_u8(uint8_t *to, uint8x16_t of) {
    memcpy(to, of.lane, sizeof of.lane);
}

static inline void vst1q_f32(float *to, float32x4_t of) {
    memcpy(to, of.lane, sizeof of.lane);
}

/* The same bits as other lanes, the lowest byte first. */
#define REINTERPRET(TO, NAME, FROM)                                                                            \
    static inline TO NAME(FROM from) {                                                                         \
        TO to;                                                                                                 \
        memcpy(&to, &from, sizeof to);                                                                         \
        return to;                                                                                             \
    }

REINTERPRET(int8x8_t, vreinterpret_s8_s32, int32x2_t)
REINTERPRET(int32x4_t, vreinterpretq_s32_s8, int8x16_t)
REINTERPRET(int8x16_t, vreinterpretq_s8_u8, uint8x16_t)

#endif
