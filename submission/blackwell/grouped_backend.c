/* The host side of the grouped GEMM.  A call: check the limits, select a tile, get scratch memory, put the
 * groups with the longest tiles first, then for as many groups as a launch takes: encode the tensor maps,
 * permute the scale factors of those groups that need it, a launch each, and multiply in one launch. */
#include "grouped_backend.h"

#include <stdbool.h>
#include <stdlib.h>

#include "../core/checks.h"
#include "../gpu/grouped.h"
#include "kernels.h"
#include "operands.h"
#include "tile_selection.h"

#define CONFIG_VARIABLE "NVFP4_GROUPED_CONFIG"
#define PDL_VARIABLE    "NVFP4_BLACKWELL_DEPENDENT_LAUNCH" /* the dual GEMM's */

/* A group and its tiles; where its scale factors are, permuted, in scratch memory. */
struct group_plan {
    const struct problem *problem;
    struct tile_class tiles;
    int64_t tiles_m;
    int64_t sfa_offset, sfb_offset;
};

struct grouped_plan {
    int tile;
    const struct blackwell_config *config;
    struct group_plan group[CUSTOM_KERNEL_MAX_GROUPS]; /* the longest tiles first */
    int64_t groups, scratch_bytes;
    bool permute_scales;
};

static int longest_first(const void *x, const void *y) {
    const struct group_plan *a = x, *b = y;
    return (a->tiles.tile_ps < b->tiles.tile_ps) - (a->tiles.tile_ps > b->tiles.tile_ps);
}

static void cut_groups(struct grouped_plan *plan, int tile) {
    plan->tile = tile;
    plan->config = &blackwell_grouped_configs[tile];
    for (int64_t i = 0; i < plan->groups; i++) {
        struct group_plan *group = &plan->group[i];
        group->tiles_m = ceil_div(group->problem->m, (int64_t)TILE_M * plan->config->ctas);
        group->tiles.tiles = group->tiles_m * ceil_div(group->problem->n, 2 * (int64_t)plan->config->tile_n);
        group->tiles.tile_ps = blackwell_grouped_tile_ps(plan->config, group->problem->k);
    }
    qsort(plan->group, (size_t)plan->groups, sizeof *plan->group, longest_first);
}

static int64_t predict(const struct grouped_plan *plan, int sms) {
    struct tile_class classes[CUSTOM_KERNEL_MAX_GROUPS];
    for (int64_t i = 0; i < plan->groups; i++) {
        classes[i] = plan->group[i].tiles;
    }
    return gpu_schedule_ps(classes, plan->groups, blackwell_clusters_at_once(plan->config, sms));
}

/* The tile that the environment names, else that of the least predicted time; of equals the first one listed.
 */
static int32_t select_tile(struct grouped_plan *plan) {
    int tile = -1, sms = 0;
    RETURN_IF_FAILED(gpu_wanted_tile(CONFIG_VARIABLE, blackwell_grouped_tile_name, &tile));
    CHECK_CUDA(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, plan->group[0].problem->device));
    int64_t least_ps = INT64_MAX;
    for (int i = 0, any = tile < 0; any && i < BLACKWELL_GROUPED_TILES; i++) {
        cut_groups(plan, i);
        int64_t ps = predict(plan, sms);
        if (ps < least_ps) {
            least_ps = ps;
            tile = i;
        }
    }
    cut_groups(plan, tile);
    return CUSTOM_KERNEL_OK;
}

static int64_t ctas_of(const struct grouped_plan *plan) {
    int64_t tiles = 0;
    for (int64_t i = 0; i < plan->groups; i++) {
        tiles += plan->group[i].tiles.tiles;
    }
    return tiles * plan->config->ctas;
}

static void place_scales(struct grouped_plan *plan) {
    plan->permute_scales = plan->group[0].problem->scale_layout != CUSTOM_KERNEL_SCALES_BLOCKED;
    for (int64_t i = 0; i < plan->groups && plan->permute_scales; i++) {
        struct group_plan *group = &plan->group[i];
        group->sfa_offset = plan->scratch_bytes;
        group->sfb_offset = group->sfa_offset + blackwell_permuted_bytes(group->problem, group->problem->m);
        plan->scratch_bytes = group->sfb_offset + blackwell_permuted_bytes(group->problem, group->problem->n);
    }
}

/* What the kernel takes of a group whose tiles start at number first_tile. */
static int32_t describe(const struct grouped_plan *plan, const struct group_plan *of, uint8_t *scratch,
                        int32_t first_tile, struct blackwell_group *group) {
    const struct problem *problem = of->problem;
    const uint8_t *sfa = plan->permute_scales ? scratch + of->sfa_offset : problem->sfa;
    const uint8_t *sfb = plan->permute_scales ? scratch + of->sfb_offset : problem->sfb1;
    const int b_rows = blackwell_b_box_rows(plan->config);
    group->c = problem->c;
    group->m = (int32_t)problem->m;
    group->n = (int32_t)problem->n;
    group->steps_k = (int32_t)(problem->k / STEP_K);
    group->scales_by_previous_kernel = plan->permute_scales;
    group->first_tile = first_tile;
    group->tiles_m = (int32_t)of->tiles_m;
    RETURN_IF_FAILED(blackwell_encode_fp4(member_name(problem->group, "a").text, problem, problem->a,
                                          problem->m, TILE_M, &group->a));
    RETURN_IF_FAILED(blackwell_encode_fp4(member_name(problem->group, "b").text, problem, problem->b1,
                                          problem->n, b_rows, &group->b1));
    RETURN_IF_FAILED(blackwell_encode_scales(member_name(problem->group, "sfa").text, problem, sfa, problem->m,
                                             &group->sfa));
    return blackwell_encode_scales(member_name(problem->group, "sfb").text, problem, sfb, problem->n,
                                   &group->sfb1);
}

static int32_t launch_group_permute_scales(const struct group_plan *group, uint8_t *scratch) {
    const struct problem *problem = group->problem;
    struct permute_scales_params params = {
        .tensors = {{problem->sfa, scratch + group->sfa_offset, problem->m},
                    {problem->sfb1, scratch + group->sfb_offset, problem->n}},
        .tiles_k = problem->k / SCALE_TILE_K,
        .count = 2,
    };
    return gpu_launch_permute_scales(problem, blackwell_permute_scales_kernel(), params, PDL_VARIABLE);
}

/* `count` groups from number `first` on, as many as a launch takes. */
static int32_t launch_groups(const struct grouped_plan *plan, int64_t first, int64_t count, uint8_t *scratch) {
    static atomic_bool allowed[MAX_DEVICES][BLACKWELL_GROUPED_TILES][2];
    struct blackwell_many_groups many;
    struct blackwell_few_groups few;
    const struct group_plan *groups = &plan->group[first];
    const bool is_few = count <= BLACKWELL_FEW_GROUPS;
    struct blackwell_group *described = is_few ? few.group : many.group;
    *(is_few ? &few.groups : &many.groups) = (int32_t)count;
    int64_t tiles = 0;
    for (int64_t i = 0; i < count; i++) {
        RETURN_IF_FAILED(describe(plan, &groups[i], scratch, (int32_t)tiles, &described[i]));
        tiles += groups[i].tiles.tiles;
    }
    struct launch launch = {
        .kernel = blackwell_grouped_gemm_kernel(plan->tile, is_few),
        .grid = {tiles * plan->config->ctas, 1, 1},
        .threads = CTA_THREADS,
        .cluster = plan->config->ctas,
        .shared_bytes = blackwell_shared_bytes(plan->config),
        .pdl_variable = PDL_VARIABLE,
    };
    RETURN_IF_FAILED(gpu_allow_shared_memory(&allowed[groups[0].problem->device][plan->tile][is_few], &launch));
    for (int64_t i = 0; i < count && plan->permute_scales; i++) {
        RETURN_IF_FAILED(launch_group_permute_scales(&groups[i], scratch));
    }
    void *arguments[] = {is_few ? (void *)&few : (void *)&many};
    return gpu_launch(groups[0].problem, &launch, arguments);
}

static int32_t launch_all_groups(const struct grouped_plan *plan, uint8_t *scratch) {
    for (int64_t i = 0; i < plan->groups; i += BLACKWELL_MOST_GROUPS) {
        int64_t left = plan->groups - i;
        RETURN_IF_FAILED(
            launch_groups(plan, i, left < BLACKWELL_MOST_GROUPS ? left : BLACKWELL_MOST_GROUPS, scratch));
    }
    return CUSTOM_KERNEL_OK;
}

int32_t blackwell_run_grouped(const struct problem *groups, int64_t count) {
    struct grouped_plan plan;
    uint8_t *scratch = NULL;
    RETURN_IF_FAILED(gpu_check_groups("blackwell", groups, count));
    plan.groups = count;
    plan.scratch_bytes = 0;
    for (int64_t i = 0; i < count; i++) {
        plan.group[i].problem = &groups[i];
    }
    RETURN_IF_FAILED(select_tile(&plan));
    RETURN_IF_FAILED(gpu_check_ctas("blackwell", ctas_of(&plan)));
    place_scales(&plan);
    RETURN_IF_FAILED(gpu_acquire_scratch(groups, plan.scratch_bytes, &scratch));
    int32_t status = launch_all_groups(&plan, scratch);
    return gpu_release_scratch(groups, scratch, status);
}
