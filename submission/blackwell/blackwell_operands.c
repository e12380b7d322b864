#include "blackwell_operands.h"

#include "blackwell_config.h"

enum {
    SCALE_ELEM_BYTES = 2,                                  /* an element of the scale tiles' maps */
    SCALE_BOX_ELEMS = SCALE_TILE_BYTES / SCALE_ELEM_BYTES, /* HW: a box has at most 256 elements a dimension */
};

int64_t blackwell_scale_tiles(const struct problem *problem, int64_t rows) {
    return scale_tile_rows(rows) * (problem->k / SCALE_TILE_K);
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
        .type = CU_TENSOR_MAP_DATA_TYPE_UINT16,
        .row_elems = SCALE_BOX_ELEMS,
        .rows = blackwell_scale_tiles(problem, rows),
        .batches = problem->l,
        .element_bytes = SCALE_ELEM_BYTES,
        .box_elems = SCALE_BOX_ELEMS,
        .box_rows = STAGE_STEPS,
        .swizzle = CU_TENSOR_MAP_SWIZZLE_NONE,
    };
    return gpu_encode(name, &tensor, map);
}
