/* The kernels around the products of experts of a backend, in a file that is compiled for its chips: struct
 * backend's `run_route` and `run_combine`, which the backend's header declares. */
#ifndef GPU_ROUTING_BACKEND_CUH
#define GPU_ROUTING_BACKEND_CUH

#include "gpu_combine.cuh"
#include "gpu_route.cuh"

#define COMBINE_KERNEL(type, aligned) (const void *)combine_kernel<type, aligned>
#define ROUTE_KERNEL(size, joint)     (const void *)route_kernel<ROUTE_LANE_LOGITS(size), joint>

#define GPU_ROUTING_BACKEND(name, pdl_variable)                                                                \
    int32_t name##_run_route(const struct routing *routing) {                                                  \
        const void *const kernels[ROUTE_LANE_SIZES][ROUTE_KINDS] = {                                           \
            {ROUTE_KERNEL(0, false), ROUTE_KERNEL(0, true)},                                                   \
            {ROUTE_KERNEL(1, false), ROUTE_KERNEL(1, true)},                                                   \
            {ROUTE_KERNEL(2, false), ROUTE_KERNEL(2, false)},                                                  \
        };                                                                                                     \
        return gpu_run_route(routing, #name, kernels, pdl_variable);                                           \
    }                                                                                                          \
    int32_t name##_run_combine(const struct combination *combination) {                                        \
        const void *const kernels[COMBINE_TYPES][2] = {                                                        \
            {COMBINE_KERNEL(CUSTOM_KERNEL_FP16, false), COMBINE_KERNEL(CUSTOM_KERNEL_FP16, true)},             \
            {COMBINE_KERNEL(CUSTOM_KERNEL_BF16, false), COMBINE_KERNEL(CUSTOM_KERNEL_BF16, true)},             \
        };                                                                                                     \
        return gpu_run_combine(combination, #name, kernels, pdl_variable);                                     \
    }

#endif
