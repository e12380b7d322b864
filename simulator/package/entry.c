/* The library's entry points (custom_kernel, ..._grouped, ..._extended, ..._experts, ..._quantize) on the
 * simulator: for the call, host tensors are registered as device memory, and a GPU backend's kernels run on
 * them. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "cudart/shim.h"
#include "entry.h"

enum { RANGES = 7, GROUP_RANGES = 5, EXTENDED_RANGES = 14, EXPERTS_RANGES = 16, QUANTIZE_RANGES = 10 };
/* Most groups whose host memory a simulated call takes. */
enum { MOST_GROUPS = 256 };

/* The real entry points of submission/core/custom_kernel.c, compiled under these names. */
int32_t custom_kernel_on_device(const struct custom_kernel_args *args);
int32_t custom_kernel_grouped_on_device(const struct custom_kernel_grouped_args *args);
int32_t custom_kernel_extended_on_device(const struct custom_kernel_extended_args *args);
int32_t custom_kernel_experts_on_device(const struct custom_kernel_experts_args *args);
int32_t custom_kernel_quantize_on_device(const struct custom_kernel_quantize_args *args);

static void ranges_of(const struct custom_kernel_args *args, struct range ranges[RANGES]) {
    int64_t groups = args->k / NVFP4_GROUP_ELEMS, l = args->l;
    const struct range all[RANGES] = {
        {"a", args->a, args->m * (args->k / 2) * l},
        {"b1", args->b1, args->n * (args->k / 2) * l},
        {"b2", args->b2, args->n * (args->k / 2) * l},
        {"sfa", args->sfa, scale_tensor_bytes(args->scale_layout, args->m, groups) * l},
        {"sfb1", args->sfb1, scale_tensor_bytes(args->scale_layout, args->n, groups) * l},
        {"sfb2", args->sfb2, scale_tensor_bytes(args->scale_layout, args->n, groups) * l},
        {"c", args->c, args->m * args->n * 2 * l},
    };
    memcpy(ranges, all, sizeof all);
}

int32_t register_ranges(struct range *ranges, int64_t count) {
    struct sim *sim = runtime_lock();
    bool exhausted = sim == NULL;
    for (int64_t i = 0; sim != NULL && i < count; i++) {
        struct range *one = &ranges[i];
        if (one->pointer != NULL && one->bytes > 0) {
            const int status =
                sim_register(sim, (void *)(uintptr_t)one->pointer, (size_t)one->bytes, one->name);
            one->bytes = status == SIM_OK ? one->bytes : 0;
            exhausted |= status == SIM_NO_MEMORY;
        }
    }
    if (sim != NULL) {
        runtime_unlock();
    }
    return exhausted ? forget_ranges(ranges, count,
                                     set_message(CUSTOM_KERNEL_ERROR_OUT_OF_MEMORY,
                                                 "the simulator has no memory to register the tensors with"))
                     : CUSTOM_KERNEL_OK;
}

int32_t forget_ranges(const struct range *ranges, int64_t count, int32_t status) {
    struct sim *sim = runtime_lock();
    for (int64_t i = 0; sim != NULL && i < count; i++) {
        if (ranges[i].pointer != NULL && ranges[i].bytes > 0) {
            (void)sim_unregister(sim, (void *)(uintptr_t)ranges[i].pointer);
        }
    }
    if (sim != NULL) {
        runtime_unlock();
    }
    return status;
}

/* True if the sizes are safe to compute with. If not, custom_kernel_on_device says why it rejects the call. */
static bool plausible(const struct custom_kernel_args *args) {
    const int64_t limit = SIZE_LIMIT;
    const size_t without_queue = offsetof(struct custom_kernel_args, queue);
    return args != NULL && (args->struct_bytes >= sizeof *args || args->struct_bytes == without_queue) &&
           args->m >= 0 && args->n > 0 && args->k > 0 && args->l > 0 && args->m < limit && args->n < limit &&
           args->k < limit && args->l < limit && args->b1 != NULL && args->b2 != NULL && args->sfb1 != NULL &&
           args->sfb2 != NULL && (args->m == 0 || (args->a != NULL && args->sfa != NULL && args->c != NULL));
}

/* The status of a call on tensors of the host that the simulator would run; sizes that it cannot take are
 * named. */
static int32_t checked_sizes(int32_t status, int64_t m, int64_t n, int64_t k, int64_t l) {
    const int64_t sizes[] = {m, n, k, l};
    for (int i = 0; status != CUSTOM_KERNEL_OK && i < 4; i++) {
        if (sizes[i] >= SIZE_LIMIT) {
            return set_message(CUSTOM_KERNEL_ERROR_UNSUPPORTED,
                               "%c is %lld; the simulator takes sizes below 2^20", "mnkl"[i],
                               (long long)sizes[i]);
        }
    }
    return status;
}

__attribute__((constructor)) void choose_chip(void) {
    const char *backend = getenv("NVFP4_BACKEND");
    if (backend != NULL && strcmp(backend, "geforce") == 0) {
        runtime_default_major(12);
    } else {
        runtime_default_major(backend != NULL && strcmp(backend, "blackwell") == 0 ? 10 : 9);
    }
}

bool on_cpu(int32_t wanted) {
    const char *backend = getenv("NVFP4_BACKEND");
    bool named = backend != NULL && strcmp(backend, "cpu") == 0;
    return wanted == CUSTOM_KERNEL_BACKEND_CPU || (named && wanted == CUSTOM_KERNEL_BACKEND_AUTO);
}

int32_t custom_kernel(const struct custom_kernel_args *args) {
    struct range ranges[RANGES];
    choose_chip(); /* again: the variable may have changed since the library was loaded */
    if (args == NULL || args->struct_bytes < offsetof(struct custom_kernel_args, queue) ||
        args->device != CUSTOM_KERNEL_DEVICE_HOST || on_cpu(args->backend)) {
        return custom_kernel_on_device(args);
    }
    if (!plausible(args)) {
        return checked_sizes(custom_kernel_on_device(args), args->m, args->n, args->k, args->l);
    }
    struct custom_kernel_args on_device = {0};
    memcpy(&on_device, args, args->struct_bytes < sizeof on_device ? args->struct_bytes : sizeof on_device);
    on_device.struct_bytes = sizeof on_device;
    on_device.device = 0;
    ranges_of(&on_device, ranges);
    RETURN_IF_FAILED(register_ranges(ranges, RANGES));
    return forget_ranges(ranges, RANGES, custom_kernel_on_device(&on_device));
}

/* plausible() and ranges_of() for the grouped GEMM: the number of ranges, or -1 if the sizes are not safe. */
static int64_t group_ranges_of(const struct custom_kernel_grouped_args *args, struct range *ranges) {
    const int64_t limit = SIZE_LIMIT;
    int64_t count = 0;
    if (args == NULL || args->struct_bytes < sizeof *args || args->group == NULL || args->groups < 1 ||
        args->groups > MOST_GROUPS || args->group_bytes != sizeof *args->group) {
        return -1;
    }
    for (int64_t i = 0; i < args->groups; i++) {
        const struct custom_kernel_group *group = &args->group[i];
        int64_t groups = group->k / NVFP4_GROUP_ELEMS;
        if (group->m < 0 || group->n < 1 || group->k < 1 || group->m >= limit || group->n >= limit ||
            group->k >= limit) {
            return -1;
        }
        const struct range all[GROUP_RANGES] = {
            {"a", group->a, group->m * (group->k / 2)},
            {"b", group->b, group->n * (group->k / 2)},
            {"sfa", group->sfa, scale_tensor_bytes(args->scale_layout, group->m, groups)},
            {"sfb", group->sfb, scale_tensor_bytes(args->scale_layout, group->n, groups)},
            {"c", group->c, group->m * group->n * 2},
        };
        for (int j = 0; group->m > 0 && j < GROUP_RANGES; j++) {
            if (all[j].pointer == NULL) {
                return -1;
            }
            ranges[count++] = all[j];
        }
    }
    return count;
}

int32_t custom_kernel_grouped(const struct custom_kernel_grouped_args *args) {
    struct range ranges[MOST_GROUPS * GROUP_RANGES];
    choose_chip();
    int64_t count = group_ranges_of(args, ranges);
    if (count < 0 || args->device != CUSTOM_KERNEL_DEVICE_HOST || on_cpu(args->backend)) {
        return custom_kernel_grouped_on_device(args);
    }
    struct custom_kernel_grouped_args on_device = *args;
    on_device.struct_bytes = sizeof on_device;
    on_device.device = 0;
    RETURN_IF_FAILED(register_ranges(ranges, count));
    return forget_ranges(ranges, count, custom_kernel_grouped_on_device(&on_device));
}

/* The same for the extended call: false if the sizes are not safe. */
static bool extended_ranges_of(const struct custom_kernel_extended_args *args, struct range *ranges) {
    const int64_t limit = SIZE_LIMIT, m = args->m, n = args->n, k = args->k, l = args->l;
    if (m < 0 || n < 1 || k < 1 || l < 1 || m >= limit || n >= limit || k >= limit || l >= limit) {
        return false;
    }
    const bool nvfp4 = args->output == CUSTOM_KERNEL_NVFP4;
    const int64_t groups = k / NVFP4_GROUP_ELEMS, one = sizeof(float);
    const int64_t b_rows = args->weights == CUSTOM_KERNEL_WEIGHTS_APART ? n : 2 * n;
    const int64_t sfb_bytes = scale_tensor_bytes(args->scale_layout, b_rows, groups) * l;
    const struct range all[EXTENDED_RANGES] = {
        {"a", args->a, m * (args->a_type == CUSTOM_KERNEL_A_NVFP4 ? k / 2 : k * 2) * l},
        {"b1", args->b1, b_rows * (k / 2) * l},
        {"b2", args->b2, b_rows * (k / 2) * l},
        {"sfa", args->sfa, scale_tensor_bytes(args->scale_layout, m, groups) * l},
        {"sfb1", args->sfb1, sfb_bytes},
        {"sfb2", args->sfb2, sfb_bytes},
        {"scale_gate", args->scale_gate, one},
        {"scale_up", args->scale_up, one},
        {"token_scale", args->token_scale, m * l * one},
        {"scale_c", args->scale_c, one},
        {"bias_gate", args->bias_gate, n * l * one},
        {"bias_up", args->bias_up, n * l * one},
        {"c", args->c, m * (nvfp4 ? n / 2 : n * 2) * l},
        {"sfc", args->sfc, scale_tensor_bytes(args->scale_layout, m, n / NVFP4_GROUP_ELEMS) * l},
    };
    memcpy(ranges, all, sizeof all);
    return true;
}

int32_t custom_kernel_extended(const struct custom_kernel_extended_args *args) {
    struct range ranges[EXTENDED_RANGES];
    choose_chip();
    if (args == NULL || args->struct_bytes < offsetof(struct custom_kernel_extended_args, queue) ||
        args->device != CUSTOM_KERNEL_DEVICE_HOST || on_cpu(args->backend)) {
        return custom_kernel_extended_on_device(args);
    }
    struct custom_kernel_extended_args on_device = {0};
    memcpy(&on_device, args, args->struct_bytes < sizeof on_device ? args->struct_bytes : sizeof on_device);
    if (!extended_ranges_of(&on_device, ranges) || args->struct_bytes > sizeof on_device) {
        return checked_sizes(custom_kernel_extended_on_device(args), args->m, args->n, args->k, args->l);
    }
    on_device.device = 0;
    RETURN_IF_FAILED(register_ranges(ranges, EXTENDED_RANGES));
    return forget_ranges(ranges, EXTENDED_RANGES, custom_kernel_extended_on_device(&on_device));
}

/* ranges_of for the products of experts. */
static bool experts_ranges_of(const struct custom_kernel_experts_args *args, struct range *ranges) {
    const int64_t limit = SIZE_LIMIT, rows = args->rows, n = args->n, k = args->k, experts = args->experts;
    if (rows < 0 || n < 1 || k < 1 || experts < 1 || rows > limit || n > limit || k > limit ||
        args->a_rows > limit || experts > CUSTOM_KERNEL_MAX_EXPERTS) {
        return false;
    }
    const int64_t groups = k / NVFP4_GROUP_ELEMS, one = sizeof(float);
    const int64_t places = args->tokens == CUSTOM_KERNEL_TOKENS_PADDED ? experts : 1, all_rows = places * rows;
    const int64_t b_rows = args->weights == CUSTOM_KERNEL_WEIGHTS_APART ? n : 2 * n;
    const int64_t b_bytes = b_rows * (k / 2) * experts;
    const int64_t sfb_bytes = scale_tensor_bytes(args->scale_layout, b_rows, groups) * experts;
    const struct range all[EXPERTS_RANGES] = {
        {"a", args->a,
         args->a_type == CUSTOM_KERNEL_A_NVFP4 ? all_rows * (k / 2)
                                               : (args->a_index != NULL ? args->a_rows : all_rows) * k * 2},
        {"a_index", args->a_index, all_rows * one},
        {"b1", args->b1, b_bytes},
        {"b2", args->b2, b_bytes},
        {"sfa", args->sfa, scale_tensor_bytes(args->sfa_layout, rows, groups) * places},
        {"sfb1", args->sfb1, sfb_bytes},
        {"sfb2", args->sfb2, sfb_bytes},
        {"counts", args->counts, experts * (int64_t)sizeof(int32_t)},
        {"scale_gate", args->scale_gate, experts * one},
        {"scale_up", args->scale_up, experts * one},
        {"token_scale", args->token_scale, all_rows * one},
        {"scale_c", args->scale_c, experts * one},
        {"bias_gate", args->bias_gate, experts * n * one},
        {"bias_up", args->bias_up, experts * n * one},
        {"c", args->c, all_rows * (args->output == CUSTOM_KERNEL_NVFP4 ? n / 2 : n * 2)},
        {"sfc", args->sfc, all_rows * (n / NVFP4_GROUP_ELEMS)},
    };
    memcpy(ranges, all, sizeof all);
    return true;
}

int32_t custom_kernel_experts(const struct custom_kernel_experts_args *args) {
    struct range ranges[EXPERTS_RANGES];
    choose_chip();
    if (args == NULL || args->struct_bytes < offsetof(struct custom_kernel_experts_args, scale_gate) ||
        args->device != CUSTOM_KERNEL_DEVICE_HOST || on_cpu(args->backend)) {
        return custom_kernel_experts_on_device(args);
    }
    struct custom_kernel_experts_args on_device = {0};
    memcpy(&on_device, args, args->struct_bytes < sizeof on_device ? args->struct_bytes : sizeof on_device);
    if (!experts_ranges_of(&on_device, ranges) || args->struct_bytes > sizeof on_device) {
        return custom_kernel_experts_on_device(args);
    }
    on_device.device = 0;
    RETURN_IF_FAILED(register_ranges(ranges, EXPERTS_RANGES));
    return forget_ranges(ranges, EXPERTS_RANGES, custom_kernel_experts_on_device(&on_device));
}

/* ranges_of for the quantizer. */
static bool quantize_ranges_of(const struct custom_kernel_quantize_args *args, struct range *ranges) {
    const int64_t limit = SIZE_LIMIT, m = args->m, k = args->k;
    if (m < 0 || k < 1 || args->x_row < 0 || m > limit || k > limit || args->x_row > limit ||
        args->x_rows > limit) {
        return false;
    }
    const int64_t number = args->x_type == CUSTOM_KERNEL_FP32 ? sizeof(float) : sizeof(uint16_t);
    const int64_t row = args->form == CUSTOM_KERNEL_QUANTIZE_GATED ? 2 * k : k;
    const int64_t rows = round_up(m, quantized_rows_unit(args->scale_layout)),
                  x_rows = args->rows != NULL ? args->x_rows : m;
    const struct range all[QUANTIZE_RANGES] = {
        {"x", args->x, x_rows <= 0 ? 0 : ((x_rows - 1) * args->x_row + row) * number},
        {"scale", args->scale, sizeof(float)},
        {"codes", args->codes, m * (k / 2)},
        {"scales", args->scales, rows * scale_row_bytes(args->scale_layout, k / NVFP4_GROUP_ELEMS)},
        {"saturated", args->saturated, sizeof(int64_t)},
        {"weight", args->weight, k * number},
        {"residual", args->residual, m * k * number},
        {"sum", args->sum, m * k * number},
        {"rows", args->rows, m * (int64_t)sizeof(int32_t)},
        {"token_scale", args->token_scale, m * (int64_t)sizeof(float)},
    };
    memcpy(ranges, all, sizeof all);
    return true;
}

int32_t custom_kernel_quantize(const struct custom_kernel_quantize_args *args) {
    struct range ranges[QUANTIZE_RANGES];
    choose_chip();
    if (args == NULL || args->struct_bytes != sizeof *args || args->device != CUSTOM_KERNEL_DEVICE_HOST ||
        on_cpu(args->backend)) {
        return custom_kernel_quantize_on_device(args);
    }
    struct custom_kernel_quantize_args on_device = *args;
    if (!quantize_ranges_of(args, ranges)) {
        return custom_kernel_quantize_on_device(args);
    }
    on_device.device = 0;
    RETURN_IF_FAILED(register_ranges(ranges, QUANTIZE_RANGES));
    return forget_ranges(ranges, QUANTIZE_RANGES, custom_kernel_quantize_on_device(&on_device));
}
