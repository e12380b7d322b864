#include "hopper_narrow_backend.h"

#include <stdbool.h>

#include "../../gpu/gpu_backend.h"
#include "../../gpu/gpu_cache.h"
#include "../hopper_kernels.h"
#include "hopper_narrow_selection.h"

enum { MOST_A_UNITS = 64 }; /* of any configuration */

int32_t hopper_narrow_check_limits(const struct problem *problem, const struct hopper_narrow_config *config) {
    int64_t most_m = (int64_t)MAX_GRID_YZ * config->tile_m;
    const struct limit limits[] = {
        {"m", problem->m, most_m < MAX_DIMENSION ? most_m : MAX_DIMENSION},
        {"n", problem->n, MAX_DIMENSION},
        {"k", problem->k, MAX_DIMENSION},
        {"l", problem->l, MAX_GRID_YZ},
    };
    return gpu_check_limits("hopper", config->name, limits, sizeof limits / sizeof *limits);
}

struct hopper_narrow_params hopper_narrow_params_of(const struct problem *problem,
                                                    const struct hopper_narrow_layout *layout) {
    bool blocked = problem->scale_layout == CUSTOM_KERNEL_SCALES_BLOCKED;
    int64_t groups = problem->k / NVFP4_GROUP_ELEMS;
    return (struct hopper_narrow_params){
        .a = problem->a,
        .b1 = problem->b1,
        .b2 = problem->b2,
        .sfa = problem->sfa,
        .sfb1 = problem->sfb1,
        .sfb2 = problem->sfb2,
        .c = problem->c,
        .fp4_row_bytes = problem->k / 2,
        .scale_tile_step = SCALE_TILE_ROWS * groups,
        .sfa_batch_bytes = scale_batch_bytes(problem->scale_layout, problem->m, groups),
        .sfb_batch_bytes = scale_batch_bytes(problem->scale_layout, problem->n, groups),
        .scale_quarter_step = blocked ? SCALE_WORD_BYTES : (uint32_t)(SCALE_ENTRIES * groups),
        .scale_row_step = blocked ? SCALE_ENTRY_BYTES : (uint32_t)groups,
        .scale_word_step = blocked ? SCALE_TILE_BYTES : SCALE_WORD_BYTES,
        .m = (int32_t)problem->m,
        .n = (int32_t)problem->n,
        .scale_words = (int32_t)(groups / SCALE_TILE_GROUPS),
        .layout = *layout,
    };
}

struct hopper_narrow_layout hopper_narrow_layout_of(const struct problem *problem,
                                                    const struct hopper_narrow_config *config, int index,
                                                    int together, int64_t n, int sms) {
    static _Thread_local struct cache cache;
    const int64_t m = problem->m, k = problem->k, l = problem->l;
    const struct cache_key key = {m, n, k, l, sms, index, (int64_t)together * MOST_A_UNITS + config->a_units};
    struct hopper_narrow_layout layout = {0};
    if (!cache_find(&cache, &key, &layout, sizeof layout)) {
        (void)hopper_narrow_layout_together(config, together, m, n, k, l, sms, &layout);
        cache_keep(&cache, &key, &layout, sizeof layout);
    }
    return layout;
}

int32_t hopper_run_narrow(const struct problem *problem, int index, int sms) {
    const struct hopper_narrow_config *config = &hopper_narrow_configs[index];
    RETURN_IF_FAILED(hopper_narrow_check_limits(problem, config));
    const struct hopper_narrow_layout layout =
        hopper_narrow_layout_of(problem, config, index, 1, problem->n, sms);
    struct hopper_narrow_params params = hopper_narrow_params_of(problem, &layout);
    void *arguments[] = {&params};
    return hopper_launch_narrow(problem, config, &layout, hopper_narrow_dual_gemm_kernel(index, layout.split_k),
                                problem->n, arguments);
}

int32_t hopper_launch_narrow(const struct problem *problem, const struct hopper_narrow_config *config,
                             const struct hopper_narrow_layout *layout, const void *kernel, int64_t n,
                             void **arguments) {
    struct launch launch = {
        .kernel = kernel,
        .grid = {hopper_narrow_ctas_along_n(config, layout, n), ceil_div(problem->m, config->tile_m),
                 problem->l},
        .threads = (int64_t)layout->warps_n * layout->warps_k * WARP_THREADS,
        .cluster = layout->split_k,
        .shared_bytes = MAX_SHARED_BYTES, /* allowed once, for every layout */
        .pdl_variable = HOPPER_PDL_VARIABLE,
    };
    RETURN_IF_FAILED(gpu_allow_shared_memory(problem->device, &launch));
    launch.shared_bytes = layout->shared_bytes;
    return gpu_launch(problem, &launch, arguments);
}
