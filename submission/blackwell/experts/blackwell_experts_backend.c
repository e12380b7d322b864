/* The host side of the products of experts.  A call: select a tile, check the limits, encode the tensor maps,
 * multiply.  Nothing depends on the counts. */
#include "../blackwell_run.h"

#include "../../gpu/experts/gpu_experts_host.h"
#include "../../gpu/gpu_backend.h"
#include "../blackwell_operands.h"
#include "../blackwell_tile_selection.h"
#include "blackwell_experts_kernels.h"
#include "blackwell_experts_selection.h"

struct experts_plan {
    const struct experts *experts;
    const struct blackwell_config *tile;
    int index, sms;
    int64_t tiles_n;
};

static int32_t make_plan(const struct experts *experts, struct experts_plan *plan) {
    const struct problem *all = &experts->all;
    const int64_t b_rows = (int64_t)TILE_M * 2;
    plan->experts = experts;
    RETURN_IF_FAILED(gpu_count_sms(all->device, &plan->sms));
    RETURN_IF_FAILED(gpu_wanted_tile(EXPERTS_CONFIG_VARIABLE, blackwell_experts_tile_name, &plan->index));
    if (plan->index < 0) {
        plan->index = blackwell_select_experts_tile(rows_of_experts(experts), all->l);
    }
    plan->tile = &blackwell_experts_tiles[plan->index];
    plan->tiles_n = ceil_div(all->n, experts->extension.plain ? b_rows : b_rows / 2);
    return gpu_check_experts("blackwell", plan->tile->name, experts, blackwell_experts_tile_rows(plan->tile),
                             plan->tiles_n);
}

static int32_t encode_b(const char *name, const struct experts *experts, const uint8_t *fp4, CUtensorMap *map) {
    const struct extension *extension = &experts->extension;
    const int64_t rows = extension->interleave != 0 ? 2 * experts->all.n : experts->all.n;
    const int box_rows =
        blackwell_experts_adjacent(extension->plain, extension->interleave) ? TILE_M : EXPERTS_PIECE;
    struct tensor_3d b =
        gpu_fp4_tensor(&experts->all, fp4, rows, STAGE_FP4_BYTES, box_rows, CU_TENSOR_MAP_SWIZZLE_128B);
    b.batch_rows = experts->b_rows;
    return gpu_encode(name, &b, map);
}

/* The tensor maps travel in the kernel's parameters. */
static int32_t make_params(const struct experts_plan *plan, struct blackwell_experts_params *params) {
    const struct experts *experts = plan->experts;
    const struct problem *all = &experts->all;
    struct problem rows = *all;
    *params = (struct blackwell_experts_params){
        .tokens = expert_tokens_of(experts, blackwell_experts_tile_rows(plan->tile)),
        .sfa = expert_token_scales(experts),
        .sfb1 = expert_weight_scales(experts, all->sfb1),
        .sfb2 = expert_weight_scales(experts, all->sfb2 != NULL ? all->sfb2 : all->sfb1),
        .epilogue = gpu_experts_epilogue(experts),
        .b_rows = (int32_t)(experts->extension.interleave != 0 ? 2 * all->n : all->n),
        .interleave = experts->extension.interleave,
        .tiles_n = (int32_t)plan->tiles_n,
        .steps_k = (int32_t)(all->k / STEP_K),
    };
    rows.l = 1;
    for (int i = 0; i < EXPERTS_BOXES; i++) {
        RETURN_IF_FAILED(blackwell_encode_fp4("a", &rows, all->a, rows_of_experts(experts),
                                              EXPERTS_LEAST_BOX << i, &params->a[i]));
    }
    RETURN_IF_FAILED(encode_b("b1", experts, all->b1, &params->b1));
    return encode_b("b2", experts, all->b2 != NULL ? all->b2 : all->b1, &params->b2);
}

int32_t blackwell_run_experts(const struct experts *experts) {
    struct experts_plan plan = {0};
    struct blackwell_experts_params params;
    RETURN_IF_FAILED(gpu_check_a_type("blackwell", experts->extension.a_type));
    RETURN_IF_FAILED(make_plan(experts, &plan));
    RETURN_IF_FAILED(make_params(&plan, &params));
    const int64_t tiles = most_expert_tiles(experts, blackwell_experts_tile_rows(plan.tile)) * plan.tiles_n,
                  at_once = blackwell_clusters_at_once(plan.tile, plan.sms);
    const struct launch launch = {
        .kernel = blackwell_experts_gemm_kernel(plan.index),
        .grid = {(tiles < at_once ? tiles : at_once) * plan.tile->ctas, 1, 1},
        .threads = EXPERTS_THREADS,
        .cluster = plan.tile->ctas,
        .shared_bytes = blackwell_experts_shared_bytes(plan.tile),
        .pdl_variable = BLACKWELL_PDL_VARIABLE,
    };
    RETURN_IF_FAILED(gpu_allow_shared_memory(experts->all.device, &launch));
    void *arguments[] = {&params};
    return gpu_launch(&experts->all, &launch, arguments);
}
