#include "operands.h"

#include "config.h"

int64_t blackwell_scale_tiles(const struct problem *problem, int64_t rows) {
    return scale_tile_rows(rows) * (problem->k / SCALE_TILE_K);
}

int64_t blackwell_permuted_bytes(const struct problem *problem, int64_t rows) {
    return round_up(problem->l * blackwell_scale_tiles(problem, rows) * SCALE_TILE_BYTES, SCRATCH_ALIGNMENT);
}

int32_t blackwell_encode_fp4(const char *name, const struct problem *problem, const uint8_t *fp4, int64_t rows,
                             int box_rows, CUtensorMap *map) {
    struct tensor_3d tensor =
        gpu_fp4_tensor(problem, fp4, rows, STAGE_FP4_BYTES, box_rows, CU_TENSOR_MAP_SWIZZLE_128B);
    return gpu_encode(name, &tensor, map);
}

int32_t blackwell_encode_scales(const char *name, const struct problem *problem, const uint8_t *scales,
                                int64_t rows, CUtensorMap *map) {
    struct tensor_3d tensor = {
        .address = scales,
        .type = CU_TENSOR_MAP_DATA_TYPE_UINT64,
        .row_elems = problem->k / SCALE_TILE_K * (SCALE_TILE_BYTES / SCALE_ELEM_BYTES),
        .rows = scale_tile_rows(rows),
        .batches = problem->l,
        .element_bytes = SCALE_ELEM_BYTES,
        .box_elems = STAGE_SCALE_BYTES / SCALE_ELEM_BYTES,
        .box_rows = 1,
        .swizzle = CU_TENSOR_MAP_SWIZZLE_NONE,
    };
    return gpu_encode(name, &tensor, map);
}
