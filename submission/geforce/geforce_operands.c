#include "geforce_operands.h"

#include "geforce_config.h"

int32_t geforce_encode_fp4(const char *name, const struct problem *problem, const uint8_t *fp4, int64_t rows,
                           int box_rows, CUtensorMap *map) {
    struct tensor_3d tensor =
        gpu_fp4_tensor(problem, fp4, rows, STAGE_FP4_BYTES, box_rows, CU_TENSOR_MAP_SWIZZLE_64B);
    return gpu_encode(name, &tensor, map);
}
