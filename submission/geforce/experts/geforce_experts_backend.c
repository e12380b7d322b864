/* The host side of the products of experts.  A call: select a tile, check the limits, encode the tensor maps,
 * multiply.  Nothing depends on the counts. */
#include "../geforce_run.h"

#include "../../gpu/experts/gpu_experts_host.h"
#include "../../gpu/gpu_backend.h"
#include "../geforce_operands.h"
#include "geforce_experts_kernels.h"
#include "geforce_experts_selection.h"

struct experts_plan {
    const struct experts *experts;
    const struct geforce_experts_tile *tile;
    int index, sms;
    int64_t tiles_n;
};

static int32_t make_plan(const struct experts *experts, struct experts_plan *plan) {
    const struct problem *all = &experts->all;
    plan->experts = experts;
    RETURN_IF_FAILED(gpu_count_sms(all->device, &plan->sms));
    RETURN_IF_FAILED(gpu_wanted_tile(EXPERTS_CONFIG_VARIABLE, geforce_experts_tile_name, &plan->index));
    if (plan->index < 0) {
        plan->index = geforce_select_experts_tile(rows_of_experts(experts), all->l);
    }
    plan->tile = &geforce_experts_tiles[plan->index];
    plan->tiles_n = ceil_div(all->n, (experts->extension.plain ? 2 : 1) * EXPERTS_TILE_N);
    return gpu_check_experts("geforce", plan->tile->name, experts, plan->tile->tile_m, plan->tiles_n);
}

static int32_t encode_b(const char *name, const struct experts *experts, const uint8_t *fp4, CUtensorMap *map) {
    const struct tensor_3d b =
        gpu_experts_pieces(experts, fp4, STAGE_FP4_BYTES, EXPERTS_TILE_N, CU_TENSOR_MAP_SWIZZLE_64B);
    return gpu_encode(name, &b, map);
}

/* The tensor maps travel in the kernel's parameters. */
static int32_t make_params(const struct experts_plan *plan, struct geforce_experts_params *params) {
    const struct experts *experts = plan->experts;
    const struct problem *all = &experts->all;
    struct problem rows = *all;
    *params = (struct geforce_experts_params){
        .tokens = expert_tokens_of(experts, plan->tile->tile_m),
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
    RETURN_IF_FAILED(
        geforce_encode_fp4("a", &rows, all->a, rows_of_experts(experts), plan->tile->tile_m, &params->a));
    RETURN_IF_FAILED(encode_b("b1", experts, all->b1, &params->b1));
    return encode_b("b2", experts, gpu_experts_second(experts), &params->b2);
}

int32_t geforce_run_experts(const struct experts *experts) {
    struct experts_plan plan = {0};
    struct geforce_experts_params params;
    RETURN_IF_FAILED(gpu_check_a_type("geforce", experts->extension.a_type));
    RETURN_IF_FAILED(make_plan(experts, &plan));
    RETURN_IF_FAILED(make_params(&plan, &params));
    const int64_t tiles = most_expert_tiles(experts, plan.tile->tile_m) * plan.tiles_n;
    const struct launch launch = {
        .kernel = geforce_experts_gemm_kernel(plan.index, experts->extension.plain),
        .grid = {tiles < plan.sms ? tiles : plan.sms, 1, 1},
        .threads = CTA_THREADS(plan.tile->warps_m, plan.tile->warps_n),
        .cluster = 1,
        .shared_bytes = EXPERTS_SHARED_BYTES(plan.tile->tile_m, plan.tile->stages),
        .pdl_variable = GEFORCE_PDL_VARIABLE,
    };
    RETURN_IF_FAILED(gpu_allow_shared_memory(experts->all.device, &launch));
    void *arguments[] = {&params};
    return gpu_launch(&experts->all, &launch, arguments);
}
