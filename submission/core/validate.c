#include "validate.h"

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* HW: TMA needs a 16-byte aligned global address (CUDA driver API, cuTensorMapEncodeTiled). */
#define POINTER_ALIGNMENT_BYTES 16
/* K elements of one scale tile, and of one block-scaled tensor-core step (PTX ISA, tcgen05.mma, mxf4nvf4). */
#define K_MULTIPLE_ELEMS (SCALE_TILE_GROUPS * NVFP4_GROUP_ELEMS)
/* What a caller's struct holds at least: members from `queue` on may be missing, and are then zero. */
#define OLDEST_STRUCT_BYTES offsetof(struct custom_kernel_args, queue)
/* A caller's struct may be newer and longer than ours; no real one comes near this. */
#define MAX_STRUCT_BYTES 1024

struct tensor {
    const char *name;
    const void *pointer;
    int64_t bytes;
};

/* Whether a struct of so many bytes has whole members: those up to `c`, or more. */
static bool valid_struct_bytes(uint32_t bytes) {
    bool ends_inside_member = bytes < sizeof(struct custom_kernel_args) && bytes % sizeof(void *) != 0;
    return bytes >= OLDEST_STRUCT_BYTES && bytes <= MAX_STRUCT_BYTES && !ends_inside_member;
}

/* Copies the caller's struct.  What a shorter one than ours lacks is zero; a longer one passes if what we do
 * not know of is zero. */
static int32_t read_args(const struct custom_kernel_args *args, struct custom_kernel_args *copy) {
    if (args == NULL) {
        return set_message(CUSTOM_KERNEL_ERROR_NULL_POINTER,
                           "args is NULL; expected a struct custom_kernel_args");
    }
    uint32_t bytes = args->struct_bytes;
    if (!valid_struct_bytes(bytes)) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT,
                           "args->struct_bytes is %u; expected sizeof(struct custom_kernel_args) = %zu, or %zu "
                           "without queue",
                           bytes, sizeof *copy, OLDEST_STRUCT_BYTES);
    }
    const unsigned char *tail = (const unsigned char *)args;
    for (uint32_t i = sizeof *copy; i < bytes; i++) {
        if (tail[i] != 0) {
            return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT,
                               "args has a field at byte %u that this library (version %#x) does not know", i,
                               CUSTOM_KERNEL_VERSION);
        }
    }
    memset(copy, 0, sizeof *copy);
    memcpy(copy, args, bytes < sizeof *copy ? bytes : sizeof *copy);
    return CUSTOM_KERNEL_OK;
}

static int32_t check_enums(const struct custom_kernel_args *args) {
    if (args->backend < CUSTOM_KERNEL_BACKEND_AUTO || args->backend > CUSTOM_KERNEL_BACKEND_BLACKWELL) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT,
                           "backend is %d; expected 0 (auto), 1 (cpu), 2 (hopper) or 3 (blackwell)",
                           args->backend);
    }
    if (args->device < CUSTOM_KERNEL_DEVICE_HOST) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT,
                           "device is %d; expected a CUDA device ordinal, or -1 for host memory", args->device);
    }
    if (args->scale_layout != CUSTOM_KERNEL_SCALES_BLOCKED && args->scale_layout != CUSTOM_KERNEL_SCALES_ROWS) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "scale_layout is %d; expected 0 (blocked) or 1 (rows)",
                           args->scale_layout);
    }
    if (args->device == CUSTOM_KERNEL_DEVICE_HOST && args->queue != NULL) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "queue is not NULL; expected NULL for host memory");
    }
    return CUSTOM_KERNEL_OK;
}

static int32_t check_extents(const struct custom_kernel_args *args) {
    const struct {
        const char *name;
        int64_t value;
    } extents[] = {{"m", args->m}, {"n", args->n}, {"k", args->k}, {"l", args->l}};
    for (size_t i = 0; i < sizeof extents / sizeof *extents; i++) {
        if (extents[i].value < 1) {
            return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "%s is %lld; expected at least 1", extents[i].name,
                               (long long)extents[i].value);
        }
    }
    if (args->k % K_MULTIPLE_ELEMS != 0) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "k is %lld; expected a multiple of %d",
                           (long long)args->k, K_MULTIPLE_ELEMS);
    }
    return CUSTOM_KERNEL_OK;
}

/* rows_unit * ceil(rows / rows_unit) * row_bytes * l, or false if that overflows. */
static bool tensor_bytes(int64_t rows, int64_t rows_unit, int64_t row_bytes, int64_t l, int64_t *bytes) {
    int64_t padded_rows;
    if (__builtin_add_overflow(rows, rows_unit - 1, &padded_rows)) {
        return false;
    }
    padded_rows -= padded_rows % rows_unit;
    return !__builtin_mul_overflow(padded_rows, row_bytes, bytes) && !__builtin_mul_overflow(*bytes, l, bytes);
}

static int32_t check_pointer(const struct tensor *tensor) {
    uintptr_t address = (uintptr_t)tensor->pointer;
    if (tensor->pointer == NULL) {
        return set_message(CUSTOM_KERNEL_ERROR_NULL_POINTER, "%s is NULL; expected %lld bytes", tensor->name,
                           (long long)tensor->bytes);
    }
    if (address % POINTER_ALIGNMENT_BYTES != 0) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "%s is at %p; expected an address aligned to %d bytes",
                           tensor->name, tensor->pointer, POINTER_ALIGNMENT_BYTES);
    }
    if (address + (uintptr_t)tensor->bytes < address) {
        return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT, "%s at %p with %lld bytes runs past the address space",
                           tensor->name, tensor->pointer, (long long)tensor->bytes);
    }
    return CUSTOM_KERNEL_OK;
}

static bool overlap(const struct tensor *x, const struct tensor *y) {
    uintptr_t x_begin = (uintptr_t)x->pointer, y_begin = (uintptr_t)y->pointer;
    return x_begin < y_begin + (uintptr_t)y->bytes && y_begin < x_begin + (uintptr_t)x->bytes;
}

static int32_t check_tensors(const struct custom_kernel_args *args) {
    bool blocked = args->scale_layout == CUSTOM_KERNEL_SCALES_BLOCKED;
    int64_t scale_rows = blocked ? SCALE_TILE_ROWS : 1;
    int64_t c_row_bytes;
    if (__builtin_mul_overflow(args->n, (int64_t)sizeof(uint16_t), &c_row_bytes)) {
        c_row_bytes = -1;
    }
    enum { C = 6, TENSORS };
    struct {
        struct tensor tensor;
        int64_t rows, rows_unit, row_bytes;
    } all[TENSORS] = {
        {{"a", args->a, 0}, args->m, 1, args->k / 2},
        {{"b1", args->b1, 0}, args->n, 1, args->k / 2},
        {{"b2", args->b2, 0}, args->n, 1, args->k / 2},
        {{"sfa", args->sfa, 0}, args->m, scale_rows, args->k / NVFP4_GROUP_ELEMS},
        {{"sfb1", args->sfb1, 0}, args->n, scale_rows, args->k / NVFP4_GROUP_ELEMS},
        {{"sfb2", args->sfb2, 0}, args->n, scale_rows, args->k / NVFP4_GROUP_ELEMS},
        {{"c", args->c, 0}, args->m, 1, c_row_bytes},
    };
    for (int i = 0; i < TENSORS; i++) {
        if (all[i].row_bytes < 0 ||
            !tensor_bytes(all[i].rows, all[i].rows_unit, all[i].row_bytes, args->l, &all[i].tensor.bytes)) {
            return set_message(CUSTOM_KERNEL_ERROR_ARGUMENT,
                               "%s of m %lld, n %lld, k %lld, l %lld has 2^63 bytes or more; expected fewer",
                               all[i].tensor.name, (long long)args->m, (long long)args->n, (long long)args->k,
                               (long long)args->l);
        }
        RETURN_IF_FAILED(check_pointer(&all[i].tensor));
    }
    for (int i = 0; i < C; i++) {
        if (overlap(&all[i].tensor, &all[C].tensor)) {
            return set_message(
                CUSTOM_KERNEL_ERROR_ARGUMENT,
                "c at %p with %lld bytes overlaps %s at %p; expected an output apart from the inputs",
                all[C].tensor.pointer, (long long)all[C].tensor.bytes, all[i].tensor.name,
                all[i].tensor.pointer);
        }
    }
    return CUSTOM_KERNEL_OK;
}

int32_t validate(const struct custom_kernel_args *caller_args, struct problem *problem, int32_t *backend) {
    struct custom_kernel_args args;
    RETURN_IF_FAILED(read_args(caller_args, &args));
    RETURN_IF_FAILED(check_enums(&args));
    RETURN_IF_FAILED(check_extents(&args));
    RETURN_IF_FAILED(check_tensors(&args));
    *backend = args.backend;
    *problem = (struct problem){
        .m = args.m,
        .n = args.n,
        .k = args.k,
        .l = args.l,
        .a = args.a,
        .b1 = args.b1,
        .b2 = args.b2,
        .sfa = args.sfa,
        .sfb1 = args.sfb1,
        .sfb2 = args.sfb2,
        .c = args.c,
        .scale_layout = args.scale_layout,
        .device = args.device,
        .queue = args.queue,
    };
    return CUSTOM_KERNEL_OK;
}
