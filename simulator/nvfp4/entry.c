/* custom_kernel for host tensors: they become the device's memory for the call, and the problem goes to a GPU
 * backend, whose kernels run on the simulator. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "../../submission/core/backend.h"
#include "cudart/registry.h"

enum { RANGES = 7 };

/* submission/core/custom_kernel.c, compiled under this name. */
int32_t custom_kernel_on_device(const struct custom_kernel_args *args);

struct range {
    const char *name;
    const void *pointer;
    int64_t bytes;
};

static int ranges_of(const struct custom_kernel_args *args, struct range ranges[RANGES]) {
    int64_t groups = args->k / NVFP4_GROUP_ELEMS, l = args->l;
    const struct range all[RANGES] = {
        {"a", args->a, args->m * (args->k / 2) * l},
        {"b1", args->b1, args->n * (args->k / 2) * l},
        {"b2", args->b2, args->n * (args->k / 2) * l},
        {"sfa", args->sfa, scale_batch_bytes(args->scale_layout, args->m, groups) * l},
        {"sfb1", args->sfb1, scale_batch_bytes(args->scale_layout, args->n, groups) * l},
        {"sfb2", args->sfb2, scale_batch_bytes(args->scale_layout, args->n, groups) * l},
        {"c", args->c, args->m * args->n * 2 * l},
    };
    memcpy(ranges, all, sizeof all);
    return RANGES;
}

/* Inputs may share memory or lie side by side: what is already known stays as it is.  False where there is no
 * memory. */
static bool register_ranges(const struct range ranges[RANGES], bool registered[RANGES]) {
    bool exhausted = false;
    struct sim *sim = runtime_lock();
    if (sim == NULL) {
        return false;
    }
    for (int i = 0; i < RANGES; i++) {
        int status =
            sim_register(sim, (void *)(uintptr_t)ranges[i].pointer, (size_t)ranges[i].bytes, ranges[i].name);
        registered[i] = status == SIM_OK;
        exhausted |= status == SIM_NO_MEMORY;
    }
    runtime_unlock();
    return !exhausted;
}

static void forget_ranges(const struct range ranges[RANGES], const bool registered[RANGES]) {
    struct sim *sim = runtime_lock();
    for (int i = 0; sim != NULL && i < RANGES; i++) {
        if (registered[i]) {
            (void)sim_unregister(sim, (void *)(uintptr_t)ranges[i].pointer);
        }
    }
    if (sim != NULL) {
        runtime_unlock();
    }
}

/* Whether the sizes can be trusted before validation; if not, custom_kernel_on_device says why. */
static bool plausible(const struct custom_kernel_args *args) {
    const int64_t limit = (int64_t)1 << 20;
    const size_t without_queue = offsetof(struct custom_kernel_args, queue);
    return args != NULL && (args->struct_bytes >= sizeof *args || args->struct_bytes == without_queue) &&
           args->m > 0 && args->n > 0 && args->k > 0 && args->l > 0 && args->m < limit && args->n < limit &&
           args->k < limit && args->l < limit && args->a != NULL && args->b1 != NULL && args->b2 != NULL &&
           args->sfa != NULL && args->sfb1 != NULL && args->sfb2 != NULL && args->c != NULL;
}

/* Unless NVFP4_SIMULATE_CHIP names a chip, it is the one of the backend that is asked for. */
__attribute__((constructor)) static void choose_chip(void) {
    const char *backend = getenv("NVFP4_BACKEND");
    runtime_default_major(backend != NULL && strcmp(backend, "blackwell") == 0 ? 10 : 9);
}

int32_t custom_kernel(const struct custom_kernel_args *args) {
    struct range ranges[RANGES];
    bool registered[RANGES] = {false};
    choose_chip(); /* the variable may have been set since the library was loaded */
    const char *backend = getenv("NVFP4_BACKEND");
    bool on_cpu = backend != NULL && strcmp(backend, "cpu") == 0;
    if (!plausible(args) || args->device != CUSTOM_KERNEL_DEVICE_HOST ||
        args->backend == CUSTOM_KERNEL_BACKEND_CPU || (on_cpu && args->backend == CUSTOM_KERNEL_BACKEND_AUTO)) {
        return custom_kernel_on_device(args);
    }
    struct custom_kernel_args on_device = {0};
    memcpy(&on_device, args, args->struct_bytes < sizeof on_device ? args->struct_bytes : sizeof on_device);
    on_device.struct_bytes = sizeof on_device;
    on_device.device = 0;
    (void)ranges_of(&on_device, ranges);
    int32_t status = register_ranges(ranges, registered)
                         ? custom_kernel_on_device(&on_device)
                         : set_message(CUSTOM_KERNEL_ERROR_OUT_OF_MEMORY,
                                       "the simulator has no memory to register the tensors with");
    forget_ranges(ranges, registered);
    return status;
}
