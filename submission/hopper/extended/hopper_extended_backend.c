/* The host side of the extended GEMM (hopper_plan.h).  Calls with few rows of A go to
 * hopper_extended_narrow_backend.c. */
#include "../../gpu/gpu_scales.h"
#include "../hopper_plan.h"
#include "../hopper_run.h"
#include "../narrow/hopper_narrow_backend.h"
#include "hopper_extended_kernels.h"
#include "hopper_extended_narrow_backend.h"

static const void *find_kernel(int tile, int a_type) {
    return hopper_configs[tile].sharing == EQUAL_SHARES ? hopper_extended_shares_kernel(tile, a_type)
                                                        : hopper_extended_gemm_kernel(tile, a_type);
}

/* True if a tile has a kernel for A's type, and holds whole pieces of interleaved rows; or, for a plain
 * product, if the scale factors of its two halves are the same distance apart for all rows. */
static bool suits(int tile, const struct extension *extension) {
    const int tile_n = hopper_tile_n(&hopper_configs[tile]);
    if (find_kernel(tile, extension->a_type) == NULL) {
        return false;
    }
    if (extension->plain) {
        return tile_n % SCALE_TILE_ROWS == 0 || SCALE_TILE_ROWS % tile_n == 0;
    }
    return extension->interleave == 0 || tile_n % extension->interleave == 0;
}

static const void *kernel_of(int tile, const struct problem *problem, bool persistent) {
    return persistent == (hopper_configs[tile].sharing == TILE_AFTER_TILE)
               ? find_kernel(tile, problem->extension->a_type)
               : NULL;
}

/* Dequantizes A, or puts an A of 16 bits in the order of K that B's dequantization makes; and permutes B's
 * scale factors if needed. */
static int32_t launch_before(const struct hopper_plan *plan) {
    const struct problem *problem = plan->problem;
    if (problem->extension->a_type == CUSTOM_KERNEL_A_NVFP4) {
        return hopper_dequantize_before(plan);
    }
    struct dequantize_params params = hopper_dequantize_params(problem, plan->stages_k, plan->a);
    struct launch launch = {
        .kernel = hopper_arrange_kernel(),
        .grid = {problem->m, ceil_div(params.row_units, ARRANGE_THREADS), 1},
        .threads = ARRANGE_THREADS,
        .cluster = 1,
        .pdl_variable = HOPPER_PDL_VARIABLE,
    };
    uint32_t *words = plan->counters;
    uint32_t count = (uint32_t)plan->words;
    void *arguments[] = {&params, &words, &count};
    RETURN_IF_FAILED(gpu_launch(problem, &launch, arguments));
    return plan->permute_scales ? gpu_launch_permute_scales(problem, hopper_permute_scales_kernel(),
                                                            hopper_permuted_scales(plan), HOPPER_PDL_VARIABLE)
                                : CUSTOM_KERNEL_OK;
}

/* The parameters of a kernel with one tile a CTA come first. */
static int32_t launch_gemm(const struct problem *problem, struct hopper_gemm *gemm) {
    struct hopper_extended_persistent_params params = {
        .extended = {.gemm = gemm->params.gemm,
                     .epilogue = extended_params_of(problem),
                     .interleave = problem->extension->interleave,
                     .correction = hopper_correction(problem->extension->a_type)},
        .schedule = gemm->params,
    };
    struct hopper_extended_shares_params with_shares = {params.extended, gemm->shares};
    void *arguments[] = {&gemm->a, &gemm->b1, &gemm->b2,
                         gemm->shares.sums == NULL ? (void *)&params : &with_shares};
    return gpu_launch(problem, &gemm->launch, arguments);
}

static const struct hopper_gemm_kind extended_kind = {suits, kernel_of, launch_before, launch_gemm,
                                                      hopper_run_extended_narrow};

int32_t hopper_run_extended(const struct problem *problem) {
    return hopper_run_gemm(problem, &extended_kind);
}

int64_t hopper_plain_product_ps(const struct problem *group, int sms) {
    const struct extension extension = {.plain = true};
    struct problem problem = *group;
    problem.extension = &extension;
    struct hopper_choice choice;
    if (hopper_choose_tiles(&problem, &extended_kind, sms, &choice) != CUSTOM_KERNEL_OK) {
        return -1; /* the extended GEMM refuses the tile that the environment names */
    }
    const int64_t m = group->m, n = hopper_columns(&problem), k = group->k;
    if (choice.tile >= HOPPER_TILES) {
        const struct hopper_narrow_room room = hopper_narrow_find_room(group->device, sms);
        return hopper_narrow_call_ps(choice.tile - HOPPER_TILES, false, m, n, k, 1, &room);
    }
    const int64_t first_ps =
        hopper_tile_cost_ps(&hopper_configs[choice.tile], m, choice.first_columns, k, 1, sms);
    const int64_t rest = n - choice.first_columns;
    return rest == 0 ? first_ps
                     : first_ps + hopper_costs.rest_ps - hopper_costs.call_ps +
                           hopper_tile_cost_ps(&hopper_configs[choice.rest_tile], m, rest, k, 1, sms);
}
