#include "hopper_operands.h"

#include <stdbool.h>

struct dequantize_params hopper_dequantize_params(const struct problem *problem, int64_t stages_k,
                                                  uint8_t *a_fp16) {
    bool blocked = problem->scale_layout == CUSTOM_KERNEL_SCALES_BLOCKED;
    int64_t groups = problem->k / NVFP4_GROUP_ELEMS;
    return (struct dequantize_params){
        .a = problem->a,
        .sfa = problem->sfa,
        .a_fp16 = (uint16_t *)(void *)a_fp16,
        .fp4_row_bytes = problem->k / 2,
        .scale_batch_bytes = scale_batch_bytes(problem->scale_layout, problem->m, groups),
        .scale_tile_step = SCALE_TILE_ROWS * groups,
        .scale_quarter_step = blocked ? SCALE_WORD_BYTES : (uint32_t)(SCALE_ENTRIES * groups),
        .scale_row_step = blocked ? SCALE_ENTRY_BYTES : (uint32_t)groups,
        .scale_chunk_step = STAGE_SCALE_TILES * (blocked ? SCALE_TILE_BYTES : SCALE_TILE_GROUPS),
        .scale_half_step = blocked ? SCALE_TILE_BYTES : SCALE_TILE_GROUPS,
        .row_units = (uint32_t)(stages_k * DEQUANTIZE_UNITS),
        .full_chunks = (uint32_t)(problem->k / STAGE_K),
    };
}

int32_t hopper_encode_a(const char *name, const struct problem *problem, int64_t stages_k,
                        const uint8_t *a_fp16, uint32_t box_rows, CUtensorMap *map) {
    struct tensor_3d a = {
        .address = a_fp16,
        .type = CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        .row_elems = stages_k * STAGE_K,
        .rows = problem->m,
        .batches = problem->l,
        .element_bytes = sizeof(uint16_t),
        .box_elems = A_BOX_K,
        .box_rows = box_rows,
        .swizzle = CU_TENSOR_MAP_SWIZZLE_128B,
    };
    return gpu_encode(name, &a, map);
}

int32_t hopper_encode_b(const char *name, const struct problem *problem, const uint8_t *fp4, int box_rows,
                        CUtensorMap *map) {
    struct tensor_3d b =
        gpu_fp4_tensor(problem, fp4, problem->n, STAGE_FP4_BYTES, box_rows, CU_TENSOR_MAP_SWIZZLE_NONE);
    return gpu_encode(name, &b, map);
}
