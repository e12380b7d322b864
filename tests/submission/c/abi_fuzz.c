/* Fuzz target: malformed argument structs for custom_kernel() and, in abi_fuzz_grouped.c,
 * custom_kernel_grouped(). Each status is compared with the one that the mutation must give.  The library is
 * instrumented, so a read or write outside the exactly sized buffers ends the program.  If NVFP4_CPU_ISA is not
 * set and the machine lacks AMX, an accepted call runs again in portable C and must give the same bits. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "abi_fuzz.h"

enum { TENSORS = 7, C = 6, MAX_TAIL = 64 };

static struct choices choices; /* choices from the current input */
static uint64_t below(uint64_t bound) {
    return choose(&choices, bound);
}
static uint64_t next_random(void) {
    return below(UINT64_MAX);
}

/* A struct with room for fields a newer caller may have. */
union call {
    struct custom_kernel_args args;
    unsigned char bytes[sizeof(struct custom_kernel_args) + MAX_TAIL];
};

static void *tensor_of(const struct custom_kernel_args *args, int i) {
    const void *all[TENSORS] = {args->a, args->b1, args->b2, args->sfa, args->sfb1, args->sfb2, args->c};
    return (void *)(uintptr_t)all[i];
}

static void set_tensor(struct custom_kernel_args *args, int i, uintptr_t address) {
    const void **inputs[C] = {&args->a, &args->b1, &args->b2, &args->sfa, &args->sfb1, &args->sfb2};
    if (i == C) {
        args->c = (void *)address;
    } else {
        *inputs[i] = (const void *)address;
    }
}

static void sizes_of(const struct custom_kernel_args *args, size_t bytes[TENSORS]) {
    int blocked = args->scale_layout == CUSTOM_KERNEL_SCALES_BLOCKED;
    size_t m = (size_t)args->m, n = (size_t)args->n, k = (size_t)args->k, l = (size_t)args->l;
    size_t sm = blocked ? (m + 127) / 128 * 128 : m, sn = blocked ? (n + 127) / 128 * 128 : n;
    const size_t all[TENSORS] = {m * k / 2,   n * k / 2,   n * k / 2, sm * k / 16,
                                 sn * k / 16, sn * k / 16, m * n * 2};
    for (int i = 0; i < TENSORS; i++) {
        bytes[i] = all[i] * l;
    }
}

static int64_t bad_extent(void) {
    static const int64_t values[] = {0, -1, -64, INT64_MIN, INT64_MAX, INT64_MAX - 63, INT64_C(1) << 62};
    return values[below(sizeof values / sizeof *values)];
}

/* Breaks one rule, or changes the struct in a way that keeps it valid; true if it is still valid. */
static bool mutate(union call *call, const size_t bytes[TENSORS]) {
    struct custom_kernel_args *args = &call->args;
    int which = (int)below(TENSORS);
    uintptr_t address = (uintptr_t)tensor_of(args, which);
    switch (below(13)) {
    case 0: /* an older caller: every member up to c, or fewer */
        args->struct_bytes = (uint32_t)below(sizeof *args);
        return args->struct_bytes == offsetof(struct custom_kernel_args, queue);
    case 1:
        args->struct_bytes = 1025 + (uint32_t)next_random() % 100000;
        return false;
    case 2: /* a newer caller that uses nothing new */
        args->struct_bytes = (uint32_t)(sizeof *args + below(MAX_TAIL + 1));
        return true;
    case 3: /* a newer caller that does */
        args->struct_bytes = sizeof *args + MAX_TAIL;
        call->bytes[sizeof *args + below(MAX_TAIL)] = (unsigned char)(1 + below(255));
        return false;
    case 4:
        args->backend = below(2) ? -1 - (int32_t)below(1000) : 4 + (int32_t)below(1000);
        return false;
    case 5:
        args->device = -2 - (int32_t)below(1000);
        return false;
    case 6:
        args->scale_layout = below(2) ? -1 : 2 + (int32_t)below(1000);
        return false;
    case 7: {
        int64_t *extents[] = {&args->m, &args->n, &args->k, &args->l};
        *extents[below(4)] = bad_extent();
        return args->m == 0; /* no rows: nothing is written, whatever the pointers */
    }
    case 8:
        args->k += 1 + (int64_t)below(15);
        return false;
    case 9:
        set_tensor(args, which, 0);
        return false;
    case 10:
        set_tensor(args, which, address + 1 + below(15));
        return false;
    case 11: /* past the end of the address space */
        if (bytes[which] <= 16) {
            return true; /* so small a tensor fits before the end; the address is left alone */
        }
        set_tensor(args, which, UINTPTR_MAX - 15);
        return false;
    default: /* the output's first or last bytes on an input's */
        which = (int)below(C);
        address = (uintptr_t)tensor_of(args, which);
        args->c = (void *)(below(2) ? address : (address + bytes[which] - 1) / 16 * 16);
        return false;
    }
}

void fail(const char *what, int32_t status, const char *message) {
    fprintf(stderr, "%s: status %" PRId32 " (%s)\n", what, status, message);
    abort();
}

static bool names_an_argument(const char *message) {
    static const char *const names[] = {
        "args", "backend", "device", "scale_layout", "queue", "m", "n",      "k",     "l",           "a",
        "b1",   "b2",      "sfa",    "sfb1",         "sfb2",  "c", "groups", "group", "group_bytes", "reserved",
    };
    size_t length = strcspn(message, " .[->");
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strlen(names[i]) == length && memcmp(message, names[i], length) == 0) {
            return true;
        }
    }
    return false;
}

void check_status(int32_t status, bool valid) {
    const char *message = custom_kernel_message();
    if ((status == CUSTOM_KERNEL_OK) != valid) {
        fail(valid ? "refused" : "accepted", status, message);
    }
    if (!valid && (strchr(message, '\n') != NULL || !names_an_argument(message))) {
        fail("the message is not one line that begins with an argument's name", status, message);
    }
}

bool same_halves(const unsigned char *a, const unsigned char *b, size_t bytes) {
    for (size_t i = 0; i + 1 < bytes; i += 2) {
        uint16_t x, y;
        memcpy(&x, a + i, sizeof x);
        memcpy(&y, b + i, sizeof y);
        if (x != y && ((x & 0x7fff) <= 0x7c00 || (y & 0x7fff) <= 0x7c00)) {
            return false;
        }
    }
    return true;
}

bool has_own_bits(void) {
    struct custom_kernel_backend_info info = {.struct_bytes = sizeof info};
    for (int32_t i = 0; custom_kernel_backend_query(i, &info) == CUSTOM_KERNEL_OK; i++) {
        if (info.backend == CUSTOM_KERNEL_BACKEND_CPU) {
            return strncmp(info.detail, "AMX", strlen("AMX")) == 0;
        }
    }
    return false;
}

static void compare_isas(const union call *call, const unsigned char *c, size_t bytes) {
    unsigned char *first = malloc(bytes);
    if (first == NULL || getenv("NVFP4_CPU_ISA") != NULL || has_own_bits()) {
        free(first);
        return;
    }
    memcpy(first, c, bytes);
    (void)setenv("NVFP4_CPU_ISA", "portable", 1);
    int32_t status = custom_kernel(&call->args);
    (void)unsetenv("NVFP4_CPU_ISA");
    if (status != CUSTOM_KERNEL_OK || !same_halves(first, c, bytes)) {
        fail("portable C gives another result", status, custom_kernel_message());
    }
    free(first);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    choices = choices_of(data, size);
    if (below(3) == 0) {
        return fuzz_grouped(&choices);
    }
    union call call;
    memset(&call, 0, sizeof call);
    call.args = (struct custom_kernel_args){
        .struct_bytes = sizeof call.args,
        .backend = (int32_t)below(2),
        .device = CUSTOM_KERNEL_DEVICE_HOST,
        .scale_layout = (int32_t)below(2),
        .m = 1 + (int64_t)below(140),
        .n = 1 + (int64_t)below(140),
        .k = 64 * (1 + (int64_t)below(4)),
        .l = 1 + (int64_t)below(2),
    };
    size_t bytes[TENSORS];
    sizes_of(&call.args, bytes);
    bool valid_as_is = below(8) == 0;
    unsigned char *buffers[TENSORS];
    for (int t = 0; t < TENSORS; t++) {
        if (posix_memalign((void **)&buffers[t], 16, bytes[t]) != 0) {
            return -1;
        }
        set_tensor(&call.args, t, (uintptr_t)buffers[t]);
    }
    bool valid = valid_as_is || mutate(&call, bytes);
    for (int t = 0; t < TENSORS; t++) {
        for (size_t b = 0; b < bytes[t]; b++) {
            buffers[t][b] = t == C ? POISON : (unsigned char)below(256);
        }
    }
    int32_t status = custom_kernel(&call.args);
    check_status(status, valid);
    bool written = valid && call.args.m > 0;
    for (size_t b = 0; !written && b < bytes[C]; b++) {
        if (buffers[C][b] != POISON) {
            fail("c was written although the call was refused or has no rows", status, custom_kernel_message());
        }
    }
    if (valid) {
        compare_isas(&call, buffers[C], bytes[C]);
    }
    for (int t = 0; t < TENSORS; t++) {
        free(buffers[t]);
    }
    return 0;
}
