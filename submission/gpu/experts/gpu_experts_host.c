#include "gpu_experts_host.h"

#include "../gpu_backend.h"

int32_t gpu_check_experts(const char *backend, const char *tile, const struct experts *experts, int64_t tile_m,
                          int64_t tiles_n) {
    const struct problem *all = &experts->all;
    const struct limit limits[] = {
        {"rows", rows_of_experts(experts), MAX_DIMENSION},
        {"n", all->n, MAX_DIMENSION / 2},
        {"k", all->k, MAX_DIMENSION},
        {"the rows of b1 of all experts", all->l * experts->b_rows, INT32_MAX / 2},
    };
    RETURN_IF_FAILED(gpu_check_limits(backend, NULL, limits, sizeof limits / sizeof *limits));
    const struct limit tiles = {"the number of tiles", most_expert_tiles(experts, tile_m) * tiles_n,
                                INT32_MAX / 2};
    return gpu_check_limits(backend, tile, &tiles, 1);
}

struct extended_params gpu_experts_epilogue(const struct experts *experts) {
    struct extended_params params = extended_params_of(&experts->all);
    params.m = (int32_t)rows_of_experts(experts);
    params.sfc_layout = CUSTOM_KERNEL_SCALES_ROWS;
    return params;
}

const uint8_t *gpu_experts_second(const struct experts *experts) {
    const struct problem *all = &experts->all;
    const struct extension *extension = &experts->extension;
    return extension->plain             ? all->b1
           : extension->interleave != 0 ? all->b1 + extension->interleave * (b_row_elems(all) / 2)
                                        : all->b2;
}

struct tensor_3d gpu_experts_pieces(const struct experts *experts, const uint8_t *fp4, int box_k_bytes,
                                    int box_rows, CUtensorMapSwizzle swizzle) {
    const struct problem *all = &experts->all;
    const int64_t interleave = experts->extension.interleave;
    struct tensor_3d b = gpu_fp4_tensor(all, fp4, all->n, box_k_bytes, box_rows, swizzle);
    b.batch_rows = experts->b_rows;
    if (interleave != 0) {
        b.rows = interleave;
        b.batches = all->l * (all->n / interleave);
        b.batch_rows = 2 * interleave;
        b.box_rows = (uint32_t)interleave;
        b.box_batches = (uint32_t)(box_rows / interleave);
    }
    return b;
}
