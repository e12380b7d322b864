#include "pad_k.h"

#include "checks.h"

enum { MOST_TENSORS = 6, PART_ALIGNMENT = 256 };

/* The tensors to copy, each with the pointer that is to point to its copy. */
struct copies {
    struct padded_rows rows[MOST_TENSORS];
    const uint8_t **pointer[MOST_TENSORS];
    int count;
    int64_t bytes; /* of all copies; negative after an overflow */
};

static void add_rows(struct copies *copies, const uint8_t **pointer, int64_t rows, int64_t from_bytes,
                     int64_t to_bytes, int32_t last_groups) {
    int64_t bytes;
    if (*pointer == NULL) {
        return;
    }
    copies->rows[copies->count] = (struct padded_rows){.from = *pointer,
                                                       .rows = rows,
                                                       .from_bytes = from_bytes,
                                                       .to_bytes = to_bytes,
                                                       .last_groups = last_groups};
    copies->pointer[copies->count++] = pointer;
    if (copies->bytes < 0 || __builtin_mul_overflow(rows, to_bytes, &bytes) ||
        bytes > INT64_MAX - PART_ALIGNMENT ||
        __builtin_add_overflow(copies->bytes, round_up(bytes, PART_ALIGNMENT), &copies->bytes)) {
        copies->bytes = -1;
    }
}

/* `batches` batches of `rows` rows of codes, or of 16-bit numbers. */
static void add_elements(struct copies *copies, const uint8_t **pointer, int64_t batches, int64_t rows,
                         int64_t k, bool wide) {
    const int64_t padded = round_up(k, K_MULTIPLE_ELEMS);
    add_rows(copies, pointer, batches * rows, wide ? 2 * k : k / 2, wide ? 2 * padded : padded / 2, 0);
}

static void add_scales(struct copies *copies, const uint8_t **pointer, int64_t batches, int64_t rows, int64_t k,
                       int32_t layout) {
    const int64_t groups = k / NVFP4_GROUP_ELEMS, tiles = ceil_div(groups, SCALE_TILE_GROUPS);
    if (layout == CUSTOM_KERNEL_SCALES_ROWS) {
        add_rows(copies, pointer, batches * rows, groups, tiles * SCALE_TILE_GROUPS, 0);
    } else {
        add_rows(copies, pointer, batches * scale_tile_rows(rows), tiles * SCALE_TILE_BYTES,
                 tiles * SCALE_TILE_BYTES, (int32_t)(groups % SCALE_TILE_GROUPS));
    }
}

/* True if a backend that reads zeros past the end of a row of B needs no copies of its codes. */
static bool keeps_codes(bool ends_rows, int64_t k) {
    return ends_rows && k / 2 % POINTER_ALIGNMENT_BYTES == 0;
}

/* Makes the copies, and lets the pointers point to them. */
static int32_t copy_all(const struct backend *backend, const struct problem *problem, struct copies *copies,
                        uint8_t **memory) {
    if (backend->pad == NULL) {
        return set_message(CUSTOM_KERNEL_ERROR_UNSUPPORTED,
                           "k is %lld; expected a multiple of %d on backend %s", (long long)problem->k,
                           K_MULTIPLE_ELEMS, backend->name);
    }
    if (copies->bytes < 0) {
        return set_message(CUSTOM_KERNEL_ERROR_OUT_OF_MEMORY,
                           "k is %lld, and the operands padded to a multiple of %d have 2^63 bytes or more",
                           (long long)problem->k, K_MULTIPLE_ELEMS);
    }
    RETURN_IF_FAILED(backend->acquire_memory(problem, copies->bytes, memory));
    uint8_t *to = *memory;
    for (int i = 0; i < copies->count; i++) {
        copies->rows[i].to = to;
        const int32_t status = backend->pad(problem, &copies->rows[i]);
        if (status != CUSTOM_KERNEL_OK) {
            return backend->release_memory(problem, *memory, status);
        }
        *copies->pointer[i] = to;
        to += round_up(copies->rows[i].rows * copies->rows[i].to_bytes, PART_ALIGNMENT);
    }
    return CUSTOM_KERNEL_OK;
}

struct problem padded_sizes(const struct backend *backend, const struct problem *problem) {
    struct problem padded = *problem;
    if (problem->k % K_MULTIPLE_ELEMS != 0) {
        padded.b_k = keeps_codes(backend->ends_rows, problem->k) ? problem->k : 0;
        padded.k = round_up(problem->k, K_MULTIPLE_ELEMS);
    }
    return padded;
}

int32_t pad_problem(const struct backend *backend, struct problem *problem, uint8_t **memory) {
    const struct extension *extension = problem->extension;
    const int64_t k = problem->k, l = problem->l, m = problem->m;
    const bool joint = extension != NULL && (extension->stacked || extension->interleave != 0);
    const int64_t b_rows = joint ? 2 * problem->n : problem->n;
    const struct problem sizes = padded_sizes(backend, problem);
    struct copies copies = {.count = 0};
    *memory = NULL;
    if (k % K_MULTIPLE_ELEMS == 0) {
        return CUSTOM_KERNEL_OK;
    }
    add_elements(&copies, &problem->a, l, m, k,
                 extension != NULL && extension->a_type != CUSTOM_KERNEL_A_NVFP4);
    if (sizes.b_k == 0) {
        add_elements(&copies, &problem->b1, l, b_rows, k, false);
        add_elements(&copies, &problem->b2, l, b_rows, k, false);
    }
    add_scales(&copies, &problem->sfa, l, m, k, problem->scale_layout);
    add_scales(&copies, &problem->sfb1, l, b_rows, k, problem->scale_layout);
    add_scales(&copies, &problem->sfb2, l, b_rows, k, problem->scale_layout);
    RETURN_IF_FAILED(copy_all(backend, problem, &copies, memory));
    problem->k = sizes.k;
    problem->b_k = sizes.b_k;
    return CUSTOM_KERNEL_OK;
}

int32_t pad_experts(const struct backend *backend, struct experts *experts, uint8_t **memory) {
    struct problem *all = &experts->all;
    const int64_t k = all->k, l = all->l, n = all->n;
    /* Stacked weights are two tensors that lie in one. */
    const bool stacked = all->b2 != NULL && experts->b_rows != n;
    const uint8_t *none = NULL;
    struct copies copies = {.count = 0};
    *memory = NULL;
    if (k % K_MULTIPLE_ELEMS == 0) {
        return CUSTOM_KERNEL_OK;
    }
    const int64_t batches = rows_of_experts(experts) / all->m;
    add_elements(&copies, &all->a, 1, experts->a_rows, k, experts_have_16_bit_a(experts));
    if (keeps_codes(backend->ends_rows_of_experts, k)) {
        all->b_k = k;
    } else {
        add_elements(&copies, &all->b1, l, experts->b_rows, k, false);
        add_elements(&copies, stacked ? &none : &all->b2, l, experts->b_rows, k, false);
    }
    add_scales(&copies, &all->sfa, batches, all->m, k, experts->sfa_layout);
    add_scales(&copies, &all->sfb1, l, experts->b_rows, k, all->scale_layout);
    add_scales(&copies, stacked ? &none : &all->sfb2, l, experts->b_rows, k, all->scale_layout);
    RETURN_IF_FAILED(copy_all(backend, all, &copies, memory));
    all->k = round_up(k, K_MULTIPLE_ELEMS);
    if (stacked) {
        all->b2 = all->b1 + n * (b_row_elems(all) / 2);
        all->sfb2 = all->sfb1 + scale_batch_bytes(all->scale_layout, n, all->k / NVFP4_GROUP_ELEMS);
    }
    return CUSTOM_KERNEL_OK;
}

int32_t release_padded(const struct backend *backend, const struct problem *problem, uint8_t *memory,
                       int32_t status) {
    return memory != NULL ? backend->release_memory(problem, memory, status) : status;
}
