/* The library's entry points around the products of experts (custom_kernel_route, ..._combine) on the
 * simulator. */
#include "entry.h"

enum { ROUTE_RANGES = 7, COMBINE_RANGES = 4 };

/* The real entry points of submission/core/custom_kernel.c, compiled under these names. */
int32_t custom_kernel_route_on_device(const struct custom_kernel_route_args *args);
int32_t custom_kernel_combine_on_device(const struct custom_kernel_combine_args *args);

static int64_t number_bytes(int32_t type) {
    return type == CUSTOM_KERNEL_FP32 ? sizeof(float) : sizeof(uint16_t);
}

int32_t custom_kernel_route(const struct custom_kernel_route_args *args) {
    choose_chip();
    if (args == NULL || args->struct_bytes != sizeof *args || args->device != CUSTOM_KERNEL_DEVICE_HOST ||
        on_cpu(args->backend) || args->m < 0 || args->m > SIZE_LIMIT || args->routed < 0 ||
        args->routed > SIZE_LIMIT || args->choices < 0 || args->choices > CUSTOM_KERNEL_MAX_CHOICES ||
        args->experts < 0 || args->experts > CUSTOM_KERNEL_MAX_EXPERTS) {
        return custom_kernel_route_on_device(args);
    }
    const int64_t m = args->m, all = m * args->choices, one = sizeof(int32_t);
    struct range ranges[ROUTE_RANGES] = {
        {"logits", args->logits, m * args->routed * number_bytes(args->logits_type)},
        {"ids", args->ids, all * args->id_bytes},
        {"map", args->map, args->routed * one},
        {"counts", args->counts, args->experts * one},
        {"rows", args->rows, all * one},
        {"tokens", args->tokens, all * one},
        {"weights", args->weights, all * one},
    };
    struct custom_kernel_route_args on_device = *args;
    on_device.device = 0;
    RETURN_IF_FAILED(register_ranges(ranges, ROUTE_RANGES));
    return forget_ranges(ranges, ROUTE_RANGES, custom_kernel_route_on_device(&on_device));
}

int32_t custom_kernel_combine(const struct custom_kernel_combine_args *args) {
    choose_chip();
    if (args == NULL || args->struct_bytes != sizeof *args || args->device != CUSTOM_KERNEL_DEVICE_HOST ||
        on_cpu(args->backend) || args->m < 0 || args->m > SIZE_LIMIT || args->n < 0 || args->n > SIZE_LIMIT ||
        args->choices < 0 || args->choices > CUSTOM_KERNEL_MAX_CHOICES) {
        return custom_kernel_combine_on_device(args);
    }
    const int64_t all = args->m * args->choices, half = sizeof(uint16_t);
    struct range ranges[COMBINE_RANGES] = {
        {"y", args->y, all * args->n * half},
        {"rows", args->rows, all * (int64_t)sizeof(int32_t)},
        {"weights", args->weights, all * number_bytes(args->weights_type)},
        {"c", args->c, args->m * args->n * half},
    };
    struct custom_kernel_combine_args on_device = *args;
    on_device.device = 0;
    RETURN_IF_FAILED(register_ranges(ranges, COMBINE_RANGES));
    return forget_ranges(ranges, COMBINE_RANGES, custom_kernel_combine_on_device(&on_device));
}
