#include "hopper_extended_narrow_backend.h"

#include <stddef.h>

#include "../narrow/hopper_narrow_backend.h"
#include "../narrow/hopper_narrow_selection.h"
#include "hopper_extended_kernels.h"

static bool is_joint(const struct extension *extension) {
    return extension->plain || extension->interleave != 0;
}

/* Columns that a layout is for: a plain product has two columns where the dual GEMM has one. */
static int64_t layout_columns(const struct problem *problem) {
    return problem->extension->plain ? ceil_div(problem->n, 2) : problem->n;
}

static int log2_of(int value) {
    return value > 1 ? 1 + log2_of(value / 2) : 0;
}

/* A warp's rows fill whole entries of scale tiles: two of a block in each quarter of 32 rows, where gate's and
 * up's are apart or belong to one product; of interleaved rows, all quarters have both.  An NVFP4 output's
 * groups need consecutive columns. */
static struct narrow_columns columns_of(const struct extension *extension,
                                        const struct hopper_narrow_config *config) {
    const int subs = (extension->plain ? 2 : 1) * config->blocks, unit = subs * NARROW_BLOCK_B_ROWS;
    struct narrow_columns columns = {.span = unit, .subs = subs, .run_bits = log2_of(NARROW_BLOCK_B_ROWS)};
    if (extension->output != CUSTOM_KERNEL_NVFP4) {
        const int run = extension->interleave >= SCALE_ENTRIES ? 4 : 2;
        columns.span = extension->interleave != 0 ? SCALE_TILE_ROWS / 2 : SCALE_TILE_ROWS;
        columns.run_bits = log2_of(run);
        columns.step = columns.span * run / NARROW_BLOCK_B_ROWS;
    }
    columns.unit_bits = log2_of(columns.span / unit);
    return columns;
}

int32_t hopper_run_extended_narrow(const struct problem *problem, int index, int sms) {
    const struct extension *extension = problem->extension;
    const struct hopper_narrow_config *config = &hopper_narrow_configs[index];
    RETURN_IF_FAILED(hopper_narrow_check_limits(problem, config));
    const struct hopper_narrow_question question = {problem->m, layout_columns(problem), problem->k,
                                                    problem->l, extension->a_type,       NARROW_IN_PAIR};
    const struct hopper_narrow_layout layout = hopper_narrow_layout_of(problem->device, index, &question, sms);
    struct hopper_extended_narrow_params params = {
        .gemm = hopper_narrow_params_of(problem, &layout),
        .epilogue = extended_params_of(problem),
        .columns = columns_of(extension, config),
        .interleave = extension->interleave,
        .correction = hopper_correction(extension->a_type),
    };
    if (is_joint(extension)) {
        params.gemm.b2 = params.gemm.b1;
        params.gemm.sfb2 = params.gemm.sfb1;
    }
    void *arguments[] = {&params};
    return hopper_launch_narrow(problem, config, &layout,
                                hopper_extended_narrow_kernel(index, layout.split_k, extension->a_type),
                                layout_columns(problem), arguments);
}
