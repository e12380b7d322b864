/* The extended GEMM's epilogue: scales, biases, activation, and rounding to fp16, bf16 or NVFP4. */
#include "extended_epilogue.h"

#include "activation.h"
#include "quantize_group.h"
#include "rounding.h"

int64_t extended_panel_cols(const struct extension *extension) {
    return extension->plain ? 2 * PANEL_COLS : PANEL_COLS;
}

/* True for an interleaving below PANEL_COLS: then each half of a panel holds pieces of both gate and up. */
static bool is_mixed(const struct extension *extension) {
    return extension->interleave != 0 && extension->interleave < PANEL_COLS;
}

void extended_panel_rows(const struct extension *extension, int64_t first_col, int cols, int64_t first[2],
                         int present[2]) {
    const int64_t interleave = extension->interleave;
    first[0] = first[1] = first_col;
    present[0] = present[1] = cols;
    if (extension->plain || is_mixed(extension)) { /* the halves hold consecutive rows of B */
        const int all = extension->plain ? cols : 2 * cols;
        first[0] = extension->plain ? first_col : 2 * first_col;
        first[1] = first[0] + PANEL_COLS;
        present[0] = all < PANEL_COLS ? all : PANEL_COLS;
        present[1] = all - present[0];
    } else if (interleave != 0) {
        first[0] = first_col + first_col / interleave * interleave;
        first[1] = first[0] + interleave;
    }
}

static float number(const float *pointer) {
    return pointer != NULL ? *pointer : 1.0f;
}

/* The biases of a panel's columns; none is -0, which changes no number that it is added to. */
struct biases {
    float gate[2 * PANEL_COLS], up[2 * PANEL_COLS];
};

static void load_bias(const float *bias, int64_t first_col, int cols, float *to) {
    for (int col = 0; col < 2 * PANEL_COLS; col++) {
        to[col] = bias != NULL && col < cols ? bias[first_col + col] : -0.0f;
    }
}

/* Scales, biases and activation for one row of a tile. */
static void gated_row(const struct extension *extension, const struct accumulators *accumulators,
                      const struct biases *biases, int row, float gate_factor, float up_factor, float *result) {
    const struct activation activation = extension->activation;
    const int piece = is_mixed(extension) ? extension->interleave : PANEL_COLS;
    for (int col = 0; col < PANEL_COLS; col++) {
        const int half = col / piece, at = col % piece;
        const float gate =
            accumulators->of[piece == PANEL_COLS ? 0 : half][row][at] * gate_factor + biases->gate[col];
        const float up =
            (piece == PANEL_COLS ? accumulators->of[1][row][at] : accumulators->of[half][row][piece + at]) *
                up_factor +
            biases->up[col];
        result[col] = activated_gate(activation, gate, up);
    }
}

/* The same for a plain product. */
static void plain_row(const struct extension *extension, const struct accumulators *accumulators,
                      const struct biases *biases, int row, int cols, float factor, float *result) {
    const struct activation activation = extension->activation;
    for (int col = 0; col < cols; col++) {
        result[col] = accumulators->of[col / PANEL_COLS][row][col % PANEL_COLS] * factor + biases->gate[col];
    }
    for (int col = 0; activation.function != CUSTOM_KERNEL_ACTIVATION_DEFAULT && col < cols; col++) {
        result[col] = activated(activation, result[col]);
    }
}

/* Quantizes `cols` columns of a row from first_col on to NVFP4: scale factors to sfc, codes to c. */
static void quantize_row(const struct problem *problem, const float *values, int64_t row, int64_t first_col,
                         int cols) {
    const struct extension *extension = problem->extension;
    const float scale_c = read_quantization_scale(extension->scale_c);
    uint8_t *codes = (uint8_t *)problem->c + row * (problem->n / 2) + first_col / 2;
    for (int first = 0; first < cols; first += NVFP4_GROUP_ELEMS, codes += NVFP4_GROUP_ELEMS / 2) {
        (void)quantize_group(values + first, scale_c, codes,
                             &extension->sfc[scale_offset(token_scale_layout(problem), row,
                                                          (first_col + first) / NVFP4_GROUP_ELEMS,
                                                          problem->n / NVFP4_GROUP_ELEMS)]);
    }
}

void extended_epilogue(const struct problem *problem, const struct accumulators *accumulators,
                       int64_t first_row, int64_t first_col, int rows, int cols) {
    const struct extension *extension = problem->extension;
    struct biases biases;
    load_bias(extension->bias_gate, first_col, cols, biases.gate);
    load_bias(extension->bias_up, first_col, cols, biases.up);
    for (int row = 0; row < rows; row++) {
        const float token = extension->token_scale != NULL ? extension->token_scale[first_row + row] : 1.0f;
        const float gate_factor = number(extension->scale_gate) * token;
        float values[2 * PANEL_COLS];
        if (extension->plain) {
            plain_row(extension, accumulators, &biases, row, cols, gate_factor, values);
        } else {
            gated_row(extension, accumulators, &biases, row, gate_factor, number(extension->scale_up) * token,
                      values);
        }
        if (extension->output == CUSTOM_KERNEL_NVFP4) {
            quantize_row(problem, values, first_row + row, first_col, cols);
            continue;
        }
        uint16_t *c = problem->c + (first_row + row) * problem->n + first_col;
        for (int col = 0; col < cols; col++) {
            c[col] =
                extension->output == CUSTOM_KERNEL_BF16 ? bfloat_bits(values[col]) : half_bits(values[col]);
        }
    }
}

void extended_pad(const struct problem *problem, int64_t first_col, int cols) {
    const struct extension *extension = problem->extension;
    if (extension->output != CUSTOM_KERNEL_NVFP4 ||
        token_scale_layout(problem) != CUSTOM_KERNEL_SCALES_BLOCKED) {
        return;
    }
    const int64_t end = round_up(problem->m, SCALE_TILE_ROWS);
    for (int64_t row = problem->m; row < end; row++) {
        for (int col = 0; col < cols; col += NVFP4_GROUP_ELEMS) {
            extension
                ->sfc[scale_offset(CUSTOM_KERNEL_SCALES_BLOCKED, row, (first_col + col) / NVFP4_GROUP_ELEMS,
                                   problem->n / NVFP4_GROUP_ELEMS)] = 0;
        }
    }
}
