#include "geforce_operands.h"

#include "geforce_config.h"

int64_t geforce_permuted_bytes(const struct problem *problem, int64_t rows) {
    int64_t groups = problem->k / NVFP4_GROUP_ELEMS;
    return round_up(problem->l * scale_batch_bytes(CUSTOM_KERNEL_SCALES_BLOCKED, rows, groups),
                    SCRATCH_ALIGNMENT);
}

int32_t geforce_encode_fp4(const char *name, const struct problem *problem, const uint8_t *fp4, int64_t rows,
                           int box_rows, CUtensorMap *map) {
    struct tensor_3d tensor =
        gpu_fp4_tensor(problem, fp4, rows, STAGE_FP4_BYTES, box_rows, CU_TENSOR_MAP_SWIZZLE_64B);
    return gpu_encode(name, &tensor, map);
}
