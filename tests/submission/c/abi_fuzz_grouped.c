/* The grouped half of the ABI's fuzz target (abi_fuzz.c), with up to MOST_GROUPS groups. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "abi_fuzz.h"

enum { TENSORS = 5, C = 4, MOST_GROUPS = 5, MAX_TAIL = 64 };

static struct choices *choices;
static uint64_t below(uint64_t bound) {
    return choose(choices, bound);
}

/* Structs with room for fields that a newer caller may have. */
union group {
    struct custom_kernel_group group;
    unsigned char bytes[sizeof(struct custom_kernel_group) + MAX_TAIL];
};

struct call {
    union {
        struct custom_kernel_grouped_args args;
        unsigned char bytes[sizeof(struct custom_kernel_grouped_args) + MAX_TAIL];
    };
    union group groups[MOST_GROUPS]; /* before packing */
    unsigned char *buffers[MOST_GROUPS][TENSORS];
    size_t sizes[MOST_GROUPS][TENSORS];
    unsigned char *packed; /* the array that is passed: exactly groups * group_bytes bytes */
};

static const void **tensor_of(struct custom_kernel_group *group, int i) {
    const void **all[TENSORS] = {&group->a, &group->b, &group->sfa, &group->sfb, (const void **)&group->c};
    return all[i];
}

static void sizes_of(const struct custom_kernel_group *group, bool blocked, size_t sizes[TENSORS]) {
    size_t m = (size_t)group->m, n = (size_t)group->n, k = (size_t)group->k;
    size_t sm = blocked ? (m + 127) / 128 * 128 : m, sn = blocked ? (n + 127) / 128 * 128 : n;
    const size_t all[TENSORS] = {m * k / 2, n * k / 2, sm * k / 16, sn * k / 16, m * n * 2};
    memcpy(sizes, all, sizeof all);
}

/* Breaks a rule of a group, or changes it in a way that keeps it valid; true if it is still valid. */
static bool mutate_group(struct call *call, int64_t count) {
    static const int64_t bad[] = {-1, -64, INT64_MIN, INT64_MAX, INT64_MAX - 63, INT64_C(1) << 62};
    int index = (int)below((uint64_t)count), which = (int)below(TENSORS);
    struct custom_kernel_group *group = &call->groups[index].group;
    const void **pointer = tensor_of(group, which);
    uintptr_t address = (uintptr_t)*pointer;
    switch (below(9)) {
    case 0: {
        int64_t *extents[] = {&group->m, &group->n, &group->k};
        *extents[below(3)] = bad[below(sizeof bad / sizeof *bad)];
        return false;
    }
    case 1:
        *(below(2) ? &group->n : &group->k) = 0;
        return false;
    case 2:
        group->k += 1 + (int64_t)below(15);
        return false;
    case 3:
        *pointer = NULL;
        return false;
    case 4:
        *pointer = (const void *)(address + 1 + below(15));
        return false;
    case 5: /* no rows: nothing is written, whatever the pointers */
        group->m = 0;
        *pointer = (const void *)(uintptr_t)below(UINT64_MAX);
        return true;
    case 6: /* past the end of the address space, where more than what fits there */
        if (call->sizes[index][which] <= 16) {
            return true;
        }
        *pointer = (const void *)(UINTPTR_MAX - 15);
        return false;
    case 7: /* each size is valid, but the bytes of c overflow */
        group->m = INT64_C(1) << (31 + below(20));
        group->n = INT64_C(1) << 32;
        return false;
    default: { /* an output's first or last bytes on another tensor's, of any group */
        int other = (int)below((uint64_t)count), tensor = (int)below(other == index ? C : TENSORS);
        uintptr_t start = (uintptr_t)call->buffers[other][tensor];
        size_t bytes = call->sizes[other][tensor];
        group->c = (void *)(below(2) ? start : (start + bytes - 1) / 16 * 16);
        return false;
    }
    }
}

/* The same for the call's own struct. */
static bool mutate_args(struct call *call) {
    struct custom_kernel_grouped_args *args = &call->args;
    switch (below(13)) {
    case 0:
        args->struct_bytes = (uint32_t)below(sizeof *args);
        return args->struct_bytes == offsetof(struct custom_kernel_grouped_args, queue);
    case 1:
        args->struct_bytes = 1025 + (uint32_t)below(100000);
        return false;
    case 2:
        args->struct_bytes = (uint32_t)(sizeof *args + below(MAX_TAIL + 1));
        return true;
    case 3:
        args->struct_bytes = sizeof *args + MAX_TAIL;
        call->bytes[sizeof *args + below(MAX_TAIL)] = (unsigned char)(1 + below(255));
        return false;
    case 4:
        args->groups = below(2) ? -(int64_t)below(1000)
                                : CUSTOM_KERNEL_MAX_GROUPS + 1 + (below(2) ? 0 : (int64_t)below(INT64_MAX / 2));
        return false;
    case 5:
        args->reserved = 1 + (uint32_t)below(UINT32_MAX);
        return false;
    case 6: /* a newer caller's longer groups, which use a new member or do not */
        args->group_bytes += (uint32_t)(1 + below(MAX_TAIL));
        if (below(2)) {
            return true;
        }
        call->groups[below((uint64_t)args->groups)].bytes[args->group_bytes - 1] = 1;
        return false;
    case 7: /* too short, or longer than any accepted struct */
        args->group_bytes = below(2) ? (uint32_t)below(sizeof(struct custom_kernel_group))
                                     : 1025 + (uint32_t)below(UINT32_MAX - 1025);
        return false;
    case 8:
        args->backend = below(2) ? -1 - (int32_t)below(1000) : 5 + (int32_t)below(1000);
        return false;
    case 9:
        args->device = -2 - (int32_t)below(1000);
        return false;
    case 10:
        args->scale_layout = below(2) ? -1 - (int32_t)below(1000) : 2 + (int32_t)below(1000);
        return false;
    case 11: /* a queue with host memory */
        args->queue = &args->queue;
        return false;
    default:
        args->group = NULL;
        return false;
    }
}

/* Copies the groups to an allocation that ends with them. */
static bool pack(struct call *call, int64_t count) {
    size_t stride = call->args.group_bytes < sizeof call->groups[0].bytes ? call->args.group_bytes
                                                                          : sizeof call->groups[0].bytes;
    call->packed = malloc((size_t)count * stride + 1);
    for (int64_t i = 0; i < count && call->packed != NULL; i++) {
        memcpy(call->packed + (size_t)i * stride + 1, call->groups[i].bytes, stride);
    }
    if (call->args.group != NULL) {
        call->args.group = (const void *)(call->packed + 1); /* unaligned on purpose: the library copies it */
    }
    return call->packed != NULL;
}

static void check_outputs(const struct call *call, int64_t count, bool valid, int32_t status) {
    for (int64_t i = 0; i < count; i++) {
        bool written = valid && call->groups[i].group.m > 0;
        for (size_t b = 0; !written && b < call->sizes[i][C]; b++) {
            if (call->buffers[i][C][b] != POISON) {
                fail("an output was written that must not be", status, custom_kernel_message());
            }
        }
    }
}

/* Runs the call again in portable C: the same bits. */
static void compare_isas(const struct call *call, int64_t count) {
    unsigned char *first[MOST_GROUPS] = {NULL};
    if (getenv("NVFP4_CPU_ISA") != NULL || has_own_bits()) {
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        first[i] = malloc(call->sizes[i][C]);
        if (first[i] != NULL) {
            memcpy(first[i], call->buffers[i][C], call->sizes[i][C]);
        }
    }
    (void)setenv("NVFP4_CPU_ISA", "portable", 1);
    int32_t status = custom_kernel_grouped(&call->args);
    (void)unsetenv("NVFP4_CPU_ISA");
    for (int64_t i = 0; i < count; i++) {
        if (status != CUSTOM_KERNEL_OK ||
            (first[i] != NULL && !same_halves(first[i], call->buffers[i][C], call->sizes[i][C]))) {
            fail("portable C gives another result", status, custom_kernel_message());
        }
        free(first[i]);
    }
}

int fuzz_grouped(struct choices *input) {
    struct call call;
    choices = input;
    memset(&call, 0, sizeof call);
    int64_t count = 1 + (int64_t)below(MOST_GROUPS);
    bool blocked = below(2) == 0, ok = true;
    call.args = (struct custom_kernel_grouped_args){
        .struct_bytes = sizeof call.args,
        .backend = (int32_t)below(2),
        .device = CUSTOM_KERNEL_DEVICE_HOST,
        .scale_layout = blocked ? CUSTOM_KERNEL_SCALES_BLOCKED : CUSTOM_KERNEL_SCALES_ROWS,
        .groups = count,
        .group_bytes = sizeof(struct custom_kernel_group),
        .group = &call.groups[0].group,
    };
    for (int64_t i = 0; i < count; i++) {
        struct custom_kernel_group *group = &call.groups[i].group;
        group->m = 1 + (int64_t)below(70);
        group->n = 1 + (int64_t)below(70);
        group->k = 64 * (1 + (int64_t)below(4));
        sizes_of(group, blocked, call.sizes[i]);
        for (int t = 0; t < TENSORS; t++) {
            ok = posix_memalign((void **)&call.buffers[i][t], 16, call.sizes[i][t]) == 0 && ok;
            *tensor_of(group, t) = call.buffers[i][t];
            for (size_t b = 0; ok && b < call.sizes[i][t]; b++) {
                call.buffers[i][t][b] = t == C ? POISON : (unsigned char)below(256);
            }
        }
    }
    if (below(64) == 0) {
        check_status(custom_kernel_grouped(NULL), false);
    }
    uint64_t kind = below(8);
    bool valid = kind == 0 || (kind < 4 ? mutate_args(&call) : mutate_group(&call, count));
    ok = ok && pack(&call, count);
    if (ok) {
        int32_t status = custom_kernel_grouped(&call.args);
        check_status(status, valid);
        check_outputs(&call, count, valid, status);
        if (valid) {
            compare_isas(&call, count);
        }
    }
    for (int64_t i = 0; i < count; i++) {
        for (int t = 0; t < TENSORS; t++) {
            free(call.buffers[i][t]);
        }
    }
    free(call.packed);
    return ok ? 0 : -1;
}
