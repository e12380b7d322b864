/* The tensor maps and parameters of a problem's operands for the wgmma GEMMs: those of the dual GEMM, or of a
 * group. */
#ifndef HOPPER_OPERANDS_H
#define HOPPER_OPERANDS_H

#include "../gpu/gpu_host.h"
#include "hopper_kernels.h"

/* Parameters of the dequantization of A to `a_fp16`, [batch][m][stages_k * STAGE_K]. */
struct dequantize_params hopper_dequantize_params(const struct problem *problem, int64_t stages_k,
                                                  uint8_t *a_fp16);

/* A thread for each unit of a row, at most as many as a CTA may have. */
static inline int64_t hopper_dequantize_threads(int64_t row_units) {
    return row_units < DEQUANTIZE_MAX_THREADS ? row_units : DEQUANTIZE_MAX_THREADS;
}

/* The tensor map of A in fp16, in boxes of a stage's half K by box_rows. */
int32_t hopper_encode_a(const char *name, const struct problem *problem, int64_t stages_k,
                        const uint8_t *a_fp16, uint32_t box_rows, CUtensorMap *map);

/* The tensor map of B1 or B2 in fp4, in boxes of a stage's K by box_rows. */
int32_t hopper_encode_b(const char *name, const struct problem *problem, const uint8_t *fp4, int box_rows,
                        CUtensorMap *map);

#endif
