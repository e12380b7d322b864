/* What the Blackwell GEMMs tell the device of a problem's operands: of the dual GEMM, or of a group. */
#ifndef BLACKWELL_OPERANDS_H
#define BLACKWELL_OPERANDS_H

#include "../gpu/gpu_host.h"

/* Scale tiles of one batch of a tensor of so many rows. */
int64_t blackwell_scale_tiles(const struct problem *problem, int64_t rows);

/* The bytes in scratch memory of the tensor's scale factors, permuted. */
int64_t blackwell_permuted_bytes(const struct problem *problem, int64_t rows);

/* The tensor map of fp4 in boxes of a stage's K by box_rows. */
int32_t blackwell_encode_fp4(const char *name, const struct problem *problem, const uint8_t *fp4, int64_t rows,
                             int box_rows, CUtensorMap *map);

/* The tensor map of blocked scale factors of so many rows, in boxes of a stage's. */
int32_t blackwell_encode_scales(const char *name, const struct problem *problem, const uint8_t *scales,
                                int64_t rows, CUtensorMap *map);

#endif
