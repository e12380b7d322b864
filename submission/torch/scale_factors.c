#include "scale_factors.h"

#include <stdio.h>
#include <string.h>

#include "../core/checks.h"

enum { VIEW_DIMENSIONS = 5 };

/* Names of enum factor_layout. */
static const char *const layouts[] = {"linear", "swizzled128x4", "swizzled8x4"};
enum { LAYOUTS = sizeof layouts / sizeof *layouts };

struct torch_shape view_shape(int64_t rows, int64_t groups) {
    return (struct torch_shape){.dimensions = VIEW_DIMENSIONS,
                                .sizes = {SCALE_ENTRIES, SCALE_TILE_ROWS / SCALE_ENTRIES, scale_tile_rows(rows),
                                          SCALE_TILE_GROUPS, ceil_div(groups, SCALE_TILE_GROUPS)},
                                .order = {2, 4, 0, 1, 3}};
}

static int64_t padded_rows(int64_t rows, enum factor_layout layout) {
    return layout == FACTORS_LINEAR
               ? rows
               : round_up(rows, layout == FACTORS_128X4 ? SCALE_TILE_ROWS : SMALL_TILE_ROWS);
}

/* The layout without a stated one. */
static int32_t infer(struct factors *factors, int64_t groups, bool by_rows) {
    const struct torch_tensor *tensor = factors->tensor;
    factors->layout = by_rows || tensor->dimensions == 2 ? FACTORS_LINEAR : FACTORS_128X4;
    if (!by_rows && tensor->dimensions != 2 && tensor->dimensions != VIEW_DIMENSIONS) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT,
                           "%s has shape %s; expected (%lld, %lld), or a layout stated by scale_layout",
                           tensor->name, tensor_text(tensor).text, (long long)factors->rows, (long long)groups);
    }
    const int64_t rows = tensor->dimensions == 2 ? tensor->sizes[0] : factors->rows;
    if (factors->layout == FACTORS_LINEAR && factors->rows > 0 && rows % SCALE_TILE_ROWS == 0) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT,
                           "%s has shape %s, which can be read row by row or as blocks of 128 x 4; expected "
                           "scale_layout='linear' or 'swizzled128x4' to say which",
                           tensor->name, tensor_text(tensor).text);
    }
    return CUSTOM_KERNEL_OK;
}

static int32_t stated(struct factors *factors) {
    for (int i = 0; i < LAYOUTS; i++) {
        if (strcmp(factors->stated, layouts[i]) == 0) {
            factors->layout = (enum factor_layout)i;
            return CUSTOM_KERNEL_OK;
        }
    }
    return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT,
                       "%s has layout '%.32s'; expected one of linear, swizzled128x4, swizzled8x4",
                       factors->tensor->name, factors->stated);
}

int32_t check_factors(struct factors *factors, int64_t groups) {
    const struct torch_tensor *tensor = factors->tensor, *codes = factors->codes;
    const struct torch_shape by_rows = shape_of(codes, (int)codes->dimensions - 1, groups);
    const bool leading = codes->dimensions > 2 && same_shape(tensor, &by_rows);
    factors->rows = 1;
    for (int i = 0; i + 1 < codes->dimensions; i++) {
        factors->rows *= codes->sizes[i];
    }
    RETURN_IF_FAILED(check_dtype(tensor, SCALE_DTYPES));
    RETURN_IF_FAILED(factors->stated != NULL ? stated(factors) : infer(factors, groups, leading));
    const int64_t padded = padded_rows(factors->rows, factors->layout);
    const bool swizzled = factors->layout != FACTORS_LINEAR;
    const int64_t wide = swizzled ? round_up(groups, SCALE_TILE_GROUPS) : groups;
    struct torch_shape shape = shape_2d(padded, wide);
    if (!swizzled && leading) {
        shape = by_rows;
    } else if (swizzled && tensor->dimensions == 1) {
        shape = (struct torch_shape){.dimensions = 1, .sizes = {padded * wide}, .order = {0}};
    } else if (factors->layout == FACTORS_128X4 && tensor->dimensions == VIEW_DIMENSIONS) {
        shape = view_shape(factors->rows, groups);
    } else if (tensor->dimensions != 2) {
        const struct torch_shape flat = {.dimensions = 1, .sizes = {padded * wide}},
                                 view = view_shape(factors->rows, groups);
        return set_message(
            CUSTOM_KERNEL_ERROR_ARGUMENT, "%s has shape %s; expected %s%s%s%s%s, as its layout is '%s'",
            tensor->name, tensor_text(tensor).text, shape_text(&shape).text, swizzled ? " or " : "",
            swizzled ? shape_text(&flat).text : "", factors->layout == FACTORS_128X4 ? " or " : "",
            factors->layout == FACTORS_128X4 ? shape_text(&view).text : "", layouts[factors->layout]);
    }
    RETURN_IF_FAILED(check_shape(tensor, &shape));
    RETURN_IF_FAILED(check_strides(tensor, &shape));
    return check_device(tensor, codes);
}

int32_t library_layout(const struct factors *of_b) {
    return of_b->layout == FACTORS_128X4 ? CUSTOM_KERNEL_SCALES_BLOCKED : CUSTOM_KERNEL_SCALES_ROWS;
}

/* Copies between blocks of 128 x 4 and whole rows; `rows` is a multiple of 128. */
static int32_t copy_blocks(const struct torch_tensor *as, int64_t rows, int64_t groups, void *into,
                           const void *from, bool to_blocks) {
    const int64_t tiles = groups / SCALE_TILE_GROUPS;
    const int64_t sizes[] = {rows / SCALE_TILE_ROWS, SCALE_ENTRY_WORDS, SCALE_ENTRIES, tiles,
                             SCALE_TILE_GROUPS};
    const int64_t blocks[] = {tiles * SCALE_TILE_BYTES, SCALE_WORD_BYTES, SCALE_ENTRY_BYTES, SCALE_TILE_BYTES,
                              1};
    const int64_t plain[] = {SCALE_TILE_ROWS * groups, SCALE_ENTRIES * groups, groups, SCALE_TILE_GROUPS, 1};
    return copy_bytes(as, VIEW_DIMENSIONS, sizes, into, to_blocks ? blocks : plain, from,
                      to_blocks ? plain : blocks);
}

/* Blocks of 8 x 4 to whole rows. */
static int32_t copy_small_blocks(const struct torch_tensor *as, int64_t rows, int64_t groups, void *into,
                                 const void *from) {
    const int64_t tiles = groups / SCALE_TILE_GROUPS;
    const int64_t sizes[] = {rows / SMALL_TILE_ROWS, SMALL_TILE_ROWS, tiles, SCALE_TILE_GROUPS};
    const int64_t blocks[] = {tiles * SMALL_TILE_BYTES, SCALE_TILE_GROUPS, SMALL_TILE_BYTES, 1};
    const int64_t plain[] = {SMALL_TILE_ROWS * groups, groups, SCALE_TILE_GROUPS, 1};
    return copy_bytes(as, 4, sizes, into, plain, from, blocks);
}

static int32_t copy_rows(const struct torch_tensor *as, int64_t bytes, void *into, const void *from) {
    const int64_t step = 1;
    return copy_bytes(as, 1, &bytes, into, &step, from, &step);
}

int32_t factors_for_library(struct torch_call *call, const struct factors *factors, int64_t groups,
                            int32_t layout, void **data) {
    const struct torch_tensor *tensor = factors->tensor;
    const bool to_blocks = layout == CUSTOM_KERNEL_SCALES_BLOCKED;
    const int64_t rows = factors->rows, padded = padded_rows(rows, FACTORS_128X4);
    void *from;
    RETURN_IF_FAILED(tensor_data(tensor, data));
    if (rows == 0 || (factors->layout == FACTORS_128X4 && to_blocks)) {
        return CUSTOM_KERNEL_OK;
    }
    if (groups % SCALE_TILE_GROUPS != 0 && (factors->layout != FACTORS_LINEAR || to_blocks)) {
        return set_message(
            CUSTOM_KERNEL_ERROR_ARGUMENT,
            "%s has layout '%s', which a copy to the layout of b's factors converts only where K is "
            "a multiple of 64; expected 'linear' or 'swizzled128x4' for both",
            tensor->name, layouts[factors->layout]);
    }
    from = *data;
    if (factors->layout == FACTORS_128X4) {
        RETURN_IF_FAILED(new_copy(call, padded * groups, false, tensor, data));
        return copy_blocks(tensor, padded, groups, *data, from, false);
    }
    if (factors->layout == FACTORS_LINEAR && !to_blocks) {
        if ((uintptr_t)from % POINTER_ALIGNMENT_BYTES == 0) {
            return CUSTOM_KERNEL_OK;
        }
        RETURN_IF_FAILED(new_copy(call, rows * groups, false, tensor, data));
        return copy_rows(tensor, rows * groups, *data, from);
    }
    /* By rows first; rows up to the block's last are zeros. */
    RETURN_IF_FAILED(new_copy(call, padded * groups, rows < padded, tensor, data));
    RETURN_IF_FAILED(factors->layout == FACTORS_8X4
                         ? copy_small_blocks(tensor, padded_rows(rows, FACTORS_8X4), groups, *data, from)
                         : copy_rows(tensor, rows * groups, *data, from));
    if (!to_blocks) {
        return CUSTOM_KERNEL_OK;
    }
    from = *data;
    RETURN_IF_FAILED(new_copy(call, padded * groups, false, tensor, data));
    return copy_blocks(tensor, padded, groups, *data, from, true);
}
