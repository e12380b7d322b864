#include "hopper_narrow_backend.h"

#include <stdatomic.h>

#include "../../gpu/gpu_backend.h"
#include "../../gpu/gpu_cache.h"
#include "../hopper_kernels.h"

enum { A_TYPES = CUSTOM_KERNEL_A_BF16 + 1 };
enum { LARGEST_ASKED = 5 }; /* CTAs of a cluster */

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

/* The room of a device, whose driver alone knows which SMs share a GPC: it is asked once.  Clusters of more
 * than LARGEST_ASKED keep the room that all chips seen have. */
struct hopper_narrow_room hopper_narrow_find_room(int32_t device, int sms) {
    static atomic_int known[MAX_DEVICES][LARGEST_ASKED + 1]; /* 0: not asked yet */
    struct hopper_narrow_room room = hopper_narrow_room_of(sms);
    for (int split_k = NARROW_PAIR + 1; split_k <= LARGEST_ASKED; split_k++) {
        int ctas = atomic_load(&known[device][split_k]);
        if (ctas == 0) {
            struct launch launch = {
                .kernel = hopper_narrow_dual_gemm_kernel(0, split_k),
                .grid = {split_k, 1, 1},
                .threads = NARROW_MAX_WARPS * WARP_THREADS,
                .cluster = split_k,
                .shared_bytes = MAX_SHARED_BYTES,
                .pdl_variable = HOPPER_PDL_VARIABLE,
            };
            const int clusters = gpu_allow_shared_memory(device, &launch) == CUSTOM_KERNEL_OK
                                     ? gpu_clusters_at_once(&launch)
                                     : -1;
            ctas = clusters > 0 ? clusters * split_k : room.ctas[split_k];
            atomic_store(&known[device][split_k], ctas);
        }
        room.ctas[split_k] = ctas;
    }
    return room;
}

struct hopper_narrow_layout hopper_narrow_layout_of(int32_t device, int index,
                                                    const struct hopper_narrow_question *question, int sms) {
    static _Thread_local struct cache cache;
    const struct cache_key key = {question->m,
                                  question->n,
                                  question->k,
                                  question->l,
                                  sms,
                                  (int64_t)device * HOPPER_NARROW_TILES + index,
                                  (int64_t)question->together * A_TYPES + question->a_type};
    struct hopper_narrow_layout layout = {0};
    if (!cache_find(&cache, &key, &layout, sizeof layout)) {
        const struct hopper_narrow_room room = hopper_narrow_find_room(device, sms);
        (void)hopper_narrow_layout(index, question, &room, &layout);
        cache_keep(&cache, &key, &layout, sizeof layout);
    }
    return layout;
}

int32_t hopper_run_narrow(const struct problem *problem, int index, int sms) {
    const struct hopper_narrow_config *config = &hopper_narrow_configs[index];
    RETURN_IF_FAILED(hopper_narrow_check_limits(problem, config));
    const struct hopper_narrow_question question = {
        problem->m, problem->n, problem->k, problem->l, CUSTOM_KERNEL_A_NVFP4, 1};
    const struct hopper_narrow_layout layout = hopper_narrow_layout_of(problem->device, index, &question, sms);
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
