#include "scale_factors.h"

#include <stdio.h>

#include "../core/checks.h"

enum { VIEW_DIMENSIONS = 5 };

/* Names of enum factor_layout. */
static const char *const layouts[FACTOR_LAYOUTS] = {"linear", "swizzled128x4", "swizzled8x4"};

const char *layout_name(int32_t layout) {
    return layouts[layout];
}

static int64_t padded_rows(int64_t rows, enum factor_layout layout) {
    return layout == FACTORS_LINEAR
               ? rows
               : round_up(rows, layout == FACTORS_128X4 ? SCALE_TILE_ROWS : SMALL_TILE_ROWS);
}

/* Dimensions of one problem's factors, and their sizes. */
static int64_t own_dimensions(const struct factors *factors) {
    return factors->tensor->dimensions - factors->by_expert;
}

/* The layout without a stated one. */
static int32_t infer(struct factors *factors, int64_t groups, bool by_rows) {
    const struct torch_tensor *tensor = factors->tensor;
    const int64_t dimensions = own_dimensions(factors);
    factors->layout = by_rows || dimensions == 2 ? FACTORS_LINEAR : FACTORS_128X4;
    if (!by_rows && dimensions != 2 && dimensions != VIEW_DIMENSIONS) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT,
                           "%s has shape %s; expected (%lld, %lld), or a layout stated by scale_layout",
                           tensor->name, tensor_text(tensor).text, (long long)factors->rows, (long long)groups);
    }
    const int64_t rows = dimensions == 2 ? tensor->sizes[factors->by_expert] : factors->rows;
    if (factors->layout == FACTORS_LINEAR && factors->rows > 0 && rows % SCALE_TILE_ROWS == 0) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT,
                           "%s has shape %s, which can be read row by row or as blocks of 128 x 4; expected "
                           "scale_layout='linear' or 'swizzled128x4' to say which",
                           tensor->name, tensor_text(tensor).text);
    }
    return CUSTOM_KERNEL_OK;
}

/* The shape in the factors' layout that has as many dimensions as the tensor; one of two dimensions if none
 * has. `by_rows`: the shape of linear factors that have the codes' dimensions. */
static struct torch_shape wanted_shape(const struct factors *factors, int64_t groups, bool leading,
                                       const struct torch_shape *by_rows) {
    const struct torch_tensor *tensor = factors->tensor;
    const bool swizzled = factors->layout != FACTORS_LINEAR;
    const int64_t padded = padded_rows(factors->rows, factors->layout),
                  wide = swizzled ? round_up(groups, SCALE_TILE_GROUPS) : groups;
    if (factors->by_expert) {
        return (struct torch_shape){
            .dimensions = 3, .sizes = {factors->codes->sizes[0], padded, wide}, .order = {0, 1, 2}};
    }
    if (!swizzled && leading) {
        return *by_rows;
    }
    if (swizzled && tensor->dimensions == 1) {
        return (struct torch_shape){.dimensions = 1, .sizes = {padded * wide}, .order = {0}};
    }
    return factors->layout == FACTORS_128X4 && tensor->dimensions == VIEW_DIMENSIONS
               ? view_shape(factors->rows, groups)
               : shape_2d(padded, wide);
}

int32_t check_factors(struct factors *factors, int64_t groups) {
    const struct torch_tensor *tensor = factors->tensor, *codes = factors->codes;
    const struct torch_shape by_rows = shape_of(codes, (int)codes->dimensions - 1, groups);
    const bool leading = !factors->by_expert && codes->dimensions > 2 && same_shape(tensor, &by_rows);
    factors->rows = 1;
    for (int i = factors->by_expert; i + 1 < codes->dimensions; i++) {
        factors->rows *= codes->sizes[i];
    }
    RETURN_IF_FAILED(check_dtype(tensor, SCALE_DTYPES));
    if (factors->by_expert && tensor->dimensions != 3) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT,
                           "%s has shape %s; expected three dimensions, experts first", tensor->name,
                           tensor_text(tensor).text);
    }
    if (factors->stated != LAYOUT_NOT_STATED) {
        factors->layout = (enum factor_layout)factors->stated;
    } else {
        RETURN_IF_FAILED(infer(factors, groups, leading));
    }
    const struct torch_shape shape = wanted_shape(factors, groups, leading, &by_rows);
    if (tensor->dimensions != shape.dimensions) {
        const bool swizzled = factors->layout != FACTORS_LINEAR, blocked = factors->layout == FACTORS_128X4;
        const struct torch_shape flat = {.dimensions = 1, .sizes = {shape.sizes[0] * shape.sizes[1]}},
                                 view = view_shape(factors->rows, groups);
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT,
                           "%s has shape %s; expected %s%s%s%s%s, as its layout is '%s'", tensor->name,
                           tensor_text(tensor).text, shape_text(&shape).text, swizzled ? " or " : "",
                           swizzled ? shape_text(&flat).text : "", blocked ? " or " : "",
                           blocked ? shape_text(&view).text : "", layouts[factors->layout]);
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

/* Rows of any distance. */
static int32_t copy_rows(const struct torch_tensor *as, int64_t rows, int64_t row_bytes, void *into,
                         int64_t into_bytes, const void *from, int64_t from_bytes) {
    const int64_t sizes[] = {rows, row_bytes}, to[] = {into_bytes, 1}, of[] = {from_bytes, 1};
    return copy_bytes(as, 2, sizes, into, to, from, of);
}

/* Factors in another layout than the library's, of one problem: first to whole rows of whole blocks. */
static int32_t convert(struct torch_call *call, const struct factors *factors, int64_t groups, bool to_blocks,
                       void **data) {
    const struct torch_tensor *tensor = factors->tensor;
    const int64_t rows = factors->rows, padded = padded_rows(rows, FACTORS_128X4),
                  wide = round_up(groups, SCALE_TILE_GROUPS);
    const bool whole = factors->layout == FACTORS_128X4 || (rows == padded && groups == wide);
    const void *from = *data;
    RETURN_IF_FAILED(new_copy(call, padded * wide, !whole, tensor, data));
    RETURN_IF_FAILED(factors->layout == FACTORS_128X4 ? copy_blocks(tensor, padded, wide, *data, from, false)
                     : factors->layout == FACTORS_8X4
                         ? copy_small_blocks(tensor, padded_rows(rows, FACTORS_8X4), wide, *data, from)
                         : copy_rows(tensor, rows, groups, *data, wide, from, groups));
    if (!to_blocks && groups == wide) {
        return CUSTOM_KERNEL_OK;
    }
    from = *data;
    RETURN_IF_FAILED(new_copy(call, to_blocks ? padded * wide : rows * groups, false, tensor, data));
    return to_blocks ? copy_blocks(tensor, padded, wide, *data, from, true)
                     : copy_rows(tensor, rows, groups, *data, groups, from, wide);
}

int32_t factors_for_library(struct torch_call *call, const struct factors *factors, int64_t groups,
                            int32_t layout, void **data) {
    const struct torch_tensor *tensor = factors->tensor;
    const bool to_blocks = layout == CUSTOM_KERNEL_SCALES_BLOCKED;
    RETURN_IF_FAILED(tensor_data(tensor, data));
    if (factors->rows == 0 || (factors->layout == FACTORS_128X4 && to_blocks)) {
        return CUSTOM_KERNEL_OK;
    }
    if (factors->layout != FACTORS_LINEAR || to_blocks) {
        return convert(call, factors, groups, to_blocks, data);
    }
    const void *from = *data;
    const int64_t bytes = elements_of(tensor);
    if ((uintptr_t)from % POINTER_ALIGNMENT_BYTES == 0) {
        return CUSTOM_KERNEL_OK;
    }
    RETURN_IF_FAILED(new_copy(call, bytes, false, tensor, data));
    return copy_rows(tensor, 1, bytes, *data, bytes, from, bytes);
}
