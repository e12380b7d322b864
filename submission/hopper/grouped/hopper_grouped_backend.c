/* The host side of the grouped GEMM.  A call: check the limits, cut every group into tiles, the longest first,
 * get scratch memory; then, for as many groups as fit a launch: encode the tensor maps, dequantize all A in one
 * launch, permute the scale factors of each B that needs it in a launch of its own, and multiply in one launch.
 */
#include "../hopper_run.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "../../core/checks.h"
#include "../../core/environment.h"
#include "../../gpu/gpu_backend.h"
#include "../../gpu/gpu_gemv.h"
#include "../../gpu/gpu_grouped.h"
#include "../hopper_kernels.h"
#include "../hopper_operands.h"
#include "../hopper_tile_selection.h"
#include "hopper_grouped_selection.h"

/* A group, how it is cut, and where its converted operands are in scratch memory. */
struct group_plan {
    const struct problem *problem;
    struct hopper_grouped_cut cut;
    int64_t stages_k;
    bool permute_scales;
    int64_t a_offset, sfb_offset;  /* A in fp16; sfb, permuted */
    int64_t arrivals, sums_offset; /* with shared K: index of the first tile's word; start of the sums */
};

struct grouped_plan {
    struct group_plan group[GROUPS_AT_ONCE]; /* the longest tiles first */
    int64_t groups, scratch_bytes, arrivals, arrivals_offset;
    int sms;
};

static int longest_first(const void *x, const void *y) {
    const struct group_plan *a = x, *b = y;
    return (a->cut.all.tile_ps < b->cut.all.tile_ps) - (a->cut.all.tile_ps > b->cut.all.tile_ps);
}

/* Cuts all groups into tiles of at most tile number `largest`. */
static void cut_groups(struct grouped_plan *plan, int largest) {
    for (int64_t i = 0; i < plan->groups; i++) {
        const struct problem *problem = plan->group[i].problem;
        plan->group[i].cut = hopper_cut_group(problem->m, problem->n, problem->k, largest);
    }
}

static void sort_groups(struct grouped_plan *plan) {
    qsort(plan->group, (size_t)plan->groups, sizeof *plan->group, longest_first);
}

static int64_t predict(const struct grouped_plan *plan, int sms) {
    struct tile_class classes[GROUPS_AT_ONCE];
    for (int64_t i = 0; i < plan->groups; i++) {
        classes[i] = plan->group[i].cut.all;
    }
    return gpu_schedule_ps(classes, plan->groups, sms);
}

static int64_t tiles_of(const struct grouped_plan *plan) {
    int64_t tiles = 0;
    for (int64_t i = 0; i < plan->groups; i++) {
        tiles += plan->group[i].cut.all.tiles;
    }
    return tiles;
}

/* A lower bound of every prediction: the work shared equally. */
static int64_t equal_share_ps(const struct grouped_plan *plan, int sms) {
    double work = 0;
    for (int64_t i = 0; i < plan->groups; i++) {
        work += (double)plan->group[i].cut.all.tiles * (double)plan->group[i].cut.all.tile_ps;
    }
    return (int64_t)(work / sms);
}

enum { SHARE_GAIN_PERCENT = 3 }; /* a smaller gain is within the prediction's error */

/* The group with the shortest tiles whose K is not shared yet, or -1. */
static int64_t shortest_whole(const struct grouped_plan *plan) {
    int64_t i = plan->groups - 1;
    while (i >= 0 && (plan->group[i].cut.parts > 1 || plan->group[i].cut.all.tiles == 0)) {
        i--;
    }
    return i;
}

/* Shares the K of one group's tiles after another, the shortest first, as long as the predicted time shrinks
 * enough: short pieces at the end of the list fill the gaps that long tiles leave. */
static void share_k(struct grouped_plan *plan, int sms) {
    int64_t least_ps = predict(plan, sms);
    for (int64_t i = shortest_whole(plan); i >= 0; i = shortest_whole(plan)) {
        const struct group_plan whole = plan->group[i];
        if (!hopper_share_k(&plan->group[i].cut)) {
            return;
        }
        sort_groups(plan);
        const int64_t ps = predict(plan, sms);
        if (ps * 100 >= least_ps * (100 - SHARE_GAIN_PERCENT)) {
            for (i = 0; plan->group[i].problem != whole.problem; i++) {
            }
            plan->group[i] = whole;
            sort_groups(plan);
            return;
        }
        least_ps = ps;
    }
}

/* Cuts by the tile that the environment names, else by the one of least predicted time, the larger of equals. A
 * smaller tile never makes a group's tiles fewer, so an equal number in all means the same cut. */
static int32_t select_cuts(struct grouped_plan *plan, int sms) {
    int largest = -1;
    RETURN_IF_FAILED(gpu_wanted_tile(GROUPED_CONFIG_VARIABLE, hopper_grouped_tile_name, &largest));
    int64_t least_ps = INT64_MAX, tiles = 0;
    for (int i = HOPPER_GROUPED_TILES_COUNT - 1, any = largest < 0; any && i >= 0; i--) {
        cut_groups(plan, i);
        if (tiles_of(plan) == tiles || equal_share_ps(plan, sms) >= least_ps) {
            continue;
        }
        tiles = tiles_of(plan);
        sort_groups(plan);
        int64_t ps = predict(plan, sms);
        if (ps < least_ps) {
            least_ps = ps;
            largest = i;
        }
    }
    cut_groups(plan, largest);
    sort_groups(plan);
    share_k(plan, sms);
    return CUSTOM_KERNEL_OK;
}

/* Rows of A in fp16: whole atoms of the swizzle. */
static int64_t padded_rows(const struct problem *problem) {
    return round_up(problem->m, SWIZZLE_ATOM_ROWS);
}

/* gpu_check_groups has limited sizes to 2^31, so their products are far below 2^63. */
static void place_operands(struct grouped_plan *plan) {
    for (int64_t i = 0; i < plan->groups; i++) {
        struct group_plan *group = &plan->group[i];
        const struct problem *problem = group->problem;
        group->stages_k = ceil_div(problem->k, STAGE_K);
        int64_t padded_k = group->stages_k * STAGE_K;
        group->permute_scales = problem->scale_layout != CUSTOM_KERNEL_SCALES_BLOCKED || padded_k != problem->k;
        group->a_offset = plan->scratch_bytes;
        plan->scratch_bytes += round_up(padded_rows(problem) * padded_k * FP16_BYTES, SCRATCH_ALIGNMENT);
        group->sfb_offset = plan->scratch_bytes;
        if (group->permute_scales) {
            plan->scratch_bytes += gpu_permuted_bytes(problem, problem->n, padded_k);
        }
        group->arrivals = plan->arrivals;
        group->sums_offset = plan->scratch_bytes;
        if (group->cut.parts > 1) {
            const int64_t tiles = group->cut.all.tiles / group->cut.parts;
            plan->arrivals += tiles;
            plan->scratch_bytes +=
                round_up(tiles * hopper_grouped_sum_bytes(group->cut.tile), SCRATCH_ALIGNMENT);
        }
    }
    plan->arrivals_offset = plan->scratch_bytes;
    plan->scratch_bytes += round_up(plan->arrivals * (int64_t)sizeof(uint32_t), SCRATCH_ALIGNMENT);
}

/* Fills in the kernel's parameters for a group whose tiles start at number first_tile; `scales_permuted`: the
 * kernel before permutes the scale factors of some group of the launch. */
static int32_t describe(const struct grouped_plan *all, const struct group_plan *plan, uint8_t *scratch,
                        int32_t first_tile, bool scales_permuted, struct hopper_group *group) {
    const struct problem *problem = plan->problem;
    group->gemm = (struct hopper_dual_gemm_params){
        .sfb1 = plan->permute_scales ? scratch + plan->sfb_offset : problem->sfb1,
        .c = problem->c,
        .m = (int32_t)problem->m,
        .n = (int32_t)problem->n,
        .stages_k = (int32_t)plan->stages_k,
        .scale_tiles_k = (int32_t)(plan->stages_k * STAGE_SCALE_TILES),
        .scales_by_previous_kernel = scales_permuted,
    };
    group->first_tile = first_tile;
    group->tiles_m = (int32_t)plan->cut.tiles_m;
    group->tile = plan->cut.tile;
    group->tile_m = hopper_grouped_tiles[plan->cut.tile].tile_m;
    group->stages = hopper_grouped_tiles[plan->cut.tile].stages;
    group->parts = plan->cut.parts;
    group->arrivals = (uint32_t *)(scratch + all->arrivals_offset) + plan->arrivals;
    group->sums = scratch + plan->sums_offset;
    group->a = scratch + plan->a_offset;
    group->a_rows = (int32_t)padded_rows(problem);
    return hopper_encode_b(member_name(problem->group, "b").text, problem, problem->b1, GROUPED_COLUMNS,
                           &group->b);
}

/* Shared memory that a CTA asks for but does not use, so that an SM has room only for an equal share of the
 * CTAs: SMs become free one after another, and the first would otherwise take all CTAs that fit. */
static int spreading_bytes(int64_t ctas, int sms) {
    const int64_t bytes = SM_SHARED_BYTES / ceil_div(ctas, sms) - CTA_RESERVED_BYTES;
    return bytes < 0 ? 0 : bytes > DEFAULT_SHARED_BYTES ? DEFAULT_SHARED_BYTES : (int)bytes;
}

static int32_t launch_grouped_dequantize(const struct grouped_plan *plan, const struct group_plan *groups,
                                         int64_t count, uint8_t *scratch) {
    struct hopper_many_dequantize_params many;
    struct hopper_few_dequantize_params few;
    const bool is_few = count <= HOPPER_FEW_GROUPS;
    struct dequantize_params *of = is_few ? few.group : many.group;
    int32_t *rows_of = is_few ? few.rows : many.rows;
    int64_t rows = 0, row_parts = 0;
    for (int64_t i = 0; i < count; i++) {
        const struct group_plan *group = &groups[i];
        of[i] = hopper_dequantize_params(group->problem, group->stages_k, scratch + group->a_offset);
        rows_of[i] = (int32_t)group->problem->m;
        rows += group->problem->m;
        const int64_t parts = group->stages_k * CHUNK_PARTS;
        row_parts = parts > row_parts ? parts : row_parts;
    }
    uint32_t *arrivals = (uint32_t *)(scratch + plan->arrivals_offset) + groups[0].arrivals;
    const int64_t end = groups + count < plan->group + plan->groups ? groups[count].arrivals : plan->arrivals;
    *(is_few ? &few.arrivals : &many.arrivals) = arrivals;
    *(is_few ? &few.arrivals_count : &many.arrivals_count) = (int32_t)(end - groups[0].arrivals);
    int64_t threads = row_parts < GROUPED_DEQUANTIZE_MAX_THREADS ? row_parts : GROUPED_DEQUANTIZE_MAX_THREADS;
    struct launch launch = {
        .kernel = hopper_grouped_dequantize_kernel(is_few, end > groups[0].arrivals),
        .grid = {rows, ceil_div(row_parts, threads), 1},
        .threads = threads,
        .cluster = 1,
        .shared_bytes = spreading_bytes(rows * ceil_div(row_parts, threads), plan->sms),
        .pdl_variable = HOPPER_PDL_VARIABLE,
    };
    void *arguments[] = {is_few ? (void *)&few : (void *)&many};
    return gpu_launch(groups[0].problem, &launch, arguments);
}

static int32_t launch_group_permute_scales(const struct group_plan *group, uint8_t *scratch) {
    struct permute_scales_params params = {
        .tensors = {{group->problem->sfb1, scratch + group->sfb_offset, group->problem->n}},
        .tiles_k = group->stages_k * STAGE_SCALE_TILES,
        .count = 1,
    };
    return gpu_launch_permute_scales(group->problem, hopper_permute_scales_kernel(), params,
                                     HOPPER_PDL_VARIABLE);
}

/* Runs at most HOPPER_MOST_GROUPS groups, in one launch of each kernel. */
static int32_t launch_groups(const struct grouped_plan *plan, const struct group_plan *groups, int64_t count,
                             uint8_t *scratch) {
    struct hopper_many_groups many;
    struct hopper_few_groups few;
    const bool is_few = count <= HOPPER_FEW_GROUPS;
    struct hopper_group *described = is_few ? few.group : many.group;
    *(is_few ? &few.groups : &many.groups) = (int32_t)count;
    int64_t tiles = 0;
    bool permuted = false, shares = false;
    for (int64_t i = 0; i < count; i++) {
        permuted = permuted || groups[i].permute_scales;
        shares = shares || groups[i].cut.parts > 1;
    }
    for (int64_t i = 0; i < count; i++) {
        RETURN_IF_FAILED(describe(plan, &groups[i], scratch, (int32_t)tiles, permuted, &described[i]));
        tiles += groups[i].cut.all.tiles;
    }
    struct launch launch = {
        .kernel = hopper_grouped_gemm_kernel(is_few, shares),
        .grid = {tiles, 1, 1},
        .threads = CTA_THREADS(GROUPED_WARPGROUPS),
        .cluster = 1,
        .shared_bytes = hopper_grouped_shared_bytes(),
        .pdl_variable = HOPPER_PDL_VARIABLE,
    };
    RETURN_IF_FAILED(gpu_allow_shared_memory(groups[0].problem->device, &launch));
    RETURN_IF_FAILED(launch_grouped_dequantize(plan, groups, count, scratch));
    for (int64_t i = 0; i < count; i++) {
        if (groups[i].permute_scales) {
            RETURN_IF_FAILED(launch_group_permute_scales(&groups[i], scratch));
        }
    }
    void *arguments[] = {is_few ? (void *)&few : (void *)&many};
    return gpu_launch(groups[0].problem, &launch, arguments);
}

static int32_t launch_all_groups(const struct grouped_plan *plan, uint8_t *scratch) {
    for (int64_t i = 0; i < plan->groups; i += HOPPER_MOST_GROUPS) {
        int64_t left = plan->groups - i;
        RETURN_IF_FAILED(launch_groups(plan, &plan->group[i],
                                       left < HOPPER_MOST_GROUPS ? left : HOPPER_MOST_GROUPS, scratch));
    }
    return CUSTOM_KERNEL_OK;
}

enum { PLAIN_GAIN_PERCENT = 10 }; /* a smaller gain is within the two predictions' error */

/* True if the only group is faster as a plain product of the extended GEMM: always if its tiles share K here,
 * since there CTAs of a cluster add up the shares, not through L2. */
static bool prefers_plain_product(const struct grouped_plan *plan) {
#ifdef NVFP4_WITHOUT_EXTENDED
    (void)plan;
    return false;
#else
    const char *tile = environment(GROUPED_CONFIG_VARIABLE);
    if (plan->groups != 1 || (tile != NULL && tile[0] != '\0')) {
        return false;
    }
    const int64_t ps = predict(plan, plan->sms) + hopper_costs.call_ps;
    const int64_t plain_ps = hopper_plain_product_ps(plan->group[0].problem, plan->sms);
    return plain_ps >= 0 && (plan->group[0].cut.parts > 1 || plain_ps * 100 < ps * (100 - PLAIN_GAIN_PERCENT));
#endif
}

static int32_t run_plain_product(const struct problem *group) {
#ifdef NVFP4_WITHOUT_EXTENDED
    (void)group;
    return CUSTOM_KERNEL_ERROR_UNSUPPORTED;
#else
    const struct extension extension = {.plain = true};
    struct problem problem = *group;
    problem.extension = &extension;
    return hopper_run_extended(&problem);
#endif
}

/* Checks the groups and cuts them into tiles. */
static int32_t cut_all_groups(const struct problem *groups, int64_t count, struct grouped_plan *plan) {
    RETURN_IF_FAILED(gpu_count_sms(groups->device, &plan->sms));
    RETURN_IF_FAILED(gpu_check_groups("hopper", groups, count));
    plan->groups = count;
    plan->scratch_bytes = plan->arrivals = 0;
    for (int64_t i = 0; i < count; i++) {
        plan->group[i].problem = &groups[i];
    }
    return select_cuts(plan, plan->sms);
}

int32_t hopper_check_grouped(const struct problem *groups, int64_t count) {
    struct grouped_plan plan;
    if (gpu_prefers_gemv(groups, count)) {
        return gpu_check_groups("hopper", groups, count);
    }
    RETURN_IF_FAILED(cut_all_groups(groups, count, &plan));
    return gpu_check_ctas("hopper", tiles_of(&plan));
}

int32_t hopper_run_grouped(const struct problem *groups, int64_t count) {
    struct grouped_plan plan;
    uint8_t *scratch = NULL;
    if (gpu_prefers_gemv(groups, count)) {
        return gpu_run_gemv("hopper", groups, count, hopper_gemv_kernel(), HOPPER_PDL_VARIABLE);
    }
    RETURN_IF_FAILED(cut_all_groups(groups, count, &plan));
    if (prefers_plain_product(&plan)) {
        return run_plain_product(groups);
    }
    RETURN_IF_FAILED(gpu_check_ctas("hopper", tiles_of(&plan)));
    place_operands(&plan);
    RETURN_IF_FAILED(gpu_acquire_scratch(groups, plan.scratch_bytes, &scratch));
    int32_t status = launch_all_groups(&plan, scratch);
    return gpu_release_scratch(groups, scratch, status);
}
