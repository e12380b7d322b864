#include "gpu_gemv.h"

#include "../core/environment.h"
#include "gemv.h"
#include "gpu_grouped.h"

enum { GEMV_TURN_STEPS = 1 }; /* what adding up an entry's sums costs, in steps of K */

/* Entries of scale tiles with a row of B. */
static int64_t entries(const struct problem *problem) {
    const int64_t rest = problem->n % SCALE_TILE_ROWS;
    return problem->n / SCALE_TILE_ROWS * SCALE_ENTRIES + (rest < SCALE_ENTRIES ? rest : SCALE_ENTRIES);
}

/* True if the row leaves room for the sums of a CTA's entries. */
static bool fits(const struct problem *problem) {
    return GEMV_ROW_BYTES(problem->k / GEMV_LANE_K) + GEMV_SUMS_BYTES(GEMV_MOST_ENTRIES, GEMV_WARPS) <=
           DEFAULT_SHARED_BYTES;
}

bool gpu_prefers_gemv(const struct problem *groups, int64_t count) {
    const char *tile = environment(GROUPED_CONFIG_VARIABLE);
    if (tile != NULL && tile[0] != '\0') {
        return false;
    }
    for (int64_t i = 0; i < count; i++) {
        if (groups[i].m != 1 || !fits(&groups[i]) || b_row_elems(&groups[i]) != groups[i].k) {
            return false;
        }
    }
    return true;
}

/* How the groups of a launch share its CTAs. */
struct gemv_cut {
    int warps_k;
    int64_t ctas[GEMV_GROUPS], shared_bytes, steps; /* steps: of the CTA that takes the most */
};

/* CTAs in proportion to each group's bytes, as many as run at once. */
static struct gemv_cut cut_groups(const struct problem *groups, int64_t count, int sms, int warps_k) {
    struct gemv_cut cut = {.warps_k = warps_k};
    int64_t work = 0;
    for (int64_t i = 0; i < count; i++) {
        work += entries(&groups[i]) * groups[i].k;
    }
    for (int64_t i = 0; i < count; i++) {
        const int64_t parts = groups[i].k / GEMV_LANE_K, all = entries(&groups[i]);
        const int64_t slots = (int64_t)sms * GEMV_CTAS_AT_ONCE, most = ceil_div(all * warps_k, GEMV_WARPS);
        int64_t ctas = (int64_t)((double)slots * (double)(all * groups[i].k) / (double)work);
        ctas = ctas > most ? most : ctas;
        ctas = ctas < ceil_div(all, GEMV_MOST_ENTRIES) ? ceil_div(all, GEMV_MOST_ENTRIES) : ctas;
        const int64_t of_cta = ceil_div(all, ctas), turns = ceil_div(of_cta * warps_k, GEMV_WARPS);
        const int64_t steps = turns * (ceil_div(parts, (int64_t)GEMV_STEP_LANES * warps_k) + GEMV_TURN_STEPS);
        const int64_t bytes = GEMV_ROW_BYTES(parts) + GEMV_SUMS_BYTES(of_cta, warps_k);
        cut.ctas[i] = ctas;
        cut.steps = steps > cut.steps ? steps : cut.steps;
        cut.shared_bytes = bytes > cut.shared_bytes ? bytes : cut.shared_bytes;
    }
    return cut;
}

/* The cut whose busiest warp has the fewest steps. */
static struct gemv_cut choose_cut(const struct problem *groups, int64_t count, int sms) {
    struct gemv_cut best = cut_groups(groups, count, sms, 1);
    for (int warps_k = 2; warps_k <= GEMV_WARPS; warps_k *= 2) {
        const struct gemv_cut cut = cut_groups(groups, count, sms, warps_k);
        if (cut.steps < best.steps) {
            best = cut;
        }
    }
    return best;
}

static int32_t launch_gemv(const struct problem *groups, int64_t count, int sms, const void *kernel,
                           const char *pdl_variable) {
    const struct gemv_cut cut = choose_cut(groups, count, sms);
    struct gemv_params params = {
        .groups = (int32_t)count,
        .warps_k = cut.warps_k,
        .scale_layout = groups[0].scale_layout,
    };
    int64_t ctas = 0;
    for (int64_t i = 0; i < count; i++) {
        const struct problem *problem = &groups[i];
        params.group[i] = (struct gemv_group){
            .a = problem->a,
            .b = problem->b1,
            .sfa = problem->sfa,
            .sfb = problem->sfb1,
            .c = problem->c,
            .n = (int32_t)problem->n,
            .parts = (int32_t)(problem->k / GEMV_LANE_K),
            .entries = entries(problem),
            .first_cta = (int32_t)ctas,
            .ctas = (int32_t)cut.ctas[i],
        };
        ctas += cut.ctas[i];
    }
    const struct launch launch = {
        .kernel = kernel,
        .grid = {ctas, 1, 1},
        .threads = GEMV_THREADS,
        .cluster = 1,
        .shared_bytes = (int)cut.shared_bytes,
        .pdl_variable = pdl_variable,
    };
    void *arguments[] = {&params};
    return gpu_launch(groups, &launch, arguments);
}

int32_t gpu_run_gemv(const char *backend, const struct problem *groups, int64_t count, const void *kernel,
                     const char *pdl_variable) {
    int sms = 0;
    RETURN_IF_FAILED(gpu_check_groups(backend, groups, count));
    RETURN_IF_FAILED(gpu_count_sms(groups->device, &sms));
    for (int64_t i = 0; i < count; i += GEMV_GROUPS) {
        const int64_t left = count - i;
        RETURN_IF_FAILED(
            launch_gemv(&groups[i], left < GEMV_GROUPS ? left : GEMV_GROUPS, sms, kernel, pdl_variable));
    }
    return CUSTOM_KERNEL_OK;
}
