/* The tensor maps of a problem's operands for the Blackwell GEMMs: those of the dual GEMM, or of a group. */
#ifndef BLACKWELL_OPERANDS_H
#define BLACKWELL_OPERANDS_H

#include "../gpu/gpu_host.h"

/* Scale tiles of one batch of a tensor with `rows` rows. */
int64_t blackwell_scale_tiles(const struct problem *problem, int64_t rows);

/* The tensor map of `rows` rows of fp4, in boxes of a stage's K by box_rows. */
int32_t blackwell_encode_fp4(const char *name, const struct problem *problem, const uint8_t *fp4, int64_t rows,
                             int box_rows, CUtensorMap *map);

/* The tensor map of the blocked scale factors of `rows` rows, in boxes of a stage's K by 128 rows. */
int32_t blackwell_encode_scales(const char *name, const struct problem *problem, const uint8_t *scales,
                                int64_t rows, CUtensorMap *map);

#endif
