/* The tensor maps of a problem's operands for the GeForce GEMMs: those of the dual GEMM, or of a group. */
#ifndef GEFORCE_OPERANDS_H
#define GEFORCE_OPERANDS_H

#include "../gpu/gpu_host.h"

/* The tensor map of `rows` rows of fp4, in boxes of a stage's K by box_rows. */
int32_t geforce_encode_fp4(const char *name, const struct problem *problem, const uint8_t *fp4, int64_t rows,
                           int box_rows, CUtensorMap *map);

#endif
