#include "board_tensors.h"

#include <stdio.h>

#include "checks.h"

enum { BOARD_DIMENSIONS = 3, MESSAGE_BYTES = 512 };

struct torch_shape board_shape(enum board_role role, const struct board_sizes *sizes, int32_t scale_layout) {
    const bool factors = role == BOARD_SFA || role == BOARD_SFB, of_a = role == BOARD_A || role == BOARD_SFA;
    const int64_t rows = of_a || role == BOARD_C ? sizes->m : sizes->b_rows;
    if (factors && scale_layout == CUSTOM_KERNEL_SCALES_BLOCKED) {
        return (struct torch_shape){
            .dimensions = 6, /* of view_shape(), then L: written out, as groups are many */
            .sizes = {SCALE_ENTRIES, SCALE_TILE_ROWS / SCALE_ENTRIES, scale_tile_rows(rows), SCALE_TILE_GROUPS,
                      ceil_div(sizes->k, SCALE_TILE_K), sizes->l},
            .order = {5, 2, 4, 0, 1, 3}};
    }
    return (struct torch_shape){.dimensions = BOARD_DIMENSIONS,
                                .sizes = {rows,
                                          role == BOARD_C ? sizes->n
                                          : factors       ? sizes->k / NVFP4_GROUP_ELEMS
                                                          : sizes->k / 2,
                                          sizes->l},
                                .order = {2, 0, 1}};
}

enum torch_dtype board_dtype(enum board_role role) {
    return role == BOARD_C                          ? DTYPE_float16
           : role == BOARD_SFA || role == BOARD_SFB ? DTYPE_float8_e4m3fn
                                                    : DTYPE_float4_e2m1fn_x2;
}

void custom_kernel_tensor_form(int32_t role, int32_t scale_layout, const int64_t *sizes,
                               struct tensor_form *form) {
    const struct board_sizes all = {sizes[0], sizes[1], sizes[2], sizes[3], sizes[1]};
    const struct torch_shape shape = board_shape((enum board_role)role, &all, scale_layout);
    form->dtype = dtype_text(board_dtype((enum board_role)role));
    form->dimensions = shape.dimensions;
    for (int i = 0; i < shape.dimensions; i++) {
        form->sizes[i] = shape.sizes[i];
    }
    packed_strides(&shape, form->strides);
}

struct torch_tensor described_tensor(const struct tensor_description *description) {
    if (description->dtype == NULL) {
        return (struct torch_tensor){.name = description->name};
    }
    return (struct torch_tensor){
        .name = description->name,
        .handle = (void *)(uintptr_t)description,
        .described = true,
        .dtype = dtype_named(description->dtype),
        .device = description->device == CUSTOM_KERNEL_DEVICE_HOST ? TORCH_CPU
                  : description->device == DEVICE_ELSEWHERE        ? TORCH_ELSEWHERE
                                                                   : TORCH_CUDA,
        .device_index = description->device,
        .dimensions = description->dimensions,
        .sizes = description->sizes,
        .strides = description->strides,
    };
}

static const struct tensor_description *with_role(const struct tensor_description *given, int32_t count,
                                                  enum board_role role) {
    for (int32_t i = 0; i < count; i++) {
        if (given[i].role == (int32_t)role) {
            return &given[i];
        }
    }
    return NULL;
}

/* "a has shape (3, 4)" and what was expected */
static int32_t wrong_shape(const struct tensor_description *tensor, const char *expected) {
    return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "%s has shape %s%s", tensor->name,
                       sizes_text(tensor->dimensions, tensor->sizes).text, expected);
}

static int32_t check_matrix(const struct tensor_description *tensor) {
    if (tensor->dimensions != BOARD_DIMENSIONS) {
        return wrong_shape(tensor, "; expected three dimensions");
    }
    return tensor->sizes[1] == 0 || tensor->sizes[2] == 0
               ? wrong_shape(tensor, "; expected no empty dimension but M")
               : CUSTOM_KERNEL_OK;
}

/* The rows of b where they need not be C's columns. */
static int32_t check_padded(const struct tensor_description *b, const struct tensor_description *c,
                            const struct board_sizes *sizes) {
    char text[MESSAGE_BYTES];
    if (sizes->b_rows != sizes->n && (sizes->n != 1 || sizes->b_rows != SCALE_TILE_ROWS)) {
        (void)snprintf(text, sizeof text, "; expected %lld row%s, for %s of shape %s", (long long)sizes->n,
                       sizes->n == 1 ? ", or 128 of which the first counts" : "s", c->name,
                       sizes_text(c->dimensions, c->sizes).text);
        return wrong_shape(b, text);
    }
    if (sizes->l > CUSTOM_KERNEL_MAX_GROUPS) {
        (void)snprintf(text, sizeof text, ", L = %lld; expected at most %d", (long long)sizes->l,
                       CUSTOM_KERNEL_MAX_GROUPS);
        return wrong_shape(c, text);
    }
    return CUSTOM_KERNEL_OK;
}

/* The sizes that the tensors say. */
static int32_t read_sizes(const struct tensor_description *given, int32_t count, struct board_sizes *sizes) {
    const struct tensor_description *a = with_role(given, count, BOARD_A),
                                    *c = with_role(given, count, BOARD_C),
                                    *padded = with_role(given, count, BOARD_PADDED_B);
    const struct tensor_description *matrices[] = {a, padded != NULL ? padded : a, c};
    for (size_t i = 0; i < sizeof matrices / sizeof *matrices; i++) {
        RETURN_IF_FAILED(check_matrix(matrices[i]));
    }
    *sizes = (struct board_sizes){.m = c->sizes[0],
                                  .n = c->sizes[1],
                                  .k = 2 * a->sizes[1],
                                  .l = c->sizes[2],
                                  .b_rows = padded != NULL ? padded->sizes[0] : c->sizes[1]};
    if (sizes->k % K_MULTIPLE_ELEMS != 0) {
        char text[MESSAGE_BYTES];
        (void)snprintf(text, sizeof text, ", K = %lld; expected a multiple of %d", (long long)sizes->k,
                       K_MULTIPLE_ELEMS);
        return wrong_shape(a, text);
    }
    return padded != NULL ? check_padded(padded, c, sizes) : CUSTOM_KERNEL_OK;
}

int32_t custom_kernel_examine(const struct tensor_description *given, int32_t count, int32_t scale_layout,
                              const int64_t *sizes, const struct tensor_description *device_of) {
    struct board_sizes all;
    const struct torch_tensor as = described_tensor(device_of);
    if (sizes != NULL) {
        all = (struct board_sizes){sizes[0], sizes[1], sizes[2], 1, sizes[1]};
    } else {
        RETURN_IF_FAILED(read_sizes(given, count, &all));
    }
    for (int32_t i = 0; i < count; i++) {
        const enum board_role role = (enum board_role)given[i].role;
        const struct torch_tensor tensor = described_tensor(&given[i]);
        const struct torch_shape shape = board_shape(role, &all, scale_layout);
        RETURN_IF_FAILED(check_dtype(&tensor, 1U << board_dtype(role)));
        if (!same_shape(&tensor, &shape)) {
            char text[MESSAGE_BYTES];
            (void)snprintf(text, sizeof text, "; expected %s for M = %lld, N = %lld, K = %lld, L = %lld",
                           shape_text(&shape).text, (long long)all.m, (long long)all.n, (long long)all.k,
                           (long long)all.l);
            return wrong_shape(&given[i], text);
        }
        RETURN_IF_FAILED(check_strides(&tensor, &shape));
        RETURN_IF_FAILED(check_device(&tensor, &as));
        RETURN_IF_FAILED(check_storage(&tensor, given[i].held));
    }
    return CUSTOM_KERNEL_OK;
}
