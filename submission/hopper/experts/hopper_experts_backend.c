/* The host side of the products of experts.  A call: select a tile, check the limits, get scratch memory for A
 * in 16 bits, encode the tensor maps, dequantize A or bring it into order, multiply.  Nothing depends on the
 * counts. */
#include "../hopper_run.h"

#include "../../gpu/experts/gpu_experts_host.h"
#include "../../gpu/gpu_backend.h"
#include "../extended/hopper_extended_kernels.h"
#include "../hopper_operands.h"
#include "hopper_experts_kernels.h"
#include "hopper_experts_selection.h"

struct experts_plan {
    const struct experts *experts;
    const struct hopper_experts_tile *tile;
    struct problem a; /* A of all experts as one problem, or as a batch for each */
    int index, sms;
    int64_t rows, stages_k, tiles_n;
};

static int32_t make_plan(const struct experts *experts, struct experts_plan *plan) {
    const struct problem *all = &experts->all;
    plan->experts = experts;
    plan->rows = rows_of_experts(experts);
    plan->stages_k = ceil_div(all->k, STAGE_K);
    RETURN_IF_FAILED(gpu_count_sms(all->device, &plan->sms));
    RETURN_IF_FAILED(gpu_wanted_tile(EXPERTS_CONFIG_VARIABLE, hopper_experts_tile_name, &plan->index));
    if (plan->index < 0) {
        const int64_t pairs = experts->extension.plain ? ceil_div(all->n, 2) : all->n;
        plan->index = hopper_select_experts_tile(plan->rows, all->l, pairs, plan->sms);
    }
    plan->tile = &hopper_experts_tiles[plan->index];
    plan->tiles_n = ceil_div(all->n, (experts->extension.plain ? 2 : 1) * EXPERTS_TILE_N(plan->tile->m_blocks));
    RETURN_IF_FAILED(gpu_check_experts("hopper", plan->tile->name, experts, plan->tile->tile_m, plan->tiles_n));
    plan->a = *all;
    plan->a.scale_layout = experts->sfa_layout;
    return CUSTOM_KERNEL_OK;
}

struct tensor_maps {
    CUtensorMap a, b1, b2;
};

static int32_t encode_b(const char *name, const struct experts_plan *plan, const uint8_t *fp4,
                        CUtensorMap *map) {
    const struct tensor_3d b = gpu_experts_pieces(
        plan->experts, fp4, STAGE_FP4_BYTES, EXPERTS_TILE_N(plan->tile->m_blocks), CU_TENSOR_MAP_SWIZZLE_NONE);
    return gpu_encode(name, &b, map);
}

static int32_t encode_maps(const struct experts_plan *plan, const uint8_t *a_fp16, struct tensor_maps *maps) {
    const struct problem *all = &plan->experts->all;
    struct problem rows = *all;
    rows.m = plan->rows;
    rows.l = 1;
    const int box_rows = plan->tile->m_blocks > 1 ? LARGE_UNIT_ROWS : plan->tile->tile_m;
    RETURN_IF_FAILED(hopper_encode_a("a", &rows, plan->stages_k, a_fp16, (uint32_t)box_rows, &maps->a));
    RETURN_IF_FAILED(encode_b("b1", plan, all->b1, &maps->b1));
    return encode_b("b2", plan, gpu_experts_second(plan->experts), &maps->b2);
}

static int32_t launch_dequantize(const struct experts_plan *plan, uint8_t *a_fp16) {
    const int64_t row_parts = plan->stages_k * CHUNK_PARTS;
    const int64_t rows_of_cta =
        row_parts < EXPERTS_DEQUANTIZE_THREADS ? EXPERTS_DEQUANTIZE_THREADS / row_parts : 1;
    struct hopper_experts_dequantize_params params = {
        .a = hopper_dequantize_params(&plan->a, plan->stages_k, a_fp16),
        .tokens = expert_tokens_of(plan->experts, plan->tile->tile_m),
        .rows = (uint32_t)plan->rows,
        .rows_of_cta = (uint32_t)rows_of_cta,
    };
    struct launch launch = {
        .kernel = hopper_experts_dequantize_kernel(),
        .grid = {ceil_div(plan->rows, rows_of_cta), ceil_div(row_parts, EXPERTS_DEQUANTIZE_THREADS), 1},
        .threads = EXPERTS_DEQUANTIZE_THREADS,
        .cluster = 1,
        .pdl_variable = HOPPER_PDL_VARIABLE,
    };
    void *arguments[] = {&params};
    return gpu_launch(&plan->experts->all, &launch, arguments);
}

static int32_t launch_arrange(const struct experts_plan *plan, uint8_t *a_halves) {
    struct hopper_experts_arrange_params params = {
        .a = hopper_dequantize_params(&plan->a, plan->stages_k, a_halves),
        .a_index = plan->experts->a_index,
        .a_rows = plan->experts->a_rows,
    };
    struct launch launch = {
        .kernel = hopper_experts_arrange_kernel(),
        .grid = {plan->rows, ceil_div(params.a.row_units, ARRANGE_THREADS), 1},
        .threads = ARRANGE_THREADS,
        .cluster = 1,
        .pdl_variable = HOPPER_PDL_VARIABLE,
    };
    void *arguments[] = {&params};
    return gpu_launch(&plan->experts->all, &launch, arguments);
}

/* Every step that can fail because of the arguments comes before the first launch. */
static int32_t launch_all(const struct experts_plan *plan, uint8_t *scratch) {
    const struct experts *experts = plan->experts;
    const struct problem *all = &experts->all;
    const int64_t tiles = most_expert_tiles(experts, plan->tile->tile_m) * plan->tiles_n,
                  at_once = (int64_t)plan->sms * plan->tile->ctas_per_sm;
    struct tensor_maps maps;
    struct launch launch = {
        .kernel = hopper_experts_gemm_kernel(plan->index, experts->extension.a_type),
        .grid = {tiles < at_once ? tiles : at_once, 1, 1},
        .threads = CTA_THREADS(EXPERTS_WARPGROUPS),
        .cluster = 1,
        .shared_bytes = EXPERTS_SHARED_BYTES(plan->tile->tile_m, plan->tile->m_blocks, plan->tile->stages),
        .pdl_variable = HOPPER_PDL_VARIABLE,
    };
    struct hopper_experts_params params = {
        .tokens = expert_tokens_of(plan->experts, plan->tile->tile_m),
        .epilogue = gpu_experts_epilogue(experts),
        .sfb1 = all->sfb1,
        .sfb2 = all->sfb2,
        .sfb_expert_bytes = scale_batch_bytes(all->scale_layout, experts->b_rows, all->k / NVFP4_GROUP_ELEMS),
        .b_rows = (int32_t)(experts->extension.interleave != 0 ? 2 * all->n : all->n),
        .scale_words = (int32_t)(all->k / SCALE_TILE_K),
        .scales_by_rows = all->scale_layout == CUSTOM_KERNEL_SCALES_ROWS,
        .interleave = experts->extension.interleave,
        .tiles_n = (int32_t)plan->tiles_n,
        .stages_k = (int32_t)plan->stages_k,
        .correction = hopper_correction(experts->extension.a_type),
    };
    RETURN_IF_FAILED(encode_maps(plan, scratch, &maps));
    RETURN_IF_FAILED(gpu_allow_shared_memory(all->device, &launch));
    RETURN_IF_FAILED(experts_have_16_bit_a(experts) ? launch_arrange(plan, scratch)
                                                    : launch_dequantize(plan, scratch));
    void *arguments[] = {&maps.a, &maps.b1, &maps.b2, &params};
    return gpu_launch(all, &launch, arguments);
}

int32_t hopper_run_experts(const struct experts *experts) {
    struct experts_plan plan = {0};
    uint8_t *scratch = NULL;
    RETURN_IF_FAILED(make_plan(experts, &plan));
    const int64_t a_bytes = plan.rows * plan.stages_k * STAGE_K * FP16_BYTES;
    RETURN_IF_FAILED(gpu_acquire_scratch(&experts->all, a_bytes, &scratch));
    int32_t status = launch_all(&plan, scratch);
    return gpu_release_scratch(&experts->all, scratch, status);
}
