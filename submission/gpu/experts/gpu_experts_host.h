/* Host code that the products of experts share. */
#ifndef GPU_EXPERTS_HOST_H
#define GPU_EXPERTS_HOST_H

#include "../gpu_extended.h"
#include "../gpu_host.h"
#include "gpu_experts.h"

/* Variable of the environment: the name of the tile to use. */
#define EXPERTS_CONFIG_VARIABLE "NVFP4_EXPERTS_CONFIG"

/* Refuses what 32-bit coordinates do not reach; tiles of at least tile_m rows, tiles_n along an expert's
 * columns, in a tile that is named `tile`. */
int32_t gpu_check_experts(const char *backend, const char *tile, const struct experts *experts, int64_t tile_m,
                          int64_t tiles_n);

/* The epilogue's parameters; scales are arrays, [expert]. */
struct extended_params gpu_experts_epilogue(const struct experts *experts);

/* The second operand: up's tensor, up's first row in a tensor with both, or the same as the first one. */
const uint8_t *gpu_experts_second(const struct experts *experts);

/* One operand's rows of all experts, in boxes of box_rows rows of an expert, or of as many pieces as make that
 * number of interleaved rows.  A batch is an expert or a piece. */
struct tensor_3d gpu_experts_pieces(const struct experts *experts, const uint8_t *fp4, int box_k_bytes,
                                    int box_rows, CUtensorMapSwizzle swizzle);

#endif
